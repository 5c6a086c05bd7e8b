//! Objects of the worlds.

use setpoint_api::{Key, Revision, Time, Value, json, value};
use setpoint_reconcile::Object;
use setpoint_reconcile::planner::key_of;

/// Creation time of all objects, long before they are planned.
const THEN: &str = "2027-01-14T08:00:00Z";

/// Name with a number, sorted like the numbers.
pub fn name(prefix: &str, at: usize) -> String {
    format!("{prefix}{at:06}")
}

/// Key, written `resource namespace/name` or `resource name`.
pub fn key(text: &str) -> Key {
    let (resource, path) = text.split_once(' ').unwrap();
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    key_of(resource, namespace, name).unwrap()
}

/// UID of an object.
pub fn uid(resource: &str, name: &str) -> String {
    format!("{resource}-{name}")
}

/// Object at a path, written as in [`key`].
pub fn object(resource: &str, path: &str, mut value: Value) -> Object {
    let key = key(&format!("{resource} {path}"));
    let metadata = value.ensure_map("metadata");
    metadata.insert("name", key.name());
    metadata.insert("uid", uid(resource, key.name()));
    metadata.ensure("creationTimestamp", || THEN.into());
    metadata.ensure("generation", || 1.into());
    if let Some(namespace) = key.namespace() {
        metadata.insert("namespace", namespace);
    }
    Object::read(key, Revision(9), Time::from_seconds(1_799_913_600), json::to_text(&value)).unwrap()
}

/// Objects of a resource with a common prefix and a number; the prefix has no namespace for cluster-scoped
/// ones.
pub fn many(
    len: usize,
    resource: &'static str,
    prefix: &'static str,
    value: impl Fn(usize) -> Value,
) -> impl Iterator<Item = Object> {
    (0..len).map(move |at| object(resource, &format!("{prefix}{at:06}"), value(at)))
}

/// Owner reference.
pub fn owner(api_version: &str, kind: &str, resource: &str, name: &str) -> Value {
    value!({
        "apiVersion": (api_version), "kind": (kind), "name": (name), "uid": (uid(resource, name)), "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Adds an owner.
pub fn owned(mut object: Value, by: &Value) -> Value {
    object.ensure_map("metadata").insert("ownerReferences", Value::List(vec![by.clone()]));
    object
}

/// Marks an object as deleted, blocked by a finalizer.
pub fn deleted(mut object: Value, finalizer: &str) -> Value {
    let metadata = object.ensure_map("metadata");
    metadata.insert("deletionTimestamp", "2027-01-15T07:00:00Z");
    metadata.insert("deletionGracePeriodSeconds", 30);
    metadata.insert("finalizers", Value::List(vec![finalizer.into()]));
    object
}

/// Adds a label.
pub fn labeled(mut object: Value, label: &str, text: impl Into<Value>) -> Value {
    object.ensure_map("metadata").ensure_map("labels").insert(label, text.into());
    object
}

/// Adds an annotation.
pub fn annotated(mut object: Value, annotation: &str, text: impl Into<Value>) -> Value {
    object.ensure_map("metadata").ensure_map("annotations").insert(annotation, text.into());
    object
}

/// Sets a field of the spec.
pub fn with(mut object: Value, field: &str, value: impl Into<Value>) -> Value {
    object.ensure_map("spec").insert(field, value.into());
    object
}

/// Sets a field of the status.
pub fn saying(mut object: Value, field: &str, value: impl Into<Value>) -> Value {
    object.ensure_map("status").insert(field, value.into());
    object
}

/// List of `len` values.
pub fn list(len: usize, value: impl Fn(usize) -> Value) -> Value {
    Value::List((0..len).map(value).collect())
}

/// Running and ready pod with the label `app=web`.
pub fn pod(node: &str) -> Value {
    value!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "nodeName": (node),
            "containers": [{
                "name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "1m"}},
            }],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "startTime": "2027-01-14T08:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-14T08:00:00Z"}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 0, "image": "i", "imageID": "",
                "state": {"running": {"startedAt": "2027-01-14T08:00:00Z"}}}],
        },
    })
}

/// Unscheduled pod.
pub fn pending() -> Value {
    value!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}],
        },
        "status": {"phase": "Pending"},
    })
}

/// Ready node.
pub fn node() -> Value {
    value!({
        "metadata": {"labels": {"zone": "a"}, "annotations": {"setpoint.dev/fleet": "setpoint-up"}},
        "spec": {"podCIDR": "10.0.0.0/16", "podCIDRs": ["10.0.0.0/16"]},
        "status": {
            "capacity": {"cpu": "1000", "memory": "1Ti", "pods": "100000"},
            "allocatable": {"cpu": "1000", "memory": "1Ti", "pods": "100000"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2027-01-15T08:00:00Z",
                "lastTransitionTime": "2027-01-14T08:00:00Z"}],
        },
    })
}

/// Spec of a workload that selects `app=web`.
pub fn workload(replicas: usize) -> Value {
    value!({"spec": {
        "replicas": (replicas as i64),
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }})
}

/// Claim that is bound to a volume.
pub fn claim(volume: &str) -> Value {
    value!({
        "spec": {"volumeName": (volume), "accessModes": ["ReadWriteOnce"], "storageClassName": "s",
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    })
}

/// CSI volume that is bound to a claim, with an access mode.
pub fn volume(claim: &str, mode: &str) -> Value {
    value!({
        "spec": {
            "accessModes": [(mode)], "capacity": {"storage": "1Gi"}, "storageClassName": "s",
            "csi": {"driver": "d", "volumeHandle": (format!("handle-{claim}"))},
            "claimRef": {"namespace": "default", "name": (claim), "uid": (uid("persistentvolumeclaims", claim))},
        },
        "status": {"phase": "Bound"},
    })
}

/// Adds a claim to a pod.
pub fn using(pod: Value, claim: &str) -> Value {
    with(pod, "volumes", value!([{"name": "v", "persistentVolumeClaim": {"claimName": (claim)}}]))
}
