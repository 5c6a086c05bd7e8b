//! Tests of several fleets with nodes of the same names.

use setpoint_sim::cluster::ParkedLoop;

use super::*;
use crate::fleet::FLEET_ANNOTATION;

/// Planners of the fleet in the server process.
fn first() -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    without_start_delay()
}

/// Planners of another fleet, with other capacity.
fn second() -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    let mut fleet = Fleet { count: 3, owner: "setpoint-nodes-node".to_owned(), ..Fleet::default() };
    fleet.set_capacity("cpu", "2");
    (planners(fleet), indexes())
}

/// Runs both fleets in turn for a number of seconds.
fn run_both(cluster: &mut Cluster, other: &mut ParkedLoop, span: u64) {
    for _ in 0..span / 4 {
        for _ in 0..2 {
            run_seconds(cluster, 2);
            cluster.swap_loop(other);
        }
    }
}

/// Formats a node: `fleet cpu`.
fn owner_and_cpu(cluster: &Cluster, node: &str) -> String {
    let node = cluster.get("nodes", node).unwrap();
    let capacity = node.str_at(&["status", "capacity", "cpu"]);
    format!("{} {capacity}", node.str_at(&["metadata", "annotations", FLEET_ANNOTATION]))
}

/// Returns a cluster with the first fleet, and the second one just started.
fn start_two_fleets() -> (Cluster, ParkedLoop) {
    let mut cluster = cluster(first);
    let mut other = Cluster::new_parked_loop(second, &[]);
    cluster.swap_loop(&mut other);
    cluster.crash();
    cluster.swap_loop(&mut other);
    (cluster, other)
}

#[test]
fn fleets_with_the_same_node_names_never_write_the_same_node() {
    let (mut cluster, mut other) = start_two_fleets();
    cluster.history.clear();
    run_both(&mut cluster, &mut other, 200);
    assert_eq!(owner_and_cpu(&cluster, "node-0"), "setpoint-up 16");
    assert_eq!(owner_and_cpu(&cluster, "node-2"), "setpoint-nodes-node 2");
    let writes = cluster.history.iter().filter(|line| line.contains("patch nodes/node-0")).count();
    assert!(writes <= 1, "an unchanged node is written for its heartbeat only: {writes}");
    let emitted = events(&cluster, "NodeOfAnotherFleet");
    assert_eq!(emitted.len(), 2, "{emitted:?}");
    assert!(emitted[0].contains("while fleet setpoint-up renews its Lease"), "{emitted:?}");
}

#[test]
fn nodes_with_expired_leases_are_claimed_and_not_returned() {
    let (mut cluster, mut other) = start_two_fleets();
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    let sleeps =
        r#"{"restartPolicy":"Never","containers":[{"name":"c","image":"b","command":["sleep","60"]}]}"#;
    create_pod(&mut cluster, "b", sleeps);
    cluster.swap_loop(&mut other);
    run_seconds(&mut cluster, 39);
    assert_eq!(owner_and_cpu(&cluster, "node-0"), "setpoint-up 16", "its Lease may still be renewed");
    run_seconds(&mut cluster, 60);
    assert_eq!(owner_and_cpu(&cluster, "node-0"), "setpoint-nodes-node 2");
    assert_eq!(condition(&cluster.get("nodes", "node-0").unwrap(), "Ready"), "True KubeletReady");
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    assert_eq!(summary(&cluster, "b"), "Succeeded | Completed 0", "the new fleet syncs the pod");
    // The first fleet returns, with its memos or without.
    for has_restarted in [false, true] {
        cluster.swap_loop(&mut other);
        if has_restarted {
            cluster.crash();
        }
        run_both(&mut cluster, &mut other, 120);
        assert_eq!(owner_and_cpu(&cluster, "node-0"), "setpoint-nodes-node 2");
        cluster.swap_loop(&mut other);
    }
}

#[test]
fn powered_off_node_is_not_claimed() {
    let (mut cluster, mut other) = start_two_fleets();
    let off = value!({"metadata": {"annotations": {"simulate.setpoint.dev/power": "off"}}});
    cluster.patch("nodes", "node-0", "", off).unwrap();
    run_both(&mut cluster, &mut other, 200);
    assert_eq!(owner_and_cpu(&cluster, "node-0"), "setpoint-up 16");
}

#[test]
fn node_without_owner_is_claimed_unless_a_real_kubelet_runs_it() {
    let mut cluster = Cluster::new(first, 1);
    cluster.create("namespaces", "", value!({"metadata": {"name": "kube-node-lease"}}));
    for (name, runtime) in [("node-0", "simulated://0.1.0"), ("node-1", "containerd://2.0.0")] {
        let status = value!({"nodeInfo": {"containerRuntimeVersion": (runtime)}});
        cluster.create("nodes", "", value!({"metadata": {"name": (name)}, "status": (status)}));
    }
    run_seconds(&mut cluster, 30);
    assert_eq!(owner_and_cpu(&cluster, "node-0"), "setpoint-up 16");
    assert_eq!(owner_and_cpu(&cluster, "node-1").trim(), "");
    let labels = cluster.get("nodes", "node-0").unwrap();
    assert!(labels.at(&["metadata", "labels", "node.kubernetes.io/simulated"]).is_some());
    cluster.assert_quiet();
}

#[test]
fn rules_of_a_remote_fleet_are_published() {
    let controllers: setpoint_sim::cluster::Controllers = || {
        let published_rules = Some("rules:\n- log: [hello]\n".to_owned());
        let owner = "setpoint-nodes-sim".to_owned();
        planners_of(Fleet { owner, published_rules, ..Fleet::default() })
    };
    let mut cluster = Cluster::new(controllers, 1);
    cluster.create("namespaces", "", value!({"metadata": {"name": "kube-system"}}));
    let place = "kube-system/setpoint-nodes-sim";
    cluster.settle();
    let text = |cluster: &Cluster| {
        cluster.get("configmaps", place).unwrap().str_at(&["data", "rules.yaml"]).to_owned()
    };
    assert_eq!(text(&cluster), "rules:\n- log: [hello]\n");
    cluster.patch("configmaps", place, "", value!({"data": {"rules.yaml": "x"}})).unwrap();
    cluster.settle();
    assert_eq!(text(&cluster), "rules:\n- log: [hello]\n", "edits are reverted");
    cluster.assert_quiet();
}
