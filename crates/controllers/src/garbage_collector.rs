//! Garbage collector: deletes objects whose owners are gone, and carries out foreground, background and
//! orphan deletion.
//!
//! Every object is a key. A key plans the deletion of its own object when all owners are gone or an owner
//! waits for it, and handles the finalizers `foregroundDeletion` and `orphan` of its own object. Owners are
//! resolved by UID, and only at the place that the reference names: kind, name, namespace. Objects with an
//! owner of an unserved kind are kept. Cycles of owners that wait for each other are broken, in whatever
//! order they were deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::names::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::{
    Act, Note, Object, OwnerReference, Plan, Planner, Seed, Seen, Watch, WorldReader, Write,
};

use crate::horizon::{SOON, is_recent};
use crate::{horizon, kinds};

/// Time after the commit of an object in which an Event about an invalid owner reference is emitted.
const TELL_WITHIN: Duration = Duration::from_secs(1);

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
        const WATCHES: [Watch; 1] = [Watch::via("*", concerns).when(is_other)];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let resources = world.resources().filter(|resource| resource.as_str() != "events");
        let objects = resources.flat_map(|resource| world.all(resource.as_str()));
        let mut solid = None;
        let unsettled =
            objects.filter(|object| has_business(object) && !is_settled(object, world, &mut solid));
        unsettled.map(|object| object.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|object| has_business(object)) else { return plan };
        let meta = object.meta();
        let orphans = meta.is_deleted() && meta.has_finalizer(FINALIZER_ORPHAN);
        if (orphans || is_waiting(object)) && !is_whole(object, world, now) {
            plan.look_again_at(now.after(SOON));
        } else if orphans {
            plan.stage(world.dependents(&meta.uid).map(|dependent| release(dependent, &[&meta.uid])));
            plan.stage([without_finalizer(object, FINALIZER_ORPHAN)]);
        } else if is_waiting(object) {
            plan.stage(finish_waiting(object, world));
        } else if !meta.is_deleted() {
            collect(object, world, now, &mut plan);
        }
        plan
    }
}

/// `true` if an object can need the collector: it has owners, or a finalizer that concerns its dependents.
fn has_business(object: &Object) -> bool {
    let meta = object.meta();
    !meta.owner_references.is_empty()
        || meta.is_deleted()
            && (meta.has_finalizer(FINALIZER_FOREGROUND) || meta.has_finalizer(FINALIZER_ORPHAN))
}

/// `true` if all owners of an object exist and none waits for it, the common case. The namespace and owner of
/// the last `Solid` reference are cached: dependents of one owner are mostly adjacent.
fn is_settled<'w>(
    object: &'w Object,
    world: &WorldReader<'_>,
    solid: &mut Option<(Option<&'w str>, &'w OwnerReference)>,
) -> bool {
    let is_solid = |owner: &'w OwnerReference| {
        let place = object.key().namespace();
        let is_known = solid.is_some_and(|(namespace, known)| namespace == place && known == owner);
        let is_solid = is_known || bond(object, owner, world, object.commit_time()) == Bond::Solid;
        if is_solid && !is_known {
            *solid = Some((place, owner));
        }
        is_solid
    };
    !object.meta().is_deleted() && object.meta().owner_references.iter().all(is_solid)
}

/// `true` if a change concerns owners, finalizers or deletion.
fn is_other(before: &Object, after: &Object) -> bool {
    let (before, after) = (before.meta(), after.meta());
    before.uid != after.uid
        || before.is_deleted() != after.is_deleted()
        || before.finalizers != after.finalizers
        || before.owner_references != after.owner_references
}

/// `true` if the object is in foreground deletion, waiting for its blocking dependents.
fn is_waiting(object: &Object) -> bool {
    object.meta().is_deleted() && object.meta().has_finalizer(FINALIZER_FOREGROUND)
}

/// `true` if the world shows all dependents that existed when the object was deleted. Dependents that are not
/// seen would be lost or left behind. After a bounded wait the world is taken as it is, so no deletion waits
/// for ever.
fn is_whole(object: &Object, world: &WorldReader<'_>, now: Time) -> bool {
    let reached = |resource| world.revision_of(resource) >= object.revision();
    world.revision() >= object.revision() || !is_recent(object, now) || world.resources().all(reached)
}

