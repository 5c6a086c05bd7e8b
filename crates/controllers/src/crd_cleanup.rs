//! Cleanup of custom resources: removes all instances of a deleted CustomResourceDefinition, then its finalizer.
//!
//! The condition `Terminating` is written first: the server then accepts no new instance. Instances are deleted when the
//! definition shows it, and the finalizer is removed when a world that is at least as recent shows no instance. A
//! definition that was never established, or that has the name of a built-in resource, has no instances.

use std::time::Duration;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::{PLAN_ACTIONS_MAX, value_of};
use setpoint_reconcile::planner::{SERVED_LATER, key_of};
use setpoint_reconcile::{Action, Failure, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::condition;
use setpoint_views::custom_resource_definition::{
    CLEANUP_FINALIZER, CustomResourceDefinition, custom_resource,
};

use crate::crd::{DEFINITIONS, MANAGER, USER, new_condition, no_fields, update_condition, write_status};
use crate::indexes::DELETED_DEFINITIONS;

const TERMINATING: &str = "Terminating";
/// Time after which remaining instances are reported, as in upstream.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay before a plan that needs a more recent world is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Removes instances of deleted definitions.
pub struct CrdCleanup;

impl Planner for CrdCleanup {
    type Memo = ();

    fn name(&self) -> &'static str {
        "crd-finalizer"
    }

    fn user(&self) -> String {
        USER.to_owned()
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] =
            [Watch::primary(DEFINITIONS), Watch::mapped(SERVED_LATER, enqueue_definition)];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        world.by_index(DELETED_DEFINITIONS, "").map(|object| object.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|object| needs_cleanup(object)) else { return plan };
        let Some(definition) = object.view::<CustomResourceDefinition>() else { return plan };
        let Some((resource, _)) = custom_resource(object) else {
            let reason = if definition.is_established() {
                ("OverlappingBuiltInResource", "instances overlap with built-in resources in storage")
            } else {
                ("NeverEstablished", "resource was never established")
            };
            plan.stage([finish(object, definition, reason, now)]);
            return plan;
        };
        let mut instances = world.all(resource.as_str()).peekable();
        let is_terminating = definition.has_condition(TERMINATING);
        if is_terminating && instances.peek().is_none() {
            // An instance that was created before `Terminating` was written is visible by then.
            if world.find_resource(resource.as_str()).is_some()
                && world.revision_of(&resource) >= object.revision()
            {
                let reason = ("InstanceDeletionCompleted", "removed all instances");
                plan.stage([finish(object, definition, reason, now)]);
            } else {
                plan.requeue_at(now.after(RETRY_DELAY));
            }
            return plan;
        }
        // One more than fits into a plan, so a plan that leaves some out is planned again.
        let remaining = instances.filter(|instance| !instance.meta().is_deleted()).take(PLAN_ACTIONS_MAX + 1);
        let deletes: Vec<Action> = remaining.map(|instance| Write::delete(instance).into()).collect();
        // A failure is over when all instances are deleted, also by another client.
        let failure = seen.failure.filter(|failure| {
            failure.resource == resource && failure.verb == "delete" && !deletes.is_empty()
        });
        set_progress(object, definition, failure, now, &mut plan);
        if is_terminating {
            plan.stage(deletes);
        }
        plan
    }
}

/// Removes the finalizer, and records the reason in the same write: while `Terminating` is false, instances could be
/// created. The status of this kind includes the finalizers, as in upstream.
fn finish(object: &Object, definition: &CustomResourceDefinition, reason: (&str, &str), now: Time) -> Action {
    let mut conditions = definition.status.conditions.clone();
    update_condition(&mut conditions, new_condition(TERMINATING, false, reason, now));
    let others = object.meta().finalizers.iter().filter(|finalizer| &***finalizer != CLEANUP_FINALIZER);
    let others: Vec<&str> = others.map(|finalizer| &**finalizer).collect();
    let status = value!({"conditions": (value_of(&conditions))});
    let patch = value!({"metadata": {"finalizers": (others)}, "status": (status)});
    Write::merge(object, "status", patch).into()
}

/// Updates the condition `Terminating`.
fn set_progress(
    object: &Object,
    definition: &CustomResourceDefinition,
    failure: Option<&Failure>,
    now: Time,
    plan: &mut Plan,
) {
    let mut conditions = definition.status.conditions.clone();
    let since = condition(&conditions, TERMINATING).filter(|old| old.is_true());
    let timeout_at = since.and_then(|old| old.last_transition_time).unwrap_or(now).after(CHECK_TIMEOUT);
    let (reason, message) = match failure {
        Some(failure) => {
            ("InstanceDeletionFailed", format!("could not issue all deletes: {}", failure.message))
        }
        None if now >= timeout_at => {
            let message = "could not confirm zero CustomResources remaining: context deadline exceeded";
            ("InstanceDeletionCheck", message.to_owned())
        }
        None => ("InstanceDeletionInProgress", "CustomResource deletion is in progress".to_owned()),
    };
    if now < timeout_at {
        plan.requeue_at(timeout_at);
    }
    if update_condition(&mut conditions, new_condition(TERMINATING, true, (reason, &message), now)) {
        plan.stage([write_status(object, &conditions, no_fields()).into()]);
    }
}

/// `true` if a definition is deleted and keeps the finalizer.
fn needs_cleanup(object: &Object) -> bool {
    object.meta().is_deleted() && object.meta().has_finalizer(CLEANUP_FINALIZER)
}

/// Index function: definitions that need cleanup, all under the empty value.
pub(crate) fn index_deleted(object: &Object, emit: &mut dyn FnMut(&str)) {
    if needs_cleanup(object) {
        emit("");
    }
}

/// Enqueues the deleted definition of an instance that is new, or was the last.
fn enqueue_definition(instance: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    // Fast path: almost always no definition is deleted.
    if !world.has_index_entries(DELETED_DEFINITIONS) {
        return;
    }
    let resource = instance.key().resource().as_str();
    let is_relevant = match world.get(instance.key()) {
        Some(current) => !current.meta().is_deleted(),
        None => world.count(resource) == 0,
    };
    let definition = world.find(DEFINITIONS, "", resource).filter(|definition| needs_cleanup(definition));
    if is_relevant
        && definition.is_some()
        && let Some(key) = key_of(DEFINITIONS, "", resource)
    {
        enqueue(key);
    }
}

#[cfg(test)]
mod tests;
