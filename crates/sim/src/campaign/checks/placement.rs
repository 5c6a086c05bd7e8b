//! Placement: no pod is bound twice, and none to a node that does not exist, has untolerated taints or wrong labels,
//! lacks free resources or ports, or cannot reach the pod's volumes.
//!
//! A node is judged in every state since the world that the scheduler planned on; pods on it as of the commit, since
//! only the scheduler binds pods. A late bind of a deposed scheduler may find a node full; then the node must reject
//! the pod, which [`super::node_capacity`] checks.

use std::collections::BTreeMap;

use setpoint_api::{Revision, Value};
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::node::{Node, Taint};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::pod::Pod;

use super::node_capacity::FreeCapacity;
use super::{Check, CommitContext, pod};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Check of bound pods.
#[derive(Default)]
pub struct Placements {
    /// Node of each pod, by UID.
    bound: BTreeMap<Box<str>, String>,
    /// Versions of each node with their revisions; `None` while the node did not exist.
    nodes: BTreeMap<Box<str>, Vec<(Revision, Option<Object>)>>,
}

impl Check for Placements {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        _: &mut CoverageMarks,
    ) -> Result<(), String> {
        if change.is_of("nodes") {
            let versions = self.nodes.entry(change.key.name().into()).or_default();
            versions.push((change.revision, change.after.clone()));
        }
        let Some(after) = change.after.as_ref().filter(|_| change.is_of("pods")) else { return Ok(()) };
        let Some(view) = pod(after).filter(|pod| !pod.spec.node_name.is_empty()) else { return Ok(()) };
        let (uid, node) = (&after.meta().uid, &view.spec.node_name);
        match self.bound.get(uid) {
            Some(bound_node) if bound_node == node => return Ok(()),
            Some(bound_node) => {
                return Err(format!("{} was bound to {bound_node}, and then to {node}", change.key));
            }
            None => self.bound.insert(uid.clone(), node.clone()),
        };
        if &*change.by != "scheduler" {
            return Ok(());
        }
        let mut objection = "is not there".to_owned();
        for version in self.since(node, change.seen) {
            match find_objection(version, after, view, context.world, change.is_late) {
                None => return Ok(()),
                Some(reason) => objection = reason,
            }
        }
        Err(format!("{} was bound to {node}, which cannot hold it: it {objection}", change.key))
    }
}

impl Placements {
    /// Versions of a node at a revision and since.
    fn since(&self, node: &str, revision: Revision) -> impl Iterator<Item = &Object> {
        let versions = self.nodes.get(node).map_or(&[][..], Vec::as_slice);
        let first = versions.partition_point(|(at, _)| *at <= revision).saturating_sub(1);
        versions[first..].iter().filter_map(|(_, node)| node.as_ref())
    }
}

/// Describes why a pod does not fit on a node; `None` if it does.
fn find_objection(
    node: &Object,
    object: &Object,
    pod: &Pod,
    world: &WorldReader<'_>,
    is_late: bool,
) -> Option<String> {
    let view = node.view::<Node>()?;
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let cordon = Some(&cordon).filter(|_| view.spec.unschedulable);
    let taints = view.spec.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule").chain(cordon);
    for taint in taints {
        if !pod.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint)) {
            return Some(format!("has the taint {}:{}", taint.key, taint.effect));
        }
    }
    let labels = &node.meta().labels;
    if !pod.spec.node_selector.iter().all(|(name, value)| labels.get(name) == Some(value)) {
        return Some("does not have the labels".to_owned());
    }
    if target_node(pod).is_some_and(|target| target != node.key().name()) {
        return Some("is not the one".to_owned());
    }
    if !are_volumes_reachable(object, pod, world, node) {
        return Some("does not have the volume".to_owned());
    }
    let others = world.views::<Pod>().filter(|(other, view)| {
        other.key() != object.key() && view.spec.node_name == node.key().name() && !view.is_finished()
    });
    let free = FreeCapacity::new(view, others.map(|(_, other)| other));
    free.find_shortage(pod).filter(|_| !is_late)
}

/// Node that the affinity of a pod names, as for pods of DaemonSets.
#[must_use]
pub fn target_node(pod: &Pod) -> Option<&str> {
    let path = ["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let terms = pod.spec.affinity.as_ref()?.at(&path)?.as_list()?;
    let fields = terms.first()?.get("matchFields")?.as_list()?;
    fields.first()?.get("values")?.as_list()?.first()?.as_str()
}

/// `true` if a node reaches all volumes of a pod.
fn are_volumes_reachable(object: &Object, pod: &Pod, world: &WorldReader<'_>, node: &Object) -> bool {
    let claims = pod.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.into_iter().all(|claim| {
        let claim = world.view::<PersistentVolumeClaim>(&object.meta().namespace, &claim.claim_name);
        let volume = claim.and_then(|(_, claim)| world.view::<PersistentVolume>("", &claim.spec.volume_name));
        // A volume that was deleted since does not matter here.
        volume.is_none_or(|(volume, _)| is_reachable(&volume.value(), node.key().name()))
    })
}

fn is_reachable(volume: &Value, node: &str) -> bool {
    let terms =
        volume.at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).and_then(Value::as_list);
    let Some(term) = terms.and_then(<[Value]>::first) else { return true };
    let expression = term.get("matchExpressions").and_then(Value::as_list).and_then(<[Value]>::first);
    let names = expression
        .and_then(|expression| expression.get("values"))
        .and_then(Value::as_list)
        .unwrap_or_default();
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
    fn pod_that_is_bound_twice_is_rejected() {
        let (mut check, world) = (Placements::default(), setpoint_reconcile::World::default());
        let mut bind = |before: Option<Object>, after: Object| {
            let change = CommitChange {
                key: after.key().clone(),
                revision: after.revision(),
                seen: after.revision(),
                before,
                after: Some(after),
                by: "".into(),
                is_late: false,
            };
            let changes = [change];
            let context = CommitContext {
                world: &world.reader(),
                changes: &changes,
                admission: None,
                now: Time::EPOCH,
                calm: true,
            };
            check.check_change(&changes[0], &context, &mut CoverageMarks::default())
        };
        assert_eq!(bind(Some(bound(1, "")), bound(2, "a")), Ok(()));
        assert_eq!(bind(Some(bound(2, "a")), bound(3, "a")), Ok(()));
        let twice = bind(Some(bound(3, "a")), bound(4, "b"));
        assert_eq!(twice, Err("pods/default/p was bound to a, and then to b".to_owned()));
    }
}
