//! Garbage collector: deletes objects whose owners are gone, and carries out foreground, background and
//! orphan deletion.
//!
//! Every object is a key. A key plans the deletion of its own object when all owners are gone or an owner
//! waits for it, and handles the finalizers `foregroundDeletion` and `orphan` of its own object. Owners are
//! resolved by UID, and only at the place that the reference names: kind, name, namespace. Objects with an
//! owner of an unserved kind are kept, also if its CustomResourceDefinition was deleted. Cycles of owners that wait for each other are broken, in whatever
//! order they were deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::names::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{
    Action, EventRecord, Object, OwnerReference, Plan, Planner, Seed, Seen, Watch, WorldReader, Write,
};

use crate::staleness::{RETRY_DELAY, is_recent};
use crate::{kinds, staleness};

/// Time after the commit of an object in which an Event about an invalid owner reference is emitted.
const EVENT_WINDOW: Duration = Duration::from_secs(1);

/// The garbage collector.
pub struct GarbageCollector;

impl Planner for GarbageCollector {
    type Memo = ();

    fn name(&self) -> &'static str {
        "generic-garbage-collector"
    }

    fn source(&self) -> &'static str {
        "garbage-collector-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::mapped("*", enqueue_for_object).when(has_relevant_change)];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let resources = world.resources().filter(|resource| resource.as_str() != "events");
        let objects = resources.flat_map(|resource| world.all(resource.as_str()));
        let mut last_solid = None;
        let unresolved = objects
            .filter(|object| needs_processing(object) && !has_solid_owners(object, world, &mut last_solid));
        unresolved.map(|object| object.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|object| needs_processing(object)) else { return plan };
        let meta = object.meta();
        let is_orphaning = meta.is_deleted() && meta.has_finalizer(FINALIZER_ORPHAN);
        if (is_orphaning || is_deleting_dependents(object)) && !has_observed_dependents(object, world, now) {
            plan.requeue_at(now.after(RETRY_DELAY));
        } else if is_orphaning {
            plan.stage(
                world.dependents(&meta.uid).map(|dependent| remove_owner_references(dependent, &[&meta.uid])),
            );
            plan.stage([remove_finalizer(object, FINALIZER_ORPHAN)]);
        } else if is_deleting_dependents(object) {
            plan.stage(process_deleting_dependents(object, world));
        } else if !meta.is_deleted() {
            attempt_to_delete(object, world, now, &mut plan);
        }
        plan
    }
}

/// `true` if an object can need the collector: it has owners, or a finalizer that concerns its dependents.
fn needs_processing(object: &Object) -> bool {
    let meta = object.meta();
    !meta.owner_references.is_empty()
        || meta.is_deleted()
            && (meta.has_finalizer(FINALIZER_FOREGROUND) || meta.has_finalizer(FINALIZER_ORPHAN))
}

/// `true` if all owners of an object exist and none waits for it, the common case. The namespace and owner of
/// the last `Solid` reference are cached: dependents of one owner are mostly adjacent.
fn has_solid_owners<'w>(
    object: &'w Object,
    world: &WorldReader<'_>,
    last_solid: &mut Option<(Option<&'w str>, &'w OwnerReference)>,
) -> bool {
    let is_solid = |owner: &'w OwnerReference| {
        let place = object.key().namespace();
        let is_cached =
            last_solid.is_some_and(|(namespace, last_owner)| namespace == place && last_owner == owner);
        let is_solid =
            is_cached || owner_state(object, owner, world, object.commit_time()) == OwnerState::Solid;
        if is_solid && !is_cached {
            *last_solid = Some((place, owner));
        }
        is_solid
    };
    !object.meta().is_deleted() && object.meta().owner_references.iter().all(is_solid)
}

/// `true` if a change concerns owners, finalizers or deletion.
fn has_relevant_change(before: &Object, after: &Object) -> bool {
    let (before, after) = (before.meta(), after.meta());
    before.uid != after.uid
        || before.is_deleted() != after.is_deleted()
        || before.finalizers != after.finalizers
        || before.owner_references != after.owner_references
}

/// `true` if the object is in foreground deletion, waiting for its blocking dependents.
fn is_deleting_dependents(object: &Object) -> bool {
    object.meta().is_deleted() && object.meta().has_finalizer(FINALIZER_FOREGROUND)
}

/// `true` if the world shows all dependents that existed when the object was deleted. Dependents that are not
/// seen would be lost or left behind. After a bounded wait the world is taken as it is, so no deletion waits
/// forever.
fn has_observed_dependents(object: &Object, world: &WorldReader<'_>, now: Time) -> bool {
    let reached = |resource| world.revision_of(resource) >= object.revision();
    world.revision() >= object.revision() || !is_recent(object, now) || world.resources().all(reached)
}

