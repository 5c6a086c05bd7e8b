//! Those who work on the large: namespaces, trees of owners, quotas and claims.

use setpoint_api::{Revision, Value, value};

use super::crowd::asking;
use super::{Desk, Done, path, workload};

fn namespace(name: &str) -> Value {
    value!({"metadata": {"name": (name)}})
}

pub fn begin_namespace(desk: &mut Desk<'_>) {
    desk.make("namespaces", "", namespace("crowd"));
    desk.make("replicasets.apps", "crowd", workload("plain", "v1", 2));
    desk.make("configmaps", "crowd", namespace("notes"));
    desk.make("secrets", "crowd", namespace("words"));
}

pub fn edit_namespace(desk: &mut Desk<'_>) -> Done {
    let number = desk.cluster.rng.u8(..30);
    match desk.chance(8) {
        0 | 1 => {
            let done = desk.cluster.delete("namespaces", "crowd", &Value::map());
            let is_full = desk.cluster.list("pods").iter().any(|pod| path(pod).starts_with("crowd/"));
            if done.is_ok() && is_full {
                desk.marks.note("namespace deleted while full");
            }
            done
        }
        2 => desk.try_make("namespaces", "", namespace("crowd")),
        3 => desk.try_make("configmaps", "crowd", namespace(&format!("notes-{number}"))),
        4 => desk.try_make("replicasets.apps", "crowd", workload("plain", "v1", 2)),
        5 => desk.scale("replicasets.apps", "crowd/plain", 4),
        6 => {
            let ports = value!([{"port": 80}]);
            let spec = value!({"selector": {"app": "plain"}, "ports": (ports)});
            desk.try_make("services", "crowd", value!({"metadata": {"name": "crowd"}, "spec": (spec)}))
        }
        _ => desk.disturb(),
    }
}

/// A ConfigMap that may be owned by others.
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

/// Makes what is missing of a tree: a root, two branches, and a leaf on both.
fn grow(desk: &mut Desk<'_>) -> Done {
    let mut done = desk.try_make("configmaps", "default", leaf("root", &[]));
    let root = desk.cluster.get("configmaps", "default/root").unwrap_or_default();
    for name in ["left", "right"] {
        done = done.or(desk.try_make("configmaps", "default", leaf(name, &[&root])));
    }
    let left = desk.cluster.get("configmaps", "default/left").unwrap_or_default();
    let right = desk.cluster.get("configmaps", "default/right").unwrap_or_default();
    done.or(desk.try_make("configmaps", "default", leaf("leaf", &[&left, &right])))
}

pub fn begin_owners(desk: &mut Desk<'_>) {
    let _ = grow(desk);
}

pub fn edit_owners(desk: &mut Desk<'_>) -> Done {
    let name = ["root", "left", "right", "leaf"][usize::from(desk.chance(4))];
    match desk.chance(6) {
        0..2 => desk.remove("configmaps", &format!("default/{name}")),
        2 => desk.remove("configmaps", "default/root"),
        3 | 4 => grow(desk),
        _ => desk.disturb(),
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

pub fn begin_bounds(desk: &mut Desk<'_>) {
    desk.make("namespaces", "", namespace("bounded"));
    let spec = value!({"hard": {"pods": "3", "configmaps": "4", "requests.cpu": "1"}});
    desk.make("resourcequotas", "bounded", value!({"metadata": {"name": "bound"}, "spec": (spec)}));
    let spec = value!({"hard": {"pods": "4"}});
    desk.make("resourcequotas", "bounded", value!({"metadata": {"name": "other"}, "spec": (spec)}));
    desk.make("replicasets.apps", "bounded", asking(workload("plain", "v1", 2), "200m"));
    desk.make("persistentvolumeclaims", "default", claim("disk"));
}

/// Several make something at the same moment, each of which a quota may have room for, and not for all.
fn rush(desk: &mut Desk<'_>, resource: &str) -> Done {
    let one = |number: u8| {
        let mut object = value!({"metadata": {"generateName": "rush-"}});
        if resource == "pods" {
            let requests = value!({"cpu": (format!("{}m", 100 * (u32::from(number) + 1)))});
            let containers = value!([{"name": "c", "image": "v1", "resources": {"requests": (requests)}}]);
            object.make_map().insert("spec", value!({"containers": (containers)}));
        }
        object
    };
    let objects = (0..3).map(one).collect();
    let (made, overtaken) = desk.cluster.create_at_once(resource, "bounded", objects);
    if overtaken > 0 {
        desk.marks.note("user raced for a quota");
    }
    made
}

pub fn edit_bounds(desk: &mut Desk<'_>) -> Done {
    match desk.chance(11) {
        8..10 => rush(desk, "pods"),
        10 => rush(desk, "configmaps"),
        0 => desk.scale("replicasets.apps", "bounded/plain", 5),
        1 => {
            let pods = desk.cluster.rng.u8(..6).to_string();
            desk.merge("resourcequotas", "bounded/bound", value!({"spec": {"hard": {"pods": (pods)}}}))
        }
        2 => desk.try_make("persistentvolumeclaims", "default", claim("disk")),
        3 => desk.try_make("pods", "default", consumer("disk")),
        4 => desk.cluster.delete("persistentvolumeclaims", "default/disk", &Value::map()),
        5 if !desk.calm => {
            let pods = desk.cluster.list("pods");
            let consumers = pods.iter().filter(|pod| path(pod).starts_with("default/consumer-"));
            let consumers: Vec<String> = consumers.map(path).collect();
            match desk.cluster.rng.choice(consumers) {
                Some(path) => desk.cluster.delete("pods", &path, &Value::map()),
                None => Ok(Revision::ZERO),
            }
        }
        _ => desk.disturb(),
    }
}
