//! Node lifecycle controller: sets conditions of silent nodes to `Unknown`, and taints unhealthy nodes.
//!
//! The age of a heartbeat is that of the commit of the node's Lease, by the clock of the store; timestamps
//! written by nodes are never trusted. `NoSchedule` taints follow the conditions at once. `NoExecute` taints
//! are added one node after the other, zone by zone ([`zones`]), and not at all while no node is healthy:
//! then a network failure of the control plane is more likely than the failure of all nodes.

pub mod zones;

use std::time::Duration;

use setpoint_api::{Key, Revision, Time, Value, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Jump, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::node::{Node, NodeCondition, Taint};
use setpoint_views::pod::Pod;

use self::zones::EvictionRate;
use crate::indexes::PODS_BY_NODE;

/// Namespace of node Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Taint of a node with `Ready=False`.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of a node with `Ready=Unknown`.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Conditions that become `Unknown` when a node is silent.
const HEARTBEAT_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Taints that follow conditions: type, status, key.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Labels and their deprecated names, which are kept equal.
const DEPRECATED_LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Grace periods of nodes, and the rate of eviction.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeMonitorSettings {
    /// Maximum age of a heartbeat.
    pub monitor_grace: Duration,
    /// Time for a new node to send its first heartbeat.
    pub startup_grace: Duration,
    /// Interval at which unhealthy nodes are checked.
    pub monitor_period: Duration,
    /// Rate at which nodes are tainted for eviction.
    pub eviction_rate: EvictionRate,
}

impl Default for NodeMonitorSettings {
    fn default() -> NodeMonitorSettings {
        NodeMonitorSettings {
            monitor_grace: Duration::from_secs(50),
            startup_grace: Duration::from_secs(60),
            monitor_period: Duration::from_secs(5),
            eviction_rate: EvictionRate::default(),
        }
    }
}

/// The node lifecycle controller.
#[derive(Default)]
pub struct NodeLifecycle(pub NodeMonitorSettings);

/// Memo of a node: start of the observation, time of the last status, and the last seen version of its Lease
/// with the time at which it was first seen.
#[derive(Clone, Debug, Default)]
pub struct NodeHealth {
    uid: Box<str>,
    since: Option<Time>,
    heartbeat: Option<Time>,
    last_status: Option<Time>,
    lease: Option<(Revision, Time)>,
}

impl Planner for NodeLifecycle {
    type Memo = NodeHealth;

    fn name(&self) -> &'static str {
        "node-lifecycle-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:node-controller".to_owned()
    }

    fn source(&self) -> &'static str {
        "node-controller"
    }

    fn clock_jumped(&self, memo: &mut NodeHealth, jump: Jump, now: Time) {
        // Silence counts only while the loop observes, and commits before the jump are dated by the wrong
        // clock.
        memo.since = memo.since.map(|_| now);
        memo.last_status = memo.last_status.map(|heartbeat_time| jump.shift(heartbeat_time));
        memo.lease = memo.lease.map(|(revision, seen)| (revision, jump.shift(seen)));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::primary("nodes"), Watch::mapped("pods", enqueue_for_pod)];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, NodeHealth>,
        now: Time,
        _: Seed,
    ) -> Plan<NodeHealth> {
        let mut plan = Plan::default();
        let found = world.get(key).and_then(|object| Some((object, object.view::<Node>()?)));
        let Some((object, node)) = found else {
            plan.events.extend(removing_node_event(key, &seen.memo));
            return plan;
        };
        let lease = world.find("leases.coordination.k8s.io", LEASE_NAMESPACE, key.name());
        plan.memo = update_health(&seen.memo, object, node, lease, now);
        let subject = InvolvedObject::new(object, "v1", "Node");
        if seen.memo.uid != plan.memo.uid {
            let message = format!("Registered Node {} in Controller", key.name());
            plan.events.push(subject.normal("RegisteredNode", message));
        }
        let (heartbeat_time, grace) = self.last_heartbeat(object, node, &plan.memo, lease);
        let deadline = heartbeat_time.after(grace);
        let unknown = if now > deadline { unknown_conditions(object, node, now) } else { Vec::new() };
        if !unknown.is_empty() {
            let status = value!({"status": {"conditions": (value_of(&unknown))}});
            let mut action = Action::from(Write::merge(object, "status", status).strategic());
            if node.is_ready() {
                let message = format!("Node {} status is now: NodeNotReady", key.name());
                action = action.on_done(subject.normal("NodeNotReady", message));
            }
            // Taints follow the conditions, so they are planned once these are visible.
            plan.stage([action]);
            return plan;
        }
        if now <= deadline {
            plan.requeue_at(deadline.after(Duration::from_micros(1)));
        }
        plan.stage(sync_taints_and_labels(object, node, world, now, &self.0.eviction_rate));
        if node.is_unreachable() {
            plan.stage(mark_pods_not_ready(object, world, now));
        }
        if !node.is_ready() {
            plan.requeue_at(now.after(self.0.monitor_period));
        }
        plan
    }
}