/// Enqueues the object, its dependents if it is gone or waits for them, and owners that wait for it.
fn concerns(object: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    if object.key().resource().as_str() == "events" {
        return;
    }
    if has_business(object) {
        wake(object.key().clone());
    }
    let meta = object.meta();
    let current = world.get(object.key()).filter(|current| current.meta().uid == meta.uid);
    if current.is_none_or(is_waiting) {
        for dependent in world.dependents(&meta.uid) {
            wake(dependent.key().clone());
        }
    }
    for owner in &meta.owner_references {
        if let Some(owner) = world.get_by_uid(&owner.uid).filter(|owner| is_waiting(owner)) {
            wake(owner.key().clone());
        }
    }
}

/// State of an owner reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bond {
    /// The owner exists.
    Solid,
    /// The owner exists and is in foreground deletion, waiting for the object.
    Waiting,
    /// The owner does not exist. `elsewhere`: an object with its UID is in another namespace, which is worth
    /// an Event.
    Dangling { elsewhere: bool },
    /// Cannot be resolved: the kind is not served.
    Unknown,
    /// Cannot be resolved yet: the world is older than the object.
    Unseen,
    /// A cluster-scoped object cannot have a namespaced owner.
    Impossible { elsewhere: bool },
}

fn bond(object: &Object, owner: &OwnerReference, world: &WorldReader<'_>, now: Time) -> Bond {
    let Some(kind) = kinds::of(world, &owner.api_version, &owner.kind) else { return Bond::Unknown };
    let namespace = if kind.namespaced { object.key().namespace() } else { None };
    // An Event is identified by its place alone.
    let at_its_place = || world.find(kind.resource, namespace.unwrap_or_default(), &owner.name);
    let is_same = |found: &&Object| found.meta().uid == owner.uid;
    let found = world.get_by_uid(&owner.uid).or_else(|| at_its_place().filter(is_same));
    let elsewhere = found.is_some_and(|found| {
        found.key().namespace().is_some() && found.key().namespace() != object.key().namespace()
    });
    if kind.namespaced && namespace.is_none() {
        return Bond::Impossible { elsewhere };
    }
    let is_there = |found: &&Object| {
        found.key().resource().as_str() == kind.resource
            && found.key().name() == &*owner.name
            && found.key().namespace() == namespace
    };
    match found.filter(is_there) {
        Some(found) if is_waiting(found) => Bond::Waiting,
        Some(_) => Bond::Solid,
        None => match world.resources().find(|known| known.as_str() == kind.resource) {
            // An owner that existed when the object was written is visible, if the world is recent enough.
            Some(_) if !horizon::reaches(world, kind.resource, object, now) => Bond::Unseen,
            Some(_) => Bond::Dangling { elsewhere },
            None => Bond::Unknown,
        },
    }
}

