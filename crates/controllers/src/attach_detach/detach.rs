//! Node side of the attach/detach controller: `status.volumesAttached` and detachment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::{Action, Object, Plan, View, WorldReader, Write};
use setpoint_views::node::{AttachedVolume, Node, NodeStatus};
use setpoint_views::persistent_volume::{CsiPersistentVolumeSource, PersistentVolume};
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::volume_attachment::VolumeAttachment;

use super::attach::message;
use super::{AttachDetachMemo, CSI_NAME_PREFIX, VolumeUser, attachment_name, attachments_on, handle, users};
use crate::pod_gc::OUT_OF_SERVICE;
use crate::staleness;

/// Time that an unhealthy node has to unmount a volume before it is detached by force.
const UNMOUNT_WAIT_MAX: Duration = Duration::from_secs(6 * 60);

/// Volume that is attached to the node, or being attached.
struct NodeAttachment<'a> {
    object: &'a Object,
    view: &'a VolumeAttachment,
    /// Name in the status of the node; `None` if it cannot be determined any more.
    name: Option<String>,
    /// Pods on the node that use the volume.
    users: Vec<VolumeUser<'a>>,
}

impl NodeAttachment<'_> {
    fn is_attached(&self) -> bool {
        self.view.status.attached && !self.object.meta().is_deleted()
    }
}

/// Detaches unused volumes, and updates the list of attached volumes.
pub(super) fn plan(
    key: &Key,
    world: &WorldReader<'_>,
    memo: &AttachDetachMemo,
    now: Time,
) -> Plan<AttachDetachMemo> {
    let mut plan = Plan::<AttachDetachMemo>::default();
    let node = world.get(key).and_then(|object| Some((object, object.view::<Node>()?)));
    let status = node.map(|(_, node)| &node.status);
    let mut reported_volumes = ReportedVolumes { key, status, by_attachment: None };
    let all: Vec<NodeAttachment<'_>> = attachments_on(key.name(), world)
        .filter_map(|found| resolve_attachment(found, &mut reported_volumes, world))
        .collect();
    let attached_names: BTreeSet<&str> = all
        .iter()
        .filter(|attachment| attachment.is_attached())
        .filter_map(|attachment| attachment.name.as_deref())
        .collect();
    let mut reported: Vec<AttachedVolume> =
        status.map(|status| status.volumes_attached.clone()).unwrap_or_default();
    reported
        .retain(|volume| !volume.name.starts_with(CSI_NAME_PREFIX) || attached_names.contains(&*volume.name));
    let listed: BTreeSet<String> = reported.iter().map(|volume| volume.name.clone()).collect();
    let in_use: BTreeSet<&str> =
        status.into_iter().flat_map(|status| &status.volumes_in_use).map(String::as_str).collect();
    let (mut detachments, mut detached): (Vec<Action>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for attachment in all.iter().filter(|attachment| !attachment.object.meta().is_deleted()) {
        if !attachment.users.is_empty() {
            report_attached(&mut reported, &listed, attachment, node.is_some(), &mut plan);
        } else if has_observed_users(attachment, world, now) {
            let is_in_use = attachment.name.as_deref().is_some_and(|name| in_use.contains(name));
            if can_detach(attachment, is_in_use, node.map(|(_, node)| node), memo, now, &mut plan) {
                detached.extend(attachment.name.as_deref());
                detachments.push(Write::delete(attachment.object).into());
            }
        } else {
            plan.requeue_at(now.after(staleness::RETRY_DELAY));
        }
    }
    reported.retain(|volume| !detached.contains(&*volume.name));
    if let Some((object, view)) = node
        && view.status.volumes_attached != reported
    {
        let list = (!reported.is_empty()).then(|| value_of(&reported));
        plan.stage([Action::from(Write::status(object, value!({"volumesAttached": (list)})))]);
    }
    plan.stage(detachments);
    plan
}

/// Volumes in the status of a node.
struct ReportedVolumes<'a> {
    key: &'a Key,
    status: Option<&'a NodeStatus>,
    /// Volume names by attachment name; built when the first volume without a PersistentVolume is met.
    by_attachment: Option<BTreeMap<String, &'a str>>,
}

