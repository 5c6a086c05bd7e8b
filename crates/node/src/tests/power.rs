//! Tests of nodes that are powered off, partitioned and rebooted.

use super::*;

fn set_power(cluster: &mut Cluster, power: &str, booted: bool) {
    let mut annotations = value!({"simulate.setpoint.dev/power": (power)});
    if booted {
        let now = setpoint_api::rfc3339::Micros(cluster.now).to_string();
        annotations.make_map().insert("simulate.setpoint.dev/booted", now);
    }
    cluster.patch("nodes", "node-0", "", value!({"metadata": {"annotations": (annotations)}})).unwrap();
    cluster.settle();
}

fn node_ready(cluster: &Cluster) -> String {
    condition(&cluster.get("nodes", "node-0").unwrap(), "Ready")
}

/// Marks the node as unreachable, as the node life cycle controller does.
fn mark_unreachable(cluster: &mut Cluster) {
    let conditions = value!([{
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent",
        "lastHeartbeatTime": "2027-01-15T08:00:00Z", "lastTransitionTime": "2027-01-15T08:00:00Z",
    }]);
    cluster.patch("nodes", "node-0", "status", value!({"status": {"conditions": (conditions)}})).unwrap();
}

#[test]
fn powered_off_node_becomes_unreachable_and_loses_its_containers() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    let boot = cluster.get("nodes", "node-0").unwrap().str_at(&["status", "nodeInfo", "bootID"]).to_owned();
    set_power(&mut cluster, "off", false);
    run_seconds(&mut cluster, 90);
    assert_eq!(node_ready(&cluster), "Unknown NodeStatusUnknown");
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "False");
    set_power(&mut cluster, "on", true);
    run_seconds(&mut cluster, 5);
    assert_eq!(node_ready(&cluster), "True KubeletReady");
    assert_eq!(summary(&cluster, "a"), "Running | ready x1");
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "True");
    let after = cluster.get("nodes", "node-0").unwrap().str_at(&["status", "nodeInfo", "bootID"]).to_owned();
    assert_ne!(boot, after);
    assert_eq!(events(&cluster, "Rebooted").len(), 1);
    cluster.assert_quiet();
}

#[test]
fn partitioned_node_keeps_running_and_reports_later() {
    let mut cluster = cluster(without_start_delay);
    create_pod(
        &mut cluster,
        "a",
        r#"{"restartPolicy":"Never","containers":[{"name":"c","image":"b","command":["sleep","100"]}]}"#,
    );
    create_pod(&mut cluster, "b", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    set_power(&mut cluster, "partitioned", false);
    cluster.delete("pods", "default/b", &value!({})).unwrap();
    run_seconds(&mut cluster, 200);
    assert_eq!(node_ready(&cluster), "Unknown NodeStatusUnknown");
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    assert!(cluster.get("pods", "default/b").is_some(), "a pod on an unreachable node is not removed");
    set_power(&mut cluster, "on", false);
    run_seconds(&mut cluster, 5);
    assert_eq!(summary(&cluster, "a"), "Succeeded | Completed 0");
    assert!(cluster.get("pods", "default/b").is_none());
    cluster.assert_quiet();
}

#[test]
fn pod_restarts_in_a_new_sandbox_after_a_reboot() {
    let mut cluster = cluster(without_start_delay);
    let first = r#"[{"name":"one","image":"b","command":["sleep","3"]},{"name":"two","image":"b","command":["sleep","3"]}]"#;
    let spec = |policy: &str| {
        format!(
            r#"{{"restartPolicy":"{policy}","initContainers":{first},"containers":[{{"name":"c","image":"nginx"}}]}}"#
        )
    };
    create_pod(&mut cluster, "a", &spec("Always"));
    create_pod(&mut cluster, "b", &spec("Never"));
    run_seconds(&mut cluster, 20);
    assert_eq!(summary(&cluster, "a"), "Running | Completed 0, Completed 0, ready");
    set_power(&mut cluster, "on", true);
    assert_eq!(summary(&cluster, "a"), "Running | running x1, Completed 0, PodInitializing");
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "False ContainersNotReady");
    assert_eq!(summary(&cluster, "b"), "Failed | Completed 0, Completed 0, Unknown 255");
    let emitted = events(&cluster, "SandboxChanged");
    assert_eq!(emitted, ["Pod sandbox changed, it will be killed and re-created."]);
    run_seconds(&mut cluster, 4);
    assert_eq!(summary(&cluster, "a"), "Running | Completed 0 x1, running x1, PodInitializing");
    run_seconds(&mut cluster, 4);
    assert_eq!(summary(&cluster, "a"), "Running | Completed 0 x1, Completed 0 x1, ready x1");
    assert_eq!(events(&cluster, "SandboxChanged"), emitted);
    cluster.assert_quiet();
}

