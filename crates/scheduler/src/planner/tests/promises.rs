//! Claims about pods that push others aside, and about the room that is promised to them.

use std::time::Duration;

use super::*;

/// A cluster with priority classes, by their names.
fn with_classes(classes: &[(&str, i64)]) -> Cluster {
    let mut cluster = cluster();
    for (name, number) in classes {
        let class = value!({"metadata": {"name": (*name)}, "value": (*number)});
        cluster.create("priorityclasses.scheduling.k8s.io", "", class);
    }
    cluster
}

fn of_class(pod: Value, class: &str) -> Value {
    with(pod, "priorityClassName", Value::from(class))
}

fn nominated(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    pod.str_at(&["status", "nominatedNodeName"]).to_owned()
}

fn is_going(cluster: &Cluster, name: &str) -> bool {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
}

#[test]
fn a_pod_that_no_node_can_ever_take_pushes_nobody_aside() {
    let mut cluster = with_classes(&[("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    let volumes = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]);
    cluster.create("pods", "default", of_class(with(pod("high", "1"), "volumes", volumes), "high"));
    cluster.run(Duration::from_secs(20));
    assert!(!is_going(&cluster, "low"));
    let expected = "Unschedulable 0/1 nodes are available: persistentvolumeclaim \"missing\" not found. \
        preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(why(&cluster, "high"), expected);
    assert_eq!(nominated(&cluster, "high"), "");
    cluster.assert_quiet();
}
