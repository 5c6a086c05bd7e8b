//! Those who want a number of pods: ReplicaSets and ReplicationControllers.

use setpoint_api::{Value, value};

use super::{Desk, Done, template, workload};

const SETS: &str = "replicasets.apps";
const CONTROLLERS: &str = "replicationcontrollers";

/// The most pods that a user asks for.
const REPLICAS_MAX: i64 = 6;

pub fn begin_set(desk: &mut Desk<'_>) {
    desk.make(SETS, "default", workload("plain", "v1", 3));
    desk.make(SETS, "default", workload("nobody", "v1", 1));
}

pub fn edit_set(desk: &mut Desk<'_>) -> Done {
    let name = ["plain", "nobody"][usize::from(desk.chance(2))];
    let path = format!("default/{name}");
    match desk.chance(10) {
        0..4 => desk.scale(SETS, &path, REPLICAS_MAX),
        4 if !desk.calm => desk.remove(SETS, &path),
        5 => {
            let replicas = desk.cluster.rng.i64(0..=REPLICAS_MAX);
            desk.try_make(SETS, "default", workload(name, "v1", replicas))
        }
        6 if !desk.calm => {
            // A pod that nobody made for a set, and that a set may take in.
            let mut pod = template(name, "v0");
            pod.ensure_map("metadata").insert("generateName", "stray-");
            desk.try_make("pods", "default", pod)
        }
        _ => desk.disturb(),
    }
}

fn controller(replicas: i64) -> Value {
    let mut object = workload("legacy", "v1", replicas);
    object.ensure_map("spec").insert("selector", value!({"app": "legacy"}));
    object
}

pub fn begin_controller(desk: &mut Desk<'_>) {
    desk.make(CONTROLLERS, "default", controller(2));
    desk.make("serviceaccounts", "default", value!({"metadata": {"name": "legacy"}}));
}

pub fn edit_controller(desk: &mut Desk<'_>) -> Done {
    let path = "default/legacy";
    match desk.chance(8) {
        0..4 => desk.scale(CONTROLLERS, path, REPLICAS_MAX),
        4 if !desk.calm => desk.remove(CONTROLLERS, path),
        5 => desk.try_make(CONTROLLERS, "default", controller(3)),
        _ => desk.disturb(),
    }
}
