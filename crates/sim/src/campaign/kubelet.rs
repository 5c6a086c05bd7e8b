//! The nodes: they take pods up, run them, see them end, and die, flap and return.
//!
//! [`Nodes`] is all that a campaign wants of them; [`StandIn`] plays the scheduler and the kubelets. It keeps the
//! truth that the API cannot know: which containers really run where, also on nodes that nobody hears of.

mod placing;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::rfc3339::{Micros, Seconds};
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::views::node::Node;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Object, World};

use super::marks::Marks;
use crate::cluster::Cluster;

pub use placing::target;

/// What a campaign wants of nodes.
pub trait Nodes {
    /// They join the cluster.
    fn begin(&mut self, cluster: &mut Cluster);
    /// Those that are up give a sign of life, if it is time to.
    fn beat(&mut self, cluster: &mut Cluster, world: &World);
    /// They do some of their work, or all of it.
    fn work(&mut self, cluster: &mut Cluster, world: &World, all: bool, marks: &mut Marks);
    /// One of them dies, returns or is removed.
    fn fault(&mut self, cluster: &mut Cluster, world: &World, marks: &mut Marks);
    /// All of them are well again.
    fn heal(&mut self, cluster: &mut Cluster, world: &World);
    /// What must hold on nodes, whatever the API says.
    ///
    /// # Errors
    /// If it does not.
    fn check(&self) -> Result<(), String>;
}

/// How often a node gives a sign of life.
const BEAT: Duration = Duration::from_secs(10);
/// The nodes.
const NAMES: [&str; 3] = ["n0", "n1", "n2"];

/// Plays the scheduler and the kubelets.
pub struct StandIn {
    /// Whether pods never fail by themselves.
    calm: bool,
    /// When each node last gave a sign of life; nothing for one that is cut off.
    up: BTreeMap<&'static str, Option<Time>>,
    /// Containers that really run: by the path of their pod and its identity, on which node.
    running: BTreeMap<(String, Box<str>), String>,
    broken: Option<String>,
    addresses: u32,
}

impl StandIn {
    /// Nodes whose pods fail now and then, unless they are calm.
    #[must_use]
    pub fn new(calm: bool) -> StandIn {
        let up = NAMES.map(|name| (name, Some(Time::EPOCH))).into();
        StandIn { calm, up, running: BTreeMap::new(), broken: None, addresses: 0 }
    }

    fn is_up(&self, node: &str) -> bool {
        self.up.get(node).is_some_and(Option::is_some)
    }

    /// What a node does about one of its pods.
    fn tend(
        &mut self,
        cluster: &mut Cluster,
        object: &Object,
        pod: &Pod,
        world: &World,
        healing: bool,
        marks: &mut Marks,
    ) {
        let path = object.key().path().to_owned();
        if object.meta().is_deleted() {
            return self.end(cluster, object, pod, marks);
        }
        match pod.status.phase.as_str() {
            "Pending" => self.start(cluster, object, pod, world),
            "Running" if pod.spec.restart_policy == "Never" => {
                let fails = !healing && cluster.rng.u8(..4) == 0;
                if self.say(cluster, &path, &ended(fails)) {
                    self.running.remove(&(path, object.meta().uid.clone()));
                    marks.note(if fails { "pod failed" } else { "pod succeeded" });
                }
            }
            // While its node is held for lost, a pod is held for lost too.
            "Running" if !pod.is_ready() && is_well(world, &pod.spec.node_name) => {
                self.say(cluster, &path, &ready(cluster.now, "True"));
            }
            "Running" if !self.calm && !healing => self.trouble(cluster, object, marks),
            _ => {}
        }
    }

    fn say(&self, cluster: &mut Cluster, path: &str, status: &Value) -> bool {
        cluster.patch("pods", path, "status", value!({"status": (status.clone())})).is_ok()
    }

    fn start(&mut self, cluster: &mut Cluster, object: &Object, pod: &Pod, world: &World) {
        let path = object.key().path().to_owned();
        self.addresses += 1;
        let mut status = ready(cluster.now, "True");
        let ip =
            format!("10.{}.{}.{}", self.addresses >> 16, self.addresses >> 8 & 255, self.addresses & 255);
        let map = status.make_map();
        map.insert("phase", "Running");
        map.insert("podIP", ip.as_str());
        map.insert("podIPs", value!([{"ip": (ip.as_str())}]));
        map.insert("startTime", Seconds(cluster.now).to_string());
        if !self.say(cluster, &path, &status) {
            return;
        }
        let others =
            self.running.iter().filter(|((other, uid), _)| *other == path && *uid != object.meta().uid);
        // A node that was removed took its containers along, as far as anybody can know.
        let others = others.filter(|(_, node)| world.find("nodes", "", node).is_some());
        let is_ordinal = object.meta().controller().is_some_and(|owner| &*owner.kind == "StatefulSet");
        if is_ordinal && let Some(((_, uid), node)) = others.into_iter().next() {
            self.broken =
                Some(format!("{path} starts on {} while {uid} still runs on {node}", pod.spec.node_name));
        }
        self.running.insert((path, object.meta().uid.clone()), pod.spec.node_name.clone());
    }