/// Enqueues the object, its dependents if it is gone or waits for them, and owners that wait for it.
fn enqueue_for_object(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if object.key().resource().as_str() == "events" {
        return;
    }
    if needs_processing(object) {
        enqueue(object.key().clone());
    }
    let meta = object.meta();
    let current = world.get(object.key()).filter(|current| current.meta().uid == meta.uid);
    if current.is_none_or(is_deleting_dependents) {
        for dependent in world.dependents(&meta.uid) {
            enqueue(dependent.key().clone());
        }
    }
    for owner in &meta.owner_references {
        if let Some(owner) = world.get_by_uid(&owner.uid).filter(|owner| is_deleting_dependents(owner)) {
            enqueue(owner.key().clone());
        }
    }
}

/// State of an owner reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists.
    Solid,
    /// The owner exists and is in foreground deletion, waiting for the object.
    WaitingForDependents,
    /// The owner does not exist. `in_other_namespace`: an object with its UID is in another namespace, which
    /// is worth an Event.
    Dangling { in_other_namespace: bool },
    /// Cannot be resolved: the kind is not served.
    UnknownKind,
    /// Cannot be resolved yet: the world is older than the object.
    NotObserved,
    /// A cluster-scoped object cannot have a namespaced owner.
    Impossible { in_other_namespace: bool },
}

fn owner_state(object: &Object, owner: &OwnerReference, world: &WorldReader<'_>, now: Time) -> OwnerState {
    let Some(kind) = kinds::find_resource(world, &owner.api_version, &owner.kind) else {
        return OwnerState::UnknownKind;
    };
    let namespace = if kind.namespaced { object.key().namespace() } else { None };
    // An Event is identified by its place alone.
    let by_name = || world.find(kind.resource, namespace.unwrap_or_default(), &owner.name);
    let is_same = |found: &&Object| found.meta().uid == owner.uid;
    let found = world.get_by_uid(&owner.uid).or_else(|| by_name().filter(is_same));
    let in_other_namespace = found.is_some_and(|found| {
        found.key().namespace().is_some() && found.key().namespace() != object.key().namespace()
    });
    if kind.namespaced && namespace.is_none() {
        return OwnerState::Impossible { in_other_namespace };
    }
    let matches_reference = |found: &&Object| {
        found.key().resource().as_str() == kind.resource
            && found.key().name() == &*owner.name
            && found.key().namespace() == namespace
    };
    match found.filter(matches_reference) {
        Some(found) if is_deleting_dependents(found) => OwnerState::WaitingForDependents,
        Some(_) => OwnerState::Solid,
        None => match world.find_resource(kind.resource) {
            // An owner that existed when the object was written is visible, if the world is recent enough.
            Some(_) if !staleness::has_observed(world, kind.resource, object, now) => OwnerState::NotObserved,
            Some(_) => OwnerState::Dangling { in_other_namespace },
            None => OwnerState::UnknownKind,
        },
    }
}

