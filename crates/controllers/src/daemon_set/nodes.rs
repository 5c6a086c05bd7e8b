//! Nodes of a DaemonSet: which should run a pod, and which pods they have.

use std::collections::BTreeMap;

use setpoint_api::{Value, value};
use setpoint_reconcile::plan::Plan;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::daemon_set::DaemonSet;
use setpoint_views::node::Node;

use super::{BACKOFF_MAX, BACKOFF_MIN, DaemonPodChanges, DaemonSetRollout, Memo};
use crate::placement::{self, Placement, Tolerations};
use crate::pods::PodRef;

/// Node taints that every daemon pod tolerates, because it may be needed to repair the node.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Taint that daemon pods with `hostNetwork` tolerate in addition.
const TOLERATED_ON_HOST: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Tolerations of a pod: those of the template, and the default ones of daemon pods.
pub(super) fn tolerations(template: &Value) -> Vec<Value> {
    let from_template = template.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
    let on_host = template.at(&["spec", "hostNetwork"]) == Some(&Value::Bool(true));
    let mut all = from_template.to_vec();
    for (key, effect) in TOLERATED.into_iter().chain(on_host.then_some(TOLERATED_ON_HOST)) {
        let added = value!({"key": (key), "operator": "Exists", "effect": (effect)});
        // Replaces a toleration of the same taint.
        let is_same = |toleration: &Value| {
            toleration.str_at(&["key"]) == key
                && toleration.str_at(&["effect"]) == effect
                && toleration.str_at(&["operator"]) == "Exists"
                && toleration.str_at(&["value"]).is_empty()
        };
        match all.iter_mut().find(|toleration| is_same(toleration)) {
            Some(toleration) => *toleration = added,
            None => all.push(added),
        }
    }
    all
}

/// Eligibility of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeEligibility {
    /// The node should run a pod.
    ShouldRun,
    /// The node gets no new pod, but a running one may stay.
    ShouldContinueRunning,
    /// The node must not run a pod.
    Ineligible,
}

impl NodeEligibility {
    /// Determines the eligibility of a node. Placement and tolerations of the set are parsed once for all
    /// nodes.
    pub fn of(
        set: &DaemonSet,
        placement: &Placement<'_>,
        tolerations: &Tolerations<'_>,
        node: &Object,
    ) -> NodeEligibility {
        let Some(spec) = set.spec.template.0.get("spec") else { return NodeEligibility::Ineligible };
        let Some(view) = node.view::<Node>() else { return NodeEligibility::Ineligible };
        let named = spec.str_at(&["nodeName"]);
        if !(named.is_empty() || named == &*node.meta().name) || !placement.allows(node) {
            return NodeEligibility::Ineligible;
        }
        let has_untolerated = |effect: &str| {
            let taints = view.spec.taints.iter().filter(|taint| taint.effect == effect);
            taints.into_iter().any(|taint| !tolerations.is_tolerated(taint))
        };
        match (has_untolerated("NoExecute"), has_untolerated("NoSchedule")) {
            (true, _) => NodeEligibility::Ineligible,
            (false, true) => NodeEligibility::ShouldContinueRunning,
            (false, false) => NodeEligibility::ShouldRun,
        }
    }
}

/// Node, possibly deleted, and the pods that are assigned to it.
#[derive(Default)]
pub(super) struct NodePods<'a> {
    /// The node; `None` if it does not exist.
    pub node: Option<(&'a Object, NodeEligibility)>,
    /// Pods of the node: bound ones first, then oldest first.
    pub pods: Vec<PodRef<'a>>,
}

impl<'a> NodePods<'a> {
    /// Pods that are not being deleted.
    pub fn undeleted(&self) -> impl Iterator<Item = &PodRef<'a>> {
        self.pods.iter().filter(|(pod, _)| !pod.meta().is_deleted())
    }
}

/// All nodes, by name.
pub(super) struct Nodes<'a> {
    pub by_node: BTreeMap<&'a str, NodePods<'a>>,
}

