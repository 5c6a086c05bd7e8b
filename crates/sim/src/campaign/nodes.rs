//! The nodes: a loop of their own, as in a process beside the control plane. They take pods up, run them and see them
//! end; and they die, are cut off, start anew, return and are removed.
//!
//! What a node does is the product's doing; here is only what happens to it. Its switch is an annotation of its own
//! object, as `setpoint node` sets it.

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Jump, Object, Seed, World, WriteRequest};

use super::checks::{is_active, pod};
use super::faults::lose_events;
use super::marks::Marks;
use crate::cluster::{Cluster, Controllers, Parked};

/// Turns of the loop of nodes at one moment, before their work counts as endless.
const TURNS_MAX: usize = 300;
/// The nodes. The last one is for those that put up with its taint, so that it may fail where others must not.
pub const NAMES: [&str; 4] = ["node-0", "node-1", "node-2", SPARE];
/// The last node.
pub const SPARE: &str = "node-3";
/// The annotation that says whether a node works.
pub const POWER: &str = "simulate.setpoint.dev/power";
/// The annotation that says when a node was last started.
pub const BOOTED: &str = "simulate.setpoint.dev/booted";
/// The annotation that says how the containers of a pod end.
pub const EXIT_CODE: &str = "simulate.setpoint.dev/exit-code";
/// What nodes hear of.
const FOLLOWED: [&str; 4] = ["leases.coordination.k8s.io", "namespaces", "nodes", "pods"];
/// The planner that speaks for nodes, and not for their pods.
const STATUS: &str = "node-status";

/// The loop of the nodes, and what happens to them.
pub struct Nodes {
    parked: Parked,
    calm: bool,
}

/// Whether a node is cut off: its containers run, and nobody hears of them.
#[must_use]
pub fn is_cut_off(node: &Object) -> bool {
    node.meta().annotations.get(POWER) == Some("partitioned")
}

fn is_on(node: &Object) -> bool {
    node.meta().annotations.get(POWER).is_none_or(|power| power == "on")
}

/// The taint that keeps pods away from nodes that are kept for some.
#[must_use]
pub fn dedicated(effect: &str) -> Value {
    value!({"key": "dedicated", "value": "some", "effect": (effect)})
}

impl Nodes {
    /// Nodes that joined the cluster a while ago. In a calm campaign only the last one fails.
    #[must_use]
    pub fn new(cluster: &mut Cluster, controllers: Controllers, calm: bool) -> Nodes {
        for (number, name) in NAMES.into_iter().enumerate() {
            let range = format!("10.1.{number}.0/24");
            let labels = value!({"kubernetes.io/hostname": (name), "kubernetes.io/os": "linux"});
            let spec = value!({"podCIDR": (range.as_str()), "podCIDRs": [(range.as_str())]});
            cluster.create(
                "nodes",
                "",
                value!({"metadata": {"name": (name), "labels": (labels)}, "spec": (spec)}),
            );
            let taints = if name == SPARE { value!([(dedicated("NoSchedule"))]) } else { value!([]) };
            // A new node is tainted until somebody sees that it is ready.
            let _ = cluster.patch("nodes", name, "", value!({"spec": {"taints": (taints)}}));
        }
        let mut nodes = Nodes { parked: Cluster::another(controllers, &FOLLOWED), calm };
        nodes.start_again(cluster);
        nodes.beat(cluster);
        nodes
    }

