//! Node lifecycle controller: sets conditions of silent nodes to `Unknown`, and taints unhealthy nodes.
//!
//! The age of a heartbeat is that of the commit of the node's Lease, by the clock of the store; timestamps
//! written by nodes are never trusted. `NoSchedule` taints follow the conditions at once. `NoExecute` taints
//! are added one node after the other, zone by zone ([`zones`]), and not at all while no node is healthy:
//! then a network failure of the control plane is more likely than the failure of all nodes.

pub mod zones;

use std::time::Duration;

use setpoint_api::{Key, Revision, Time, Value, value};
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Act, Jump, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::node::{Node, NodeCondition, Taint};
use setpoint_views::pod::Pod;

use self::zones::Pace;
use crate::indexes::PODS_BY_NODE;

/// Namespace of node Leases.
const LEASES: &str = "kube-node-lease";
/// Taint of a node with `Ready=False`.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of a node with `Ready=Unknown`.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that become `Unknown` when a node is silent.
const HEARD: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Taints that follow conditions: type, status, key.
const TAINTED: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Labels and their deprecated names, which are kept equal.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Grace periods of nodes, and the rate of eviction.
#[derive(Clone, Debug, PartialEq)]
pub struct Patience {
    /// Maximum age of a heartbeat.
    pub monitor_grace: Duration,
    /// Time for a new node to send its first heartbeat.
    pub startup_grace: Duration,
    /// Interval at which unhealthy nodes are checked.
    pub monitor_period: Duration,
    /// Rate at which nodes are tainted for eviction.
    pub pace: Pace,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            monitor_grace: Duration::from_secs(50),
            startup_grace: Duration::from_secs(60),
            monitor_period: Duration::from_secs(5),
            pace: Pace::default(),
        }
    }
}

/// The node lifecycle controller.
#[derive(Default)]
pub struct NodeLifecycle(pub Patience);

/// Memo of a node: start of the observation, time of the last status, and the last seen version of its Lease
/// with the time at which it was first seen.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    uid: Box<str>,
    since: Option<Time>,
    heartbeat: Option<Time>,
    heard: Option<Time>,
    renewed: Option<(Revision, Time)>,
}

impl Planner for NodeLifecycle {
    type Memo = Watched;

    fn name(&self) -> &'static str {
        "node-lifecycle-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:node-controller".to_owned()
    }

    fn source(&self) -> &'static str {
        "node-controller"
    }

    fn clock_jumped(&self, memo: &mut Watched, jump: Jump, now: Time) {
        // Silence counts only while the loop observes, and commits before the jump are dated by the wrong
        // clock.
        memo.since = memo.since.map(|_| now);
        memo.heard = memo.heard.map(|heard| jump.shift(heard));
        memo.renewed = memo.renewed.map(|(revision, seen)| (revision, jump.shift(seen)));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::itself("nodes"), Watch::via("pods", of_pod)];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Watched>,
        now: Time,
        _: Seed,
    ) -> Plan<Watched> {
        let mut plan = Plan::default();
        let found = world.get(key).and_then(|object| Some((object, object.view::<Node>()?)));
        let Some((object, node)) = found else {
            plan.notes.extend(farewell(key, &seen.memo));
            return plan;
        };
        let lease = world.find("leases.coordination.k8s.io", LEASES, key.name());
        plan.memo = watch(&seen.memo, object, node, lease, now);
        let subject = Subject::of(object, "v1", "Node");
        if seen.memo.uid != plan.memo.uid {
            let message = format!("Registered Node {} in Controller", key.name());
            plan.notes.push(subject.normal("RegisteredNode", message));
        }
        let (heard, grace) = self.last_heard(object, node, &plan.memo, lease);
        let deadline = heard.after(grace);
        let silenced = if now > deadline { silence(object, node, now) } else { Vec::new() };
        if !silenced.is_empty() {
            let status = value!({"status": {"conditions": (value_of(&silenced))}});
            let mut act = Act::from(Write::merge(object, "status", status).strategic());
            if node.is_ready() {
                let message = format!("Node {} status is now: NodeNotReady", key.name());
                act = act.on_done(subject.normal("NodeNotReady", message));
            }
            // Taints follow the conditions, so they are planned once these are visible.
            plan.stage([act]);
            return plan;
        }
        if now <= deadline {
            plan.look_again_at(deadline.after(Duration::from_micros(1)));
        }
        plan.stage(mend(object, node, world, now, &self.0.pace));
        if node.is_unreachable() {
            plan.stage(mark_pods(object, world, now));
        }
        if !node.is_ready() {
            plan.look_again_at(now.after(self.0.monitor_period));
        }
        plan
    }
}

