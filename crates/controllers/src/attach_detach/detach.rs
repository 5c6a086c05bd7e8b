//! Node side of the attach/detach controller: `status.volumesAttached` and detachment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::{Act, Object, Plan, View, WorldReader, Write};
use setpoint_views::node::{AttachedVolume, Node, NodeStatus};
use setpoint_views::persistent_volume::{CsiPersistentVolumeSource, PersistentVolume};
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::volume_attachment::VolumeAttachment;

use super::attach::message;
use super::{Memory, PLUGIN, User, attachment_name, attachments_on, handle, users};
use crate::horizon;
use crate::pod_gc::OUT_OF_SERVICE;

/// Time that an unhealthy node has to unmount a volume before it is detached by force.
const UNMOUNT_WITHIN: Duration = Duration::from_secs(6 * 60);

/// Volume that is attached to the node, or being attached.
struct Attached<'a> {
    object: &'a Object,
    view: &'a VolumeAttachment,
    /// Name in the status of the node; `None` if it cannot be determined any more.
    name: Option<String>,
    /// Pods on the node that use the volume.
    users: Vec<User<'a>>,
}

impl Attached<'_> {
    fn is_there(&self) -> bool {
        self.view.status.attached && !self.object.meta().is_deleted()
    }
}

/// Detaches unused volumes, and updates the list of attached volumes.
pub(super) fn plan(key: &Key, world: &WorldReader<'_>, memory: &Memory, now: Time) -> Plan<Memory> {
    let mut plan = Plan::<Memory>::default();
    let node = world.get(key).and_then(|object| Some((object, object.view::<Node>()?)));
    let status = node.map(|(_, node)| &node.status);
    let mut known = Known { key, status, by_attachment: None };
    let all: Vec<Attached<'_>> =
        attachments_on(key.name(), world).filter_map(|found| read(found, &mut known, world)).collect();
    let there: BTreeSet<&str> =
        all.iter().filter(|one| one.is_there()).filter_map(|one| one.name.as_deref()).collect();
    let mut reported: Vec<AttachedVolume> =
        status.map(|status| status.volumes_attached.clone()).unwrap_or_default();
    reported.retain(|volume| !volume.name.starts_with(PLUGIN) || there.contains(&*volume.name));
    let listed: BTreeSet<String> = reported.iter().map(|volume| volume.name.clone()).collect();
    let in_use: BTreeSet<&str> =
        status.into_iter().flat_map(|status| &status.volumes_in_use).map(String::as_str).collect();
    let (mut leaving, mut left): (Vec<Act>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for one in all.iter().filter(|one| !one.object.meta().is_deleted()) {
        if !one.users.is_empty() {
            report(&mut reported, &listed, one, node.is_some(), &mut plan);
        } else if is_known(one, world, now) {
            let holds = one.name.as_deref().is_some_and(|name| in_use.contains(name));
            if may_leave(one, holds, node.map(|(_, node)| node), memory, now, &mut plan) {
                left.extend(one.name.as_deref());
                leaving.push(Write::delete(one.object).into());
            }
        } else {
            plan.look_again_at(now.after(horizon::SOON));
        }
    }
    reported.retain(|volume| !left.contains(&*volume.name));
    if let Some((object, view)) = node
        && view.status.volumes_attached != reported
    {
        let list = (!reported.is_empty()).then(|| value_of(&reported));
        plan.stage([Act::from(Write::status(object, value!({"volumesAttached": (list)})))]);
    }
    plan.stage(leaving);
    plan
}

/// Volumes in the status of a node.
struct Known<'a> {
    key: &'a Key,
    status: Option<&'a NodeStatus>,
    /// Volume names by attachment name; built when the first volume without a PersistentVolume is met.
    by_attachment: Option<BTreeMap<String, &'a str>>,
}

