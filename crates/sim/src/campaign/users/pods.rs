//! Scenarios with ReplicaSets and ReplicationControllers.

use setpoint_api::{Value, value};

use super::{EditResult, UserSession, template, workload};

const SETS: &str = "replicasets.apps";
const CONTROLLERS: &str = "replicationcontrollers";

/// Maximum number of replicas that a user requests.
const REPLICAS_MAX: i64 = 6;

pub fn begin_set(session: &mut UserSession<'_>) {
    session.create(SETS, "default", workload("plain", "v1", 3));
    session.create(SETS, "default", workload("nobody", "v1", 1));
}

pub fn edit_set(session: &mut UserSession<'_>) -> EditResult {
    let name = ["plain", "nobody"][usize::from(session.chance(2))];
    let path = format!("default/{name}");
    match session.chance(10) {
        0..4 => session.scale(SETS, &path, REPLICAS_MAX),
        4 if !session.calm => session.delete(SETS, &path),
        5 => {
            let replicas = session.cluster.rng.i64(0..=REPLICAS_MAX);
            session.try_create(SETS, "default", workload(name, "v1", replicas))
        }
        6 if !session.calm => {
            // A pod without owner that a set may adopt.
            let mut pod = template(name, "v0");
            pod.ensure_map("metadata").insert("generateName", "stray-");
            session.try_create("pods", "default", pod)
        }
        _ => session.disturb_pod(),
    }
}

fn controller(replicas: i64) -> Value {
    let mut object = workload("legacy", "v1", replicas);
    object.ensure_map("spec").insert("selector", value!({"app": "legacy"}));
    object
}

pub fn begin_controller(session: &mut UserSession<'_>) {
    session.create(CONTROLLERS, "default", controller(2));
    session.create("serviceaccounts", "default", value!({"metadata": {"name": "legacy"}}));
}

pub fn edit_controller(session: &mut UserSession<'_>) -> EditResult {
    let path = "default/legacy";
    match session.chance(8) {
        0..4 => session.scale(CONTROLLERS, path, REPLICAS_MAX),
        4 if !session.calm => session.delete(CONTROLLERS, path),
        5 => session.try_create(CONTROLLERS, "default", controller(3)),
        _ => session.disturb_pod(),
    }
}
