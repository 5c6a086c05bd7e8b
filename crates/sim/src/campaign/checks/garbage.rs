//! Only garbage goes: the collector takes nothing whose owner lives, and nothing that was left behind on purpose. In
//! the end nothing is leaked: whatever has owners has one that is there, whatever is in a namespace has that too.

use std::collections::BTreeMap;

use setpoint_api::Revision;
use setpoint_api::names::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use setpoint_reconcile::{Meta, World};

use super::{Check, Scene};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// See the module.
#[derive(Default)]
pub struct OnlyGarbageGoes {
    /// Since when each object is there.
    born: BTreeMap<Box<str>, Revision>,
    /// Owners that leave behind what they own, since when.
    leaving: BTreeMap<Box<str>, Revision>,
    /// Owners that waited for what they own to go, and until when.
    waited: BTreeMap<Box<str>, Revision>,
}

/// Whether an owner goes when what it owns is gone.
fn waits(meta: &Meta) -> bool {
    meta.is_deleted() && meta.has_finalizer(FINALIZER_FOREGROUND)
}

impl Check for OnlyGarbageGoes {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let meta = change.object().meta();
        if change.is_creation() {
            self.born.insert(meta.uid.clone(), change.revision);
        }
        if meta.is_deleted() && change.after.is_some() && meta.has_finalizer(FINALIZER_ORPHAN) {
            self.leaving.entry(meta.uid.clone()).or_insert(change.revision);
        } else if &*change.by != "generic-garbage-collector" {
            // Whoever deletes it once more may have another mind.
            self.leaving.remove(&meta.uid);
        }
        if change.before.as_ref().is_some_and(|before| waits(before.meta())) {
            self.waited.insert(meta.uid.clone(), change.revision);
        }
        if &*change.by != "generic-garbage-collector" || !change.is_deletion() {
            return Ok(());
        }
        marks.note("garbage was collected");
        let before = change.before.as_ref().map_or(meta, |before| before.meta());
        for owner in &before.owner_references {
            let found = scene.world.identified(&owner.uid);
            // Whoever deleted the owner may have changed their mind after the collector had looked.
            if self.waited.get(&owner.uid).is_some_and(|until| *until > change.seen) {
                continue;
            }
            if found.is_some_and(|found| !waits(found.meta())) {
                let (kind, name) = (&owner.kind, &owner.name);
                return Err(format!("{} was collected, and its owner {kind} {name} lives", change.key));
            }
            let left =
                self.leaving.get(&owner.uid).is_some_and(|since| self.born.get(&meta.uid) < Some(since));
            if left && found.is_none() {
                let (kind, name) = (&owner.kind, &owner.name);
                return Err(format!("{} was collected, and {kind} {name} had left it behind", change.key));
            }
        }
        Ok(())
    }

    fn finally(&self, world: &World) -> Result<(), String> {
        let objects = world.resources().flat_map(|resource| world.all(resource.as_str()));
        for object in objects.filter(|object| object.key().resource().as_str() != "events") {
            let (key, meta) = (object.key(), object.meta());
            let owners = &meta.owner_references;
            if !owners.is_empty() && owners.iter().all(|owner| world.identified(&owner.uid).is_none()) {
                return Err(format!("{key} is leaked: {:?} is gone", owners[0]));
            }
            let is_lost = |name: &str| world.find("namespaces", "", name).is_none();
            if key.namespace().is_some_and(is_lost) {
                return Err(format!("{key} is leaked: its namespace is gone"));
            }
        }
        Ok(())
    }
}
