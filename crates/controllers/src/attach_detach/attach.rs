//! Volume side of the attach/detach controller: creation of VolumeAttachments.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Time, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Action, EventRecord, Object, Plan, View, WorldReader, Write};
use setpoint_views::persistent_volume::CsiPersistentVolumeSource;
use setpoint_views::volume_attachment::VolumeAttachment;

use super::{AttachDetachMemo, VolumeUser, attachment_name, handle, users};
use crate::indexes::{ATTACHMENTS_BY_VOLUME, VOLUMES_BY_HANDLE};
use crate::{event_dedup, staleness};

/// Maximum number of pods in an Event about a volume in use: every waiting pod gets such an Event.
const EVENT_PODS_MAX: usize = 20;

/// Plans the attachments of a volume to the nodes whose pods use it.
pub(super) fn plan(
    csi: &CsiPersistentVolumeSource,
    world: &WorldReader<'_>,
    memo: &AttachDetachMemo,
    now: Time,
) -> Plan<AttachDetachMemo> {
    let mut plan = Plan::<AttachDetachMemo>::default();
    let users = users(csi, world);
    // By node, the node of the oldest pod first.
    let (mut nodes, mut by_node) = (Vec::new(), BTreeMap::<&str, Vec<&VolumeUser<'_>>>::new());
    for user in &users {
        let node_users = by_node.entry(user.node).or_default();
        if node_users.is_empty() {
            nodes.push(user.node);
        }
        node_users.push(user);
    }
    let mut attached = AttachedNodes::default();
    attached_nodes(csi, world).for_each(|node| attached.add(node, &by_node));
    let mut actions: Vec<Action> = Vec::new();
    let mut events = Vec::new();
    for node in nodes {
        let node_users = &by_node[node];
        let user = node_users[0];
        let name = attachment_name(csi, node);
        if let Some((object, attachment)) = world.view::<VolumeAttachment>("", &name) {
            events
                .extend(node_users.iter().filter_map(|user| attach_failure_event(user, object, attachment)));
        } else if !user.is_multi_attach && !attached.nodes.is_empty() {
            events.extend(node_users.iter().map(|user| multi_attach_event(user, &attached)));
        } else if world.find("nodes", "", node).is_none() {
            // A node may become visible after the pods on it.
            plan.requeue_at(now.after(staleness::RETRY_DELAY * 100));
        } else {
            actions.push(create_attachment(&name, csi, user));
            attached.add(node, &by_node);
        }
    }
    plan.stage(actions);
    plan.events = event_dedup::new_events(&events, &memo.emitted);
    plan.memo.emitted = events;
    plan
}

/// Nodes that a volume is attached to, or being attached to or detached from.
fn attached_nodes<'a>(
    csi: &CsiPersistentVolumeSource,
    world: &'a WorldReader<'a>,
) -> impl Iterator<Item = &'a str> {
    let siblings = world.by_index(VOLUMES_BY_HANDLE, &handle(csi));
    let attachments =
        siblings.flat_map(|sibling| world.by_index(ATTACHMENTS_BY_VOLUME, &sibling.meta().name));
    attachments.filter_map(|object| Some(object.view::<VolumeAttachment>()?.spec.node_name.as_str()))
}

/// Nodes that a volume is attached to or being attached to, and the pods on them.
#[derive(Default)]
struct AttachedNodes<'a> {
    nodes: BTreeSet<&'a str>,
    pods: usize,
    /// Number of pods by namespace, and the names of the first [`EVENT_PODS_MAX`].
    by_namespace: BTreeMap<&'a str, (usize, Vec<&'a str>)>,
}

impl<'a> AttachedNodes<'a> {
    fn add(&mut self, node: &'a str, by_node: &BTreeMap<&str, Vec<&VolumeUser<'a>>>) {
        if !self.nodes.insert(node) {
            return;
        }
        for user in by_node.get(node).into_iter().flatten() {
            let meta = user.pod.meta();
            let (count, names) = self.by_namespace.entry(&meta.namespace).or_default();
            (*count, self.pods) = (*count + 1, self.pods + 1);
            if names.len() < EVENT_PODS_MAX {
                names.push(&meta.name);
            }
        }
    }
}

fn create_attachment(name: &str, csi: &CsiPersistentVolumeSource, user: &VolumeUser<'_>) -> Action {
    let attachment = value!({
        "metadata": {"name": (name)},
        "spec": {
            "attacher": (csi.driver.as_str()),
            "nodeName": (user.node),
            "source": {"persistentVolumeName": (&*user.volume.meta().name)},
        },
    });
    let failed = message("AttachVolume.Attach failed", user, ": {error}");
    let action = Action::from(Write::create(VolumeAttachment::RESOURCE, "", attachment));
    action.on_failed(InvolvedObject::new(user.pod, "v1", "Pod").warning("FailedAttachVolume", failed))
}

/// Event for a pod whose volume could not be attached.
fn attach_failure_event(
    user: &VolumeUser<'_>,
    object: &Object,
    attachment: &VolumeAttachment,
) -> Option<EventRecord> {
    let error = attachment.status.attach_error.as_ref().filter(|_| !attachment.status.attached)?;
    let detail =
        if object.meta().is_deleted() { "volume attachment is being deleted" } else { &error.message };
    let message = message("AttachVolume.Attach failed", user, &format!(": {detail}"));
    Some(InvolvedObject::new(user.pod, "v1", "Pod").warning("FailedAttachVolume", message))
}

/// Event for a pod whose single-node volume is on another node. Users who can see pods of one namespace need
/// not be allowed to see those of others, so only pods of the same namespace are named.
fn multi_attach_event(user: &VolumeUser<'_>, attached: &AttachedNodes<'_>) -> EventRecord {
    let (same_namespace, names) =
        attached.by_namespace.get(&*user.pod.meta().namespace).cloned().unwrap_or_default();
    let mut shown = names.join(", ");
    if same_namespace > names.len() {
        shown.push_str(&format!(", ... ({same_namespace} in all)"));
    }
    let detail = match (same_namespace, attached.pods - same_namespace) {
        (0, 0) => "Volume is already exclusively attached to one node, waiting on detach before it can be attached to \
                   another node"
            .to_owned(),
        (0, other_namespaces) => format!("Volume is already used by {other_namespaces} pod(s) in different namespaces"),
        (_, 0) => format!("Volume is already used by pod(s) {shown}"),
        (_, other_namespaces) => {
            format!("Volume is already used by pod(s) {shown} and {other_namespaces} pod(s) in different namespaces")
        }
    };
    let message = message("Waiting for detach", user, &detail);
    InvolvedObject::new(user.pod, "v1", "Pod").warning("FailedAttachVolume", message)
}

/// Message of an attach or detach Event, as upstream formats it.
pub(super) fn message(operation: &str, user: &VolumeUser<'_>, detail: &str) -> String {
    format!("{operation} for volume \"{}\" {detail}", user.volume.meta().name)
}
