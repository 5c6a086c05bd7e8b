//! A scheduler that is easily content: any node that a pod tolerates, and the one that its volume is on.

use setpoint_api::{Value, value};
use setpoint_reconcile::views::node::Node;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Object, World};

use crate::campaign::marks::Marks;
use crate::cluster::Cluster;

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// Gives a pod a node, if there is one for it and its claims are bound; claims that wait for that learn the node.
pub fn place(cluster: &mut Cluster, object: &Object, pod: &Pod, world: &World, marks: &mut Marks) {
    if object.meta().is_deleted() || pod.is_finished() {
        return;
    }
    let nodes = world.views::<Node>().filter(|(node, view)| fits(pod, node, view));
    let mut nodes: Vec<&str> = nodes.map(|(node, _)| &*node.meta().name).collect();
    let claims = pod.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
    let mut waiting = Vec::new();
    for claim in claims {
        let found = world.view::<PersistentVolumeClaim>(&object.meta().namespace, &claim.claim_name);
        let Some((claim, view)) = found else { return };
        match view.status.phase.as_str() {
            "Bound" => nodes.retain(|node| is_on(world, &view.spec.volume_name, node)),
            _ => waiting.push(claim),
        }
    }
    if nodes.is_empty() {
        return;
    }
    let node = nodes[cluster.rng.usize(..nodes.len())];
    for claim in &waiting {
        if claim.meta().annotations.get(SELECTED).is_none() {
            let patch = value!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": (node)}}});
            if cluster.patch("persistentvolumeclaims", claim.key().path(), "", patch).is_ok() {
                marks.note("claim was bound for its first consumer");
            }
        }
    }
    if waiting.is_empty() {
        let _ = cluster.bind(object.key().path(), node);
    }
}

fn fits(pod: &Pod, node: &Object, view: &Node) -> bool {
    let tolerated = |effect: &str| {
        let taints = view.spec.taints.iter().filter(|taint| taint.effect == effect);
        taints.into_iter().all(|taint| pod.spec.tolerations.iter().any(|one| one.tolerates(taint)))
    };
    tolerated("NoSchedule")
        && tolerated("NoExecute")
        && target(pod).is_none_or(|target| target == &*node.meta().name)
}

/// The node that a pod's affinity names, as those of DaemonSets do.
#[must_use]
pub fn target(pod: &Pod) -> Option<&str> {
    let path = ["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let terms = pod.spec.affinity.as_ref()?.at(&path)?.as_list()?;
    let fields = terms.first()?.get("matchFields")?.as_list()?;
    fields.first()?.get("values")?.as_list()?.first()?.as_str()
}

/// Whether a volume can be reached from a node.
fn is_on(world: &World, volume: &str, node: &str) -> bool {
    let Some((object, _)) = world.view::<PersistentVolume>("", volume) else { return false };
    let value = object.value();
    let terms = value.at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).and_then(Value::as_list);
    let Some(term) = terms.and_then(<[Value]>::first) else { return true };
    let expression = term.get("matchExpressions").and_then(Value::as_list).and_then(<[Value]>::first);
    let names = expression.and_then(|one| one.get("values")).and_then(Value::as_list).unwrap_or_default();
    names.iter().any(|name| name.as_str() == Some(node))
}
