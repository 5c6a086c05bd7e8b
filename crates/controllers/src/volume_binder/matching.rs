//! Which volume will do for a claim.

use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::{Object, World};

use crate::indexes::{FREE_VOLUMES, VOLUMES_BY_CLAIM, path};

pub(super) type Claim<'a> = (&'a Object, &'a PersistentVolumeClaim);
pub(super) type Volume<'a> = (&'a Object, &'a PersistentVolume);

/// How much storage is meant; none if nothing is said.
pub(crate) fn storage(amounts: &Pairs) -> Quantity {
    amounts.get("storage").and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// The volume that is kept for a claim, or else the smallest free one that will do. A claim that waits for its
/// first consumer takes only what was kept for it.
pub(super) fn best<'a>((object, claim): Claim<'_>, waits: bool, world: &'a World) -> Option<Volume<'a>> {
    let meta = object.meta();
    let view = |volume: &'a Object| Some((volume, volume.view::<PersistentVolume>()?));
    // What was begun is finished: a volume that is protected for the claim's sake would wait for it for ever.
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
    // Of volumes that will do as well, those go first that can do least beside.
    let order = |(seen, volume): &Volume<'a>| {
        (volume.spec.access_modes.len(), storage(&volume.spec.capacity), &seen.meta().name)
    };
    let kept = world.indexed(VOLUMES_BY_CLAIM, &path(&meta.namespace, &meta.name)).filter_map(view);
    let kept = kept.filter(|(_, volume)| volume.is_for(object)).filter(fits).min_by_key(order);
    if kept.is_some() || waits {
        return kept;
    }
    let free = world.indexed(FREE_VOLUMES, claim.class(object)).filter_map(view);
    free.filter(|(seen, volume)| {
        let labels = &seen.meta().labels;
        let selects = claim.spec.selector.as_ref().is_none_or(|one| one.matches(|name| labels.get(name)));
        volume.status.phase == "Available" && selects
    })
    .filter(fits)
    .min_by_key(order)
}

/// Why a volume will not do for a claim that asks for it by name.
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

/// Whether both are meant as a file system, or both as a device.
pub(super) fn same_mode(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let mode = |said: &Option<String>| said.as_deref().unwrap_or("Filesystem") == "Block";
    mode(&claim.spec.volume_mode) == mode(&volume.spec.volume_mode)
}

fn same_attributes(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (one, other) = (&claim.spec.volume_attributes_class_name, &volume.spec.volume_attributes_class_name);
    one.as_deref().unwrap_or_default() == other.as_deref().unwrap_or_default()
}

/// Whether the volume may be used in every way that the claim asks for.
fn allows(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
}
