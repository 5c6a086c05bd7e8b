//! Nodes of a DaemonSet: which should run a pod, and which pods they have.

use std::collections::BTreeMap;

use setpoint_api::{Value, value};
use setpoint_reconcile::plan::Plan;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::daemon_set::DaemonSet;
use setpoint_views::node::Node;

use super::{BACKOFF_MAX, BACKOFF_MIN, Memo, Rollout, Steps};
use crate::placement::{self, Placement, Tolerations};
use crate::pods::Seen;

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
    let said = template.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
    let on_host = template.at(&["spec", "hostNetwork"]) == Some(&Value::Bool(true));
    let mut all = said.to_vec();
    for (key, effect) in TOLERATED.into_iter().chain(on_host.then_some(TOLERATED_ON_HOST)) {
        let added = value!({"key": (key), "operator": "Exists", "effect": (effect)});
        // Replaces a toleration of the same taint.
        let same = |one: &Value| {
            one.str_at(&["key"]) == key
                && one.str_at(&["effect"]) == effect
                && one.str_at(&["operator"]) == "Exists"
                && one.str_at(&["value"]).is_empty()
        };
        match all.iter_mut().find(|one| same(one)) {
            Some(one) => *one = added,
            None => all.push(added),
        }
    }
    all
}

/// Eligibility of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The node should run a pod.
    Runs,
    /// The node gets no new pod, but a running one may stay.
    MayStay,
    /// The node must not run a pod.
    No,
}

impl Fit {
    /// Determines the eligibility of a node. Placement and tolerations of the set are parsed once for all
    /// nodes.
    pub fn of(
        set: &DaemonSet,
        placement: &Placement<'_>,
        tolerations: &Tolerations<'_>,
        node: &Object,
    ) -> Fit {
        let Some(spec) = set.spec.template.0.get("spec") else { return Fit::No };
        let Some(view) = node.view::<Node>() else { return Fit::No };
        let named = spec.str_at(&["nodeName"]);
        if !(named.is_empty() || named == &*node.meta().name) || !placement.allows(node) {
            return Fit::No;
        }
        let kept_away = |effect: &str| {
            let taints = view.spec.taints.iter().filter(|taint| taint.effect == effect);
            taints.into_iter().any(|taint| !tolerations.tolerate(taint))
        };
        match (kept_away("NoExecute"), kept_away("NoSchedule")) {
            (true, _) => Fit::No,
            (false, true) => Fit::MayStay,
            (false, false) => Fit::Runs,
        }
    }
}

/// Node, possibly deleted, and the pods that are assigned to it.
#[derive(Default)]
pub(super) struct Place<'a> {
    /// The node; `None` if it does not exist.
    pub node: Option<(&'a Object, Fit)>,
    /// Pods of the node: bound ones first, then oldest first.
    pub pods: Vec<Seen<'a>>,
}

impl<'a> Place<'a> {
    /// Pods that are not being deleted.
    pub fn staying(&self) -> impl Iterator<Item = &Seen<'a>> {
        self.pods.iter().filter(|(pod, _)| !pod.meta().is_deleted())
    }
}

/// All nodes, by name.
pub(super) struct Nodes<'a> {
    pub places: BTreeMap<&'a str, Place<'a>>,
}

