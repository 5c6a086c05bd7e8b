//! Volume matching: the best volume for a claim.

use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;

use crate::indexes::{UNCLAIMED_VOLUMES, VOLUMES_BY_CLAIM, path};

pub(super) type ClaimRef<'a> = (&'a Object, &'a PersistentVolumeClaim);
pub(super) type VolumeRef<'a> = (&'a Object, &'a PersistentVolume);

/// Amount of storage; zero if it is not set.
pub(crate) fn storage(amounts: &Pairs) -> Quantity {
    amounts.get("storage").and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// The volume that is reserved for a claim, or else the best available one. A claim with
/// `WaitForFirstConsumer` takes only a reserved volume.
pub(super) fn find_best<'a>(
    (object, claim): ClaimRef<'_>,
    waits: bool,
    world: &'a WorldReader<'a>,
) -> Option<VolumeRef<'a>> {
    let meta = object.meta();
    let view = |volume: &'a Object| Some((volume, volume.view::<PersistentVolume>()?));
    // A started binding is completed: a volume whose finalizer waits for the claim would wait forever.
    let is_binding_started = |volume: &PersistentVolume| {
        let names = volume.spec.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.uid == *meta.uid);
        names && volume.status.phase == "Bound"
    };
    let is_match = |(seen, volume): &VolumeRef<'_>| {
        (!seen.meta().is_deleted() || is_binding_started(volume))
            && storage(&volume.spec.capacity) >= storage(&claim.spec.resources.requests)
            && is_same_mode(claim, volume)
            && is_same_attributes_class(claim, volume)
            && has_access_modes(claim, volume)
    };
    // Fewest access modes first, then smallest capacity.
    let order = |(seen, volume): &VolumeRef<'a>| {
        (volume.spec.access_modes.len(), storage(&volume.spec.capacity), &seen.meta().name)
    };
    let reserved = world.by_index(VOLUMES_BY_CLAIM, &path(&meta.namespace, &meta.name)).filter_map(view);
    let reserved = reserved.filter(|(_, volume)| volume.is_for(object)).filter(is_match).min_by_key(order);
    if reserved.is_some() || waits {
        return reserved;
    }
    let unclaimed = world.by_index(UNCLAIMED_VOLUMES, claim.class(object)).filter_map(view);
    unclaimed
        .filter(|(seen, volume)| {
            let labels = &seen.meta().labels;
            let selects =
                claim.spec.selector.as_ref().is_none_or(|selector| selector.matches(|name| labels.get(name)));
            volume.status.phase == "Available" && selects
        })
        .filter(is_match)
        .min_by_key(order)
}

/// Reason why a volume does not fit a claim that names it.
pub(super) fn find_mismatch((object, claim): ClaimRef<'_>, (seen, volume): VolumeRef<'_>) -> Option<String> {
    let name = &seen.meta().name;
    let reason = if seen.meta().is_deleted() {
        return Some(format!("the volume is marked for deletion \"{name}\""));
    } else if storage(&volume.spec.capacity) < storage(&claim.spec.resources.requests) {
        "requested PV is too small"
    } else if volume.class(seen) != claim.class(object) {
        "storageClassName does not match"
    } else if !is_same_attributes_class(claim, volume) {
        "volumeAttributesClassName does not match"
    } else if !is_same_mode(claim, volume) {
        "incompatible volumeMode"
    } else if !has_access_modes(claim, volume) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// `true` if both have the same volume mode.
pub(super) fn is_same_mode(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let mode = |mode: &Option<String>| mode.as_deref().unwrap_or("Filesystem") == "Block";
    mode(&claim.spec.volume_mode) == mode(&volume.spec.volume_mode)
}

fn is_same_attributes_class(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (one, other) = (&claim.spec.volume_attributes_class_name, &volume.spec.volume_attributes_class_name);
    one.as_deref().unwrap_or_default() == other.as_deref().unwrap_or_default()
}

/// `true` if the volume has all access modes of the claim.
fn has_access_modes(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
}
