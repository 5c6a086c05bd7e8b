//! Nodes: a loop of their own, as in a process beside the control plane.
//!
//! The product's node planners run the pods. This module injects faults: nodes die, are partitioned, restart, return
//! and are removed. They are switched by an annotation of their Node object, as `setpoint node` does.

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::{Jump, Object, Seed, WorldReader, WriteRequest};
use setpoint_views::pod::Pod;

use super::checks::{is_active, pod};
use super::coverage::CoverageMarks;
use super::run::drop_events;
use crate::cluster::{Cluster, Controllers, ParkedLoop};

/// Turns of the nodes' loop at one moment, after which its work counts as endless.
const TURNS_MAX: usize = 300;
/// Names of the nodes. The last one has a taint that few pods tolerate, so that it may fail in calm runs.
pub const NAMES: [&str; 4] = ["node-0", "node-1", "node-2", SPARE];
/// Name of the last node.
pub const SPARE: &str = "node-3";
/// Annotation with the power state of a node: `on`, `off` or `partitioned`.
pub const POWER: &str = "simulate.setpoint.dev/power";
/// Annotation with the time of the last boot.
pub const BOOTED: &str = "simulate.setpoint.dev/booted";
/// Annotation with the exit code of a pod's containers.
pub const EXIT_CODE: &str = "simulate.setpoint.dev/exit-code";
/// Resources that the nodes watch.
const WATCHED: [&str; 4] = ["leases.coordination.k8s.io", "namespaces", "nodes", "pods"];
/// Planner of Node statuses and Leases.
const STATUS: &str = "node-status";

/// Loop of the nodes.
pub struct NodeLoop {
    node_loop: ParkedLoop,
    calm: bool,
}

/// `true` if a node is partitioned: its containers run, and it does not reach the API server.
#[must_use]
pub fn is_partitioned(node: &Object) -> bool {
    node.meta().annotations.get(POWER) == Some("partitioned")
}

fn is_on(node: &Object) -> bool {
    node.meta().annotations.get(POWER).is_none_or(|power| power == "on")
}

/// Taint of a node that is dedicated to some pods.
#[must_use]
pub fn dedicated_taint(effect: &str) -> Value {
    value!({"key": "dedicated", "value": "some", "effect": (effect)})
}

impl NodeLoop {
    /// Creates the nodes. In a calm campaign only the last one fails.
    #[must_use]
    pub fn new(cluster: &mut Cluster, controllers: Controllers, calm: bool) -> NodeLoop {
        for (number, name) in NAMES.into_iter().enumerate() {
            let range = format!("10.1.{number}.0/24");
            let labels = value!({"kubernetes.io/hostname": (name), "kubernetes.io/os": "linux"});
            let spec = value!({"podCIDR": (range.as_str()), "podCIDRs": [(range.as_str())]});
            cluster.create(
                "nodes",
                "",
                value!({"metadata": {"name": (name), "labels": (labels)}, "spec": (spec)}),
            );
            let taints = if name == SPARE { value!([(dedicated_taint("NoSchedule"))]) } else { value!([]) };
            // Replaces the not-ready taint of a new node.
            let _ = cluster.patch("nodes", name, "", value!({"spec": {"taints": (taints)}}));
        }
        let mut nodes = NodeLoop { node_loop: Cluster::new_parked_loop(controllers, &WATCHED), calm };
        nodes.restart(cluster);
        nodes.send_heartbeats(cluster);
        nodes
    }

