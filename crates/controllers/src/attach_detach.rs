//! Attach/detach controller: CSI volumes are attached to the nodes whose pods use them, and to no others.
//!
//! A VolumeAttachment requests the attachment of a volume to a node, its deletion the detachment. The key of
//! a volume decides about attachments on all nodes at once, so a single-node volume is never requested on two
//! nodes. The key of a node detaches the volumes that no pod on it uses, and maintains
//! `status.volumesAttached`. A volume leaves that list before it is detached, and is detached only once it is
//! no longer in `status.volumesInUse`, unless the node has been unhealthy for too long or is out of service.
//!
//! Volumes that need no attachment (host paths, drivers with `attachRequired: false`) are ignored.

mod attach;
mod detach;

use std::collections::BTreeMap;

use setpoint_api::{Key, Time};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{EventRecord, Jump, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader};
use setpoint_views::csi_driver::CsiDriver;
use setpoint_views::persistent_volume::{CsiPersistentVolumeSource, PersistentVolume};
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::pod::Pod;
use setpoint_views::volume_attachment::VolumeAttachment;
use sha2::{Digest, Sha256};

use crate::indexes::{
    ATTACHMENTS_BY_NODE, ATTACHMENTS_BY_VOLUME, PODS_BY_CLAIM, VOLUMES_BY_HANDLE, for_each_pod_claim, path,
};
use crate::volume_protection::{is_terminated, uses_claim};

/// Prefix of CSI volumes in the status of a node.
const CSI_NAME_PREFIX: &str = "kubernetes.io/csi/";

/// The attach/detach controller.
pub struct AttachDetach;

/// Memo of a volume or a node.
#[derive(Clone, Default)]
pub struct AttachDetachMemo {
    /// Start of the wait for a node to unmount, by name of the attachment.
    detach_requested: BTreeMap<Box<str>, Time>,
    /// Events emitted by the last plan, so they are not repeated.
    emitted: Vec<EventRecord>,
}

impl Planner for AttachDetach {
    type Memo = AttachDetachMemo;

    fn name(&self) -> &'static str {
        "attachdetach-controller"
    }

    fn clock_jumped(&self, memo: &mut AttachDetachMemo, jump: Jump, _: Time) {
        memo.detach_requested.values_mut().for_each(|since| *since = jump.shift(*since));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::primary("nodes"),
            Watch::mapped(PersistentVolume::RESOURCE, enqueue_for_volume),
            Watch::mapped(VolumeAttachment::RESOURCE, enqueue_for_attachment),
            Watch::mapped(PersistentVolumeClaim::RESOURCE, enqueue_for_claim),
            Watch::mapped(Pod::RESOURCE, enqueue_for_pod),
            Watch::mapped(CsiDriver::RESOURCE, enqueue_for_driver),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let volumes = world.views::<PersistentVolume>().filter(|(_, volume)| volume.spec.csi.is_some());
        let nodes = world.all("nodes").chain(volumes.map(|(object, _)| object));
        let mut keys: Vec<Key> = nodes.map(|object| object.key().clone()).collect();
        let attachments = world.views::<VolumeAttachment>();
        keys.extend(attachments.filter_map(|(_, view)| key_of("nodes", "", &view.spec.node_name)));
        keys.sort();
        keys.dedup();
        keys
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, AttachDetachMemo>,
        now: Time,
        _: Seed,
    ) -> Plan<AttachDetachMemo> {
        if key.resource().as_str() == "nodes" {
            return detach::plan(key, world, &seen.memo, now);
        }
        let object = world.get(key).filter(|object| is_first(object, world));
        let csi = object.and_then(|object| object.view::<PersistentVolume>()?.spec.csi.as_ref());
        csi.map(|csi| attach::plan(csi, world, &seen.memo, now)).unwrap_or_default()
    }
}

/// Identity of a CSI volume. Several PersistentVolumes may refer to the same volume.
#[must_use]
pub fn handle(csi: &CsiPersistentVolumeSource) -> String {
    format!("{}^{}", csi.driver, csi.volume_handle)
}

