//! No pod is bound twice, and none to a node that cannot hold it: the node is there, the pod puts up with its taints
//! and wants its labels, and there is room for what the pod asks for, for its ports and its volumes.
//!
//! Nodes count as they were at any moment since the scheduler looked; pods on them as they are at the commit, for
//! nobody but the scheduler brings any. A bind that its sender did not live to see may find a node full: then the node
//! must refuse the pod, see [`super::rooms`].

use std::collections::BTreeMap;

use setpoint_api::{Revision, Value};
use setpoint_reconcile::views::node::{Node, Taint};
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Object, World};

use super::rooms::Room;
use super::{Check, Scene, pod};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// See the module.
#[derive(Default)]
pub struct PlacesHold {
    /// The node of each pod, by the pod's identity.
    bound: BTreeMap<Box<str>, String>,
    /// How each node was, and since when; nothing while it was not there.
    nodes: BTreeMap<Box<str>, Vec<(Revision, Option<Object>)>>,
}

impl Check for PlacesHold {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, _: &mut Marks) -> Result<(), String> {
        if change.is_of("nodes") {
            let versions = self.nodes.entry(change.key.name().into()).or_default();
            versions.push((change.revision, change.after.clone()));
        }
        let Some(after) = change.after.as_ref().filter(|_| change.is_of("pods")) else { return Ok(()) };
        let Some(view) = pod(after).filter(|pod| !pod.spec.node_name.is_empty()) else { return Ok(()) };
        let (uid, node) = (&after.meta().uid, &view.spec.node_name);
        match self.bound.get(uid) {
            Some(known) if known == node => return Ok(()),
            Some(known) => return Err(format!("{} was bound to {known}, and then to {node}", change.key)),
            None => self.bound.insert(uid.clone(), node.clone()),
        };
        if &*change.by != "scheduler" {
            return Ok(());
        }
        let mut objection = "is not there".to_owned();
        for version in self.since(node, change.seen) {
            match objection_of(version, after, view, scene.world, change.is_late) {
                None => return Ok(()),
                Some(why) => objection = why,
            }
        }
        Err(format!("{} was bound to {node}, which cannot hold it: it {objection}", change.key))
    }
}

impl PlacesHold {
    /// How a node was, since a revision.
    fn since(&self, node: &str, revision: Revision) -> impl Iterator<Item = &Object> {
        let versions = self.nodes.get(node).map_or(&[][..], Vec::as_slice);
        let first = versions.partition_point(|(at, _)| *at <= revision).saturating_sub(1);
        versions[first..].iter().filter_map(|(_, node)| node.as_ref())
    }
}

/// Why a node cannot hold a pod; nothing if it can.
fn objection_of(node: &Object, object: &Object, pod: &Pod, world: &World, is_late: bool) -> Option<String> {
    let view = node.view::<Node>()?;
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let cordon = Some(&cordon).filter(|_| view.spec.unschedulable);
    let taints = view.spec.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule").chain(cordon);
    for taint in taints {
        if !pod.spec.tolerations.iter().any(|one| one.tolerates(taint)) {
            return Some(format!("has the taint {}:{}", taint.key, taint.effect));
        }
    }
    let labels = &node.meta().labels;
    if !pod.spec.node_selector.iter().all(|(name, value)| labels.get(name) == Some(value)) {
        return Some("does not have the labels".to_owned());
    }
    if target(pod).is_some_and(|target| target != node.key().name()) {
        return Some("is not the one".to_owned());
    }
    if !volumes_reach(object, pod, world, node) {
        return Some("does not have the volume".to_owned());
    }
    let others = world.views::<Pod>().filter(|(other, view)| {
        other.key() != object.key() && view.spec.node_name == node.key().name() && !view.is_finished()
    });
    let room = Room::of(view, others.map(|(_, other)| other));
    room.objection(pod).filter(|_| !is_late)
}

/// The node that a pod's affinity names, as those of DaemonSets do.
#[must_use]
pub fn target(pod: &Pod) -> Option<&str> {
    let path = ["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let terms = pod.spec.affinity.as_ref()?.at(&path)?.as_list()?;
    let fields = terms.first()?.get("matchFields")?.as_list()?;
    fields.first()?.get("values")?.as_list()?.first()?.as_str()
}

/// Whether the volumes of a pod can be reached from a node.
fn volumes_reach(object: &Object, pod: &Pod, world: &World, node: &Object) -> bool {
    let claims = pod.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.into_iter().all(|claim| {
        let claim = world.view::<PersistentVolumeClaim>(&object.meta().namespace, &claim.claim_name);
        let volume = claim.and_then(|(_, claim)| world.view::<PersistentVolume>("", &claim.spec.volume_name));
        // One that was deleted meanwhile is no matter of places.
        volume.is_none_or(|(volume, _)| reaches(&volume.value(), node.key().name()))
    })
}

fn reaches(volume: &Value, node: &str) -> bool {
    let terms =
        volume.at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).and_then(Value::as_list);
    let Some(term) = terms.and_then(<[Value]>::first) else { return true };
    let expression = term.get("matchExpressions").and_then(Value::as_list).and_then(<[Value]>::first);
    let names = expression.and_then(|one| one.get("values")).and_then(Value::as_list).unwrap_or_default();
    names.iter().any(|name| name.as_str() == Some(node))
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource, Time, json, value};

    use super::*;

    fn bound(revision: u64, node: &str) -> Object {
        let key = Key::from_path(&Resource::new("pods").unwrap(), "default/p").unwrap();
        let pod = value!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"nodeName": (node)},
        });
        Object::read(key, Revision(revision), Time::EPOCH, json::to_vec(&pod)).unwrap()
    }

    #[test]
    fn a_pod_that_is_bound_twice_is_caught() {
        let (mut check, world) = (PlacesHold::default(), World::default());
        let mut bind = |before: Option<Object>, after: Object| {
            let change = Change {
                key: after.key().clone(),
                revision: after.revision(),
                seen: after.revision(),
                before,
                after: Some(after),
                by: "".into(),
                user: "".into(),
                is_late: false,
            };
            let changes = [change];
            let scene = Scene { world: &world, changes: &changes, now: Time::EPOCH, calm: true };
            check.see(&changes[0], &scene, &mut Marks::default())
        };
        assert_eq!(bind(Some(bound(1, "")), bound(2, "a")), Ok(()));
        assert_eq!(bind(Some(bound(2, "a")), bound(3, "a")), Ok(()));
        let twice = bind(Some(bound(3, "a")), bound(4, "b"));
        assert_eq!(twice, Err("pods/default/p was bound to a, and then to b".to_owned()));
    }
}
