//! Scenarios with rollouts: Deployments, StatefulSets and DaemonSets.

use setpoint_api::{Value, value};

use super::{EditResult, UserSession, template, workload};

const DEPLOYMENTS: &str = "deployments.apps";
const STATEFUL_SETS: &str = "statefulsets.apps";
const DAEMON_SETS: &str = "daemonsets.apps";

fn with(mut object: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_map().into_iter().flat_map(setpoint_api::Map::iter) {
        object.ensure_map("spec").insert(name, value.clone());
    }
    object
}

fn bounds(session: &mut UserSession<'_>) -> Value {
    let rolling = match session.chance(4) {
        0 => value!({"maxSurge": 1, "maxUnavailable": 0}),
        1 => value!({"maxSurge": 0, "maxUnavailable": 1}),
        2 => value!({"maxSurge": "50%", "maxUnavailable": "25%"}),
        _ => value!({"maxSurge": 2, "maxUnavailable": 2}),
    };
    value!({"type": "RollingUpdate", "rollingUpdate": (rolling)})
}

fn web(session: &mut UserSession<'_>) -> Value {
    let (strategy, replicas) = (bounds(session), session.cluster.rng.i64(1..=4));
    with(workload("web", "v1", replicas), &value!({"strategy": (strategy)}))
}

pub fn begin_rolling(session: &mut UserSession<'_>) {
    let web = web(session);
    session.create(DEPLOYMENTS, "default", web);
    session.create("configmaps", "default", value!({"metadata": {"name": "web"}, "data": {"a": "b"}}));
}

/// `true` if a rollout is in progress.
fn is_rolling(session: &UserSession<'_>, path: &str) -> bool {
    let Some(object) = session.cluster.get(DEPLOYMENTS, path) else { return false };
    let number = |field| object.at(&["status", field]).and_then(Value::as_i64).unwrap_or(0);
    number("replicas") > number("updatedReplicas")
}

pub fn edit_rolling(session: &mut UserSession<'_>) -> EditResult {
    let path = "default/web";
    let rolling = is_rolling(session, path);
    let (done, mark) = match session.chance(16) {
        0..4 => (session.set_image(DEPLOYMENTS, path), "rolled back during a rollout"),
        4..7 => (session.scale(DEPLOYMENTS, path, 6), "scaled during a rollout"),
        7 | 8 => {
            let paused = value!({"spec": {"paused": true}});
            (session.merge(DEPLOYMENTS, path, paused), "paused during a rollout")
        }
        9 | 10 => (session.merge(DEPLOYMENTS, path, value!({"spec": {"paused": false}})), "resumed"),
        11 => {
            let strategy = bounds(session);
            (session.merge(DEPLOYMENTS, path, value!({"spec": {"strategy": (strategy)}})), "changed strategy")
        }
        12 if !session.calm => (session.delete(DEPLOYMENTS, path), "deleted"),
        13 => {
            let seconds = session.cluster.rng.i64(0..8);
            (
                session.merge(DEPLOYMENTS, path, value!({"spec": {"minReadySeconds": (seconds)}})),
                "changed minReadySeconds",
            )
        }
        14 => {
            let web = web(session);
            (session.try_create(DEPLOYMENTS, "default", web), "created again")
        }
        _ => (session.disturb_pod(), "disturbed"),
    };
    if rolling && done.is_ok() {
        session.marks.record(mark);
    }
    done
}

fn single(image: &str, replicas: i64) -> Value {
    with(workload("single", image, replicas), &value!({"strategy": {"type": "Recreate"}}))
}

pub fn begin_recreate(session: &mut UserSession<'_>) {
    session.create(DEPLOYMENTS, "default", single("v1", 2));
    session.create("secrets", "default", value!({"metadata": {"name": "single"}}));
}

