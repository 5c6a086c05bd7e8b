//! Worlds of nodes, their pods, and unscheduled pods.

use setpoint_api::{Value, value};
use setpoint_reconcile::Object;
use setpoint_scheduler::cost::COST_MAX;

use super::Case;
use crate::objects::*;

fn silent(at: usize) -> Value {
    let condition = value!({"type": "Ready", "status": "Unknown", "lastHeartbeatTime": "2027-01-15T07:00:00Z",
        "lastTransitionTime": (format!("2027-01-15T07:{:02}:{:02}Z", at / 60 % 60, at % 60))});
    saying(node(), "conditions", value!([(condition)]))
}

/// Bound pod that its node has not started yet.
fn bound(node: &str) -> Value {
    with(pending(), "nodeName", node)
}

fn on_node(len: usize, node: Value, pod: impl Fn(usize) -> Value) -> Vec<Object> {
    many(len, "pods", "default/p", pod).chain([object("nodes", "node-0", node)]).collect()
}

fn tolerating(len: usize) -> Value {
    list(len, |at| value!({"key": (name("k", at)), "operator": "Exists", "tolerationSeconds": 1_000_000}))
}

fn tainted(len: usize, effect: &str) -> Value {
    let taint =
        |at| value!({"key": (name("k", at)), "effect": (effect), "timeAdded": "2027-01-15T07:00:00Z"});
    with(node(), "taints", list(len, taint))
}

fn without_block() -> Value {
    let mut node = node();
    node.make_map().remove("spec");
    node
}

/// Pod with `len` containers.
fn with_containers(len: usize) -> Value {
    let container = |at| value!({"name": (name("c", at)), "image": "i"});
    with(bound("node-0"), "containers", list(len, container))
}

fn affine(kind: &str) -> Value {
    let term =
        value!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
    let mut affinity = value!({});
    affinity.ensure_map(kind).insert("requiredDuringSchedulingIgnoredDuringExecution", value!([(term)]));
    with(pending(), "affinity", affinity)
}

fn named_node(at: usize) -> Value {
    labeled(node(), "kubernetes.io/hostname", name("n", at))
}

const QUEUE: &str = "leases.coordination.k8s.io kube-system/kube-scheduler";

