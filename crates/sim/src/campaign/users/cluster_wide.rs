//! Scenarios with namespaces, owner trees, quotas and claims.

use setpoint_api::{Revision, Value, value};

use super::crowd::with_cpu_request;
use super::{EditResult, UserSession, path, workload};
use crate::cluster::UserWrite;

fn namespace(name: &str) -> Value {
    value!({"metadata": {"name": (name)}})
}

pub fn begin_namespace(session: &mut UserSession<'_>) {
    session.create("namespaces", "", namespace("crowd"));
    session.create("replicasets.apps", "crowd", workload("plain", "v1", 2));
    session.create("configmaps", "crowd", namespace("notes"));
    session.create("secrets", "crowd", namespace("words"));
}

pub fn edit_namespace(session: &mut UserSession<'_>) -> EditResult {
    let number = session.cluster.rng.u8(..30);
    match session.chance(8) {
        0 | 1 => {
            let done = session.cluster.delete("namespaces", "crowd", &Value::map());
            let is_full = session.cluster.list("pods").iter().any(|pod| path(pod).starts_with("crowd/"));
            if done.is_ok() && is_full {
                session.marks.record("namespace with pods deleted");
            }
            done
        }
        2 => session.try_create("namespaces", "", namespace("crowd")),
        3 => session.try_create("configmaps", "crowd", namespace(&format!("notes-{number}"))),
        4 => session.try_create("replicasets.apps", "crowd", workload("plain", "v1", 2)),
        5 => session.scale("replicasets.apps", "crowd/plain", 4),
        6 => {
            let ports = value!([{"port": 80}]);
            let spec = value!({"selector": {"app": "plain"}, "ports": (ports)});
            session.try_create("services", "crowd", value!({"metadata": {"name": "crowd"}, "spec": (spec)}))
        }
        _ => session.disturb_pod(),
    }
}

/// ConfigMap with owners.
fn leaf(name: &str, owners: &[&Value]) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let part = |field| owner.str_at(&["metadata", field]);
            value!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": (part("name")), "uid": (part("uid")),
                "blockOwnerDeletion": true,
            })
        })
        .collect();
    value!({"metadata": {"name": (name), "ownerReferences": (references)}})
}

/// Creates the missing parts of an owner tree: a root, two children, and a leaf that both own.
fn create_missing_owners(session: &mut UserSession<'_>) -> EditResult {
    let mut done = session.try_create("configmaps", "default", leaf("root", &[]));
    let root = session.cluster.get("configmaps", "default/root").unwrap_or_default();
    for name in ["left", "right"] {
        done = done.or(session.try_create("configmaps", "default", leaf(name, &[&root])));
    }
    let left = session.cluster.get("configmaps", "default/left").unwrap_or_default();
    let right = session.cluster.get("configmaps", "default/right").unwrap_or_default();
    done.or(session.try_create("configmaps", "default", leaf("leaf", &[&left, &right])))
}

pub fn begin_owners(session: &mut UserSession<'_>) {
    let _ = create_missing_owners(session);
}

pub fn edit_owners(session: &mut UserSession<'_>) -> EditResult {
    let name = ["root", "left", "right", "leaf"][usize::from(session.chance(4))];
    match session.chance(6) {
        0..2 => session.delete("configmaps", &format!("default/{name}")),
        2 => session.delete("configmaps", "default/root"),
        3 | 4 => create_missing_owners(session),
        _ => session.disturb_pod(),
    }
}

fn claim(name: &str) -> Value {
    let spec = value!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    value!({"metadata": {"name": (name)}, "spec": (spec)})
}

fn consumer(claim: &str) -> Value {
    let volumes = value!([{"name": "data", "persistentVolumeClaim": {"claimName": (claim)}}]);
    value!({
        "metadata": {"generateName": "consumer-"},
        "spec": {"volumes": (volumes), "containers": [{"name": "c", "image": "v1"}]},
    })
}

pub fn begin_bounds(session: &mut UserSession<'_>) {
    session.create("namespaces", "", namespace("bounded"));
    let spec = value!({"hard": {"pods": "3", "configmaps": "4", "requests.cpu": "1"}});
    session.create("resourcequotas", "bounded", value!({"metadata": {"name": "bound"}, "spec": (spec)}));
    let spec = value!({"hard": {"pods": "4"}});
    session.create("resourcequotas", "bounded", value!({"metadata": {"name": "other"}, "spec": (spec)}));
    session.create("replicasets.apps", "bounded", with_cpu_request(workload("plain", "v1", 2), "200m"));
    session.create("persistentvolumeclaims", "default", claim("disk"));
}

/// Creates several objects at once: the quota may have room for each of them, but not for all.
fn create_concurrently(session: &mut UserSession<'_>, resource: &str) -> EditResult {
    let new_object = |number: u8| {
        let mut object = value!({"metadata": {"generateName": "rush-"}});
        if resource == "pods" {
            let requests = value!({"cpu": (format!("{}m", 100 * (u32::from(number) + 1)))});
            let containers = value!([{"name": "c", "image": "v1", "resources": {"requests": (requests)}}]);
            object.make_map().insert("spec", value!({"containers": (containers)}));
        }
        object
    };
    let writes = (0..3).map(|number| UserWrite::create(resource, "bounded", new_object(number))).collect();
    let (made, overtaken) = session.cluster.write_at_once(writes);
    if overtaken > 0 {
        session.marks.record("users raced for a quota");
    }
    made
}

pub fn edit_bounds(session: &mut UserSession<'_>) -> EditResult {
    match session.chance(11) {
        8..10 => create_concurrently(session, "pods"),
        10 => create_concurrently(session, "configmaps"),
        0 => session.scale("replicasets.apps", "bounded/plain", 5),
        1 => {
            let pods = session.cluster.rng.u8(..6).to_string();
            session.merge("resourcequotas", "bounded/bound", value!({"spec": {"hard": {"pods": (pods)}}}))
        }
        2 => session.try_create("persistentvolumeclaims", "default", claim("disk")),
        3 => session.try_create("pods", "default", consumer("disk")),
        4 => session.cluster.delete("persistentvolumeclaims", "default/disk", &Value::map()),
        5 if !session.calm => {
            let pods = session.cluster.list("pods");
            let consumers = pods.iter().filter(|pod| path(pod).starts_with("default/consumer-"));
            let consumers: Vec<String> = consumers.map(path).collect();
            match session.cluster.rng.choice(consumers) {
                Some(path) => session.cluster.delete("pods", &path, &Value::map()),
                None => Ok(Revision::ZERO),
            }
        }
        _ => session.disturb_pod(),
    }
}
