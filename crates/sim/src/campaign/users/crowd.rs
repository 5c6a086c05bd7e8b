//! Those who want much of few nodes: pods that push others aside, that want a port or a label of a node; and those who
//! keep nodes for some.

use setpoint_api::{Value, value};

use super::{Desk, Done, path, workload};
use crate::campaign::nodes::{NAMES, dedicated};

const SETS: &str = "replicasets.apps";
/// The sets, the most pods that are asked for of each, and how many there is certainly room for.
const CROWD: [(&str, i64, i64); 4] = [("vital", 4, 2), ("modest", 6, 3), ("porter", 4, 2), ("picky", 3, 1)];

/// Whether a pod is one of these, which take up room wherever they are.
pub fn is_of_crowd(path: &str) -> bool {
    CROWD.iter().any(|(name, ..)| path.strip_prefix("default/").is_some_and(|path| path.starts_with(name)))
}

/// The same workload whose pods ask for so much.
pub fn asking(mut workload: Value, cpu: &str) -> Value {
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
        "vital" => asking(plain, "3"),
        "modest" => asking(plain, "2"),
        "picky" => asking(plain, "500m"),
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

fn label(desk: &mut Desk<'_>, node: &str, disk: Value) -> Done {
    desk.merge("nodes", node, value!({"metadata": {"labels": {"disk": (disk)}}}))
}

/// Keeps a node for some, or for nobody in particular if no effect is named.
fn keep(desk: &mut Desk<'_>, node: &str, effect: Option<&str>) -> Done {
    let found = desk.cluster.get("nodes", node).unwrap_or_default();
    let taints = found.at(&["spec", "taints"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let mut taints: Vec<Value> =
        taints.into_iter().filter(|taint| taint.str_at(&["key"]) != "dedicated").collect();
    taints.extend(effect.map(dedicated));
    desk.merge("nodes", node, value!({"spec": {"taints": (taints)}}))
}

pub fn begin(desk: &mut Desk<'_>) {
    let class = value!({"metadata": {"name": "vital"}, "value": 1000});
    desk.make("priorityclasses.scheduling.k8s.io", "", class);
    let _ = label(desk, "node-1", value!("ssd"));
    for (name, replicas) in [("vital", 1), ("modest", 4), ("porter", 1), ("picky", 1)] {
        desk.make(SETS, "default", set(name, replicas));
    }
}

pub fn edit(desk: &mut Desk<'_>) -> Done {
    // The last one is kept for some from the beginning.
    let node = NAMES[desk.cluster.rng.usize(..NAMES.len() - 1)];
    match desk.chance(12) {
        0..6 => {
            let (name, most, _) = CROWD[usize::from(desk.chance(4))];
            desk.scale(SETS, &format!("default/{name}"), most)
        }
        6 => label(desk, node, value!("ssd")),
        7 => label(desk, node, Value::Null),
        8 => {
            let effect = if desk.calm || desk.chance(2) == 0 { "NoSchedule" } else { "NoExecute" };
            keep(desk, node, Some(effect))
        }
        9 => keep(desk, node, None),
        10 => {
            let (name, most, _) = CROWD[usize::from(desk.chance(4))];
            desk.try_make(SETS, "default", set(name, most))
        }
        _ => desk.disturb(),
    }
}

/// There is room for all again.
pub fn put_right(desk: &mut Desk<'_>) {
    for (name, _, fits) in CROWD {
        let _ = desk.merge(SETS, &format!("default/{name}"), value!({"spec": {"replicas": (fits)}}));
    }
    for node in desk.cluster.list("nodes") {
        let _ = keep(desk, &path(&node), None);
    }
    let _ = label(desk, "node-1", value!("ssd"));
}
