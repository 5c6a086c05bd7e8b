//! Namespace controller: deletes the content of a terminating namespace in order, then the namespace.
//!
//! Pods are deleted first, with their grace period; when none is left, everything else is deleted. The
//! conditions report the remaining content. A resource that cannot be deleted blocks the namespace, never
//! other resources.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Resource, Time, value};
use setpoint_reconcile::plan::{PLAN_ACTIONS_MAX, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::Condition;
use setpoint_views::namespace::{Namespace, NamespaceStatus};
use setpoint_views::pod::Pod;

use crate::conditions::set_condition;
use crate::indexes::DELETED_NAMESPACES;
use crate::kinds;

/// Finalizer of namespaces that this controller removes.
const FINALIZER: &str = "kubernetes";
/// Assumed time of other finalizers, in seconds.
const FINALIZER_ESTIMATE_SECONDS: i64 = 15;

/// Delay before a check while some content may not be observed.
const UNOBSERVED_RETRY: Duration = Duration::from_secs(1);

/// The namespace controller.
pub struct NamespaceController;

/// Resources with failed deletions, and the error: they are retried after all others.
pub type DeletionFailures = BTreeMap<Resource, String>;

impl Planner for NamespaceController {
    type Memo = DeletionFailures;

    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::primary("namespaces"), Watch::mapped("*", enqueue_for_content)];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, DeletionFailures>,
        now: Time,
        seed: Seed,
    ) -> Plan<DeletionFailures> {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|object| object.meta().is_deleted()) else { return plan };
        let Some(namespace) = object.view::<Namespace>() else { return plan };
        plan.memo = seen.memo.clone();
        if let Some(failure) = seen.failure.filter(|failure| failure.verb == "delete") {
            plan.memo.insert(failure.resource.clone(), failure.message.clone());
        }
        let content = RemainingContent::of(world, &object.meta().name);
        plan.memo.retain(|resource, _| content.by_resource.contains_key(resource.as_str()));

        let mut status = namespace.status.clone();
        "Terminating".clone_into(&mut status.phase);
        let deletions = content.deletions(&plan.memo, seed);
        let has_finalizer = namespace.spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        // While deletions are in flight the conditions would be outdated at once.
        // A custom resource that is not listed yet may have objects in the namespace.
        let unobserved = kinds::unobserved_resources(world);
        if has_finalizer && (deletions.is_empty() || !plan.memo.is_empty()) {
            set_conditions(&mut status, &content, &plan.memo, &unobserved, now);
        }
        if status != namespace.status {
            plan.stage([Action::from(Write::status(object, value_of(&status)))]);
        }
        if !content.is_empty() {
            let wait = if deletions.iter().all(Vec::is_empty) {
                content.recheck_delay(object, now)
            } else {
                Duration::ZERO
            };
            plan.requeue_at(now.after(wait));
            deletions.into_iter().for_each(|stage| plan.stage(stage));
        } else if !unobserved.is_empty() || !has_observed_content(object, world) {
            plan.requeue_at(now.after(UNOBSERVED_RETRY));
        } else if has_finalizer {
            let others = namespace.spec.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER);
            let others: Vec<&str> = others.map(String::as_str).collect();
            let patch = value!({"spec": {"finalizers": (others)}});
            plan.stage([Action::from(Write::merge(object, "finalize", patch).at_any_revision())]);
        }
        plan
    }
}

/// Enqueues a terminating namespace if a change left something to delete, or the last object of a resource is
/// gone.
fn enqueue_for_content(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(name) = object.key().namespace() else { return };
    // Fast path: almost always no namespace is terminating.
    if world.by_index(DELETED_NAMESPACES, name).next().is_none() {
        return;
    }
    let is_relevant = match world.get(object.key()) {
        Some(current) => !current.meta().is_deleted(),
        None => world.in_namespace(object.key().resource().as_str(), name).next().is_none(),
    };
    if is_relevant && let Some(key) = key_of("namespaces", "", name) {
        enqueue(key);
    }
}

/// `true` if the world shows all content of a terminating namespace: there is none that is newer than its deletion. What
/// is not seen would be left behind, so there is no limit to the wait.
fn has_observed_content(namespace: &Object, world: &WorldReader<'_>) -> bool {
    let is_observed = |resource| world.revision_of(resource) >= namespace.revision();
    world.revision() >= namespace.revision() || world.resources().all(is_observed)
}

/// Remaining content of a namespace.
struct RemainingContent<'a> {
    by_resource: BTreeMap<&'a str, Vec<&'a Object>>,
}