    /// Notifies the loop that the clock was set.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        self.node_loop.clock_jumped(jump, now);
    }

    /// Runs `act` with the loop of the nodes in the cluster.
    fn with_loop<T>(&mut self, cluster: &mut Cluster, act: impl FnOnce(&mut Cluster) -> T) -> T {
        cluster.swap_loop(&mut self.node_loop);
        let done = act(cluster);
        cluster.swap_loop(&mut self.node_loop);
        done
    }

    /// Renews Leases and statuses of the nodes that are up, if that is due.
    pub fn send_heartbeats(&mut self, cluster: &mut Cluster) {
        self.with_loop(cluster, |cluster| {
            cluster.observe_only("leases.coordination.k8s.io");
            cluster.observe_only("nodes");
            cluster.plan();
            while cluster
                .perform_first(|request| request.reconciler.starts_with(STATUS) && !is_event(request))
            {
            }
        });
    }

    /// Does part of the work that is due, on events that may lag.
    pub fn work_some(&mut self, cluster: &mut Cluster, world: &WorldReader<'_>, marks: &mut CoverageMarks) {
        self.with_loop(cluster, |cluster| {
            if cluster.rng.u8(..4) == 0 {
                cluster.observe_some()
            } else {
                cluster.observe()
            }
            cluster.plan();
            for _ in 0..cluster.rng.u32(2..16) {
                if cluster.next_write().is_some() && cluster.rng.u8(..24) == 0 {
                    cluster.lose_response();
                    marks.record("node lost a response");
                } else {
                    cluster.perform_first(|request| !is_event(request));
                }
            }
            drop_events(cluster);
        });
        mark_pods_to_fail(cluster, world);
    }

    /// Does all work that is due. Returns the time of the next turn.
    ///
    /// # Errors
    /// If the work does not end within [`TURNS_MAX`] turns.
    pub fn work_all(&mut self, cluster: &mut Cluster) -> Result<Option<Time>, String> {
        self.with_loop(cluster, |cluster| {
            for _ in 0..TURNS_MAX {
                cluster.mend_watches();
                let next_turn_at = cluster.plan();
                drop_events(cluster);
                if !cluster.perform() && next_turn_at.is_none_or(|next_turn_at| next_turn_at > cluster.now) {
                    return Ok(next_turn_at);
                }
                while cluster.perform() {}
            }
            cluster.plan();
            let write = cluster.next_write().map(|request| format!("{:?}", request.write));
            let write: String = write.unwrap_or_default().chars().take(300).collect();
            Err(format!("nodes did not settle within {TURNS_MAX} turns at one time: {write}"))
        })
    }

    /// Injects a fault into a node, or into the process of the nodes.
    pub fn inject_fault(
        &mut self,
        cluster: &mut Cluster,
        world: &WorldReader<'_>,
        marks: &mut CoverageMarks,
    ) {
        match cluster.rng.u8(..10) {
            0 => {
                self.restart(cluster);
                marks.record("node process restarted");
            }
            1 => self.with_loop(cluster, |cluster| cluster.engine.drop_soft_state()),
            2 => self.with_loop(cluster, Cluster::break_watch),
            3 if !self.calm => evict_for_pressure(cluster, world, marks),
            _ => {
                let name = if self.calm { SPARE } else { NAMES[cluster.rng.usize(..NAMES.len())] };
                match world.find("nodes", "", name) {
                    Some(node) => self.switch_power(cluster, node, world, marks),
                    // A removed node registers again when its process restarts.
                    None => self.restart(cluster),
                }
            }
        }
    }

    fn switch_power(
        &mut self,
        cluster: &mut Cluster,
        node: &Object,
        world: &WorldReader<'_>,
        marks: &mut CoverageMarks,
    ) {
        let name = node.key().name();
        let chance = cluster.rng.u8(..7);
        let (power, boots, mark) = match (is_on(node), chance) {
            (true, 0..3) => ("partitioned", false, "node was partitioned"),
            (true, 3 | 4) => ("off", false, "node died"),
            (true, _) => ("on", true, "node restarted"),
            (false, 0 | 1) if !self.calm => {
                if cluster.delete("nodes", name, &Value::map()).is_ok() {
                    marks.record("node was removed");
                }
                return;
            }
            (false, _) => ("on", !is_partitioned(node), "node was reconnected"),
        };
        let has_pods = world
            .all("pods")
            .any(|object| is_active(object) && pod(object).is_some_and(|pod| pod.spec.node_name == name));
        if set_power(cluster, name, power, boots) {
            marks.record(mark);
            if has_pods && power != "on" {
                marks.record("node died with pods");
            }
        }
    }

    /// Switches all nodes on.
    pub fn heal(&mut self, cluster: &mut Cluster, world: &WorldReader<'_>) {
        for node in world.all("nodes").filter(|node| !is_on(node)) {
            set_power(cluster, node.key().name(), "on", !is_partitioned(node));
        }
        self.restart(cluster);
        self.send_heartbeats(cluster);
    }

    /// Restarts the process of the nodes.
    pub fn restart(&mut self, cluster: &mut Cluster) {
        self.with_loop(cluster, Cluster::crash);
    }

    /// Checks that nodes have nothing to write for pods. Heartbeats are always due again.
    ///
    /// # Errors
    /// If a node has something to write.
    pub fn check_quiet(&mut self, cluster: &mut Cluster) -> Result<(), String> {
        let mut gaps = self.with_loop(cluster, |cluster| cluster.engine.gaps(cluster.now, Seed(7)));
        gaps.retain(|(name, ..)| *name != STATUS);
        if gaps.is_empty() { Ok(()) } else { Err(format!("nodes are not quiet: {gaps:#?}")) }
    }

    /// `true` if a planner of the nodes panicked.
    pub fn has_panicked(&mut self, cluster: &mut Cluster) -> bool {
        self.with_loop(cluster, |cluster| cluster.engine.stats().any(|(_, _, stats)| stats.panics > 0))
    }
}

