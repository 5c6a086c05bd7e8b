//! Volumes of drivers are on the nodes whose pods use them, and on no others.
//!
//! A VolumeAttachment asks the driver to bring a volume to a node, and its deletion to take it away. The key of a
//! volume decides where it is to be, over all nodes at once, so that one which can be on one node only is never asked
//! for on two. The key of a node takes away what no pod there uses, and says in the node's status what is there: a
//! volume is no longer reported before it goes, and only goes when the node has let go of it, unless the node does not
//! work and has had its time, or will not come back.
//!
//! Volumes that need not be attached (directories, those of drivers that say so) are not touched.

mod attach;
mod detach;

use std::collections::BTreeMap;

use setpoint_api::{Key, Time};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::views::csi_driver::CsiDriver;
use setpoint_reconcile::views::persistent_volume::{Csi, PersistentVolume};
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::volume_attachment::VolumeAttachment;
use setpoint_reconcile::{Jump, Note, Object, Plan, Planner, Seed, Seen, View, Watch, World};

use crate::indexes::{
    ATTACHMENTS_BY_NODE, ATTACHMENTS_BY_VOLUME, PODS_BY_CLAIM, VOLUMES_BY_HANDLE, path, pod_claims,
};
use crate::sha256;
use crate::volume_protection::{is_terminated, uses};

/// What stands before the name of a driver's volume in the status of a node.
const PLUGIN: &str = "kubernetes.io/csi/";

/// The controller.
pub struct AttachDetach;

/// What is remembered of a volume or a node.
#[derive(Clone, Default)]
pub struct Memory {
    /// Since when attachments are to go that the node holds on to, by name.
    unwanted: BTreeMap<Box<str>, Time>,
    /// What was said, so that it is not said again.
    said: Vec<Note>,
}

impl Planner for AttachDetach {
    type Memo = Memory;

    fn name(&self) -> &'static str {
        "attachdetach-controller"
    }

    fn clock_jumped(&self, memo: &mut Memory, jump: Jump, _: Time) {
        memo.unwanted.values_mut().for_each(|since| *since = jump.shift(*since));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::itself("nodes"),
            Watch::via(PersistentVolume::RESOURCE, of_volume),
            Watch::via(VolumeAttachment::RESOURCE, of_attachment),
            Watch::via(PersistentVolumeClaim::RESOURCE, of_claim),
            Watch::via(Pod::RESOURCE, of_pod),
            Watch::via(CsiDriver::RESOURCE, of_driver),
        ];
        &WATCHES
    }

    fn keys(&self, world: &World) -> Vec<Key> {
        let volumes = world.views::<PersistentVolume>().filter(|(_, volume)| volume.spec.csi.is_some());
        let nodes = world.all("nodes").chain(volumes.map(|(object, _)| object));
        let mut keys: Vec<Key> = nodes.map(|object| object.key().clone()).collect();
        let attachments = world.views::<VolumeAttachment>();
        keys.extend(attachments.filter_map(|(_, view)| key_of("nodes", "", &view.spec.node_name)));
        keys.sort();
        keys.dedup();
        keys
    }

    fn plan(&self, key: &Key, world: &World, seen: &Seen<'_, Memory>, now: Time, _: Seed) -> Plan<Memory> {
        if key.resource().as_str() == "nodes" {
            return detach::plan(key, world, &seen.memo, now);
        }
        let object = world.get(key).filter(|object| is_first(object, world));
        let csi = object.and_then(|object| object.view::<PersistentVolume>()?.spec.csi.as_ref());
        csi.map(|csi| attach::plan(csi, world, &seen.memo, now)).unwrap_or_default()
    }
}

/// What a driver's volume is called everywhere: several objects may mean the same volume.
#[must_use]
pub fn handle(csi: &Csi) -> String {
    format!("{}^{}", csi.driver, csi.volume_handle)
}

/// The name of what attaches a volume to a node.
fn attachment_name(csi: &Csi, node: &str) -> String {
    let text = format!("{}{}{node}", csi.volume_handle, csi.driver);
    let hash = sha256::digest(text.as_bytes());
    hash.iter().fold("csi-".to_owned(), |name, word| format!("{name}{word:08x}"))
}

/// Whether an object speaks for its volume: the first of those that mean the same.
fn is_first(object: &Object, world: &World) -> bool {
    let csi = object.view::<PersistentVolume>().and_then(|volume| volume.spec.csi.as_ref());
    let first = csi.and_then(|csi| world.indexed(VOLUMES_BY_HANDLE, &handle(csi)).next());
    first.is_some_and(|first| first.key() == object.key())
}