/// Deletes an object that is not being deleted, if its owners are gone or wait for it.
fn collect(object: &Object, world: &WorldReader<'_>, now: Time, plan: &mut Plan) {
    let owners = &object.meta().owner_references;
    let bonds: Vec<Bond> = owners.iter().map(|owner| bond(object, owner, world, now)).collect();
    let cannot = |bond: &Bond| matches!(bond, Bond::Unknown | Bond::Impossible { .. });
    if bonds.contains(&Bond::Unseen) {
        plan.look_again_at(now.after(SOON));
        return;
    }
    // Unresolvable references are left alone. One Event is enough, because nothing changes.
    let told_already = now.since(object.commit_time()) > TELL_WITHIN;
    if bonds.iter().all(|bond| *bond == Bond::Solid) || bonds.iter().any(cannot) && told_already {
        return;
    }
    for (owner, bond) in owners.iter().zip(&bonds) {
        if matches!(bond, Bond::Dangling { elsewhere: true } | Bond::Impossible { elsewhere: true }) {
            plan.notes.extend(invalid_namespace(object, owner));
        }
    }
    if bonds.iter().any(cannot) {
        return;
    }
    let solid = bonds.contains(&Bond::Solid);
    let waiting = bonds.contains(&Bond::Waiting);
    if solid {
        let lost = owners.iter().zip(&bonds).filter(|(_, bond)| **bond != Bond::Solid);
        let lost: Vec<&str> = lost.map(|(owner, _)| &*owner.uid).collect();
        plan.stage([release(object, &lost)]);
        return;
    }
    let mut dependents = world.dependents(&object.meta().uid).peekable();
    if waiting && dependents.peek().is_some() {
        if dependents.any(is_waiting) && object.meta().owner_references.iter().any(is_blocking) {
            plan.stage([unblock(object)]);
        } else {
            plan.stage([Write::delete_unchanged(object).propagating("Foreground").into()]);
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
    plan.stage([Write::delete_unchanged(object).propagating(policy).into()]);
}

fn is_blocking(owner: &OwnerReference) -> bool {
    owner.block_owner_deletion
}

/// Completes a foreground deletion if no dependent blocks it, and breaks cycles of such deletions.
fn finish_waiting(object: &Object, world: &WorldReader<'_>) -> Option<Act> {
    let uid = &object.meta().uid;
    let blocks = |dependent: &Object| {
        // A cluster-scoped object cannot have a namespaced owner, so it does not block one.
        let possible = object.key().namespace().is_none() || dependent.key().namespace().is_some();
        possible
            && dependent.meta().owner_references.iter().any(|owner| owner.uid == *uid && is_blocking(owner))
    };
    if !world.dependents(uid).any(blocks) {
        return Some(without_finalizer(object, FINALIZER_FOREGROUND));
    }
    waits_for_itself(object, world).then(|| unblock(object))
}

/// `true` if the object, in foreground deletion, is part of a cycle of objects that wait for each other.
fn waits_for_itself(object: &Object, world: &WorldReader<'_>) -> bool {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<&Object> = vec![object];
    while let Some(one) = next.pop() {
        for owner in one.meta().owner_references.iter().filter(|owner| is_blocking(owner)) {
            if owner.uid == object.meta().uid {
                return true;
            }
            if let Some(found) = world.get_by_uid(&owner.uid).filter(|found| is_waiting(found))
                && seen.insert(&found.meta().uid)
            {
                next.push(found);
            }
        }
    }
    false
}

/// Removes owner references from an object.
fn release(object: &Object, uids: &[&str]) -> Act {
    let gone = uids.iter().map(|uid| value!({"$patch": "delete", "uid": (*uid)}));
    let patch = value!({"metadata": {"ownerReferences": (gone.collect::<Vec<Value>>())}});
    Write::merge(object, "", patch).strategic().at_any_revision().into()
}

/// Clears `blockOwnerDeletion` in the owner references of an object.
fn unblock(object: &Object) -> Act {
    let blocking = object.meta().owner_references.iter().filter(|owner| is_blocking(owner));
    let freed = blocking.map(|owner| value!({"uid": (&*owner.uid), "blockOwnerDeletion": false}));
    let patch = value!({"metadata": {"ownerReferences": (freed.collect::<Vec<Value>>())}});
    Write::merge(object, "", patch).strategic().into()
}

fn without_finalizer(object: &Object, name: &str) -> Act {
    let left = object.meta().finalizers.iter().filter(|finalizer| &***finalizer != name);
    let left: Vec<&str> = left.map(|finalizer| &**finalizer).collect();
    Write::merge(object, "", value!({"metadata": {"finalizers": (left)}})).into()
}

fn invalid_namespace(object: &Object, owner: &OwnerReference) -> Option<Note> {
    let (api_version, kind) = kinds::stored_as(object.key().resource().as_str())?;
    let namespace = object.key().namespace().unwrap_or_default();
    let owner = format!(
        "[{}/{}, namespace: {namespace}, name: {}, uid: {}]",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    let message = format!("ownerRef {owner} does not exist in namespace \"{namespace}\"");
    Some(Subject::of(object, api_version, kind).warning("OwnerRefInvalidNamespace", message))
}

#[cfg(test)]
mod tests;