    /// A pod that was deleted ends, and then it is gone.
    fn end(&mut self, cluster: &mut Cluster, object: &Object, pod: &Pod, marks: &mut Marks) {
        if object.meta().deletion_grace_period_seconds == Some(0) {
            return;
        }
        let path = object.key().path().to_owned();
        self.running.remove(&(path.clone(), object.meta().uid.clone()));
        if pod.spec.restart_policy == "Never" && !pod.is_finished() {
            let fails = cluster.rng.u8(..3) > 0;
            if !self.say(cluster, &path, &ended(fails)) {
                return;
            }
        }
        let uid = value!({"uid": (&*object.meta().uid)});
        let now = value!({"gracePeriodSeconds": 0, "preconditions": (uid)});
        if cluster.delete("pods", &path, &now).is_ok() {
            marks.note("pod vanished");
        }
    }

    /// Now and then a pod fails, or cannot serve.
    fn trouble(&mut self, cluster: &mut Cluster, object: &Object, marks: &mut Marks) {
        let path = object.key().path().to_owned();
        match cluster.rng.u8(..12) {
            0 if self.say(cluster, &path, &ended(true)) => {
                self.running.remove(&(path, object.meta().uid.clone()));
                marks.note("pod failed");
            }
            1 if self.say(cluster, &path, &ready(cluster.now, "False")) => {
                marks.note("pod lost its readiness")
            }
            _ => {}
        }
    }

    /// A node says that it is well, where the API does not have it so; one that was removed joins again.
    fn report(cluster: &mut Cluster, name: &str, world: &World) {
        if world.find("nodes", "", name).is_none() {
            let labels = value!({"kubernetes.io/hostname": (name), "kubernetes.io/os": "linux"});
            let _ =
                cluster.try_create("nodes", "", value!({"metadata": {"name": (name), "labels": (labels)}}));
        }
        if !is_well(world, name) {
            let now = Seconds(cluster.now).to_string();
            let ready = value!({
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
                "lastHeartbeatTime": (now.as_str()), "lastTransitionTime": (now.as_str()),
            });
            let _ = cluster.patch("nodes", name, "status", value!({"status": {"conditions": [(ready)]}}));
        }
    }
}

impl Nodes for StandIn {
    fn begin(&mut self, cluster: &mut Cluster) {
        self.beat(cluster, &World::default());
    }

    fn beat(&mut self, cluster: &mut Cluster, world: &World) {
        cluster.acting = "system:node";
        for (name, last) in &mut self.up {
            let Some(last) = last.as_mut().filter(|last| cluster.now.since(**last) >= BEAT) else { continue };
            *last = cluster.now;
            let renewed = value!({"holderIdentity": (*name), "renewTime": (Micros(cluster.now).to_string())});
            let path = format!("kube-node-lease/{name}");
            let lease = value!({"spec": (renewed.clone())});
            if cluster.patch("leases.coordination.k8s.io", &path, "", lease).is_err() {
                let lease = value!({"metadata": {"name": (*name)}, "spec": (renewed)});
                let _ = cluster.try_create("leases.coordination.k8s.io", "kube-node-lease", lease);
            }
            StandIn::report(cluster, name, world);
        }
        cluster.acting = "user";
    }

    fn work(&mut self, cluster: &mut Cluster, world: &World, all: bool, marks: &mut Marks) {
        cluster.acting = "system:node";
        // What no longer is in the API is stopped where it runs, on nodes that hear of it.
        let up: Vec<&str> = NAMES.into_iter().filter(|name| self.is_up(name)).collect();
        self.running.retain(|(_, uid), node| !up.contains(&node.as_str()) || world.identified(uid).is_some());
        for object in world.all("pods") {
            let Some(pod) = object.view::<Pod>() else { continue };
            if !all && cluster.rng.u8(..16) < 8 {
                continue;
            }
            if pod.spec.node_name.is_empty() {
                placing::place(cluster, object, pod, world, marks);
            } else if self.is_up(&pod.spec.node_name) {
                self.tend(cluster, object, pod, world, all, marks);
            }
        }
        cluster.acting = "user";
    }

    fn fault(&mut self, cluster: &mut Cluster, world: &World, marks: &mut Marks) {
        if self.calm {
            return;
        }
        let name = NAMES[cluster.rng.usize(..NAMES.len())];
        let is_up = self.is_up(name);
        if is_up {
            self.up.insert(name, None);
            marks.note("node died");
        } else if cluster.rng.u8(..3) > 0 {
            self.up.insert(name, Some(Time::EPOCH));
            marks.note("node returned");
        } else if world.find("nodes", "", name).is_some()
            && cluster.delete("nodes", name, &Value::map()).is_ok()
        {
            marks.note("node was removed");
        }
    }

    fn heal(&mut self, cluster: &mut Cluster, world: &World) {
        self.up.values_mut().for_each(|last| *last = Some(Time::EPOCH));
        self.beat(cluster, world);
    }

    fn check(&self) -> Result<(), String> {
        self.broken.clone().map_or(Ok(()), Err)
    }
}

/// Whether the API has a node for well.
fn is_well(world: &World, name: &str) -> bool {
    world.view::<Node>("", name).is_some_and(|(_, node)| {
        node.status.conditions.iter().any(|one| one.kind == "Ready" && one.status == "True")
    })
}

fn ready(now: Time, status: &str) -> Value {
    let now = Seconds(now).to_string();
    let ready = value!({"type": "Ready", "status": (status), "lastTransitionTime": (now)});
    value!({"conditions": [(ready)]})
}

fn ended(fails: bool) -> Value {
    let ready = value!({"type": "Ready", "status": "False"});
    value!({"phase": (if fails { "Failed" } else { "Succeeded" }), "conditions": [(ready)]})
}
