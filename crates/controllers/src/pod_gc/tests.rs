//! Tests of the pod garbage collector in a control plane.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

fn cluster() -> Cluster {
    Cluster::new(
        || (vec![Box::new(super::PodGcController { terminated_threshold: 3 })], crate::indexes::all()),
        7,
    )
}

fn pod(name: &str, node: &str) -> Value {
    let mut pod =
        value!({"metadata": {"name": (name)}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if !node.is_empty() {
        pod.ensure_map("spec").insert("nodeName", node);
    }
    pod
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.list("pods").iter().map(|pod| pod.str_at(&["metadata", "name"]).to_owned()).collect()
}

fn patch_status(cluster: &mut Cluster, name: &str, status: Value) {
    cluster.patch("pods", &format!("default/{name}"), "status", value!({"status": (status)})).unwrap();
}

#[test]
fn pods_of_a_deleted_node_are_deleted_after_quarantine() {
    let mut cluster = cluster();
    cluster.create("nodes", "", value!({"metadata": {"name": "n1"}}));
    let mut held = pod("held", "n1");
    held.ensure_map("metadata").insert("finalizers", value!(["example.com/hold"]));
    cluster.create("pods", "default", held);
    cluster.create("pods", "default", pod("a", "n1"));
    cluster.run(Duration::from_secs(100));
    assert_eq!(names(&cluster), ["a", "held"]);
    cluster.delete("nodes", "n1", &Value::map()).unwrap();
    cluster.run(Duration::from_secs(39));
    assert_eq!(names(&cluster), ["a", "held"], "it may come back");
    cluster.run(Duration::from_secs(2));
    assert_eq!(names(&cluster), ["held"]);
    let held = cluster.get("pods", "default/held").unwrap();
    assert_eq!(held.str_at(&["status", "phase"]), "Failed");
    let conditions = held.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let target =
        conditions.iter().find(|condition| condition.str_at(&["type"]) == "DisruptionTarget").unwrap();
    assert_eq!(target.str_at(&["reason"]), "DeletionByPodGC");
    assert_eq!(target.str_at(&["message"]), "PodGC: node no longer exists");
    cluster.assert_quiet();
}

#[test]
fn recreated_node_keeps_its_pods() {
    let mut cluster = cluster();
    cluster.create("pods", "default", pod("a", "n1"));
    cluster.run(Duration::from_secs(30));
    cluster.create("nodes", "", value!({"metadata": {"name": "n1"}}));
    cluster.run(Duration::from_secs(60));
    cluster.delete("nodes", "n1", &Value::map()).unwrap();
    cluster.run(Duration::from_secs(30));
    assert_eq!(names(&cluster), ["a"], "the quarantine restarts");
    cluster.assert_quiet();
}

#[test]
fn deleted_pod_is_removed_once_its_node_is_out_of_service() {
    let mut cluster = cluster();
    cluster.create("pods", "default", pod("a", "n1"));
    cluster.create("nodes", "", value!({"metadata": {"name": "n1"}}));
    cluster.delete("pods", "default/a", &Value::map()).unwrap();
    cluster.settle();
    assert_eq!(names(&cluster), ["a"], "the kubelet removes it");
    let taint = value!({"spec": {"taints": [{"key": (super::OUT_OF_SERVICE), "effect": "NoExecute"}]}});
    cluster.patch("nodes", "n1", "", taint).unwrap();
    cluster.settle();
    assert!(names(&cluster).is_empty(), "the node is out of service");
    cluster.assert_quiet();
}

#[test]
fn terminated_pods_above_the_threshold_are_deleted() {
    let mut cluster = cluster();
    for at in 0..6 {
        cluster.create("pods", "default", pod(&format!("p{at}"), ""));
        cluster.now = cluster.now.after(Duration::from_secs(1));
    }
    for at in 0..5 {
        patch_status(&mut cluster, &format!("p{at}"), value!({"phase": "Succeeded"}));
    }
    patch_status(&mut cluster, "p3", value!({"phase": "Failed", "reason": "Evicted"}));
    cluster.run(Duration::from_secs(25));
    assert_eq!(names(&cluster), ["p1", "p2", "p4", "p5"], "evicted ones first, then the oldest; p5 runs");
    cluster.assert_quiet();
    patch_status(&mut cluster, "p5", value!({"phase": "Failed"}));
    cluster.run(Duration::from_secs(25));
    assert_eq!(names(&cluster), ["p2", "p4", "p5"]);
    cluster.assert_quiet();
}