impl<'a> RemainingContent<'a> {
    fn of(world: &'a WorldReader<'a>, namespace: &'a str) -> RemainingContent<'a> {
        let mut by_resource = BTreeMap::new();
        for resource in world.resources() {
            let objects: Vec<&Object> = world.in_namespace(resource.as_str(), namespace).collect();
            if !objects.is_empty() {
                by_resource.insert(resource.as_str(), objects);
            }
        }
        RemainingContent { by_resource }
    }

    fn is_empty(&self) -> bool {
        self.by_resource.is_empty()
    }

    fn pods(&self) -> impl Iterator<Item = &'a Object> {
        self.by_resource.get("pods").into_iter().flatten().copied()
    }

    /// Objects to delete now: only pods while there are any, then resources without failures, then those with
    /// failures, starting at a random object, so no object is blocked by a bad one forever.
    fn deletions(&self, deletion_failures: &DeletionFailures, seed: Seed) -> Vec<Vec<Action>> {
        let has_pods = self.by_resource.contains_key("pods");
        let mut without_failures = Vec::new();
        let mut with_failures = Vec::new();
        for (resource, objects) in &self.by_resource {
            if has_pods && *resource != "pods" {
                continue;
            }
            let remaining = objects.iter().filter(|object| !object.meta().is_deleted());
            if deletion_failures.contains_key(*resource) {
                with_failures.extend(remaining);
            } else {
                without_failures.extend(remaining);
            }
        }
        if !with_failures.is_empty() {
            let start = seed.draw(0) % with_failures.len() as u64;
            with_failures.rotate_left(usize::try_from(start).unwrap_or(0));
        }
        let delete = |object: &&Object| Action::from(Write::delete(object).with_propagation("Background"));
        // One more than fits into a plan, so a plan that leaves some out is planned again.
        let stages = [without_failures, with_failures]
            .map(|stage| stage.into_iter().take(PLAN_ACTIONS_MAX + 1).map(delete).collect::<Vec<Action>>());
        stages.into_iter().filter(|stage| !stage.is_empty()).collect()
    }

    /// Delay before a check of pods and finalizers that need time.
    fn recheck_delay(&self, namespace: &Object, now: Time) -> Duration {
        let running = self.pods().filter_map(|pod| pod.view::<Pod>()).filter(|pod| !pod.is_finished());
        let grace = running.filter_map(|pod| pod.spec.termination_grace_period_seconds).max().unwrap_or(0);
        let since = now.since(namespace.meta().deletion_timestamp.unwrap_or(now));
        let in_grace = since < Duration::from_secs(grace.unsigned_abs());
        let estimate = if in_grace { grace } else { FINALIZER_ESTIMATE_SECONDS };
        Duration::from_secs(estimate.unsigned_abs() / 2 + 1)
    }

    fn remaining_message(&self) -> Option<String> {
        let lines = self.by_resource.iter().map(|(resource, objects)| {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            format!("{plural}.{group} has {} resource instances", objects.len())
        });
        join_sorted("Some resources are remaining: ", lines.collect())
    }

    fn finalizers_message(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for object in self.by_resource.values().flatten() {
            let distinct: BTreeSet<&str> = object.meta().finalizers.iter().map(|name| &**name).collect();
            for finalizer in distinct {
                *counts.entry(finalizer).or_default() += 1;
            }
        }
        let lines = counts.into_iter().map(|(name, count)| format!("{name} in {count} resource instances"));
        join_sorted("Some content in the namespace has finalizers remaining: ", lines.collect())
    }
}

fn join_sorted(start: &str, mut lines: Vec<String>) -> Option<String> {
    lines.sort();
    (!lines.is_empty()).then(|| format!("{start}{}", lines.join(", ")))
}

/// Sets the conditions about the remaining content.
fn set_conditions(
    status: &mut NamespaceStatus,
    content: &RemainingContent<'_>,
    deletion_failures: &DeletionFailures,
    unobserved: &[String],
    now: Time,
) {
    let discovery_failures = join_sorted("", unobserved.to_vec()).map(|resources| {
        format!("Discovery failed for some groups, {} failing: {resources} not observed", unobserved.len())
    });
    let failures = join_sorted("", deletion_failures.values().cloned().collect()).map(|failures| {
        format!("Failed to delete all resource types, {} remaining: {failures}", deletion_failures.len())
    });
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            discovery_failures.map(|message| ("DiscoveryFailed", message)),
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            failures.map(|message| ("ContentDeletionFailed", message)),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            content.remaining_message().map(|message| ("SomeResourcesRemain", message)),
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            content.finalizers_message().map(|message| ("SomeFinalizersRemain", message)),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ];
    for (kind, failure, (good_reason, good_message)) in conditions {
        let new = match failure {
            Some((reason, message)) => Condition::new(kind, "True", reason, &message, now),
            None => Condition::new(kind, "False", good_reason, good_message, now),
        };
        set_condition(&mut status.conditions, new);
    }
}

#[cfg(test)]
mod tests;
