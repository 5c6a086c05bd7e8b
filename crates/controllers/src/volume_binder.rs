//! Volumes and claims find each other, and part again.
//!
//! A claim takes the smallest free volume that will do, or the one that was kept for it; if there is none its class
//! says who makes one. A claim whose class waits for the first consumer is bound when the scheduler has chosen a
//! node. First the volume names the claim, then the claim the volume: whoever sees both knows that they are bound.
//! When the claim goes, the volume is kept or deleted, as its policy says.

mod claim;
pub mod host_path;
mod matching;
mod volume;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::{Act, Note, Object, Plan, Planner, Seed, Seen, Watch, World, Write};

use crate::indexes::{self, CLAIMS_BY_VOLUME, WAITING_CLAIMS};
use crate::migrated_plugins;

pub(crate) use matching::storage;

/// Says that we and no person bound a volume and a claim.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Says that a claim once was bound.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Names who made a volume.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Names who took over a volume from a plugin of old.
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// How much a volume held before it is known to hold more.
pub(crate) const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// Names the node that the scheduler chose for the first consumer of a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The controller.
pub struct VolumeBinder {
    /// Where volumes of the built-in provisioner are, on each node.
    directory: Box<str>,
}

impl VolumeBinder {
    /// A binder whose own volumes are directories below this one.
    #[must_use]
    pub fn new(directory: impl Into<Box<str>>) -> VolumeBinder {
        VolumeBinder { directory: directory.into() }
    }
}

impl Planner for VolumeBinder {
    /// What was last said about a claim, so that it is not said at every look.
    type Memo = String;

    fn name(&self) -> &'static str {
        "persistent-volume-binder"
    }

    fn source(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::itself("persistentvolumeclaims"),
            Watch::itself("persistentvolumes"),
            Watch::via("persistentvolumeclaims", of_claim),
            Watch::via("persistentvolumes", of_volume),
            Watch::via("storageclasses.storage.k8s.io", of_class),
            Watch::via("pods", indexes::wake_claims),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &World, seen: &Seen<'_, String>, now: Time, _: Seed) -> Plan<String> {
        let Some(object) = world.get(key) else { return Plan::default() };
        if let Some(claim) = object.view::<PersistentVolumeClaim>() {
            return claim::Desk { object, claim, world, directory: &self.directory, now }.plan(&seen.memo);
        }
        match object.view::<PersistentVolume>() {
            Some(volume) => {
                volume::Desk { object, volume, world, directory: &self.directory, now }.plan(&seen.memo)
            }
            None => Plan::default(),
        }
    }
}

/// A claim concerns the volumes that name it, and the one that it names.
fn of_claim(claim: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    let meta = claim.meta();
    for volume in world.indexed(indexes::VOLUMES_BY_CLAIM, &indexes::path(&meta.namespace, &meta.name)) {
        wake(volume.key().clone());
    }
    if let Some(view) = claim.view::<PersistentVolumeClaim>()
        && let Some(key) = key_of("persistentvolumes", "", &view.spec.volume_name)
    {
        wake(key);
    }
}

/// A volume concerns the claim that it names, those that name it, and if it is free those that wait for one.
fn of_volume(object: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    let Some(volume) = object.view::<PersistentVolume>() else { return };
    for claim in world.indexed(CLAIMS_BY_VOLUME, &object.meta().name) {
        wake(claim.key().clone());
    }
    match &volume.spec.claim_ref {
        Some(claim) => {
            if let Some(key) = key_of("persistentvolumeclaims", &claim.namespace, &claim.name) {
                wake(key);
            }
        }
        None => wake_waiting(world, volume.class(object), wake),
    }
}

/// A class concerns the claims that wait for a volume of it, or for any class.
fn of_class(class: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    wake_waiting(world, &class.meta().name, wake);
    wake_waiting(world, "", wake);
}

fn wake_waiting(world: &World, class: &str, wake: &mut dyn FnMut(Key)) {
    for claim in world.indexed(WAITING_CLAIMS, class) {
        wake(claim.key().clone());
    }
}

/// Says who took over from the plugin of old that an object names, or no longer that somebody did.
fn migration(object: &Object, made_by: Option<&str>) -> Option<Act> {
    let driver = migrated_plugins::named(made_by?).map(|plugin| plugin.driver);
    let known = object.meta().annotations.get(MIGRATED_TO).filter(|known| !known.is_empty());
    let patch = value!({"metadata": {"annotations": {"pv.kubernetes.io/migrated-to": (driver)}}});
    (known != driver).then(|| Write::merge(object, "", patch).into())
}

/// Says something, unless it was the last thing said.
pub(crate) fn tell(plan: &mut Plan<String>, said: &str, note: Note) {
    let words = format!("{}: {}", note.reason, note.message);
    if words != said {
        plan.notes.push(note);
    }
    plan.memo = words;
}

#[cfg(test)]
mod tests;
