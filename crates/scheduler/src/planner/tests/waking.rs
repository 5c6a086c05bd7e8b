//! Claims about what lets pods be tried again for which no node would do.

use std::time::Duration;

use super::*;

fn near(name: &str, app: &str) -> Value {
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": (app)}}});
    let affinity = value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    with(pod(name, "1"), "affinity", affinity)
}

fn run(cluster: &mut Cluster, name: &str) {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    cluster.run_pod(&pod);
    cluster.settle();
}

#[test]
fn new_labels_of_a_running_pod_help_those_that_want_to_be_near() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({"zone": "z"}));
    cluster.create("pods", "default", pod("first", "1"));
    cluster.settle();
    run(&mut cluster, "first");
    cluster.create("pods", "default", near("near", "b"));
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "near"), "");
    cluster.patch("pods", "default/first", "", value!({"metadata": {"labels": {"app": "b"}}})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "near"), "n");
    cluster.assert_quiet();
}

#[test]
fn a_running_pod_that_asks_for_less_makes_room() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    cluster.create("pods", "default", pod("first", "3"));
    cluster.settle();
    run(&mut cluster, "first");
    cluster.create("pods", "default", pod("second", "2"));
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "second"), "");
    let less = value!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    cluster.patch("pods", "default/first", "resize", value!({"spec": {"containers": [(less)]}})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "second"), "n");
}

#[test]
fn a_node_that_goes_helps_pods_that_must_spread() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"zone": "a"}));
    add_node(&mut cluster, "n2", "4", value!({"zone": "b"}));
    cluster.patch("nodes", "n2", "", value!({"spec": {"unschedulable": true, "taints": null}})).unwrap();
    let spread = value!({
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    });
    for name in ["first", "second"] {
        let pod = with(pod(name, "1"), "topologySpreadConstraints", value!([(spread.clone())]));
        cluster.create("pods", "default", pod);
    }
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "first").as_str(), node_of(&cluster, "second").as_str()), ("n1", ""));
    cluster.delete("nodes", "n2", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(node_of(&cluster, "second"), "n1", "the only zone is the least");
    cluster.assert_quiet();
}

#[test]
fn a_pod_that_waits_for_its_volumes_shows_its_node_and_starts_over_in_the_end() {
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
    cluster.create("pods", "default", with(pod("p", "1"), "volumes", volumes));
    cluster.run(Duration::from_secs(590));
    let waiting = cluster.get("pods", "default/p").unwrap();
    assert_eq!(waiting.str_at(&["status", "nominatedNodeName"]), "n");
    let message = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    assert!(!was_told(&cluster, "FailedScheduling", message));
    cluster.run(Duration::from_secs(11));
    assert!(was_told(&cluster, "FailedScheduling", message));
    assert_eq!(why(&cluster, "p"), format!("SchedulerError {message}"));
    cluster.run(Duration::from_secs(20));
    let again = cluster.get("pods", "default/p").unwrap();
    assert_eq!(again.str_at(&["status", "nominatedNodeName"]), "n");
    cluster.assert_quiet();
}

/// How often people were told that a pod has no node.
fn vain_tries(cluster: &Cluster, pod: &str) -> i64 {
    let events = cluster.list("events");
    let told = events.iter().filter(|event| {
        event.str_at(&["reason"]) == "FailedScheduling" && event.str_at(&["involvedObject", "name"]) == pod
    });
    told.map(|event| event.get("count").and_then(Value::as_i64).unwrap_or(0)).sum()
}

#[test]
fn pods_that_nobody_waits_for_and_claims_of_others_wake_nobody() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "40", value!({"zone": "z"}));
    cluster.create("pods", "default", near("near", "friend"));
    let claim = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]);
    cluster.create("pods", "default", with(pod("claims", "1"), "volumes", claim));
    cluster.create("pods", "default", with(pod("choosy", "1"), "nodeSelector", value!({"disk": "fast"})));
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
    let tries = ["claims", "choosy"].map(|name| vain_tries(&cluster, name));
    assert_eq!(tries, [1, 1], "nothing happened that they wait for");
    // That one went may leave room to the first: upstream, too, tries it again then.
    assert!(vain_tries(&cluster, "near") <= 2, "{}", vain_tries(&cluster, "near"));
    let mut friend = pod("friend", "1");
    friend.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "friend"}));
    cluster.create("pods", "default", friend);
    cluster.settle();
    assert_eq!(node_of(&cluster, "near"), "n");
    cluster.assert_quiet();
}