impl<'a> Nodes<'a> {
    pub fn of(world: &'a WorldReader<'a>, set: &DaemonSet, pods: &[Seen<'a>]) -> Nodes<'a> {
        let tolerations = tolerations(&set.spec.template.0);
        let tolerations = Tolerations::of(&tolerations);
        let placement = Placement::of(set.spec.template.0.get("spec").unwrap_or(&Value::Null));
        let mut places: BTreeMap<&'a str, Place<'a>> = BTreeMap::new();
        for node in world.all("nodes") {
            let fit = Fit::of(set, &placement, &tolerations, node);
            places.insert(&node.meta().name, Place { node: Some((node, fit)), pods: Vec::new() });
        }
        for seen in pods {
            let (object, pod) = *seen;
            if pod.is_finished() && object.meta().is_deleted() {
                continue;
            }
            if let Some(name) = target(seen) {
                places.entry(name).or_default().pods.push(*seen);
            }
        }
        for place in places.values_mut() {
            place.pods.sort_by_key(|(object, pod)| {
                (pod.spec.node_name.is_empty(), object.meta().created(), &*object.meta().name)
            });
        }
        Nodes { places }
    }
}

/// Target node of a pod: the one it is bound to, or the one in its node affinity.
fn target<'a>((_, pod): &Seen<'a>) -> Option<&'a str> {
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
pub(super) fn keep<'a>(
    rollout: &'a Rollout<'a>,
    steps: &mut Steps<'a>,
    memo: &mut Memo,
    plan: &mut Plan<Memo>,
) {
    for (name, place) in &rollout.nodes.places {
        match place.node.map(|(_, fit)| fit) {
            // A pending pod of a deleted node would be pending for ever.
            None => {
                let waiting = place.staying().filter(|(_, pod)| pod.spec.node_name.is_empty());
                steps.deletions.extend(waiting.map(|(pod, _)| *pod));
            }
            Some(Fit::No) => steps.deletions.extend(place.staying().map(|(pod, _)| *pod)),
            Some(Fit::Runs) if place.pods.is_empty() => steps.creations.push(name),
            Some(fit) => {
                let running = without_finished(rollout, name, place, steps, memo, plan);
                let is_bare = fit == Fit::Runs && place.staying().next().is_none();
                keep_one(rollout, name, is_bare, &running, steps);
            }
        }
    }
}

/// Deletes the finished pods of a node, and returns the others.
fn without_finished<'a>(
    rollout: &Rollout<'a>,
    node: &str,
    place: &Place<'a>,
    steps: &mut Steps<'a>,
    memo: &mut Memo,
    plan: &mut Plan<Memo>,
) -> Vec<Seen<'a>> {
    let subject = rollout.owner.subject();
    let mut running = Vec::new();
    for (object, pod) in place.staying() {
        let what = || format!("{}/{} on node {node}", object.meta().namespace, object.meta().name);
        match pod.status.phase.as_str() {
            "Failed" => {
                let (last, wait) = memo.get(node).copied().unwrap_or_default();
                if rollout.now.since(last) < wait {
                    plan.requeue_at(last.after(wait));
                    continue;
                }
                memo.insert(node.to_owned(), (rollout.now, (wait * 2).clamp(BACKOFF_MIN, BACKOFF_MAX)));
                let message = format!("Found failed daemon pod {}, will try to kill it", what());
                plan.events.push(subject.warning("FailedDaemonPod", message));
                steps.deletions.push(object);
            }
            "Succeeded" => {
                let message = format!("Found succeeded daemon pod {}, will try to delete it", what());
                plan.events.push(subject.normal("SucceededDaemonPod", message));
                steps.deletions.push(object);
            }
            _ => running.push((*object, *pod)),
        }
    }
    running
}

/// Keeps one pod on a node; during a surge, one of each template.
fn keep_one<'a>(
    rollout: &Rollout<'a>,
    node: &'a str,
    is_bare: bool,
    running: &[Seen<'a>],
    steps: &mut Steps<'a>,
) {
    if super::rolling::surge(rollout, 1) == 0 {
        steps.deletions.extend(running.iter().skip(1).map(|(pod, _)| *pod));
        return;
    }
    if is_bare {
        // With surge the new pod does not wait for the end of the old one.
        steps.creations.push(node);
    }
    if running.len() < 2 {
        return;
    }
    let (new, old): (Vec<_>, Vec<_>) = running.iter().partition(|pod| rollout.is_latest(pod));
    steps.deletions.extend(new.iter().skip(1).chain(old.iter().skip(1)).map(|(pod, _)| *pod));
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.1.is_ready() || rollout.is_available(new))
    {
        steps.deletions.push(old.0);
    }
}
