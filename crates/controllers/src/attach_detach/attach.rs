//! Volume side of the attach/detach controller: creation of VolumeAttachments.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Time, value};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::{Act, Note, Object, Plan, View, WorldReader, Write};
use setpoint_views::persistent_volume::CsiPersistentVolumeSource;
use setpoint_views::volume_attachment::VolumeAttachment;

use super::{Memory, User, attachment_name, handle, users};
use crate::indexes::{ATTACHMENTS_BY_VOLUME, VOLUMES_BY_HANDLE};
use crate::{horizon, said};

/// Maximum number of pods in an Event about a volume in use: every waiting pod gets such an Event.
const PODS_NAMED_MAX: usize = 20;

/// Plans the attachments of a volume to the nodes whose pods use it.
pub(super) fn plan(
    csi: &CsiPersistentVolumeSource,
    world: &WorldReader<'_>,
    memory: &Memory,
    now: Time,
) -> Plan<Memory> {
    let mut plan = Plan::<Memory>::default();
    let users = users(csi, world);
    // By node, the node of the oldest pod first.
    let (mut nodes, mut by_node) = (Vec::new(), BTreeMap::<&str, Vec<&User<'_>>>::new());
    for user in &users {
        let here = by_node.entry(user.node).or_default();
        if here.is_empty() {
            nodes.push(user.node);
        }
        here.push(user);
    }
    let mut taken = Taken::default();
    nodes_of(csi, world).for_each(|node| taken.add(node, &by_node));
    let mut acts: Vec<Act> = Vec::new();
    let mut notes = Vec::new();
    for node in nodes {
        let here = &by_node[node];
        let user = here[0];
        let name = attachment_name(csi, node);
        if let Some((object, attachment)) = world.view::<VolumeAttachment>("", &name) {
            notes.extend(here.iter().filter_map(|user| failure(user, object, attachment)));
        } else if !user.shares && !taken.nodes.is_empty() {
            notes.extend(here.iter().map(|user| waits(user, &taken)));
        } else if world.find("nodes", "", node).is_none() {
            // A node may become visible after the pods on it.
            plan.look_again_at(now.after(horizon::SOON * 100));
        } else {
            acts.push(attach(&name, csi, user));
            taken.add(node, &by_node);
        }
    }
    plan.stage(acts);
    plan.notes = said::news(&notes, &memory.said);
    plan.memo.said = notes;
    plan
}

/// Nodes that a volume is attached to, or being attached to or detached from.
fn nodes_of<'a>(
    csi: &CsiPersistentVolumeSource,
    world: &'a WorldReader<'a>,
) -> impl Iterator<Item = &'a str> {
    let twins = world.by_index(VOLUMES_BY_HANDLE, &handle(csi));
    let attachments = twins.flat_map(|twin| world.by_index(ATTACHMENTS_BY_VOLUME, &twin.meta().name));
    attachments.filter_map(|object| Some(object.view::<VolumeAttachment>()?.spec.node_name.as_str()))
}

/// Nodes that a volume is attached to or being attached to, and the pods on them.
#[derive(Default)]
struct Taken<'a> {
    nodes: BTreeSet<&'a str>,
    pods: usize,
    /// Number of pods by namespace, and the names of the first [`PODS_NAMED_MAX`].
    by_namespace: BTreeMap<&'a str, (usize, Vec<&'a str>)>,
}

impl<'a> Taken<'a> {
    fn add(&mut self, node: &'a str, by_node: &BTreeMap<&str, Vec<&User<'a>>>) {
        if !self.nodes.insert(node) {
            return;
        }
        for user in by_node.get(node).into_iter().flatten() {
            let meta = user.pod.meta();
            let (count, names) = self.by_namespace.entry(&meta.namespace).or_default();
            (*count, self.pods) = (*count + 1, self.pods + 1);
            if names.len() < PODS_NAMED_MAX {
                names.push(&meta.name);
            }
        }
    }
}

fn attach(name: &str, csi: &CsiPersistentVolumeSource, user: &User<'_>) -> Act {
    let attachment = value!({
        "metadata": {"name": (name)},
        "spec": {
            "attacher": (csi.driver.as_str()),
            "nodeName": (user.node),
            "source": {"persistentVolumeName": (&*user.volume.meta().name)},
        },
    });
    let failed = message("AttachVolume.Attach failed", user, ": {error}");
    let act = Act::from(Write::create(VolumeAttachment::RESOURCE, "", attachment));
    act.on_failed(Subject::of(user.pod, "v1", "Pod").warning("FailedAttachVolume", failed))
}

/// Event for a pod whose volume could not be attached.
fn failure(user: &User<'_>, object: &Object, attachment: &VolumeAttachment) -> Option<Note> {
    let error = attachment.status.attach_error.as_ref().filter(|_| !attachment.status.attached)?;
    let why = if object.meta().is_deleted() { "volume attachment is being deleted" } else { &error.message };
    let message = message("AttachVolume.Attach failed", user, &format!(": {why}"));
    Some(Subject::of(user.pod, "v1", "Pod").warning("FailedAttachVolume", message))
}

/// Event for a pod whose single-node volume is on another node. Users who can see pods of one namespace need
/// not be allowed to see those of others, so only pods of the same namespace are named.
fn waits(user: &User<'_>, taken: &Taken<'_>) -> Note {
    let (near, names) = taken.by_namespace.get(&*user.pod.meta().namespace).cloned().unwrap_or_default();
    let mut shown = names.join(", ");
    if near > names.len() {
        shown.push_str(&format!(", ... ({near} in all)"));
    }
    let why = match (near, taken.pods - near) {
        (0, 0) => "Volume is already exclusively attached to one node, waiting on detach before it can be attached to \
                   another node"
            .to_owned(),
        (0, far) => format!("Volume is already used by {far} pod(s) in different namespaces"),
        (_, 0) => format!("Volume is already used by pod(s) {shown}"),
        (_, far) => {
            format!("Volume is already used by pod(s) {shown} and {far} pod(s) in different namespaces")
        }
    };
    let message = message("Waiting for detach", user, &why);
    Subject::of(user.pod, "v1", "Pod").warning("FailedAttachVolume", message)
}

/// Message of an attach or detach Event, as upstream formats it.
pub(super) fn message(what: &str, user: &User<'_>, why: &str) -> String {
    format!("{what} for volume \"{}\" {why}", user.volume.meta().name)
}