    /// Their loop notices that the clock was set.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        self.parked.clock_jumped(jump, now);
    }

    /// Does something with the loop of the nodes.
    fn with<T>(&mut self, cluster: &mut Cluster, act: impl FnOnce(&mut Cluster) -> T) -> T {
        cluster.swap(&mut self.parked);
        let done = act(cluster);
        cluster.swap(&mut self.parked);
        done
    }

    /// Those that are up give a sign of life, if it is time to.
    pub fn beat(&mut self, cluster: &mut Cluster) {
        self.with(cluster, |cluster| {
            cluster.observe_only("leases.coordination.k8s.io");
            cluster.observe_only("nodes");
            cluster.plan();
            while cluster.perform_first(|sent| sent.reconciler.starts_with(STATUS) && !is_event(sent)) {}
        });
    }

    /// They do some of their work: of what they have heard, and not all of it.
    pub fn work(&mut self, cluster: &mut Cluster, world: &World, marks: &mut Marks) {
        self.with(cluster, |cluster| {
            if cluster.rng.u8(..4) == 0 {
                cluster.observe_some()
            } else {
                cluster.observe()
            }
            cluster.plan();
            for _ in 0..cluster.rng.u32(2..16) {
                if cluster.next_write().is_some() && cluster.rng.u8(..24) == 0 {
                    cluster.lose_answer();
                    marks.note("node lost an answer");
                } else {
                    cluster.perform_first(|sent| !is_event(sent));
                }
            }
            lose_events(cluster);
        });
        decide_fates(cluster, world);
    }

    /// They do all of their work. Says when they want to go on.
    ///
    /// # Errors
    /// If their work never ends.
    pub fn work_all(&mut self, cluster: &mut Cluster) -> Result<Option<Time>, String> {
        self.with(cluster, |cluster| {
            for _ in 0..TURNS_MAX {
                cluster.mend_watches();
                let wake = cluster.plan();
                lose_events(cluster);
                if !cluster.perform() && wake.is_none_or(|wake| wake > cluster.now) {
                    return Ok(wake);
                }
                while cluster.perform() {}
            }
            cluster.plan();
            let write = cluster.next_write().map(|sent| format!("{:?}", sent.write));
            let write: String = write.unwrap_or_default().chars().take(300).collect();
            Err(format!("no rest of nodes after {TURNS_MAX} turns at one moment: {write}"))
        })
    }

    /// Something happens to one of them, or to the process that they are in.
    pub fn fault(&mut self, cluster: &mut Cluster, world: &World, marks: &mut Marks) {
        match cluster.rng.u8(..10) {
            0 => {
                self.start_again(cluster);
                marks.note("nodes were started anew");
            }
            1 => self.with(cluster, |cluster| cluster.engine.drop_soft_state()),
            2 => self.with(cluster, Cluster::break_watch),
            3 if !self.calm => run_short(cluster, world, marks),
            _ => {
                let name = if self.calm { SPARE } else { NAMES[cluster.rng.usize(..NAMES.len())] };
                match world.find("nodes", "", name) {
                    Some(node) => self.switch(cluster, node, world, marks),
                    // One that was removed joins again when its process is started anew.
                    None => self.start_again(cluster),
                }
            }
        }
    }

    fn switch(&mut self, cluster: &mut Cluster, node: &Object, world: &World, marks: &mut Marks) {
        let name = node.key().name();
        let chance = cluster.rng.u8(..7);
        let (power, boots, mark) = match (is_on(node), chance) {
            (true, 0..3) => ("partitioned", false, "node was cut off"),
            (true, 3 | 4) => ("off", false, "node died"),
            (true, _) => ("on", true, "node was started anew"),
            (false, 0 | 1) if !self.calm => {
                if cluster.delete("nodes", name, &Value::map()).is_ok() {
                    marks.note("node was removed");
                }
                return;
            }
            (false, _) => ("on", !is_cut_off(node), "node was let back"),
        };
        let has_pods = world
            .all("pods")
            .any(|object| is_active(object) && pod(object).is_some_and(|pod| pod.spec.node_name == name));
        if set_power(cluster, name, power, boots) {
            marks.note(mark);
            if has_pods && power != "on" {
                marks.note("node died with pods");
            }
        }
    }

    /// All of them are well again.
    pub fn heal(&mut self, cluster: &mut Cluster, world: &World) {
        for node in world.all("nodes").filter(|node| !is_on(node)) {
            set_power(cluster, node.key().name(), "on", !is_cut_off(node));
        }
        self.start_again(cluster);
        self.beat(cluster);
    }

    /// Their process is started anew.
    pub fn start_again(&mut self, cluster: &mut Cluster) {
        self.with(cluster, Cluster::crash);
    }

    /// Whether nodes have nothing to do for their pods. What they say of themselves is a sign of life, and due again and
    /// again.
    ///
    /// # Errors
    /// If they have.
    pub fn check_quiet(&mut self, cluster: &mut Cluster) -> Result<(), String> {
        let mut gaps = self.with(cluster, |cluster| cluster.engine.gaps(cluster.now, Seed(7)));
        gaps.retain(|(name, ..)| *name != STATUS);
        if gaps.is_empty() { Ok(()) } else { Err(format!("nodes are not quiet: {gaps:#?}")) }
    }

    /// Whether a planner of theirs panicked.
    pub fn has_panicked(&mut self, cluster: &mut Cluster) -> bool {
        self.with(cluster, |cluster| cluster.engine.stats().any(|(_, _, stats)| stats.panics > 0))
    }
}

fn is_event(sent: &WriteRequest) -> bool {
    sent.write.resource().as_str() == "events"
}

fn set_power(cluster: &mut Cluster, name: &str, power: &str, boots: bool) -> bool {
    let mut annotations = Value::map();
    annotations.make_map().insert(POWER, power);
    if boots {
        annotations.make_map().insert(BOOTED, Micros(cluster.now).to_string());
    }
    cluster.patch("nodes", name, "", value!({"metadata": {"annotations": (annotations)}})).is_ok()
}

/// A node is short of something, and gets rid of a pod, as real ones do.
fn run_short(cluster: &mut Cluster, world: &World, marks: &mut Marks) {
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
    cluster.acting = "system:node";
    if cluster.patch("pods", object.key().path(), "status", value!({"status": (status)})).is_ok() {
        marks.note("node evicted a pod");
    }
    cluster.acting = "user";
}

/// A quarter of the pods that come to an end are to fail.
fn decide_fates(cluster: &mut Cluster, world: &World) {
    let is_doomed = |object: &&Object| {
        let ends = |pod: &Pod| pod.spec.restart_policy == "Never" && !pod.is_finished();
        pod(object).is_some_and(ends)
            && object.meta().uid.ends_with(['0', '1', '2', '3'])
            && object.meta().annotations.get(EXIT_CODE).is_none()
    };
    for object in world.all("pods").filter(is_doomed) {
        let mut annotations = Value::map();
        annotations.make_map().insert(EXIT_CODE, "1");
        let patch = value!({"metadata": {"annotations": (annotations)}});
        let _ = cluster.patch("pods", object.key().path(), "", patch);
    }
}
