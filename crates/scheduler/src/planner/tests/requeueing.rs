//! Tests of requeueing: which cluster events lead to another attempt of an unschedulable pod.

use std::time::Duration;

use super::*;

fn with_affinity(name: &str, app: &str) -> Value {
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": (app)}}});
    let affinity = value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    with_field(pod(name, "1"), "affinity", affinity)
}

fn start_pod(cluster: &mut Cluster, name: &str) {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    cluster.run_pod(&pod);
    cluster.settle();
}

#[test]
fn changed_labels_of_a_running_pod_requeue_pods_with_affinity() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({"zone": "z"}));
    cluster.create("pods", "default", pod("first", "1"));
    cluster.settle();
    start_pod(&mut cluster, "first");
    cluster.create("pods", "default", with_affinity("affine", "b"));
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "affine"), "");
    cluster.patch("pods", "default/first", "", value!({"metadata": {"labels": {"app": "b"}}})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "affine"), "n");
    cluster.assert_quiet();
}

#[test]
fn shrinking_a_running_pod_requeues_pods_that_need_its_resources() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    cluster.create("pods", "default", pod("first", "3"));
    cluster.settle();
    start_pod(&mut cluster, "first");
    cluster.create("pods", "default", pod("second", "2"));
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "second"), "");
    let less = value!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    cluster.patch("pods", "default/first", "resize", value!({"spec": {"containers": [(less)]}})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "second"), "n");
}

#[test]
fn deleted_node_requeues_pods_with_hard_spread() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"zone": "a"}));
    add_node(&mut cluster, "n2", "4", value!({"zone": "b"}));
    cluster.patch("nodes", "n2", "", value!({"spec": {"unschedulable": true, "taints": null}})).unwrap();
    let spread = value!({
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    });
    for name in ["first", "second"] {
        let pod = with_field(pod(name, "1"), "topologySpreadConstraints", value!([(spread.clone())]));
        cluster.create("pods", "default", pod);
    }
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "first").as_str(), node_of(&cluster, "second").as_str()), ("n1", ""));
    cluster.delete("nodes", "n2", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "second"), "n1", "the only zone has the minimum");
    cluster.assert_quiet();
}

#[test]
fn pod_that_waits_for_volumes_is_nominated_and_restarts_after_the_timeout() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    let class = value!({
        "metadata": {"name": "late"}, "provisioner": "example.com/x", "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster.create("storageclasses.storage.k8s.io", "", class);
    let claim = value!({
        "metadata": {"name": "c"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    cluster.create("persistentvolumeclaims", "default", claim);
    let volumes = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    cluster.create("pods", "default", with_field(pod("p", "1"), "volumes", volumes));
    cluster.run(Duration::from_secs(590));
    let prebinding = cluster.get("pods", "default/p").unwrap();
    assert_eq!(prebinding.str_at(&["status", "nominatedNodeName"]), "n");
    let message = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    assert!(!has_event(&cluster, "FailedScheduling", message));
    cluster.run(Duration::from_secs(11));
    assert!(has_event(&cluster, "FailedScheduling", message));
    assert_eq!(condition(&cluster, "p"), format!("SchedulerError {message}"));
    cluster.run(Duration::from_secs(20));
    let retried = cluster.get("pods", "default/p").unwrap();
    assert_eq!(retried.str_at(&["status", "nominatedNodeName"]), "n");
    cluster.assert_quiet();
}

/// Number of FailedScheduling Events of a pod.
pub(super) fn failed_attempts(cluster: &Cluster, pod: &str) -> i64 {
    let events = cluster.list("events");
    let failed = events.iter().filter(|event| {
        event.str_at(&["reason"]) == "FailedScheduling" && event.str_at(&["involvedObject", "name"]) == pod
    });
    failed.map(|event| event.get("count").and_then(Value::as_i64).unwrap_or(0)).sum()
}

#[test]
fn unrelated_pods_and_claims_requeue_no_pod() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "40", value!({"zone": "z"}));
    cluster.create("pods", "default", with_affinity("affine", "friend"));
    let claim = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]);
    cluster.create("pods", "default", with_field(pod("claims", "1"), "volumes", claim));
    cluster.create(
        "pods",
        "default",
        with_field(pod("selective", "1"), "nodeSelector", value!({"disk": "fast"})),
    );
    cluster.settle();
    for i in 0..8 {
        cluster.create("pods", "default", pod(&format!("p{i}"), "1"));
        let claim = value!({"metadata": {"name": (format!("c{i}"))}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}});
        cluster.create("persistentvolumeclaims", "default", claim);
        cluster.run(Duration::from_secs(2));
    }
    cluster.delete("pods", "default/p0", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.run(Duration::from_secs(2));
    let attempts = ["claims", "selective"].map(|name| failed_attempts(&cluster, name));
    assert_eq!(attempts, [1, 1], "no event matches their hints");
    // The deleted pod is one more matching event, as upstream.
    assert!(failed_attempts(&cluster, "affine") <= 2, "{}", failed_attempts(&cluster, "affine"));
    let mut friend = pod("friend", "1");
    friend.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "friend"}));
    cluster.create("pods", "default", friend);
    cluster.settle();
    assert_eq!(node_of(&cluster, "affine"), "n");
    cluster.assert_quiet();
}
