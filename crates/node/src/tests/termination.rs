//! Tests of container termination: hooks, order and times.

use super::*;

/// Creates a pod with a main container and two sidecars whose preStop hooks take `hooks` seconds.
fn with_sidecars(cluster: &mut Cluster, main: Value, hooks: [u64; 2]) {
    let sidecar = |name: &str, seconds: u64| {
        value!({
            "name": (name), "image": "i", "restartPolicy": "Always",
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", (seconds.to_string())]}}},
        })
    };
    let [one, two] = hooks;
    let spec = value!({
        "nodeName": "node-0", "restartPolicy": "Never",
        "initContainers": [(sidecar("one", one)), (sidecar("two", two))], "containers": [(main)],
    });
    let stops =
        value!({"c.simulate.setpoint.dev/stop-takes": "10s", "two.simulate.setpoint.dev/stop-takes": "4s"});
    let metadata = value!({"name": "a", "annotations": (stops), "finalizers": ["x.y/z"]});
    cluster.create("pods", "default", value!({"metadata": (metadata), "spec": (spec)}));
    run_seconds(cluster, 1);
}

/// Returns the end times of containers in seconds since a time, init containers first.
fn finished_after(cluster: &Cluster, since: setpoint_api::Time) -> Vec<u64> {
    let pod = get(cluster, "a");
    let list = |field: &str| pod.at(&["status", field]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let ended = |status: Value| {
        let at = setpoint_api::rfc3339::parse(status.str_at(&["state", "terminated", "finishedAt"])).unwrap();
        at.since(since).as_secs()
    };
    list("initContainerStatuses").into_iter().chain(list("containerStatuses")).map(ended).collect()
}

#[test]
fn sidecar_pre_stop_hooks_run_in_parallel_and_sidecars_terminate_last() {
    for (hooks, expected) in [([5, 6], [14, 14, 10]), ([20, 12], [21, 17, 10])] {
        let mut cluster = cluster(without_start_delay);
        with_sidecars(&mut cluster, value!({"name": "c", "image": "i"}), hooks);
        assert_eq!(summary(&cluster, "a"), "Running | ready, ready, ready");
        let since = crate::lifecycle::truncate_to_seconds(cluster.now);
        cluster.delete("pods", "default/a", &value!({})).unwrap();
        run_seconds(&mut cluster, 40);
        assert_eq!(finished_after(&cluster, since), expected, "{hooks:?}");
        cluster.assert_quiet();
    }
}

#[test]
fn sidecars_of_a_finished_pod_start_to_stop_together() {
    let mut cluster = cluster(without_start_delay);
    let main = value!({"name": "c", "image": "i", "command": ["sleep", "10"]});
    let since = crate::lifecycle::truncate_to_seconds(cluster.now);
    with_sidecars(&mut cluster, main, [9, 3]);
    run_seconds(&mut cluster, 11);
    let killing = ["Stopping container one", "Stopping container two"];
    let emitted = |cluster: &Cluster| {
        let mut emitted = events(cluster, "Killing");
        emitted.sort();
        emitted
    };
    assert_eq!(emitted(&cluster), killing, "Events are emitted when the stop begins");
    run_seconds(&mut cluster, 30);
    assert_eq!(finished_after(&cluster, since), [20, 18, 10]);
    assert_eq!(emitted(&cluster), killing);
    cluster.assert_quiet();
}

#[test]
fn pre_stop_hook_gets_its_full_duration() {
    let mut cluster = cluster(without_start_delay);
    let hook = |name: &str, seconds: i64, hook: &str| {
        format!(
            r#"{{"terminationGracePeriodSeconds":{seconds},"containers":[{{"name":"{name}","image":"i","lifecycle":{{"preStop":{hook}}}}}]}}"#
        )
    };
    let script = r#"{"exec":{"command":["sleep","5"]}}"#;
    let hooks = [("sleep", 30, r#"{"sleep":{"seconds":5}}"#), ("script", 30, script), ("brief", 2, script)];
    for (name, grace, what) in hooks {
        create_pod(&mut cluster, name, &hook(name, grace, what));
    }
    // The stop begins late within a second.
    cluster.now = crate::lifecycle::truncate_to_seconds(cluster.now).after(Duration::from_millis(1990));
    for (name, ..) in hooks {
        cluster.delete("pods", &format!("default/{name}"), &value!({})).unwrap();
    }
    run_seconds(&mut cluster, 2);
    assert!(cluster.get("pods", "default/brief").is_none(), "it gets no more time than there is");
    cluster.run(Duration::from_millis(2950));
    for name in ["sleep", "script"] {
        assert_eq!(summary(&cluster, name), "Running | ready");
    }
    run_seconds(&mut cluster, 1);
    assert!(hooks.iter().all(|(name, ..)| cluster.get("pods", &format!("default/{name}")).is_none()));
    cluster.assert_quiet();
}