/// Enqueues the silent node of a pod that is ready.
fn of_pod(object: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    let Some(pod) = object.view::<Pod>().filter(|pod| !pod.spec.node_name.is_empty() && pod.is_ready())
    else {
        return;
    };
    if world.view::<Node>("", &pod.spec.node_name).is_some_and(|(_, node)| node.is_unreachable())
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

fn watch(before: &Watched, object: &Object, node: &Node, lease: Option<&Object>, now: Time) -> Watched {
    let heartbeat = node.condition("Ready").and_then(|ready| ready.last_heartbeat_time);
    let renewed = lease
        .map(Object::revision)
        .map(|revision| before.renewed.filter(|(seen, _)| *seen == revision).unwrap_or((revision, now)));
    if before.uid != object.meta().uid {
        return Watched { uid: object.meta().uid.clone(), since: Some(now), heartbeat, heard: None, renewed };
    }
    let heard = if before.heartbeat == heartbeat { before.heard } else { Some(now) };
    Watched { uid: before.uid.clone(), since: before.since, heartbeat, heard, renewed }
}

fn farewell(key: &Key, memo: &Watched) -> Option<setpoint_reconcile::Note> {
    memo.since?;
    let about = Subject {
        key: key.clone(),
        api_version: "v1",
        kind: "Node",
        uid: memo.uid.clone(),
        revision: Revision(0),
        part: String::new(),
    };
    Some(about.normal("RemovingNode", format!("Removing Node {} from Controller", key.name())))
}

impl NodeLifecycle {
    /// Time of the last heartbeat, and the grace period that applies. Silence before the loop started does
    /// not count. A Lease was renewed at its commit, but not after it was first seen: the clock may have been
    /// set back.
    fn last_heard(
        &self,
        object: &Object,
        node: &Node,
        watched: &Watched,
        lease: Option<&Object>,
    ) -> (Time, Duration) {
        let lease = lease.map(Object::commit_time);
        let lease = lease.map(|at| watched.renewed.map_or(at, |(_, seen)| at.min(seen)));
        if node.condition("Ready").is_none() {
            // A creation in the future is from before the clock was set back.
            let made = object.meta().created();
            let made = watched.since.map_or(made, |since| made.min(since));
            return (lease.map_or(made, |renewed| renewed.max(made)), self.0.startup_grace);
        }
        let heard = [lease, watched.heard, watched.since].into_iter().flatten().max();
        (heard.unwrap_or(Time::EPOCH), self.0.monitor_grace)
    }
}

/// Conditions of a silent node that must change.
fn silence(object: &Object, node: &Node, now: Time) -> Vec<NodeCondition> {
    let unknown = |kind: &str| match node.condition(kind) {
        None => Some(NodeCondition {
            kind: kind.to_owned(),
            status: "Unknown".to_owned(),
            last_heartbeat_time: Some(object.meta().created()),
            last_transition_time: Some(now),
            reason: "NodeStatusNeverUpdated".to_owned(),
            message: "Kubelet never posted node status.".to_owned(),
        }),
        Some(known) if known.status != "Unknown" => Some(NodeCondition {
            kind: kind.to_owned(),
            status: "Unknown".to_owned(),
            last_heartbeat_time: known.last_heartbeat_time,
            last_transition_time: Some(now),
            reason: "NodeStatusUnknown".to_owned(),
            message: "Kubelet stopped posting node status.".to_owned(),
        }),
        Some(_) => None,
    };
    let mut changed: Vec<NodeCondition> = HEARD.into_iter().filter_map(unknown).collect();
    // Existing conditions keep their positions, and missing ones follow.
    let place = |one: &NodeCondition| node.status.conditions.iter().position(|known| known.kind == one.kind);
    changed.sort_by_key(|one| place(one).unwrap_or(usize::MAX));
    changed
}

/// Updates taints and labels in one write.
fn mend(object: &Object, node: &Node, world: &WorldReader<'_>, now: Time, pace: &Pace) -> Option<Act> {
    let mut patch = Value::map();
    let taints = taints(object, node, world, now, pace);
    if taints != node.spec.taints {
        patch.ensure_map("spec").insert("taints", value_of(&taints));
    }
    let labels = &object.meta().labels;
    for (name, older) in LABELS {
        if let Some(wanted) = labels.get(name).filter(|wanted| labels.get(older) != Some(*wanted)) {
            let metadata = patch.ensure_map("metadata");
            metadata.ensure("labels", Value::map).make_map().insert(older, wanted);
        }
    }
    (!patch.is_empty()).then(|| Write::merge(object, "", patch).into())
}

/// Desired taints of a node: those of other controllers unchanged, ours according to the conditions.
fn taints(object: &Object, node: &Node, world: &WorldReader<'_>, now: Time, pace: &Pace) -> Vec<Taint> {
    let is_so = |kind: &str, status: &str| node.condition(kind).is_some_and(|known| known.status == status);
    let mut wanted: Vec<(&str, &str)> = TAINTED
        .into_iter()
        .filter(|(kind, status, _)| is_so(kind, status))
        .map(|(_, _, key)| (key, "NoSchedule"))
        .collect();
    if node.spec.unschedulable {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted.extend(zones::evicting_taint(object, node, world, now, pace).map(|key| (key, "NoExecute")));
    let ours = |taint: &Taint| match taint.effect.as_str() {
        "NoSchedule" => taint.key == UNSCHEDULABLE || TAINTED.iter().any(|(_, _, key)| taint.key == *key),
        "NoExecute" => taint.key == NOT_READY || taint.key == UNREACHABLE,
        _ => false,
    };
    // A node that never posted a status keeps the taints of its registration.
    let silent = |taint: &Taint| taint.effect == "NoExecute" && node.readiness().is_none();
    let is_wanted = |taint: &Taint| wanted.iter().any(|(key, effect)| taint.matches(key, effect));
    let kept = node.spec.taints.iter().filter(|taint| !ours(taint) || is_wanted(taint) || silent(taint));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint.matches(key, effect)) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(Time::from_seconds(now.0.div_euclid(1_000_000))),
                ..Taint::default()
            });
        }
    }
    taints
}

/// Sets `Ready=False` on the pods of a silent node.
fn mark_pods(object: &Object, world: &WorldReader<'_>, now: Time) -> Vec<Act> {
    let mut acts = Vec::new();
    for pod in world.by_index(PODS_BY_NODE, object.key().name()) {
        let conditions = pod.view::<Pod>().map(|pod| &pod.status.conditions[..]).unwrap_or_default();
        let Some(ready) = conditions.iter().find(|one| one.kind == "Ready" && one.is_true()) else {
            continue;
        };
        let mut condition = ready.clone();
        condition.status = "False".into();
        condition.last_transition_time = Some(now);
        let status = value!({"status": {"conditions": (value_of(&[condition]))}});
        let note = Subject::of(pod, "v1", "Pod").warning("NodeNotReady", "Node is not ready");
        acts.push(Act::from(Write::merge(pod, "status", status).strategic()).on_done(note));
    }
    acts
}

#[cfg(test)]
mod tests;