pub fn edit_recreate(session: &mut UserSession<'_>) -> EditResult {
    let path = "default/single";
    match session.chance(8) {
        0..3 => session.set_image(DEPLOYMENTS, path),
        3 | 4 => session.scale(DEPLOYMENTS, path, 4),
        5 if !session.calm => session.delete(DEPLOYMENTS, path),
        6 => session.try_create(DEPLOYMENTS, "default", single("v2", 3)),
        _ => session.disturb_pod(),
    }
}

fn ordered(session: &mut UserSession<'_>) -> Value {
    let claim = value!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let whens = ["Retain", "Delete"];
    let (deleted, scaled) = (whens[usize::from(session.chance(2))], whens[usize::from(session.chance(2))]);
    with(
        workload("db", "v1", 2),
        &value!({
            "serviceName": "db",
            "volumeClaimTemplates": [(claim)],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": (deleted), "whenScaled": (scaled)},
        }),
    )
}

pub fn begin_ordered(session: &mut UserSession<'_>) {
    let set = ordered(session);
    session.create(STATEFUL_SETS, "default", set);
    let ports = value!([{"port": 80}]);
    let service = value!({"clusterIP": "None", "selector": {"app": "db"}, "ports": (ports)});
    session.create("services", "default", value!({"metadata": {"name": "db"}, "spec": (service)}));
}

pub fn edit_ordered(session: &mut UserSession<'_>) -> EditResult {
    let path = "default/db";
    match session.chance(12) {
        0..3 => session.scale(STATEFUL_SETS, path, 4),
        3..6 => session.set_image(STATEFUL_SETS, path),
        6 => {
            let partition = session.cluster.rng.i64(0..3);
            let strategy = value!({"rollingUpdate": {"partition": (partition)}});
            session.merge(STATEFUL_SETS, path, value!({"spec": {"updateStrategy": (strategy)}}))
        }
        7 if !session.calm => session.delete(STATEFUL_SETS, path),
        8 => {
            let set = ordered(session);
            session.try_create(STATEFUL_SETS, "default", set)
        }
        9 if !session.calm => {
            let claim = session.pick_path("persistentvolumeclaims");
            session.cluster.delete("persistentvolumeclaims", &claim, &Value::map())
        }
        _ => session.disturb_pod(),
    }
}

fn parallel(replicas: i64) -> Value {
    with(
        workload("cache", "v1", replicas),
        &value!({"serviceName": "cache", "podManagementPolicy": "Parallel"}),
    )
}

pub fn begin_parallel(session: &mut UserSession<'_>) {
    session.create(STATEFUL_SETS, "default", parallel(3));
    session.create("configmaps", "default", value!({"metadata": {"name": "cache"}}));
}

pub fn edit_parallel(session: &mut UserSession<'_>) -> EditResult {
    let path = "default/cache";
    match session.chance(9) {
        0..3 => session.scale(STATEFUL_SETS, path, 5),
        3..5 => session.set_image(STATEFUL_SETS, path),
        5 if !session.calm => session.delete(STATEFUL_SETS, path),
        6 => session.try_create(STATEFUL_SETS, "default", parallel(2)),
        _ => session.disturb_pod(),
    }
}

fn daemons(session: &mut UserSession<'_>) -> Value {
    let strategy = match session.chance(3) {
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

pub fn begin_daemons(session: &mut UserSession<'_>) {
    let set = daemons(session);
    session.create(DAEMON_SETS, "default", set);
    session.create("configmaps", "default", value!({"metadata": {"name": "agent"}}));
}

pub fn edit_daemons(session: &mut UserSession<'_>) -> EditResult {
    let path = "default/agent";
    match session.chance(9) {
        0..3 => session.set_image(DAEMON_SETS, path),
        3 if !session.calm => session.delete(DAEMON_SETS, path),
        4 => {
            let set = daemons(session);
            session.try_create(DAEMON_SETS, "default", set)
        }
        5 | 6 => {
            let node = session.pick_path("nodes");
            let cordoned = session.chance(2) == 0;
            session.merge("nodes", &node, value!({"spec": {"unschedulable": (cordoned)}}))
        }
        _ => session.disturb_pod(),
    }
}
