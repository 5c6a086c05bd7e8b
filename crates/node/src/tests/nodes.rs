//! Tests of node registration, Leases and statuses.

use super::*;

#[test]
fn nodes_register_as_simulated() {
    let mut cluster = cluster(with_start_delay);
    let nodes = cluster.list("nodes");
    assert_eq!(nodes.len(), 2);
    let node = &nodes[1];
    assert_eq!(condition(node, "Ready"), "True KubeletReady");
    assert_eq!(condition(node, "DiskPressure"), "False KubeletHasNoDiskPressure");
    assert!(node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]).starts_with("simulated://"));
    assert_eq!(node.str_at(&["metadata", "labels", "topology.kubernetes.io/zone"]), "b");
    assert_eq!(node.str_at(&["status", "allocatable", "pods"]), "110");
    assert!(node.at(&["spec", "taints"]).is_none(), "{node:?}");
    let lease = cluster.get("leases.coordination.k8s.io", "kube-node-lease/node-1").unwrap();
    assert_eq!(lease.str_at(&["spec", "holderIdentity"]), "node-1");
    assert!(lease.at(&["metadata", "ownerReferences"]).is_some());
    assert_eq!(events(&cluster, "NodeReady").len(), 2);
    cluster.assert_quiet();
}

#[test]
fn leases_are_renewed_every_ten_seconds_and_statuses_every_five_minutes() {
    let mut cluster = cluster(with_start_delay);
    cluster.history.clear();
    run_seconds(&mut cluster, 600);
    let count = |what: &str| cluster.history.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("patch leases.coordination.k8s.io/kube-node-lease/node-0"), 60);
    assert_eq!(count("patch nodes/node-0"), 2);
    assert_eq!(condition(&cluster.list("nodes")[0], "Ready"), "True KubeletReady");
}

#[test]
fn deleted_node_stays_deleted_until_the_next_start() {
    let mut cluster = cluster(with_start_delay);
    cluster.delete("nodes", "node-1", &value!({})).unwrap();
    run_seconds(&mut cluster, 60);
    assert_eq!(cluster.list("nodes").len(), 1);
    cluster.crash();
    run_seconds(&mut cluster, 5);
    assert_eq!(cluster.list("nodes").len(), 2);
}

#[test]
fn cordon_and_uncordon_emit_one_event_each() {
    let mut cluster = cluster(with_start_delay);
    let emitted = |cluster: &Cluster| {
        ["NodeNotSchedulable", "NodeSchedulable"].map(|reason| events(cluster, reason).join(", "))
    };
    let message = |reason: &str| format!("Node node-1 status is now: {reason}");
    let set = |cluster: &mut Cluster, unschedulable: bool| {
        cluster.patch("nodes", "node-1", "", value!({"spec": {"unschedulable": (unschedulable)}})).unwrap();
        run_seconds(cluster, 5);
    };
    assert_eq!(emitted(&cluster), ["", ""]);
    set(&mut cluster, true);
    let unschedulable = message("NodeNotSchedulable");
    assert_eq!(emitted(&cluster), [&*unschedulable, ""]);
    cluster.assert_quiet();
    cluster.crash();
    run_seconds(&mut cluster, 600);
    assert_eq!(emitted(&cluster), [&*unschedulable, ""], "no change, no Event");
    set(&mut cluster, false);
    assert_eq!(emitted(&cluster), [&*unschedulable, &*message("NodeSchedulable")]);
    let counts: Vec<i64> =
        cluster.list("events").iter().filter_map(|event| event.get("count")?.as_i64()).collect();
    assert!(counts.iter().all(|count| *count == 1), "{counts:?}");
    cluster.assert_quiet();
}

#[test]
fn patched_capacity_is_allocatable_until_it_is_removed() {
    let mut cluster = cluster(without_start_delay);
    let amount = |cluster: &Cluster, field: &str| {
        let node = cluster.get("nodes", "node-0").unwrap();
        node.at(&["status", field, "example.com/gpu"]).and_then(Value::as_str).map(str::to_owned)
    };
    let two = value!({"status": {"capacity": {"example.com/gpu": "2"}}});
    cluster.patch("nodes", "node-0", "status", two).unwrap();
    run_seconds(&mut cluster, 20);
    assert_eq!(amount(&cluster, "allocatable").as_deref(), Some("2"));
    cluster.assert_quiet();
    let none = value!({"status": {"capacity": {"example.com/gpu": null}}});
    cluster.patch("nodes", "node-0", "status", none).unwrap();
    run_seconds(&mut cluster, 20);
    assert_eq!((amount(&cluster, "capacity"), amount(&cluster, "allocatable")), (None, None));
    cluster.assert_quiet();
}

#[test]
fn nodes_write_with_their_own_identity() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    let events = cluster.list("events");
    let started = events.iter().find(|event| event.str_at(&["reason"]) == "Started").unwrap();
    assert_eq!(started.str_at(&["source", "host"]), "node-0");
    assert_eq!(started.str_at(&["involvedObject", "fieldPath"]), "spec.containers{c}");
    cluster.delete("pods", "default/a", &value!({})).unwrap();
    cluster.observe();
    cluster.plan();
    let write = cluster.next_write().unwrap();
    assert_eq!((&*write.user, write.manager), ("system:node:node-0", "kubelet"));
}
