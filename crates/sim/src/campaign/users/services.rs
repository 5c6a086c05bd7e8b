//! Scenarios with Services and PodDisruptionBudgets.

use setpoint_api::{Value, value};

use super::{EditResult, UserSession, path, workload};

const APPS: [&str; 4] = ["web", "plain", "db", "front"];
const BUDGETS: &str = "poddisruptionbudgets.policy";

fn service(session: &mut UserSession<'_>, name: &str) -> Value {
    let app = APPS[usize::from(session.chance(4))];
    let ports = value!([{"port": 80, "targetPort": 8080}]);
    value!({"metadata": {"name": (name)}, "spec": {"selector": {"app": (app)}, "ports": (ports)}})
}

pub fn begin(session: &mut UserSession<'_>) {
    session.create("replicasets.apps", "default", workload("front", "v1", 2));
    for name in ["front", "back"] {
        let service = service(session, name);
        session.create("services", "default", service);
    }
}

pub fn edit(session: &mut UserSession<'_>) -> EditResult {
    let name = ["front", "back"][usize::from(session.chance(2))];
    match session.chance(8) {
        0..2 => {
            let app = APPS[usize::from(session.chance(4))];
            session.merge(
                "services",
                &format!("default/{name}"),
                value!({"spec": {"selector": {"app": (app)}}}),
            )
        }
        2 => session.delete("services", &format!("default/{name}")),
        3 => {
            let service = service(session, name);
            session.try_create("services", "default", service)
        }
        4 => {
            let slice = session.pick_path("endpointslices.discovery.k8s.io");
            session.cluster.delete("endpointslices.discovery.k8s.io", &slice, &Value::map())
        }
        5 | 6 => session.scale("replicasets.apps", "default/front", 5),
        _ => session.disturb_pod(),
    }
}

fn budget(session: &mut UserSession<'_>) -> Value {
    let app = ["web", "guarded"][usize::from(session.chance(2))];
    let mut spec = value!({"selector": {"matchLabels": {"app": (app)}}});
    match session.chance(3) {
        0 => spec.make_map().insert("minAvailable", 2),
        1 => spec.make_map().insert("maxUnavailable", 1),
        _ => spec.make_map().insert("minAvailable", "50%"),
    };
    value!({"metadata": {"name": "guard"}, "spec": (spec)})
}

pub fn begin_budget(session: &mut UserSession<'_>) {
    session.create("replicasets.apps", "default", workload("guarded", "v1", 4));
    let budget = budget(session);
    session.create(BUDGETS, "default", budget);
}

pub fn edit_budget(session: &mut UserSession<'_>) -> EditResult {
    match session.chance(8) {
        0 => session.scale("replicasets.apps", "default/guarded", 6),
        1 => session.delete(BUDGETS, "default/guard"),
        2 => {
            let budget = budget(session);
            session.try_create(BUDGETS, "default", budget)
        }
        3 => session.disturb_pod(),
        _ if session.calm => session.scale("replicasets.apps", "default/guarded", 6),
        _ => drain(session),
    }
}

/// Cordons a node and evicts its pods, as far as budgets allow.
fn drain(session: &mut UserSession<'_>) -> EditResult {
    let node = session.pick_path("nodes");
    let done = session.merge("nodes", &node, value!({"spec": {"unschedulable": true}}));
    for pod in session.cluster.list("pods") {
        if pod.str_at(&["spec", "nodeName"]) == node {
            let _ = session.evict(&path(&pod));
        }
    }
    done
}