impl<'a> ReportedVolumes<'a> {
    /// Name of an attachment's volume in the status of the node.
    fn name(&mut self, attachment: &str) -> Option<String> {
        let ReportedVolumes { key, status, by_attachment } = self;
        let by_attachment = by_attachment.get_or_insert_with(|| {
            let attached =
                status.iter().flat_map(|status| &status.volumes_attached).map(|volume| &volume.name);
            let names = attached.chain(status.iter().flat_map(|status| &status.volumes_in_use));
            names
                .filter_map(|name| Some((attachment_name(&parse_volume_name(name)?, key.name()), &**name)))
                .collect()
        });
        by_attachment.get(attachment).map(|name| (*name).to_owned())
    }
}

/// Resolves an attachment; `None` if another attacher owns it.
fn resolve_attachment<'a>(
    (object, view): (&'a Object, &'a VolumeAttachment),
    reported_volumes: &mut ReportedVolumes<'_>,
    world: &'a WorldReader<'a>,
) -> Option<NodeAttachment<'a>> {
    let is_same_volume =
        |csi: &CsiPersistentVolumeSource| attachment_name(csi, &view.spec.node_name) == *object.meta().name;
    let volume = view.spec.source.persistent_volume_name.as_deref()?;
    let found = world.view::<PersistentVolume>("", volume);
    match found.and_then(|(_, volume)| volume.spec.csi.as_ref()) {
        Some(csi) if is_same_volume(csi) => {
            let mut users = users(csi, world);
            users.retain(|user| user.node == view.spec.node_name);
            Some(NodeAttachment {
                object,
                view,
                name: Some(format!("{CSI_NAME_PREFIX}{}", handle(csi))),
                users,
            })
        }
        Some(_) => None,
        None if found.is_some() || !object.meta().name.starts_with("csi-") => None,
        // The PersistentVolume is gone; the status of the node may still identify the volume.
        None => Some(NodeAttachment {
            object,
            view,
            name: reported_volumes.name(&object.meta().name),
            users: Vec::new(),
        }),
    }
}

/// CSI volume of a name in the status of a node.
fn parse_volume_name(name: &str) -> Option<CsiPersistentVolumeSource> {
    let (driver, volume) = name.strip_prefix(CSI_NAME_PREFIX)?.split_once('^')?;
    Some(CsiPersistentVolumeSource { driver: driver.to_owned(), volume_handle: volume.to_owned() })
}

/// Adds a volume to the list of attached volumes, if it is missing.
fn report_attached(
    reported: &mut Vec<AttachedVolume>,
    listed: &BTreeSet<String>,
    attachment: &NodeAttachment<'_>,
    has_node: bool,
    plan: &mut Plan<AttachDetachMemo>,
) {
    let Some(name) = attachment.name.as_ref().filter(|_| has_node && attachment.is_attached()) else {
        return;
    };
    // A volume has one attachment per node, so none is listed twice.
    if listed.contains(name) {
        return;
    }
    reported.push(AttachedVolume { name: name.clone(), device_path: String::new() });
    plan.events.extend(attachment.users.iter().map(|user| {
        let message = message("AttachVolume.Attach succeeded", user, "");
        InvolvedObject::new(user.pod, "v1", "Pod").normal("SuccessfulAttachVolume", message)
    }));
}

/// `true` if the world is recent enough to show all possible users of an attachment.
fn has_observed_users(attachment: &NodeAttachment<'_>, world: &WorldReader<'_>, now: Time) -> bool {
    ["pods", PersistentVolumeClaim::RESOURCE, PersistentVolume::RESOURCE]
        .iter()
        .all(|resource| staleness::has_observed(world, resource, attachment.object, now))
}

/// `true` if an unused volume may be detached: the node has unmounted it, or the wait for the node is over.
/// `is_in_use` is `true` if the volume is in `status.volumesInUse`.
fn can_detach(
    attachment: &NodeAttachment<'_>,
    is_in_use: bool,
    node: Option<&Node>,
    memo: &AttachDetachMemo,
    now: Time,
    plan: &mut Plan<AttachDetachMemo>,
) -> bool {
    let is_out_of_service = |node: &Node| node.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE);
    // A deleted node can no longer report volumes in use.
    if node.is_some_and(|node| !is_in_use || is_out_of_service(node)) {
        return true;
    }
    let name = &attachment.object.meta().name;
    let since = memo.detach_requested.get(name).copied().unwrap_or(now);
    let end = since.after(UNMOUNT_WAIT_MAX);
    let is_healthy = node.is_some_and(Node::is_ready);
    if !is_healthy && end <= now {
        return true;
    }
    plan.memo.detach_requested.insert(name.clone(), since);
    if !is_healthy {
        plan.requeue_at(end);
    }
    false
}
