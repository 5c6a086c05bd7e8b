//! Tests of ReplicaSets in a control plane.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

fn cluster() -> Cluster {
    Cluster::new(|| (vec![Box::new(super::ReplicaSetController)], crate::indexes::all()), 7)
}

fn set(replicas: i64) -> Value {
    value!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

fn number(cluster: &Cluster, field: &str) -> i64 {
    let set = cluster.get("replicasets.apps", "default/web").unwrap();
    set.at(&["status", field]).and_then(Value::as_i64).unwrap_or(0)
}

#[test]
fn desired_pods_are_created_and_then_nothing_is_written() {
    let mut cluster = cluster();
    cluster.create("replicasets.apps", "default", set(3));
    cluster.settle_with_pods();
    assert_eq!(cluster.list("pods").len(), 3);
    assert_eq!((number(&cluster, "replicas"), number(&cluster, "availableReplicas")), (3, 3));
    cluster.assert_quiet();
    cluster.patch("replicasets.apps", "default/web", "", value!({"spec": {"replicas": 1}})).unwrap();
    cluster.settle_with_pods();
    assert_eq!(cluster.list("pods").len(), 1);
    assert_eq!((number(&cluster, "replicas"), number(&cluster, "observedGeneration")), (1, 2));
    cluster.assert_quiet();
}

#[test]
fn deleted_pod_is_replaced_with_an_event() {
    let mut cluster = cluster();
    cluster.create("replicasets.apps", "default", set(1));
    cluster.settle_with_pods();
    let name = cluster.list("pods")[0].str_at(&["metadata", "name"]).to_owned();
    cluster.delete("pods", &format!("default/{name}"), &Value::map()).unwrap();
    cluster.settle_with_pods();
    let pods = cluster.list("pods");
    assert_eq!(pods.len(), 1);
    assert_ne!(pods[0].str_at(&["metadata", "name"]), name);
    let events = cluster.list("events");
    let has_message = |text: &str| events.iter().any(|event| event.str_at(&["message"]) == text);
    assert!(has_message(&format!("Created pod: {name}")), "{events:?}");
}

#[test]
fn orphans_are_adopted_and_non_matching_pods_released() {
    let mut cluster = cluster();
    let pod = value!({
        "metadata": {"name": "lone", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    cluster.create("pods", "default", pod);
    cluster.create("replicasets.apps", "default", set(2));
    cluster.settle_with_pods();
    assert_eq!(cluster.list("pods").len(), 2, "the orphan counts");
    cluster.patch("pods", "default/lone", "", value!({"metadata": {"labels": {"app": "other"}}})).unwrap();
    cluster.settle_with_pods();
    let lone = cluster.get("pods", "default/lone").unwrap();
    assert!(lone.at(&["metadata", "ownerReferences"]).is_none_or(Value::is_empty), "{lone:?}");
    assert_eq!(cluster.list("pods").len(), 3);
    cluster.assert_quiet();
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    let mut created = Vec::new();
    for crash_after in 0..13 {
        let mut cluster = cluster();
        cluster.create("replicasets.apps", "default", set(5));
        cluster.crash_after(crash_after);
        created.push(cluster.list("pods").len());
        cluster.settle_with_pods();
        assert_eq!(cluster.list("pods").len(), 5, "crash after {crash_after} steps");
        cluster.assert_quiet();
    }
    created.dedup();
    assert_eq!(created, [0, 1, 2, 3, 4, 5], "pods at the crash");
}