/// Deletes an object that is not being deleted, if its owners are gone or wait for it.
fn attempt_to_delete(object: &Object, world: &WorldReader<'_>, now: Time, plan: &mut Plan) {
    let owners = &object.meta().owner_references;
    let owner_states: Vec<OwnerState> =
        owners.iter().map(|owner| owner_state(object, owner, world, now)).collect();
    let is_unresolvable =
        |state: &OwnerState| matches!(state, OwnerState::UnknownKind | OwnerState::Impossible { .. });
    if owner_states.contains(&OwnerState::NotObserved) {
        plan.requeue_at(now.after(RETRY_DELAY));
        return;
    }
    // Unresolvable references are left alone. One Event is enough, because nothing changes.
    let is_event_window_over = now.since(object.commit_time()) > EVENT_WINDOW;
    if owner_states.iter().all(|state| *state == OwnerState::Solid)
        || owner_states.iter().any(is_unresolvable) && is_event_window_over
    {
        return;
    }
    for (owner, state) in owners.iter().zip(&owner_states) {
        if matches!(
            state,
            OwnerState::Dangling { in_other_namespace: true }
                | OwnerState::Impossible { in_other_namespace: true }
        ) {
            plan.events.extend(invalid_namespace_event(object, owner));
        }
    }
    if owner_states.iter().any(is_unresolvable) {
        return;
    }
    let solid = owner_states.contains(&OwnerState::Solid);
    let waiting = owner_states.contains(&OwnerState::WaitingForDependents);
    if solid {
        let dangling = owners.iter().zip(&owner_states).filter(|(_, state)| **state != OwnerState::Solid);
        let dangling: Vec<&str> = dangling.map(|(owner, _)| &*owner.uid).collect();
        plan.stage([remove_owner_references(object, &dangling)]);
        return;
    }
    let mut dependents = world.dependents(&object.meta().uid).peekable();
    if waiting && dependents.peek().is_some() {
        if dependents.any(is_deleting_dependents) && object.meta().owner_references.iter().any(is_blocking) {
            plan.stage([unblock_owner_references(object)]);
        } else {
            plan.stage([Write::delete_unchanged(object).with_propagation("Foreground").into()]);
        }
        return;
    }
    let policy = if object.meta().has_finalizer(FINALIZER_ORPHAN) {
        "Orphan"
    } else if object.meta().has_finalizer(FINALIZER_FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    plan.stage([Write::delete_unchanged(object).with_propagation(policy).into()]);
}

fn is_blocking(owner: &OwnerReference) -> bool {
    owner.block_owner_deletion
}

/// Completes a foreground deletion if no dependent blocks it, and breaks cycles of such deletions.
fn process_deleting_dependents(object: &Object, world: &WorldReader<'_>) -> Option<Action> {
    let uid = &object.meta().uid;
    let blocks = |dependent: &Object| {
        // A cluster-scoped object cannot have a namespaced owner, so it does not block one.
        let can_own = object.key().namespace().is_none() || dependent.key().namespace().is_some();
        can_own
            && dependent.meta().owner_references.iter().any(|owner| owner.uid == *uid && is_blocking(owner))
    };
    if !world.dependents(uid).any(blocks) {
        return Some(remove_finalizer(object, FINALIZER_FOREGROUND));
    }
    is_in_cycle(object, world).then(|| unblock_owner_references(object))
}

/// `true` if the object, in foreground deletion, is part of a cycle of objects that wait for each other.
fn is_in_cycle(object: &Object, world: &WorldReader<'_>) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<&Object> = vec![object];
    while let Some(one) = next.pop() {
        for owner in one.meta().owner_references.iter().filter(|owner| is_blocking(owner)) {
            if owner.uid == object.meta().uid {
                return true;
            }
            if let Some(found) = world.get_by_uid(&owner.uid).filter(|found| is_deleting_dependents(found))
                && seen.insert(&found.meta().uid)
            {
                next.push(found);
            }
        }
    }
    false
}

/// Removes owner references from an object.
fn remove_owner_references(object: &Object, uids: &[&str]) -> Action {
    if is_custom(object) {
        return replace_owner_references(object, |owner| !uids.contains(&owner.str_at(&["uid"])), |_| {});
    }
    let gone = uids.iter().map(|uid| value!({"$patch": "delete", "uid": (*uid)}));
    let patch = value!({"metadata": {"ownerReferences": (gone.collect::<Vec<Value>>())}});
    Write::merge(object, "", patch).strategic().at_any_revision().into()
}

/// Clears `blockOwnerDeletion` in the owner references of an object.
fn unblock_owner_references(object: &Object) -> Action {
    if is_custom(object) {
        return replace_owner_references(
            object,
            |_| true,
            |owner| {
                if owner.at(&["blockOwnerDeletion"]) == Some(&Value::Bool(true)) {
                    owner.make_map().insert("blockOwnerDeletion", false);
                }
            },
        );
    }
    let blocking = object.meta().owner_references.iter().filter(|owner| is_blocking(owner));
    let unblocked = blocking.map(|owner| value!({"uid": (&*owner.uid), "blockOwnerDeletion": false}));
    let patch = value!({"metadata": {"ownerReferences": (unblocked.collect::<Vec<Value>>())}});
    Write::merge(object, "", patch).strategic().into()
}

/// `true` for an object of a custom resource, which supports no strategic merge patch.
fn is_custom(object: &Object) -> bool {
    kinds::storage_kind(object.key().resource().as_str()).is_none()
}

/// Replaces the list of owner references, unless the object has changed.
fn replace_owner_references(
    object: &Object,
    keeps: impl Fn(&Value) -> bool,
    change: impl Fn(&mut Value),
) -> Action {
    let value = object.value();
    let owners = value.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
    let mut owners: Vec<Value> = owners.iter().filter(|owner| keeps(owner)).cloned().collect();
    owners.iter_mut().for_each(change);
    Write::merge(object, "", value!({"metadata": {"ownerReferences": (owners)}})).into()
}

fn remove_finalizer(object: &Object, name: &str) -> Action {
    let remaining = object.meta().finalizers.iter().filter(|finalizer| &***finalizer != name);
    let remaining: Vec<&str> = remaining.map(|finalizer| &**finalizer).collect();
    Write::merge(object, "", value!({"metadata": {"finalizers": (remaining)}})).into()
}

fn invalid_namespace_event(object: &Object, owner: &OwnerReference) -> Option<EventRecord> {
    let (api_version, kind) = kinds::storage_kind(object.key().resource().as_str())?;
    let namespace = object.key().namespace().unwrap_or_default();
    let owner = format!(
        "[{}/{}, namespace: {namespace}, name: {}, uid: {}]",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    let message = format!("ownerRef {owner} does not exist in namespace \"{namespace}\"");
    Some(InvolvedObject::new(object, api_version, kind).warning("OwnerRefInvalidNamespace", message))
}

#[cfg(test)]
mod tests;