#[test]
fn returning_node_is_ready_before_its_pods_which_become_ready_once() {
    for booted in [true, false] {
        let mut cluster = cluster(without_start_delay);
        create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
        set_power(&mut cluster, if booted { "off" } else { "partitioned" }, false);
        run_seconds(&mut cluster, 90);
        assert_eq!(condition(&get(&cluster, "a"), "Ready"), "False");
        cluster.history.clear();
        set_power(&mut cluster, "on", booted);
        let place = |what: &str| cluster.history.iter().position(|line| line.contains(what)).unwrap();
        assert!(place("patch nodes/node-0") < place("patch pods/default/a"), "{:#?}", cluster.history);
        let writes = cluster.history.iter().filter(|line| line.contains("patch pods/default/a")).count();
        assert_eq!(writes, 1, "{:#?}", cluster.history);
        assert_eq!(condition(&get(&cluster, "a"), "Ready"), "True");
        let emitted = cluster.list("events").into_iter().filter(|event| {
            event.str_at(&["reason"]) == "NodeNotReady" && event.str_at(&["involvedObject", "kind"]) == "Pod"
        });
        let counts: Vec<_> = emitted.map(|event| event.get("count").and_then(Value::as_i64)).collect();
        assert_eq!(counts, [Some(1)]);
        cluster.assert_quiet();
    }
}

#[test]
fn suspended_process_resumes_its_pods() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    let mut other = Cluster::new_parked_loop(only_node_lifecycle, &[]);
    cluster.swap_loop(&mut other);
    cluster.crash();
    mark_unreachable(&mut cluster);
    run_seconds(&mut cluster, 20);
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "False", "the node was marked unreachable");
    cluster.swap_loop(&mut other);
    cluster.settle();
    assert_eq!(
        (node_ready(&cluster), condition(&get(&cluster, "a"), "Ready")),
        ("True KubeletReady".to_owned(), "True".to_owned())
    );
    cluster.assert_quiet();
}

#[test]
fn deleted_unreachable_node_terminates_its_pods_at_once() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    // A finalizer keeps the deleted node.
    let kept = value!({"metadata": {"finalizers": ["example.com/kept"]}});
    cluster.patch("nodes", "node-0", "", kept).unwrap();
    cluster.settle();
    mark_unreachable(&mut cluster);
    cluster.delete("pods", "default/a", &value!({"gracePeriodSeconds": 1})).unwrap();
    // Other controllers are done with the pod, so only its node can enqueue it. The node is deleted before it
    // reports its return; from then on it does not report.
    for _ in 0..5 {
        cluster.observe();
        cluster.plan();
        while cluster.perform_first(|sent| sent.manager != "kubelet") {}
    }
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "False");
    cluster.delete("nodes", "node-0", &value!({})).unwrap();
    run_seconds(&mut cluster, 5);
    assert_eq!(node_ready(&cluster), "Unknown NodeStatusUnknown");
    assert!(cluster.get("pods", "default/a").is_none(), "{:#?}", cluster.history);
}

/// Controllers that watch nodes, without the nodes' own planners.
fn only_node_lifecycle() -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    let watcher = setpoint_controllers::node_lifecycle::NodeLifecycle::default();
    (vec![Box::new(watcher)], setpoint_controllers::indexes::all())
}
