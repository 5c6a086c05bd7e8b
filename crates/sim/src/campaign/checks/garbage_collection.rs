//! Garbage collection: the collector deletes no object with a living owner and no object that was orphaned. In the end
//! no object refers only to missing owners, and none is in a missing namespace.

use std::collections::BTreeMap;

use setpoint_api::Revision;
use setpoint_api::names::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use setpoint_reconcile::{ObjectMeta, OwnerReference, WorldReader};

use super::custom_resources::is_unserved;
use super::{Check, CommitContext};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Check of deletions and leaks.
#[derive(Default)]
pub struct GarbageCollection {
    /// Revision at which each object was created, by UID.
    created_at: BTreeMap<Box<str>, Revision>,
    /// Owners with the `orphan` finalizer, by UID, with the revision at which it was set.
    orphaning: BTreeMap<Box<str>, Revision>,
    /// Owners in foreground deletion, by UID, with the last revision at which they were.
    foreground_deleted: BTreeMap<Box<str>, Revision>,
}

/// `true` if an object is deleted in the foreground.
fn is_foreground_deletion(meta: &ObjectMeta) -> bool {
    meta.is_deleted() && meta.has_finalizer(FINALIZER_FOREGROUND)
}

impl Check for GarbageCollection {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let meta = change.object().meta();
        if change.is_creation() {
            self.created_at.insert(meta.uid.clone(), change.revision);
        }
        if meta.is_deleted() && change.after.is_some() && meta.has_finalizer(FINALIZER_ORPHAN) {
            self.orphaning.entry(meta.uid.clone()).or_insert(change.revision);
        } else if &*change.by != "generic-garbage-collector" {
            // Another deletion can use another propagation policy.
            self.orphaning.remove(&meta.uid);
        }
        if change.before.as_ref().is_some_and(|before| is_foreground_deletion(before.meta())) {
            self.foreground_deleted.insert(meta.uid.clone(), change.revision);
        }
        if &*change.by != "generic-garbage-collector" || !change.is_deletion() {
            return Ok(());
        }
        marks.record("garbage was collected");
        let before = change.before.as_ref().map_or(meta, |before| before.meta());
        for owner in &before.owner_references {
            let found = context.world.get_by_uid(&owner.uid);
            // The propagation policy may have changed after the world that the collector planned on.
            if self.foreground_deleted.get(&owner.uid).is_some_and(|until| *until > change.seen) {
                continue;
            }
            if found.is_some_and(|found| !is_foreground_deletion(found.meta())) {
                let (kind, name) = (&owner.kind, &owner.name);
                return Err(format!("{} was collected although its owner {kind} {name} exists", change.key));
            }
            let is_orphaned = self
                .orphaning
                .get(&owner.uid)
                .is_some_and(|since| self.created_at.get(&meta.uid) < Some(since));
            if is_orphaned && found.is_none() {
                let (kind, name) = (&owner.kind, &owner.name);
                return Err(format!("{} was collected although {kind} {name} had orphaned it", change.key));
            }
        }
        Ok(())
    }

    fn check_final(&self, world: &WorldReader<'_>) -> Result<(), String> {
        let objects = world.resources().flat_map(|resource| world.all(resource.as_str()));
        for object in objects.filter(|object| object.key().resource().as_str() != "events") {
            let (key, meta) = (object.key(), object.meta());
            let owners = &meta.owner_references;
            let is_gone =
                |owner: &OwnerReference| world.get_by_uid(&owner.uid).is_none() && !is_unserved(world, owner);
            if !owners.is_empty() && owners.iter().all(is_gone) {
                return Err(format!("{key} is leaked: {:?} is gone", owners[0]));
            }
            let is_missing = |name: &str| world.find("namespaces", "", name).is_none();
            if key.namespace().is_some_and(is_missing) {
                return Err(format!("{key} is leaked: its namespace is gone"));
            }
        }
        Ok(())
    }
}