fn is_event(request: &WriteRequest) -> bool {
    request.write.resource().as_str() == "events"
}

fn set_power(cluster: &mut Cluster, name: &str, power: &str, boots: bool) -> bool {
    let mut annotations = Value::map();
    annotations.make_map().insert(POWER, power);
    if boots {
        annotations.make_map().insert(BOOTED, Micros(cluster.now).to_string());
    }
    cluster.patch("nodes", name, "", value!({"metadata": {"annotations": (annotations)}})).is_ok()
}

/// Evicts a pod from a node under resource pressure, as a kubelet does.
fn evict_for_pressure(cluster: &mut Cluster, world: &WorldReader<'_>, marks: &mut CoverageMarks) {
    let is_here = |object: &&Object| {
        let node = pod(object).and_then(|pod| world.find("nodes", "", &pod.spec.node_name));
        is_active(object) && node.is_some_and(is_on)
    };
    let pods: Vec<&Object> = world.all("pods").filter(is_here).collect();
    let Some(object) = cluster.rng.choice(&pods) else { return };
    let status = value!({
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
        "conditions": [{"type": "Ready", "status": "False"}],
    });
    cluster.user = "system:node";
    if cluster.patch("pods", object.key().path(), "status", value!({"status": (status)})).is_ok() {
        marks.record("node evicted a pod");
    }
    cluster.user = "user";
}

/// Marks a quarter of the pods with `restartPolicy: Never` to fail.
fn mark_pods_to_fail(cluster: &mut Cluster, world: &WorldReader<'_>) {
    let is_to_fail = |object: &&Object| {
        let ends = |pod: &Pod| pod.spec.restart_policy == "Never" && !pod.is_finished();
        pod(object).is_some_and(ends)
            && object.meta().uid.ends_with(['0', '1', '2', '3'])
            && object.meta().annotations.get(EXIT_CODE).is_none()
    };
    for object in world.all("pods").filter(is_to_fail) {
        let mut annotations = Value::map();
        annotations.make_map().insert(EXIT_CODE, "1");
        let patch = value!({"metadata": {"annotations": (annotations)}});
        let _ = cluster.patch("pods", object.key().path(), "", patch);
    }
}
