//! Where a volume is to be.

use setpoint_api::{Time, value};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::views::persistent_volume::Csi;
use setpoint_reconcile::views::volume_attachment::VolumeAttachment;
use setpoint_reconcile::{Act, Note, Object, Plan, View, World, Write};

use super::{Memory, User, attachment_name, handle, users};
use crate::indexes::{ATTACHMENTS_BY_VOLUME, VOLUMES_BY_HANDLE};
use crate::{horizon, said};

/// Asks for a volume on the nodes whose pods use it.
pub(super) fn plan(csi: &Csi, world: &World, memory: &Memory, now: Time) -> Plan<Memory> {
    let mut plan = Plan::<Memory>::default();
    let users = users(csi, world);
    let mut taken = nodes_of(csi, world);
    let mut acts: Vec<Act> = Vec::new();
    let mut notes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for user in &users {
        if seen.contains(&user.node) {
            continue;
        }
        seen.push(user.node);
        let here = || users.iter().filter(|other| other.node == user.node);
        let name = attachment_name(csi, user.node);
        if let Some((object, attachment)) = world.view::<VolumeAttachment>("", &name) {
            notes.extend(here().filter_map(|user| failure(user, object, attachment)));
        } else if !user.shares && !taken.is_empty() {
            notes.extend(here().map(|user| waits(user, &taken, &users)));
        } else if world.find("nodes", "", user.node).is_none() {
            // A node may come later than the pods on it.
            plan.look_again_at(now.after(horizon::SOON * 100));
        } else {
            acts.push(attach(&name, csi, user));
            taken.push(user.node.into());
        }
    }
    plan.stage(acts);
    plan.notes = said::news(&notes, &memory.said);
    plan.memo.said = notes;
    plan
}

/// The nodes that a volume is on, or is being taken to or from.
fn nodes_of(csi: &Csi, world: &World) -> Vec<Box<str>> {
    let twins = world.indexed(VOLUMES_BY_HANDLE, &handle(csi));
    let attachments = twins.flat_map(|twin| world.indexed(ATTACHMENTS_BY_VOLUME, &twin.meta().name));
    let views = attachments.filter_map(|object| object.view::<VolumeAttachment>());
    views.map(|view| view.spec.node_name.as_str().into()).collect()
}

fn attach(name: &str, csi: &Csi, user: &User<'_>) -> Act {
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

/// What to say to a pod whose volume could not be attached.
fn failure(user: &User<'_>, object: &Object, attachment: &VolumeAttachment) -> Option<Note> {
    let error = attachment.status.attach_error.as_ref().filter(|_| !attachment.status.attached)?;
    let why = if object.meta().is_deleted() { "volume attachment is being deleted" } else { &error.message };
    let message = message("AttachVolume.Attach failed", user, &format!(": {why}"));
    Some(Subject::of(user.pod, "v1", "Pod").warning("FailedAttachVolume", message))
}

/// What to say to a pod whose volume is on another node, and can be on one only. Who may see the names of pods in one
/// namespace need not be able to see those in others.
fn waits(user: &User<'_>, taken: &[Box<str>], users: &[User<'_>]) -> Note {
    let others = users.iter().filter(|other| taken.iter().any(|node| **node == *other.node));
    let namespace = &user.pod.meta().namespace;
    let (near, far): (Vec<_>, Vec<_>) = others.partition(|other| other.pod.meta().namespace == *namespace);
    let names: Vec<&str> = near.iter().map(|other| &*other.pod.meta().name).collect();
    let why = match (names.as_slice(), far.len()) {
        ([], 0) => "Volume is already exclusively attached to one node, waiting on detach before it can be attached to \
                    another node"
            .to_owned(),
        ([], far) => format!("Volume is already used by {far} pod(s) in different namespaces"),
        (names, 0) => format!("Volume is already used by pod(s) {}", names.join(", ")),
        (names, far) => format!(
            "Volume is already used by pod(s) {} and {far} pod(s) in different namespaces",
            names.join(", ")
        ),
    };
    let message = message("Waiting for detach", user, &why);
    Subject::of(user.pod, "v1", "Pod").warning("FailedAttachVolume", message)
}

/// What happened to a volume, in the words that people look for.
pub(super) fn message(what: &str, user: &User<'_>, why: &str) -> String {
    format!("{what} for volume \"{}\" {why}", user.volume.meta().name)
}