impl<'a> Known<'a> {
    /// Name of an attachment's volume in the status of the node.
    fn name(&mut self, attachment: &str) -> Option<String> {
        let Known { key, status, by_attachment } = self;
        let by_attachment = by_attachment.get_or_insert_with(|| {
            let attached = status.iter().flat_map(|status| &status.volumes_attached).map(|one| &one.name);
            let names = attached.chain(status.iter().flat_map(|status| &status.volumes_in_use));
            names.filter_map(|name| Some((attachment_name(&named(name)?, key.name()), &**name))).collect()
        });
        by_attachment.get(attachment).map(|name| (*name).to_owned())
    }
}

/// Resolves an attachment; `None` if another attacher owns it.
fn read<'a>(
    (object, view): (&'a Object, &'a VolumeAttachment),
    known: &mut Known<'_>,
    world: &'a WorldReader<'a>,
) -> Option<Attached<'a>> {
    let is_its =
        |csi: &CsiPersistentVolumeSource| attachment_name(csi, &view.spec.node_name) == *object.meta().name;
    let volume = view.spec.source.persistent_volume_name.as_deref()?;
    let found = world.view::<PersistentVolume>("", volume);
    match found.and_then(|(_, volume)| volume.spec.csi.as_ref()) {
        Some(csi) if is_its(csi) => {
            let mut users = users(csi, world);
            users.retain(|user| user.node == view.spec.node_name);
            Some(Attached { object, view, name: Some(format!("{PLUGIN}{}", handle(csi))), users })
        }
        Some(_) => None,
        None if found.is_some() || !object.meta().name.starts_with("csi-") => None,
        // The PersistentVolume is gone; the status of the node may still identify the volume.
        None => Some(Attached { object, view, name: known.name(&object.meta().name), users: Vec::new() }),
    }
}

/// CSI volume of a name in the status of a node.
fn named(name: &str) -> Option<CsiPersistentVolumeSource> {
    let (driver, volume) = name.strip_prefix(PLUGIN)?.split_once('^')?;
    Some(CsiPersistentVolumeSource { driver: driver.to_owned(), volume_handle: volume.to_owned() })
}

/// Adds a volume to the list of attached volumes, if it is missing.
fn report(
    reported: &mut Vec<AttachedVolume>,
    listed: &BTreeSet<String>,
    one: &Attached<'_>,
    has_node: bool,
    plan: &mut Plan<Memory>,
) {
    let Some(name) = one.name.as_ref().filter(|_| has_node && one.is_there()) else { return };
    // A volume has one attachment per node, so none is listed twice.
    if listed.contains(name) {
        return;
    }
    reported.push(AttachedVolume { name: name.clone(), device_path: String::new() });
    plan.notes.extend(one.users.iter().map(|user| {
        let message = message("AttachVolume.Attach succeeded", user, "");
        Subject::of(user.pod, "v1", "Pod").normal("SuccessfulAttachVolume", message)
    }));
}

/// `true` if the world is recent enough to show all possible users of an attachment.
fn is_known(one: &Attached<'_>, world: &WorldReader<'_>, now: Time) -> bool {
    ["pods", PersistentVolumeClaim::RESOURCE, PersistentVolume::RESOURCE]
        .iter()
        .all(|resource| horizon::reaches(world, resource, one.object, now))
}

/// `true` if an unused volume may be detached: the node has unmounted it, or the wait for the node is over.
/// `holds` is `true` if the volume is in `status.volumesInUse`.
fn may_leave(
    one: &Attached<'_>,
    holds: bool,
    node: Option<&Node>,
    memory: &Memory,
    now: Time,
    plan: &mut Plan<Memory>,
) -> bool {
    let is_out = |node: &Node| node.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE);
    // A deleted node can no longer report volumes in use.
    if node.is_some_and(|node| !holds || is_out(node)) {
        return true;
    }
    let name = &one.object.meta().name;
    let since = memory.unwanted.get(name).copied().unwrap_or(now);
    let end = since.after(UNMOUNT_WITHIN);
    let works = node.is_some_and(Node::is_ready);
    if !works && end <= now {
        return true;
    }
    plan.memo.unwanted.insert(name.clone(), since);
    if !works {
        plan.look_again_at(end);
    }
    false
}
