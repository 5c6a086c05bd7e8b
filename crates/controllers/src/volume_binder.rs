//! PersistentVolume binder: binds claims to volumes, and handles released volumes.
//!
//! A claim takes the best available volume, or the one that is reserved for it; if there is none, the
//! provisioner of its class creates one. A claim with `WaitForFirstConsumer` is bound when the scheduler has
//! selected a node. First the volume refers to the claim, then the claim to the volume: with both references
//! they are bound. When the claim is deleted, the volume is retained or deleted, according to its reclaim
//! policy.

mod claim;
pub mod host_path;
mod matching;
mod volume;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, EventRecord, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;

use crate::indexes::{self, CLAIMS_BY_VOLUME, PENDING_CLAIMS};
use crate::migrated_plugins;

pub(crate) use matching::storage;

/// Annotation: the binder, not a user, bound the volume or the claim.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation of a claim that was bound.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation with the provisioner of a volume.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Annotation with the CSI driver that replaces the in-tree plugin.
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// Annotation with the capacity before a resize.
pub(crate) const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// Annotation with the node that the scheduler selected for the first consumer of a claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The PersistentVolume binder.
pub struct VolumeBinder {
    /// Directory of the built-in provisioner's volumes, on each node.
    directory: Box<str>,
}

impl VolumeBinder {
    /// Creates a binder with this directory for its own volumes.
    #[must_use]
    pub fn new(directory: impl Into<Box<str>>) -> VolumeBinder {
        VolumeBinder { directory: directory.into() }
    }
}

impl Planner for VolumeBinder {
    /// Last Event of a claim or volume, so it is not repeated.
    type Memo = String;

    fn name(&self) -> &'static str {
        "persistent-volume-binder"
    }

    fn source(&self) -> &'static str {
        "persistentvolume-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::primary("persistentvolumeclaims"),
            Watch::primary("persistentvolumes"),
            Watch::mapped("persistentvolumeclaims", enqueue_for_claim),
            Watch::mapped("persistentvolumes", enqueue_for_volume),
            Watch::mapped("storageclasses.storage.k8s.io", enqueue_for_class),
            Watch::mapped("pods", indexes::enqueue_claims),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, String>,
        now: Time,
        _: Seed,
    ) -> Plan<String> {
        let Some(object) = world.get(key) else { return Plan::default() };
        if let Some(claim) = object.view::<PersistentVolumeClaim>() {
            return claim::ClaimSync { object, claim, world, directory: &self.directory, now }
                .plan(&seen.memo);
        }
        match object.view::<PersistentVolume>() {
            Some(volume) => {
                volume::VolumeSync { object, volume, world, directory: &self.directory, now }.plan(&seen.memo)
            }
            None => Plan::default(),
        }
    }
}

/// Enqueues the volumes that refer to a claim, and the one that it names.
fn enqueue_for_claim(claim: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let meta = claim.meta();
    for volume in world.by_index(indexes::VOLUMES_BY_CLAIM, &indexes::path(&meta.namespace, &meta.name)) {
        enqueue(volume.key().clone());
    }
    if let Some(view) = claim.view::<PersistentVolumeClaim>()
        && let Some(key) = key_of("persistentvolumes", "", &view.spec.volume_name)
    {
        enqueue(key);
    }
}

/// Enqueues the claim of a volume, the claims that name it, and for an available volume those that wait for
/// one.
fn enqueue_for_volume(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(volume) = object.view::<PersistentVolume>() else { return };
    for claim in world.by_index(CLAIMS_BY_VOLUME, &object.meta().name) {
        enqueue(claim.key().clone());
    }
    match &volume.spec.claim_ref {
        Some(claim) => {
            if let Some(key) = key_of("persistentvolumeclaims", &claim.namespace, &claim.name) {
                enqueue(key);
            }
        }
        None => enqueue_pending_claims(world, volume.class(object), enqueue),
    }
}

/// Enqueues the claims that wait for a volume of a class, or for a default class.
fn enqueue_for_class(class: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    enqueue_pending_claims(world, &class.meta().name, enqueue);
    enqueue_pending_claims(world, "", enqueue);
}

fn enqueue_pending_claims(world: &WorldReader<'_>, class: &str, enqueue: &mut dyn FnMut(Key)) {
    for claim in world.by_index(PENDING_CLAIMS, class) {
        enqueue(claim.key().clone());
    }
}

/// Sets the migration annotation of an object, or removes a stale one.
fn sync_migrated_to(object: &Object, provisioner: Option<&str>) -> Option<Action> {
    let driver = migrated_plugins::find_by_name(provisioner?).map(|plugin| plugin.driver);
    let current = object.meta().annotations.get(MIGRATED_TO).filter(|current| !current.is_empty());
    let patch = value!({"metadata": {"annotations": {"pv.kubernetes.io/migrated-to": (driver)}}});
    (current != driver).then(|| Write::merge(object, "", patch).into())
}

/// Emits an Event, unless it was the last one.
pub(crate) fn record_once(plan: &mut Plan<String>, last_event: &str, event: EventRecord) {
    let text = format!("{}: {}", event.reason, event.message);
    if text != last_event {
        plan.events.push(event);
    }
    plan.memo = text;
}

#[cfg(test)]
mod tests;