/// Enqueues the silent node of a pod that is ready.
fn enqueue_for_pod(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(pod) = object.view::<Pod>().filter(|pod| !pod.spec.node_name.is_empty() && pod.is_ready())
    else {
        return;
    };
    if world.view::<Node>("", &pod.spec.node_name).is_some_and(|(_, node)| node.is_unreachable())
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        enqueue(key);
    }
}

fn update_health(
    before: &NodeHealth,
    object: &Object,
    node: &Node,
    lease: Option<&Object>,
    now: Time,
) -> NodeHealth {
    let heartbeat = node.condition("Ready").and_then(|ready| ready.last_heartbeat_time);
    let renewed = lease
        .map(Object::revision)
        .map(|revision| before.lease.filter(|(seen, _)| *seen == revision).unwrap_or((revision, now)));
    if before.uid != object.meta().uid {
        return NodeHealth {
            uid: object.meta().uid.clone(),
            since: Some(now),
            heartbeat,
            last_status: None,
            lease: renewed,
        };
    }
    let last_status = if before.heartbeat == heartbeat { before.last_status } else { Some(now) };
    NodeHealth { uid: before.uid.clone(), since: before.since, heartbeat, last_status, lease: renewed }
}

fn removing_node_event(key: &Key, memo: &NodeHealth) -> Option<setpoint_reconcile::EventRecord> {
    memo.since?;
    let subject = InvolvedObject {
        key: key.clone(),
        api_version: "v1",
        kind: "Node",
        uid: memo.uid.clone(),
        revision: Revision(0),
        field_path: String::new(),
    };
    Some(subject.normal("RemovingNode", format!("Removing Node {} from Controller", key.name())))
}

impl NodeLifecycle {
    /// Time of the last heartbeat, and the grace period that applies. Silence before the loop started does
    /// not count. A Lease was renewed at its commit, but not after it was first seen: the clock may have been
    /// set back.
    fn last_heartbeat(
        &self,
        object: &Object,
        node: &Node,
        health: &NodeHealth,
        lease: Option<&Object>,
    ) -> (Time, Duration) {
        let lease = lease.map(Object::commit_time);
        let lease = lease.map(|at| health.lease.map_or(at, |(_, seen)| at.min(seen)));
        if node.condition("Ready").is_none() {
            // A creation in the future is from before the clock was set back.
            let created = object.meta().created();
            let created = health.since.map_or(created, |since| created.min(since));
            return (lease.map_or(created, |renewed| renewed.max(created)), self.0.startup_grace);
        }
        let heartbeat_time = [lease, health.last_status, health.since].into_iter().flatten().max();
        (heartbeat_time.unwrap_or(Time::EPOCH), self.0.monitor_grace)
    }
}

/// Conditions of a silent node that must change.
fn unknown_conditions(object: &Object, node: &Node, now: Time) -> Vec<NodeCondition> {
    let unknown = |kind: &str| match node.condition(kind) {
        None => Some(NodeCondition {
            kind: kind.to_owned(),
            status: "Unknown".to_owned(),
            last_heartbeat_time: Some(object.meta().created()),
            last_transition_time: Some(now),
            reason: "NodeStatusNeverUpdated".to_owned(),
            message: "Kubelet never posted node status.".to_owned(),
        }),
        Some(current) if current.status != "Unknown" => Some(NodeCondition {
            kind: kind.to_owned(),
            status: "Unknown".to_owned(),
            last_heartbeat_time: current.last_heartbeat_time,
            last_transition_time: Some(now),
            reason: "NodeStatusUnknown".to_owned(),
            message: "Kubelet stopped posting node status.".to_owned(),
        }),
        Some(_) => None,
    };
    let mut changed: Vec<NodeCondition> = HEARTBEAT_CONDITIONS.into_iter().filter_map(unknown).collect();
    // Existing conditions keep their positions, and missing ones follow.
    let position = |condition: &NodeCondition| {
        node.status.conditions.iter().position(|existing| existing.kind == condition.kind)
    };
    changed.sort_by_key(|condition| position(condition).unwrap_or(usize::MAX));
    changed
}

