//! Tests of ephemeral volumes in a control plane.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;

fn cluster() -> Cluster {
    Cluster::new(|| (vec![Box::new(EphemeralVolumes)], crate::indexes::all()), 5)
}

fn spec() -> Value {
    value!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

fn pod() -> Value {
    let template = value!({"metadata": {"labels": {"a": "b"}}, "spec": (spec())});
    value!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": (template)}}],
        },
    })
}

#[test]
fn claim_is_created_once_and_recreated_after_deletion() {
    let mut cluster = cluster();
    cluster.create("pods", "default", pod());
    cluster.settle();
    let claim = cluster.get("persistentvolumeclaims", "default/p-v").unwrap();
    assert_eq!(claim.str_at(&["metadata", "labels", "a"]), "b");
    let owners = claim.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap();
    assert_eq!(owners[0].str_at(&["kind"]), "Pod");
    cluster.assert_quiet();
    let bare = value!({"metadata": {"finalizers": []}});
    cluster.patch("persistentvolumeclaims", "default/p-v", "", bare).unwrap();
    cluster.delete("persistentvolumeclaims", "default/p-v", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("persistentvolumeclaims", "default/p-v").is_some());
    cluster.assert_quiet();
}

#[test]
fn claim_without_the_pod_as_owner_is_left_alone_with_an_event() {
    let mut cluster = cluster();
    let strange = value!({"metadata": {"name": "p-v"}, "spec": (spec())});
    cluster.create("persistentvolumeclaims", "default", strange);
    cluster.create("pods", "default", pod());
    cluster.settle();
    let events = cluster.list("events");
    let message = "ephemeral volume v: PVC default/p-v was not created for pod default/p (pod is not owner)";
    assert!(events.iter().any(|event| event.str_at(&["message"]) == message), "{events:?}");
    let claim = cluster.get("persistentvolumeclaims", "default/p-v").unwrap();
    assert!(claim.at(&["metadata", "ownerReferences"]).is_none());
    cluster.assert_quiet();
}
