//! Those who stand before pods: Services, which lead to them, and budgets, which protect them.

use setpoint_api::{Value, value};

use super::{Desk, Done, path, workload};

const APPS: [&str; 4] = ["web", "plain", "db", "front"];
const BUDGETS: &str = "poddisruptionbudgets.policy";

fn service(desk: &mut Desk<'_>, name: &str) -> Value {
    let app = APPS[usize::from(desk.chance(4))];
    let ports = value!([{"port": 80, "targetPort": 8080}]);
    value!({"metadata": {"name": (name)}, "spec": {"selector": {"app": (app)}, "ports": (ports)}})
}

pub fn begin(desk: &mut Desk<'_>) {
    desk.make("replicasets.apps", "default", workload("front", "v1", 2));
    for name in ["front", "back"] {
        let service = service(desk, name);
        desk.make("services", "default", service);
    }
}

pub fn edit(desk: &mut Desk<'_>) -> Done {
    let name = ["front", "back"][usize::from(desk.chance(2))];
    match desk.chance(8) {
        0..2 => {
            let app = APPS[usize::from(desk.chance(4))];
            desk.merge("services", &format!("default/{name}"), value!({"spec": {"selector": {"app": (app)}}}))
        }
        2 => desk.remove("services", &format!("default/{name}")),
        3 => {
            let service = service(desk, name);
            desk.try_make("services", "default", service)
        }
        4 => {
            let slice = desk.some_path("endpointslices.discovery.k8s.io");
            desk.cluster.delete("endpointslices.discovery.k8s.io", &slice, &Value::map())
        }
        5 | 6 => desk.scale("replicasets.apps", "default/front", 5),
        _ => desk.disturb(),
    }
}

fn budget(desk: &mut Desk<'_>) -> Value {
    let app = ["web", "guarded"][usize::from(desk.chance(2))];
    let mut spec = value!({"selector": {"matchLabels": {"app": (app)}}});
    match desk.chance(3) {
        0 => spec.make_map().insert("minAvailable", 2),
        1 => spec.make_map().insert("maxUnavailable", 1),
        _ => spec.make_map().insert("minAvailable", "50%"),
    };
    value!({"metadata": {"name": "guard"}, "spec": (spec)})
}

pub fn begin_budget(desk: &mut Desk<'_>) {
    desk.make("replicasets.apps", "default", workload("guarded", "v1", 4));
    let budget = budget(desk);
    desk.make(BUDGETS, "default", budget);
}

pub fn edit_budget(desk: &mut Desk<'_>) -> Done {
    match desk.chance(8) {
        0 => desk.scale("replicasets.apps", "default/guarded", 6),
        1 => desk.remove(BUDGETS, "default/guard"),
        2 => {
            let budget = budget(desk);
            desk.try_make(BUDGETS, "default", budget)
        }
        3 => desk.disturb(),
        _ if desk.calm => desk.scale("replicasets.apps", "default/guarded", 6),
        _ => drain(desk),
    }
}

/// Evicts everything that is on a node, as far as it can be.
fn drain(desk: &mut Desk<'_>) -> Done {
    let node = desk.some_path("nodes");
    let done = desk.merge("nodes", &node, value!({"spec": {"unschedulable": true}}));
    for pod in desk.cluster.list("pods") {
        if pod.str_at(&["spec", "nodeName"]) == node {
            let _ = desk.evict(&path(&pod));
        }
    }
    done
}
