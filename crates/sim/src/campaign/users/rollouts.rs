//! Those who roll out: Deployments, StatefulSets, DaemonSets.

use setpoint_api::{Value, value};

use super::{Desk, Done, template, workload};

const DEPLOYMENTS: &str = "deployments.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const DAEMON_SETS: &str = "daemonsets.apps";

fn with(mut object: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_map().into_iter().flat_map(setpoint_api::Map::iter) {
        object.ensure_map("spec").insert(name, value.clone());
    }
    object
}

fn bounds(desk: &mut Desk<'_>) -> Value {
    let rolling = match desk.chance(4) {
        0 => value!({"maxSurge": 1, "maxUnavailable": 0}),
        1 => value!({"maxSurge": 0, "maxUnavailable": 1}),
        2 => value!({"maxSurge": "50%", "maxUnavailable": "25%"}),
        _ => value!({"maxSurge": 2, "maxUnavailable": 2}),
    };
    value!({"type": "RollingUpdate", "rollingUpdate": (rolling)})
}

fn web(desk: &mut Desk<'_>) -> Value {
    let (strategy, replicas) = (bounds(desk), desk.cluster.rng.i64(1..=4));
    with(workload("web", "v1", replicas), &value!({"strategy": (strategy)}))
}

pub fn begin_rolling(desk: &mut Desk<'_>) {
    let web = web(desk);
    desk.make(DEPLOYMENTS, "default", web);
    desk.make("configmaps", "default", value!({"metadata": {"name": "web"}, "data": {"a": "b"}}));
}

/// Whether pods of two templates are about.
fn is_rolling(desk: &Desk<'_>, path: &str) -> bool {
    let Some(object) = desk.cluster.get(DEPLOYMENTS, path) else { return false };
    let number = |field| object.at(&["status", field]).and_then(Value::as_i64).unwrap_or(0);
    number("replicas") > number("updatedReplicas")
}

pub fn edit_rolling(desk: &mut Desk<'_>) -> Done {
    let path = "default/web";
    let rolling = is_rolling(desk, path);
    let (done, mark) = match desk.chance(16) {
        0..4 => (desk.roll(DEPLOYMENTS, path), "rolled back in the middle of a rollout"),
        4..7 => (desk.scale(DEPLOYMENTS, path, 6), "scaled in the middle of a rollout"),
        7 | 8 => {
            let paused = value!({"spec": {"paused": true}});
            (desk.merge(DEPLOYMENTS, path, paused), "paused in the middle of a rollout")
        }
        9 | 10 => (desk.merge(DEPLOYMENTS, path, value!({"spec": {"paused": false}})), "resumed"),
        11 => {
            let strategy = bounds(desk);
            (desk.merge(DEPLOYMENTS, path, value!({"spec": {"strategy": (strategy)}})), "other bounds")
        }
        12 if !desk.calm => (desk.remove(DEPLOYMENTS, path), "deleted"),
        13 => {
            let seconds = desk.cluster.rng.i64(0..8);
            (
                desk.merge(DEPLOYMENTS, path, value!({"spec": {"minReadySeconds": (seconds)}})),
                "other patience",
            )
        }
        14 => {
            let web = web(desk);
            (desk.try_make(DEPLOYMENTS, "default", web), "made again")
        }
        _ => (desk.disturb(), "disturbed"),
    };
    if rolling && done.is_ok() {
        desk.marks.note(mark);
    }
    done
}

fn single(image: &str, replicas: i64) -> Value {
    with(workload("single", image, replicas), &value!({"strategy": {"type": "Recreate"}}))
}

pub fn begin_recreate(desk: &mut Desk<'_>) {
    desk.make(DEPLOYMENTS, "default", single("v1", 2));
    desk.make("secrets", "default", value!({"metadata": {"name": "single"}}));
}

pub fn edit_recreate(desk: &mut Desk<'_>) -> Done {
    let path = "default/single";
    match desk.chance(8) {
        0..3 => desk.roll(DEPLOYMENTS, path),
        3 | 4 => desk.scale(DEPLOYMENTS, path, 4),
        5 if !desk.calm => desk.remove(DEPLOYMENTS, path),
        6 => desk.try_make(DEPLOYMENTS, "default", single("v2", 3)),
        _ => desk.disturb(),
    }
}

