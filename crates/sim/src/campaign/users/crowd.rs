//! Scenario with contention for nodes: preemption, host ports, node selectors and dedicated nodes.

use setpoint_api::{Value, value};

use super::{EditResult, UserSession, path, workload};
use crate::campaign::nodes::{NAMES, dedicated_taint};

const SETS: &str = "replicasets.apps";
/// Sets with the maximum number of pods that is requested, and the number that certainly fits.
const CROWD: [(&str, i64, i64); 4] = [("vital", 4, 2), ("modest", 6, 3), ("porter", 4, 2), ("picky", 3, 1)];

/// `true` if a pod belongs to one of these sets.
pub fn is_crowd_pod(path: &str) -> bool {
    CROWD.iter().any(|(name, ..)| path.strip_prefix("default/").is_some_and(|path| path.starts_with(name)))
}

/// Sets the CPU request of a workload's pods.
pub fn with_cpu_request(mut workload: Value, cpu: &str) -> Value {
    let containers = value!([{"name": "c", "image": "v1", "resources": {"requests": {"cpu": (cpu)}}}]);
    spec(&mut workload).make_map().insert("containers", containers);
    workload
}

fn spec(workload: &mut Value) -> &mut Value {
    workload.at_mut(&["spec", "template", "spec"]).expect("a workload has a template")
}

fn set(name: &str, replicas: i64) -> Value {
    let plain = workload(name, "v1", replicas);
    let mut set = match name {
        "vital" => with_cpu_request(plain, "3"),
        "modest" => with_cpu_request(plain, "2"),
        "picky" => with_cpu_request(plain, "500m"),
        _ => plain,
    };
    let map = spec(&mut set).make_map();
    match name {
        "vital" => {
            map.insert("priorityClassName", "vital");
            map.insert("tolerations", value!([{"key": "dedicated", "operator": "Exists"}]));
        }
        "porter" => {
            let ports = value!([{"containerPort": 80, "hostPort": 8080}]);
            map.insert("containers", value!([{"name": "c", "image": "v1", "ports": (ports)}]));
        }
        "picky" => {
            map.insert("priorityClassName", "vital");
            map.insert("nodeSelector", value!({"disk": "ssd"}));
        }
        _ => {}
    }
    set
}

fn label(session: &mut UserSession<'_>, node: &str, disk: Value) -> EditResult {
    session.merge("nodes", node, value!({"metadata": {"labels": {"disk": (disk)}}}))
}

/// Sets the `dedicated` taint of a node with an effect, or removes it.
fn set_dedicated(session: &mut UserSession<'_>, node: &str, effect: Option<&str>) -> EditResult {
    let found = session.cluster.get("nodes", node).unwrap_or_default();
    let taints = found.at(&["spec", "taints"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let mut taints: Vec<Value> =
        taints.into_iter().filter(|taint| taint.str_at(&["key"]) != "dedicated").collect();
    taints.extend(effect.map(dedicated_taint));
    session.merge("nodes", node, value!({"spec": {"taints": (taints)}}))
}

pub fn begin(session: &mut UserSession<'_>) {
    let class = value!({"metadata": {"name": "vital"}, "value": 1000});
    session.create("priorityclasses.scheduling.k8s.io", "", class);
    let _ = label(session, "node-1", value!("ssd"));
    for (name, replicas) in [("vital", 1), ("modest", 4), ("porter", 1), ("picky", 1)] {
        session.create(SETS, "default", set(name, replicas));
    }
}

pub fn edit(session: &mut UserSession<'_>) -> EditResult {
    // The last node is dedicated from the start.
    let node = NAMES[session.cluster.rng.usize(..NAMES.len() - 1)];
    match session.chance(12) {
        0..6 => {
            let (name, most, _) = CROWD[usize::from(session.chance(4))];
            session.scale(SETS, &format!("default/{name}"), most)
        }
        6 => label(session, node, value!("ssd")),
        7 => label(session, node, Value::Null),
        8 => {
            let effect = if session.calm || session.chance(2) == 0 { "NoSchedule" } else { "NoExecute" };
            set_dedicated(session, node, Some(effect))
        }
        9 => set_dedicated(session, node, None),
        10 => {
            let (name, most, _) = CROWD[usize::from(session.chance(4))];
            session.try_create(SETS, "default", set(name, most))
        }
        _ => session.disturb_pod(),
    }
}

/// Reduces requests to what fits on the nodes.
pub fn end_edits(session: &mut UserSession<'_>) {
    for (name, _, fits) in CROWD {
        let _ = session.merge(SETS, &format!("default/{name}"), value!({"spec": {"replicas": (fits)}}));
    }
    for node in session.cluster.list("nodes") {
        let _ = set_dedicated(session, &path(&node), None);
    }
    let _ = label(session, "node-1", value!("ssd"));
}