impl<'a> Nodes<'a> {
    pub fn of(world: &'a WorldReader<'a>, set: &DaemonSet, pods: &[PodRef<'a>]) -> Nodes<'a> {
        let tolerations = tolerations(&set.spec.template.0);
        let tolerations = Tolerations::of(&tolerations);
        let placement = Placement::of(set.spec.template.0.get("spec").unwrap_or(&Value::Null));
        let mut by_node: BTreeMap<&'a str, NodePods<'a>> = BTreeMap::new();
        for node in world.all("nodes") {
            let eligibility = NodeEligibility::of(set, &placement, &tolerations, node);
            by_node.insert(&node.meta().name, NodePods { node: Some((node, eligibility)), pods: Vec::new() });
        }
        for seen in pods {
            let (object, pod) = *seen;
            if pod.is_finished() && object.meta().is_deleted() {
                continue;
            }
            if let Some(name) = target_node(seen) {
                by_node.entry(name).or_default().pods.push(*seen);
            }
        }
        for node_pods in by_node.values_mut() {
            node_pods.pods.sort_by_key(|(object, pod)| {
                (pod.spec.node_name.is_empty(), object.meta().created(), &*object.meta().name)
            });
        }
        Nodes { by_node }
    }
}

/// Target node of a pod: the one it is bound to, or the one in its node affinity.
fn target_node<'a>((_, pod): &PodRef<'a>) -> Option<&'a str> {
    if !pod.spec.node_name.is_empty() {
        return Some(&pod.spec.node_name);
    }
    let terms = placement::required_terms(pod.spec.affinity.as_ref())?;
    let fields = terms.iter().filter_map(|term| term.get("matchFields")?.as_list()).flatten();
    let mut names = fields
        .filter(|field| field.str_at(&["key"]) == "metadata.name" && field.str_at(&["operator"]) == "In");
    match names.next()?.get("values")?.as_list()? {
        [name] => name.as_str(),
        _ => None,
    }
}

/// Plans creations and deletions: one pod on each eligible node, none elsewhere.
pub(super) fn manage<'a>(
    rollout: &'a DaemonSetRollout<'a>,
    changes: &mut DaemonPodChanges<'a>,
    memo: &mut Memo,
    plan: &mut Plan<Memo>,
) {
    for (name, node_pods) in &rollout.nodes.by_node {
        match node_pods.node.map(|(_, eligibility)| eligibility) {
            // A pending pod of a deleted node would be pending forever.
            None => {
                let waiting = node_pods.undeleted().filter(|(_, pod)| pod.spec.node_name.is_empty());
                changes.pods_to_delete.extend(waiting.map(|(pod, _)| *pod));
            }
            Some(NodeEligibility::Ineligible) => {
                changes.pods_to_delete.extend(node_pods.undeleted().map(|(pod, _)| *pod))
            }
            Some(NodeEligibility::ShouldRun) if node_pods.pods.is_empty() => {
                changes.nodes_needing_pods.push(name)
            }
            Some(eligibility) => {
                let running = delete_finished_pods(rollout, name, node_pods, changes, memo, plan);
                let lacks_pod =
                    eligibility == NodeEligibility::ShouldRun && node_pods.undeleted().next().is_none();
                keep_one_pod(rollout, name, lacks_pod, &running, changes);
            }
        }
    }
}

/// Deletes the finished pods of a node, and returns the others.
fn delete_finished_pods<'a>(
    rollout: &DaemonSetRollout<'a>,
    node: &str,
    node_pods: &NodePods<'a>,
    changes: &mut DaemonPodChanges<'a>,
    memo: &mut Memo,
    plan: &mut Plan<Memo>,
) -> Vec<PodRef<'a>> {
    let subject = rollout.owner.subject();
    let mut running = Vec::new();
    for (object, pod) in node_pods.undeleted() {
        let pod_on_node = || format!("{}/{} on node {node}", object.meta().namespace, object.meta().name);
        match pod.status.phase.as_str() {
            "Failed" => {
                let (last, wait) = memo.get(node).copied().unwrap_or_default();
                if rollout.now.since(last) < wait {
                    plan.requeue_at(last.after(wait));
                    continue;
                }
                memo.insert(node.to_owned(), (rollout.now, (wait * 2).clamp(BACKOFF_MIN, BACKOFF_MAX)));
                let message = format!("Found failed daemon pod {}, will try to kill it", pod_on_node());
                plan.events.push(subject.warning("FailedDaemonPod", message));
                changes.pods_to_delete.push(object);
            }
            "Succeeded" => {
                let message = format!("Found succeeded daemon pod {}, will try to delete it", pod_on_node());
                plan.events.push(subject.normal("SucceededDaemonPod", message));
                changes.pods_to_delete.push(object);
            }
            _ => running.push((*object, *pod)),
        }
    }
    running
}

/// Keeps one pod on a node; during a surge, one of each template.
fn keep_one_pod<'a>(
    rollout: &DaemonSetRollout<'a>,
    node: &'a str,
    lacks_pod: bool,
    running: &[PodRef<'a>],
    changes: &mut DaemonPodChanges<'a>,
) {
    if super::rolling_update::max_surge(rollout, 1) == 0 {
        changes.pods_to_delete.extend(running.iter().skip(1).map(|(pod, _)| *pod));
        return;
    }
    if lacks_pod {
        // With surge the new pod does not wait for the end of the old one.
        changes.nodes_needing_pods.push(node);
    }
    if running.len() < 2 {
        return;
    }
    let (new, old): (Vec<_>, Vec<_>) = running.iter().partition(|pod| rollout.is_latest(pod));
    changes.pods_to_delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|(pod, _)| *pod));
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.1.is_ready() || rollout.is_available(new))
    {
        changes.pods_to_delete.push(old.0);
    }
}