/// Name of the VolumeAttachment of a volume and a node.
fn attachment_name(csi: &CsiPersistentVolumeSource, node: &str) -> String {
    let hash = Sha256::digest(format!("{}{}{node}", csi.volume_handle, csi.driver));
    hash.iter().fold("csi-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// `true` if the object is the first of those that refer to the same volume: its key plans the volume.
fn is_first(object: &Object, world: &WorldReader<'_>) -> bool {
    let csi = object.view::<PersistentVolume>().and_then(|volume| volume.spec.csi.as_ref());
    let first = csi.and_then(|csi| world.by_index(VOLUMES_BY_HANDLE, &handle(csi)).next());
    first.is_some_and(|first| first.key() == object.key())
}

/// `true` if volumes of a driver must be attached. This is the default without a CSIDriver object.
fn is_attachable(driver: &str, world: &WorldReader<'_>) -> bool {
    world.view::<CsiDriver>("", driver).is_none_or(|(_, driver)| driver.spec.attach_required != Some(false))
}

/// Pod that uses a volume.
struct VolumeUser<'a> {
    pod: &'a Object,
    /// Node of the pod.
    node: &'a str,
    /// PersistentVolume through which the pod uses the volume.
    volume: &'a Object,
    /// `true` if the volume can be attached to several nodes.
    is_multi_attach: bool,
}

/// Pods with a node that use a volume, oldest first.
fn users<'a>(csi: &CsiPersistentVolumeSource, world: &'a WorldReader<'a>) -> Vec<VolumeUser<'a>> {
    let mut users = Vec::new();
    if !is_attachable(&csi.driver, world) {
        return users;
    }
    for volume in world.by_index(VOLUMES_BY_HANDLE, &handle(csi)) {
        let Some(view) = volume.view::<PersistentVolume>() else { continue };
        let Some(of) = &view.spec.claim_ref else { continue };
        let claim = world.view::<PersistentVolumeClaim>(&of.namespace, &of.name);
        let bound = claim.filter(|(claim, view)| {
            *claim.meta().uid == *of.uid
                && view.spec.volume_name == *volume.meta().name
                && view.status.phase == "Bound"
        });
        let Some((claim, _)) = bound else { continue };
        for pod in world.by_index(PODS_BY_CLAIM, &path(&of.namespace, &of.name)) {
            let Some(seen) = pod.view::<Pod>().filter(|seen| !seen.spec.node_name.is_empty()) else {
                continue;
            };
            if !is_terminated(pod, seen) && uses_claim(pod, seen, claim) {
                users.push(VolumeUser {
                    pod,
                    node: &seen.spec.node_name,
                    volume,
                    is_multi_attach: is_multi_attach_allowed(view),
                });
            }
        }
    }
    users.sort_by_key(|user| (user.pod.meta().created(), user.pod.key()));
    users
}

/// `true` if the access modes allow a volume on several nodes.
fn is_multi_attach_allowed(volume: &PersistentVolume) -> bool {
    let modes = &volume.spec.access_modes;
    modes.is_empty() || modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
}

/// Enqueues the key that plans a volume, and the nodes that the volume is attached to.
fn enqueue_for_volume(volume: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(csi) = volume.view::<PersistentVolume>().and_then(|volume| volume.spec.csi.as_ref()) else {
        return;
    };
    for sibling in world.by_index(VOLUMES_BY_HANDLE, &handle(csi)) {
        enqueue(sibling.key().clone());
    }
    for attachment in world.by_index(ATTACHMENTS_BY_VOLUME, &volume.meta().name) {
        enqueue_node(attachment, enqueue);
    }
}

fn enqueue_for_attachment(attachment: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    enqueue_node(attachment, enqueue);
    let name = attachment
        .view::<VolumeAttachment>()
        .and_then(|view| view.spec.source.persistent_volume_name.as_deref());
    if let Some(volume) = name.and_then(|name| world.find(PersistentVolume::RESOURCE, "", name)) {
        enqueue_for_volume(volume, world, enqueue);
    }
}

fn enqueue_node(attachment: &Object, enqueue: &mut dyn FnMut(Key)) {
    let view = attachment.view::<VolumeAttachment>();
    view.and_then(|view| key_of("nodes", "", &view.spec.node_name)).into_iter().for_each(enqueue);
}

fn enqueue_for_claim(claim: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let name = claim.view::<PersistentVolumeClaim>().map(|claim| claim.spec.volume_name.as_str());
    if let Some(volume) = name.and_then(|name| world.find(PersistentVolume::RESOURCE, "", name)) {
        enqueue_for_volume(volume, world, enqueue);
    }
}

fn enqueue_for_pod(pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for_each_pod_claim(pod, &mut |name| {
        if let Some(claim) = world.find(PersistentVolumeClaim::RESOURCE, &pod.meta().namespace, name) {
            enqueue_for_claim(claim, world, enqueue);
        }
    });
}

fn enqueue_for_driver(driver: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for (volume, view) in world.views::<PersistentVolume>() {
        if view.spec.csi.as_ref().is_some_and(|csi| csi.driver == *driver.meta().name) {
            enqueue_for_volume(volume, world, enqueue);
        }
    }
}

/// VolumeAttachments of a node.
fn attachments_on<'a>(
    node: &str,
    world: &'a WorldReader<'a>,
) -> impl Iterator<Item = (&'a Object, &'a VolumeAttachment)> {
    world.by_index(ATTACHMENTS_BY_NODE, node).filter_map(|object| Some((object, object.view()?)))
}

#[cfg(test)]
mod tests;