fn ordered(desk: &mut Desk<'_>) -> Value {
    let claim = value!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let whens = ["Retain", "Delete"];
    let (deleted, scaled) = (whens[usize::from(desk.chance(2))], whens[usize::from(desk.chance(2))]);
    with(
        workload("db", "v1", 2),
        &value!({
            "serviceName": "db",
            "volumeClaimTemplates": [(claim)],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": (deleted), "whenScaled": (scaled)},
        }),
    )
}

pub fn begin_ordered(desk: &mut Desk<'_>) {
    let set = ordered(desk);
    desk.make(STATEFUL_SETS, "default", set);
    let ports = value!([{"port": 80}]);
    let service = value!({"clusterIP": "None", "selector": {"app": "db"}, "ports": (ports)});
    desk.make("services", "default", value!({"metadata": {"name": "db"}, "spec": (service)}));
}

pub fn edit_ordered(desk: &mut Desk<'_>) -> Done {
    let path = "default/db";
    match desk.chance(12) {
        0..3 => desk.scale(STATEFUL_SETS, path, 4),
        3..6 => desk.roll(STATEFUL_SETS, path),
        6 => {
            let partition = desk.cluster.rng.i64(0..3);
            let strategy = value!({"rollingUpdate": {"partition": (partition)}});
            desk.merge(STATEFUL_SETS, path, value!({"spec": {"updateStrategy": (strategy)}}))
        }
        7 if !desk.calm => desk.remove(STATEFUL_SETS, path),
        8 => {
            let set = ordered(desk);
            desk.try_make(STATEFUL_SETS, "default", set)
        }
        9 if !desk.calm => {
            let claim = desk.some_path("persistentvolumeclaims");
            desk.cluster.delete("persistentvolumeclaims", &claim, &Value::map())
        }
        _ => desk.disturb(),
    }
}

fn parallel(replicas: i64) -> Value {
    with(
        workload("cache", "v1", replicas),
        &value!({"serviceName": "cache", "podManagementPolicy": "Parallel"}),
    )
}

pub fn begin_parallel(desk: &mut Desk<'_>) {
    desk.make(STATEFUL_SETS, "default", parallel(3));
    desk.make("configmaps", "default", value!({"metadata": {"name": "cache"}}));
}

pub fn edit_parallel(desk: &mut Desk<'_>) -> Done {
    let path = "default/cache";
    match desk.chance(9) {
        0..3 => desk.scale(STATEFUL_SETS, path, 5),
        3..5 => desk.roll(STATEFUL_SETS, path),
        5 if !desk.calm => desk.remove(STATEFUL_SETS, path),
        6 => desk.try_make(STATEFUL_SETS, "default", parallel(2)),
        _ => desk.disturb(),
    }
}

fn daemons(desk: &mut Desk<'_>) -> Value {
    let strategy = match desk.chance(3) {
        0 => value!({"type": "OnDelete"}),
        1 => value!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
        _ => value!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}),
    };
    value!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": (template("agent", "v1")),
            "updateStrategy": (strategy),
        },
    })
}

pub fn begin_daemons(desk: &mut Desk<'_>) {
    let set = daemons(desk);
    desk.make(DAEMON_SETS, "default", set);
    desk.make("configmaps", "default", value!({"metadata": {"name": "agent"}}));
}

pub fn edit_daemons(desk: &mut Desk<'_>) -> Done {
    let path = "default/agent";
    match desk.chance(9) {
        0..3 => desk.roll(DAEMON_SETS, path),
        3 if !desk.calm => desk.remove(DAEMON_SETS, path),
        4 => {
            let set = daemons(desk);
            desk.try_make(DAEMON_SETS, "default", set)
        }
        5 | 6 => {
            let node = desk.some_path("nodes");
            let cordoned = desk.chance(2) == 0;
            desk.merge("nodes", &node, value!({"spec": {"unschedulable": (cordoned)}}))
        }
        _ => desk.disturb(),
    }
}