/// Whether volumes of a driver must be attached; they must if nobody says otherwise.
fn is_attachable(driver: &str, world: &World) -> bool {
    world.view::<CsiDriver>("", driver).is_none_or(|(_, driver)| driver.spec.attach_required != Some(false))
}

/// A pod that uses a volume.
struct User<'a> {
    /// The pod.
    pod: &'a Object,
    /// The node that it is on.
    node: &'a str,
    /// The object that means the volume to it.
    volume: &'a Object,
    /// Whether the volume can be on several nodes.
    shares: bool,
}

/// The pods that use a volume and have a node, the oldest first.
fn users<'a>(csi: &Csi, world: &'a World) -> Vec<User<'a>> {
    let mut users = Vec::new();
    if !is_attachable(&csi.driver, world) {
        return users;
    }
    for volume in world.indexed(VOLUMES_BY_HANDLE, &handle(csi)) {
        let Some(view) = volume.view::<PersistentVolume>() else { continue };
        let Some(of) = &view.spec.claim_ref else { continue };
        let claim = world.view::<PersistentVolumeClaim>(&of.namespace, &of.name);
        let bound = claim.filter(|(claim, view)| {
            *claim.meta().uid == *of.uid
                && view.spec.volume_name == *volume.meta().name
                && view.status.phase == "Bound"
        });
        let Some((claim, _)) = bound else { continue };
        for pod in world.indexed(PODS_BY_CLAIM, &path(&of.namespace, &of.name)) {
            let Some(seen) = pod.view::<Pod>().filter(|seen| !seen.spec.node_name.is_empty()) else {
                continue;
            };
            if !is_terminated(pod, seen) && uses(pod, seen, claim) {
                users.push(User { pod, node: &seen.spec.node_name, volume, shares: shares(view) });
            }
        }
    }
    users.sort_by_key(|user| (user.pod.meta().created(), user.pod.key()));
    users
}

/// Whether a volume can be on several nodes, as far as is known.
fn shares(volume: &PersistentVolume) -> bool {
    let modes = &volume.spec.access_modes;
    modes.is_empty() || modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
}

/// Wakes who speaks for a volume, and the nodes that it is on.
fn of_volume(volume: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    let Some(csi) = volume.view::<PersistentVolume>().and_then(|volume| volume.spec.csi.as_ref()) else {
        return;
    };
    for twin in world.indexed(VOLUMES_BY_HANDLE, &handle(csi)) {
        wake(twin.key().clone());
    }
    for attachment in world.indexed(ATTACHMENTS_BY_VOLUME, &volume.meta().name) {
        wake_node(attachment, wake);
    }
}

fn of_attachment(attachment: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    wake_node(attachment, wake);
    let name = attachment
        .view::<VolumeAttachment>()
        .and_then(|view| view.spec.source.persistent_volume_name.as_deref());
    if let Some(volume) = name.and_then(|name| world.find(PersistentVolume::RESOURCE, "", name)) {
        of_volume(volume, world, wake);
    }
}

fn wake_node(attachment: &Object, wake: &mut dyn FnMut(Key)) {
    let view = attachment.view::<VolumeAttachment>();
    view.and_then(|view| key_of("nodes", "", &view.spec.node_name)).into_iter().for_each(wake);
}

fn of_claim(claim: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    let name = claim.view::<PersistentVolumeClaim>().map(|claim| claim.spec.volume_name.as_str());
    if let Some(volume) = name.and_then(|name| world.find(PersistentVolume::RESOURCE, "", name)) {
        of_volume(volume, world, wake);
    }
}

fn of_pod(pod: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    pod_claims(pod, &mut |name| {
        if let Some(claim) = world.find(PersistentVolumeClaim::RESOURCE, &pod.meta().namespace, name) {
            of_claim(claim, world, wake);
        }
    });
}

fn of_driver(driver: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    for (volume, view) in world.views::<PersistentVolume>() {
        if view.spec.csi.as_ref().is_some_and(|csi| csi.driver == *driver.meta().name) {
            of_volume(volume, world, wake);
        }
    }
}

/// What attaches something to a node.
fn attachments_on<'a>(
    node: &str,
    world: &'a World,
) -> impl Iterator<Item = (&'a Object, &'a VolumeAttachment)> {
    world.indexed(ATTACHMENTS_BY_NODE, node).filter_map(|object| Some((object, object.view()?)))
}

#[cfg(test)]
mod tests;
