//! Volume matching: the best volume for a claim.

use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;

use crate::indexes::{FREE_VOLUMES, VOLUMES_BY_CLAIM, path};

pub(super) type Claim<'a> = (&'a Object, &'a PersistentVolumeClaim);
pub(super) type Volume<'a> = (&'a Object, &'a PersistentVolume);

/// Amount of storage; zero if it is not set.
pub(crate) fn storage(amounts: &Pairs) -> Quantity {
    amounts.get("storage").and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// The volume that is reserved for a claim, or else the best available one. A claim with
/// `WaitForFirstConsumer` takes only a reserved volume.
pub(super) fn best<'a>(
    (object, claim): Claim<'_>,
    waits: bool,
    world: &'a WorldReader<'a>,
) -> Option<Volume<'a>> {
    let meta = object.meta();
    let view = |volume: &'a Object| Some((volume, volume.view::<PersistentVolume>()?));
    // A started binding is completed: a volume whose finalizer waits for the claim would wait for ever.
    let is_begun = |volume: &PersistentVolume| {
        let names = volume.spec.claim_ref.as_ref().is_some_and(|of| of.uid == *meta.uid);
        names && volume.status.phase == "Bound"
    };
    let fits = |(seen, volume): &Volume<'_>| {
        (!seen.meta().is_deleted() || is_begun(volume))
            && storage(&volume.spec.capacity) >= storage(&claim.spec.resources.requests)
            && same_mode(claim, volume)
            && same_attributes(claim, volume)
            && allows(claim, volume)
    };
    // Fewest access modes first, then smallest capacity.
    let order = |(seen, volume): &Volume<'a>| {
        (volume.spec.access_modes.len(), storage(&volume.spec.capacity), &seen.meta().name)
    };
    let kept = world.by_index(VOLUMES_BY_CLAIM, &path(&meta.namespace, &meta.name)).filter_map(view);
    let kept = kept.filter(|(_, volume)| volume.is_for(object)).filter(fits).min_by_key(order);
    if kept.is_some() || waits {
        return kept;
    }
    let free = world.by_index(FREE_VOLUMES, claim.class(object)).filter_map(view);
    free.filter(|(seen, volume)| {
        let labels = &seen.meta().labels;
        let selects = claim.spec.selector.as_ref().is_none_or(|one| one.matches(|name| labels.get(name)));
        volume.status.phase == "Available" && selects
    })
    .filter(fits)
    .min_by_key(order)
}

/// Reason why a volume does not fit a claim that names it.
pub(super) fn misfit((object, claim): Claim<'_>, (seen, volume): Volume<'_>) -> Option<String> {
    let name = &seen.meta().name;
    let why = if seen.meta().is_deleted() {
        return Some(format!("the volume is marked for deletion \"{name}\""));
    } else if storage(&volume.spec.capacity) < storage(&claim.spec.resources.requests) {
        "requested PV is too small"
    } else if volume.class(seen) != claim.class(object) {
        "storageClassName does not match"
    } else if !same_attributes(claim, volume) {
        "volumeAttributesClassName does not match"
    } else if !same_mode(claim, volume) {
        "incompatible volumeMode"
    } else if !allows(claim, volume) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// `true` if both have the same volume mode.
pub(super) fn same_mode(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let mode = |said: &Option<String>| said.as_deref().unwrap_or("Filesystem") == "Block";
    mode(&claim.spec.volume_mode) == mode(&volume.spec.volume_mode)
}

fn same_attributes(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (one, other) = (&claim.spec.volume_attributes_class_name, &volume.spec.volume_attributes_class_name);
    one.as_deref().unwrap_or_default() == other.as_deref().unwrap_or_default()
}

/// `true` if the volume has all access modes of the claim.
fn allows(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
}