/// Updates taints and labels in one write.
fn sync_taints_and_labels(
    object: &Object,
    node: &Node,
    world: &WorldReader<'_>,
    now: Time,
    eviction_rate: &EvictionRate,
) -> Option<Action> {
    let mut patch = Value::map();
    let taints = desired_taints(object, node, world, now, eviction_rate);
    if taints != node.spec.taints {
        patch.ensure_map("spec").insert("taints", value_of(&taints));
    }
    let labels = &object.meta().labels;
    for (name, deprecated) in DEPRECATED_LABELS {
        if let Some(desired) = labels.get(name).filter(|desired| labels.get(deprecated) != Some(*desired)) {
            let metadata = patch.ensure_map("metadata");
            metadata.ensure("labels", Value::map).make_map().insert(deprecated, desired);
        }
    }
    (!patch.is_empty()).then(|| Write::merge(object, "", patch).into())
}

/// Desired taints of a node: those of other controllers unchanged, ours according to the conditions.
fn desired_taints(
    object: &Object,
    node: &Node,
    world: &WorldReader<'_>,
    now: Time,
    eviction_rate: &EvictionRate,
) -> Vec<Taint> {
    let has_condition =
        |kind: &str, status: &str| node.condition(kind).is_some_and(|condition| condition.status == status);
    let mut desired: Vec<(&str, &str)> = CONDITION_TAINTS
        .into_iter()
        .filter(|(kind, status, _)| has_condition(kind, status))
        .map(|(_, _, key)| (key, "NoSchedule"))
        .collect();
    if node.spec.unschedulable {
        desired.push((UNSCHEDULABLE, "NoSchedule"));
    }
    desired.extend(
        zones::desired_no_execute_taint(object, node, world, now, eviction_rate)
            .map(|key| (key, "NoExecute")),
    );
    let is_managed = |taint: &Taint| match taint.effect.as_str() {
        "NoSchedule" => {
            taint.key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(_, _, key)| taint.key == *key)
        }
        "NoExecute" => taint.key == NOT_READY || taint.key == UNREACHABLE,
        _ => false,
    };
    // A node that never posted a status keeps the taints of its registration.
    let is_registration_taint = |taint: &Taint| taint.effect == "NoExecute" && node.readiness().is_none();
    let is_desired = |taint: &Taint| desired.iter().any(|(key, effect)| taint.matches(key, effect));
    let kept = node
        .spec
        .taints
        .iter()
        .filter(|taint| !is_managed(taint) || is_desired(taint) || is_registration_taint(taint));
    let mut taints: Vec<Taint> = kept.cloned().collect();
    for (key, effect) in desired {
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
fn mark_pods_not_ready(object: &Object, world: &WorldReader<'_>, now: Time) -> Vec<Action> {
    let mut actions = Vec::new();
    for pod in world.by_index(PODS_BY_NODE, object.key().name()) {
        let conditions = pod.view::<Pod>().map(|pod| &pod.status.conditions[..]).unwrap_or_default();
        let Some(ready) =
            conditions.iter().find(|condition| condition.kind == "Ready" && condition.is_true())
        else {
            continue;
        };
        let mut condition = ready.clone();
        condition.status = "False".into();
        condition.last_transition_time = Some(now);
        let status = value!({"status": {"conditions": (value_of(&[condition]))}});
        let event = InvolvedObject::new(pod, "v1", "Pod").warning("NodeNotReady", "Node is not ready");
        actions.push(Action::from(Write::merge(pod, "status", status).strategic()).on_done(event));
    }
    actions
}

#[cfg(test)]
mod tests;