pub const CASES: &[Case] = &[
    Case::new("node-lifecycle-controller", "silent nodes of a zone", "nodes n000000", |len| {
        many(len, "nodes", "n", silent).chain(many(len, "nodes", "w", |_| node())).collect()
    }),
    Case::new("node-lifecycle-controller", "pods of a silent node", "nodes node-0", |len| {
        on_node(len, silent(0), |_| pod("node-0"))
    }),
    Case::new("node-lifecycle-controller", "taints", "nodes node-0", |len| {
        vec![object("nodes", "node-0", with(tainted(len, "NoSchedule"), "unschedulable", true))]
    }),
    Case::new("ttl-controller", "nodes", "nodes n000000", |len| {
        many(len, "nodes", "n", |_| node()).collect()
    }),
    Case::new("node-ipam-controller", "nodes without a block", "nodes all", |len| {
        many(len, "nodes", "n", |_| without_block()).collect()
    }),
    Case::new("taint-eviction-controller", "pods of a node", "nodes node-0", |len| {
        on_node(len, tainted(1, "NoExecute"), |_| pod("node-0"))
    }),
    Case::new("taint-eviction-controller", "pods of a node that wait", "nodes node-0", |len| {
        let tolerations = tolerating(1);
        on_node(len, tainted(1, "NoExecute"), |_| with(pod("node-0"), "tolerations", tolerations.clone()))
    }),
    Case::new("taint-eviction-controller", "taints and tolerations", "nodes node-0", |len| {
        on_node(1, tainted(len, "NoExecute"), |_| with(pod("node-0"), "tolerations", tolerating(len)))
    }),
    Case::new("pod-garbage-collector", "terminated pods", "pods terminated", |len| {
        many(len, "pods", "default/p", |_| saying(pod("n0"), "phase", "Failed")).collect()
    }),
    Case::new("pod-garbage-collector", "pods of a node that is gone", "pods default/p000000", |len| {
        many(len, "pods", "default/p", |_| pod("n0")).collect()
    }),
    Case::new("node-status", "pods with images of their own", "nodes node-0", |len| {
        on_node(len, node(), |at| {
            with(pod("node-0"), "containers", value!([{"name": "c", "image": (name("i", at))}]))
        })
    }),
    Case::new("node-admission", "new pods", "nodes node-0", |len| on_node(len, node(), |_| bound("node-0"))),
    Case::new("node-admission", "new pods beside others", "nodes node-0", |len| {
        let others = many(len, "pods", "default/q", |at| {
            with(pod("node-0"), "containers", value!([{"name": "c", "image": (name("i", at))}]))
        });
        others.chain(on_node(len, node(), |_| bound("node-0"))).collect()
    }),
    Case::new("node-admission", "new pods with ports of the node", "nodes node-0", |len| {
        on_node(len, node(), |at| {
            let port = value!({"containerPort": 80, "hostPort": (at as i64 + 1), "protocol": "TCP"});
            with(bound("node-0"), "containers", value!([{"name": "c", "image": "i", "ports": [(port)]}]))
        })
    }),
    Case::new("node-admission", "new pods with resources of their own", "nodes node-0", |len| {
        let amounts = (0..len).map(|at| (format!("example.com/{}", name("r", at)), Value::from("9")));
        let amounts: setpoint_api::Map = amounts.chain([("pods".into(), "100000".into())]).collect();
        on_node(len, saying(node(), "allocatable", amounts), |at| {
            let asked: setpoint_api::Map =
                [(format!("example.com/{}", name("r", at)), Value::from("1"))].into_iter().collect();
            let container = value!({"name": "c", "image": "i", "resources": {"requests": (asked.clone()), "limits": (asked)}});
            with(bound("node-0"), "containers", value!([(container)]))
        })
    }),
    Case::new("node-admission", "tolerations of a pod, taints of a node", "nodes node-0", |len| {
        on_node(1, tainted(len, "NoExecute"), |_| with(bound("node-0"), "tolerations", tolerating(len)))
    }),
    Case::new("node-pods", "volumes of a pod", "pods default/p000000", |len| {
        let volume = |at| value!({"name": (name("v", at)), "configMap": {"name": (name("m", at))}});
        let maps = many(len, "configmaps", "default/m", |_| value!({"data": {"a": "b"}}));
        let taken_up =
            saying(with(bound("node-0"), "volumes", list(len, volume)), "startTime", "2027-01-14T08:00:00Z");
        maps.chain(on_node(1, node(), |_| taken_up.clone())).collect()
    }),
    Case::new("node-pods", "containers of a pod", "pods default/p000000", |len| {
        // A node rejects pods with more containers.
        let len = len.min(512);
        on_node(1, node(), |_| saying(with_containers(len), "startTime", "2027-01-14T08:00:00Z"))
    }),
    Case::new("node-pods", "variables of a container", "pods default/p000000", |len| {
        let variable = |at| value!({"name": (name("V", at)), "value": "$(V000000)"});
        let script = value!(["sh", "-c", "echo $V000000"]);
        let container =
            value!({"name": "c", "image": "i", "command": (script), "env": (list(len, variable))});
        let pod = with(bound("node-0"), "containers", value!([(container)]));
        on_node(1, node(), |_| saying(pod.clone(), "startTime", "2027-01-14T08:00:00Z"))
    }),
    Case::new("node-control-plane", "pods of the namespace", "nodes node-0", |len| {
        let pods = many(len, "pods", "kube-system/p", |_| pod("node-0"));
        let fixed = [object("namespaces", "kube-system", value!({})), object("nodes", "node-0", node())];
        pods.chain(fixed).collect()
    }),
    Case::new("node-rules", "ConfigMaps", "configmaps kube-system/setpoint-up", |len| {
        many(len, "configmaps", "kube-system/m", |_| value!({}))
            .chain([object("namespaces", "kube-system", value!({}))])
            .collect()
    }),
    Case::new("scheduler", "pods that wait and nodes", QUEUE, |len| {
        many(len, "pods", "default/p", |_| pending()).chain(many(len, "nodes", "n", named_node)).collect()
    }),
    Case::new("scheduler", "pods that keep away from each other", QUEUE, |len| {
        many(len, "pods", "default/p", |_| affine("podAntiAffinity"))
            .chain(many(len, "nodes", "n", named_node))
            .collect()
    })
    .with_budget(COST_MAX),
    Case::new("scheduler", "pods that fit nowhere", QUEUE, |len| {
        let picky = || with(pending(), "nodeSelector", value!({"zone": "nowhere"}));
        many(len, "pods", "default/p", |_| picky()).chain(many(len, "nodes", "n", named_node)).collect()
    }),
    Case::new("scheduler", "pods of a node", QUEUE, |len| on_node(len, node(), |_| pod("node-0"))),
    Case::new("scheduler", "taints and tolerations", QUEUE, |len| {
        on_node(1, tainted(len, "NoSchedule"), |_| with(pending(), "tolerations", tolerating(len)))
    }),
];
