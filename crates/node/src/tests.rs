//! Tests of simulated nodes in a whole control plane: the real request pipeline and store, on a simulated
//! clock.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_reconcile::{Controller, Index};
use setpoint_sim::cluster::Cluster;

use super::*;

mod admission;
mod components;
mod convergence;
mod fleets;
mod lifecycle;
mod nodes;
mod power;
mod references;
mod resize;
mod termination;

/// Returns the planners of a fleet without start delay, and the controllers that nodes need.
fn planners_of(fleet: Fleet) -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    let mut all = planners(fleet);
    all.push(Box::new(setpoint_controllers::node_lifecycle::NodeLifecycle::default()));
    (all, setpoint_controllers::indexes::all().into_iter().chain(indexes()).collect())
}

fn without_start_delay() -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    planners_of(Fleet { count: 2, pod_start_delay: Duration::ZERO, ..Fleet::default() })
}

fn with_start_delay() -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    planners_of(Fleet { count: 2, zones: vec!["a".to_owned(), "b".to_owned()], ..Fleet::default() })
}

/// Returns a cluster whose nodes are ready.
fn cluster(controllers: setpoint_sim::cluster::Controllers) -> Cluster {
    let mut cluster = Cluster::new(controllers, 1);
    cluster.create("namespaces", "", value!({"metadata": {"name": "kube-node-lease"}}));
    cluster.run(Duration::from_secs(15));
    cluster
}

/// Creates a pod on a node.
fn create_pod(cluster: &mut Cluster, name: &str, spec: &str) {
    let mut spec = setpoint_sim::cluster::parsed(spec);
    spec.make_map().insert("nodeName", "node-0");
    cluster.create("pods", "default", value!({"metadata": {"name": (name)}, "spec": (spec)}));
    cluster.settle();
}

fn get(cluster: &Cluster, name: &str) -> Value {
    cluster.get("pods", &format!("default/{name}")).unwrap()
}

/// Formats a pod: `phase | state of each container, init containers first`.
fn summary(cluster: &Cluster, name: &str) -> String {
    let pod = get(cluster, name);
    let list = |field: &str| pod.at(&["status", field]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let states = list("initContainerStatuses").into_iter().chain(list("containerStatuses")).map(|status| {
        let state = status.get("state").cloned().unwrap_or_default();
        let restarts = status.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
        let what = if state.get("running").is_some() {
            if status.get("ready").and_then(Value::as_bool) == Some(true) { "ready" } else { "running" }
                .to_owned()
        } else if let Some(end) = state.get("terminated") {
            format!(
                "{} {}",
                end.str_at(&["reason"]),
                end.get("exitCode").and_then(Value::as_i64).unwrap_or(-1)
            )
        } else {
            state.str_at(&["waiting", "reason"]).to_owned()
        };
        if restarts > 0 { format!("{what} x{restarts}") } else { what }
    });
    let states: Vec<String> = states.collect();
    format!("{} | {}", pod.str_at(&["status", "phase"]), states.join(", "))
}

fn condition(object: &Value, kind: &str) -> String {
    let list = object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let found = list.iter().find(|one| one.str_at(&["type"]) == kind);
    found.map_or(String::new(), |one| {
        format!("{} {}", one.str_at(&["status"]), one.str_at(&["reason"])).trim_end().to_owned()
    })
}

fn events(cluster: &Cluster, reason: &str) -> Vec<String> {
    let all = cluster.list("events");
    let about = all.iter().filter(|event| event.str_at(&["reason"]) == reason);
    about.map(|event| event.str_at(&["message"]).to_owned()).collect()
}

fn run_seconds(cluster: &mut Cluster, seconds: u64) {
    cluster.run(Duration::from_secs(seconds));
}

#[test]
fn pod_is_creating_for_a_second_and_then_runs() {
    let mut cluster = cluster(with_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    assert_eq!(summary(&cluster, "a"), "Pending | ContainerCreating");
    let made = get(&cluster, "a");
    assert!(!made.str_at(&["status", "startTime"]).is_empty());
    assert_eq!(condition(&made, "Ready"), "False ContainersNotReady");
    assert_eq!(condition(&made, "PodScheduled"), "True");
    run_seconds(&mut cluster, 2);
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    let running = get(&cluster, "a");
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&running, kind), "True", "{kind}");
    }
    assert_eq!(running.str_at(&["status", "hostIP"]), "172.18.0.2");
    assert!(running.str_at(&["status", "podIP"]).starts_with("100.64.0."));
    assert_eq!(running.at(&["status", "observedGeneration"]).and_then(Value::as_i64), Some(1));
    assert_eq!(events(&cluster, "Started"), ["Container started"]);
    assert!(events(&cluster, "Pulled")[0].starts_with("Successfully pulled image \"nginx\" in 1s"));
    let fields = running.at(&["metadata", "managedFields"]).unwrap();
    assert!(setpoint_api::json::to_text(fields).contains("\"kubelet\""));
    cluster.assert_quiet();
    cluster.crash();
    cluster.settle();
    cluster.assert_quiet();
    assert_eq!(get(&cluster, "a"), running, "a restarted process keeps the status");
}

#[test]
fn pods_of_a_node_have_distinct_ips() {
    let mut cluster = cluster(without_start_delay);
    for number in 0..60 {
        let spec = value!({"nodeName": "node-0", "containers": [{"name": "c", "image": "nginx"}]});
        let pod = value!({"metadata": {"name": (format!("p{number}"))}, "spec": (spec)});
        cluster.create("pods", "default", pod);
    }
    cluster.settle();
    let mut addresses: Vec<String> =
        cluster.list("pods").iter().map(|pod| pod.str_at(&["status", "podIP"]).to_owned()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 60);
    assert!(addresses.iter().all(|address| !address.is_empty()));
}

#[test]
fn terminated_container_makes_a_pod_succeed_fail_or_crash_loop() {
    let mut cluster = cluster(without_start_delay);
    let spec = |policy: &str, script: &str| {
        format!(
            r#"{{"restartPolicy":"{policy}","containers":[{{"name":"c","image":"b","command":["sh","-c","{script}"]}}]}}"#
        )
    };
    create_pod(&mut cluster, "good", &spec("Never", "sleep 5; exit 0"));
    create_pod(&mut cluster, "bad", &spec("OnFailure", "sleep 5; exit 3"));
    create_pod(&mut cluster, "loop", &spec("Always", "exit 1"));
    assert_eq!(summary(&cluster, "good"), "Running | ready");
    assert_eq!(summary(&cluster, "loop"), "Running | CrashLoopBackOff x1");
    run_seconds(&mut cluster, 6);
    assert_eq!(summary(&cluster, "good"), "Succeeded | Completed 0");
    assert_eq!(condition(&get(&cluster, "good"), "Ready"), "False PodCompleted");
    assert_eq!(condition(&get(&cluster, "good"), "PodReadyToStartContainers"), "False");
    assert_eq!(summary(&cluster, "bad"), "Running | ready x1");
    run_seconds(&mut cluster, 5);
    assert_eq!(summary(&cluster, "bad"), "Running | CrashLoopBackOff x1");
    assert_eq!(summary(&cluster, "loop"), "Running | CrashLoopBackOff x2");
    let pod = get(&cluster, "loop");
    let status = &pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0];
    let message = status.str_at(&["state", "waiting", "message"]);
    assert!(message.starts_with("back-off 20s restarting failed container=c pod=loop_default("), "{message}");
    assert_eq!(status.at(&["lastState", "terminated", "exitCode"]).and_then(Value::as_i64), Some(1));
    assert!(events(&cluster, "BackOff")[0].starts_with("Back-off restarting failed container c in pod"));
    run_seconds(&mut cluster, 20 + 40 + 80 + 160 + 300);
    assert_eq!(summary(&cluster, "loop"), "Running | CrashLoopBackOff x7");
}

#[test]
fn init_containers_run_in_order_and_sidecars_keep_running() {
    let mut cluster = cluster(without_start_delay);
    create_pod(
        &mut cluster,
        "a",
        r#"{"restartPolicy":"Never","initContainers":[
            {"name":"one","image":"b","command":["sleep","3"]},
            {"name":"side","image":"b","restartPolicy":"Always","startupProbe":{"initialDelaySeconds":4,"exec":{"command":["true"]}}},
            {"name":"two","image":"b","command":["sleep","3"]}],
          "containers":[{"name":"c","image":"b","command":["sleep","5"]}]}"#,
    );
    let initialized = |cluster: &Cluster| condition(&get(cluster, "a"), "Initialized");
    assert_eq!(
        summary(&cluster, "a"),
        "Pending | running, PodInitializing, PodInitializing, PodInitializing"
    );
    assert_eq!(initialized(&cluster), "False ContainersNotInitialized");
    run_seconds(&mut cluster, 3);
    assert_eq!(summary(&cluster, "a"), "Pending | Completed 0, running, PodInitializing, PodInitializing");
    run_seconds(&mut cluster, 4);
    assert_eq!(summary(&cluster, "a"), "Pending | Completed 0, ready, running, PodInitializing");
    run_seconds(&mut cluster, 3);
    assert_eq!(summary(&cluster, "a"), "Running | Completed 0, ready, Completed 0, ready");
    assert_eq!(initialized(&cluster), "True");
    run_seconds(&mut cluster, 5);
    assert_eq!(summary(&cluster, "a"), "Succeeded | Completed 0, Error 143, Completed 0, Completed 0");
    cluster.assert_quiet();
}

#[test]
fn permanently_failed_init_container_fails_the_pod() {
    let mut cluster = cluster(without_start_delay);
    create_pod(
        &mut cluster,
        "a",
        r#"{"restartPolicy":"Never","initContainers":[{"name":"i","image":"b","command":["false"]}],
          "containers":[{"name":"c","image":"b"}]}"#,
    );
    assert_eq!(summary(&cluster, "a"), "Failed | Error 1, PodInitializing");
    create_pod(
        &mut cluster,
        "b",
        r#"{"initContainers":[{"name":"i","image":"b","command":["false"]}],"containers":[{"name":"c","image":"b"}]}"#,
    );
    assert_eq!(summary(&cluster, "b"), "Pending | CrashLoopBackOff x1, PodInitializing");
    cluster.assert_quiet();
}

#[test]
fn impossible_image_is_never_pulled() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"registry.invalid/x:1"}]}"#);
    assert_eq!(summary(&cluster, "a"), "Pending | ErrImagePull");
    run_seconds(&mut cluster, 5);
    assert_eq!(summary(&cluster, "a"), "Pending | ImagePullBackOff");
    assert_eq!(events(&cluster, "Failed").len(), 3);
    run_seconds(&mut cluster, 600);
    assert_eq!(summary(&cluster, "a"), "Pending | ImagePullBackOff");
    create_pod(&mut cluster, "b", r#"{"containers":[{"name":"c","image":"NotAnImage"}]}"#);
    assert_eq!(summary(&cluster, "b"), "Pending | InvalidImageName");
    cluster.delete("pods", "default/a", &value!({})).unwrap();
    cluster.settle();
    assert!(cluster.get("pods", "default/a").is_none());
}

#[test]
fn deleted_pod_terminates_and_is_removed() {
    let mut cluster = cluster(without_start_delay);
    let hangs = value!({"simulate.setpoint.dev/hangs": "true"});
    for (name, annotations, grace) in [("quick", value!({}), 30), ("slow", hangs, 20)] {
        let spec = value!({
            "nodeName": "node-0", "terminationGracePeriodSeconds": (grace),
            "containers": [{"name": "c", "image": "nginx"}],
        });
        let pod = value!({"metadata": {"name": (name), "annotations": (annotations)}, "spec": (spec)});
        cluster.create("pods", "default", pod);
        cluster.settle();
        cluster.delete("pods", &format!("default/{name}"), &value!({})).unwrap();
    }
    cluster.settle();
    assert!(cluster.get("pods", "default/quick").is_none());
    assert_eq!(summary(&cluster, "slow"), "Running | ready");
    let killing = events(&cluster, "Killing");
    assert_eq!(killing, ["Stopping container c"; 2], "Events are emitted when the stop begins");
    run_seconds(&mut cluster, 19);
    assert_eq!(summary(&cluster, "slow"), "Running | ready");
    run_seconds(&mut cluster, 2);
    assert!(cluster.get("pods", "default/slow").is_none());
    assert_eq!(events(&cluster, "Killing"), killing, "no Event at the end of the stop");
    cluster.assert_quiet();
}

#[test]
fn termination_is_visible_to_clients() {
    let mut cluster = cluster(with_start_delay);
    let grace = |seconds: i64| {
        format!(
            r#"{{"terminationGracePeriodSeconds":{seconds},"containers":[{{"name":"c","image":"nginx"}}]}}"#
        )
    };
    create_pod(&mut cluster, "slow", &grace(60));
    create_pod(&mut cluster, "hasty", &grace(1));
    run_seconds(&mut cluster, 5);
    // The stop is requested late within a second.
    cluster.now = cluster.now.after(Duration::from_millis(990));
    for name in ["slow", "hasty"] {
        assert_eq!(summary(&cluster, name), "Running | ready");
        cluster.delete("pods", &format!("default/{name}"), &value!({})).unwrap();
    }
    cluster.settle();
    cluster.run(Duration::from_millis(900));
    assert!(cluster.get("pods", "default/slow").is_some(), "the stop takes its time");
    assert!(cluster.get("pods", "default/hasty").is_none(), "the grace period bounds the stop");
    run_seconds(&mut cluster, 2);
    assert!(cluster.get("pods", "default/slow").is_none());
    cluster.assert_quiet();
}

#[test]
fn deleted_pod_with_finalizers_reports_its_termination() {
    let mut cluster = cluster(without_start_delay);
    let spec = value!({"nodeName": "node-0", "containers": [{"name": "c", "image": "nginx"}]});
    let pod = value!({"metadata": {"name": "a", "finalizers": ["x.y/z"]}, "spec": (spec)});
    cluster.create("pods", "default", pod);
    cluster.settle();
    cluster.delete("pods", "default/a", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(summary(&cluster, "a"), "Failed | Error 143");
    cluster.assert_quiet();
    cluster.patch("pods", "default/a", "", value!({"metadata": {"finalizers": null}})).unwrap();
    cluster.settle();
    assert!(cluster.get("pods", "default/a").is_none());
}

#[test]
fn active_deadline_terminates_a_pod() {
    let mut cluster = cluster(without_start_delay);
    create_pod(
        &mut cluster,
        "a",
        r#"{"activeDeadlineSeconds":5,"containers":[{"name":"c","image":"nginx"}]}"#,
    );
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    run_seconds(&mut cluster, 6);
    assert_eq!(summary(&cluster, "a"), "Failed | Error 143");
    let status = get(&cluster, "a");
    assert_eq!(status.str_at(&["status", "reason"]), "DeadlineExceeded");
    cluster.assert_quiet();
}

#[test]
fn liveness_restarts_and_readiness_gates_delay_readiness() {
    let mut cluster = cluster(without_start_delay);
    let script = "echo ok >/tmp/health; sleep 10; rm -rf /tmp/health; sleep 600";
    let spec = format!(
        r#"{{"containers":[{{"name":"c","image":"b","command":["sh","-c","{script}"],"livenessProbe":
        {{"exec":{{"command":["cat","/tmp/health"]}},"initialDelaySeconds":15,"failureThreshold":1}}}}]}}"#
    );
    create_pod(&mut cluster, "live", &spec);
    run_seconds(&mut cluster, 14);
    assert_eq!(summary(&cluster, "live"), "Running | ready");
    run_seconds(&mut cluster, 2);
    assert_eq!(summary(&cluster, "live"), "Running | ready x1");
    assert_eq!(events(&cluster, "Killing"), ["Container c failed liveness probe, will be restarted"]);
    create_pod(
        &mut cluster,
        "gated",
        r#"{"readinessGates":[{"conditionType":"x.y/open"}],"containers":[{"name":"c","image":"b"}]}"#,
    );
    assert_eq!(condition(&get(&cluster, "gated"), "ContainersReady"), "True");
    assert_eq!(condition(&get(&cluster, "gated"), "Ready"), "False ReadinessGatesNotReady");
    let mut conditions = get(&cluster, "gated").at(&["status", "conditions"]).cloned().unwrap();
    conditions.as_list_mut().unwrap().push(value!({"type": "x.y/open", "status": "True"}));
    cluster
        .patch("pods", "default/gated", "status", value!({"status": {"conditions": (conditions)}}))
        .unwrap();
    cluster.settle();
    assert_eq!(condition(&get(&cluster, "gated"), "Ready"), "True");
    assert_eq!(condition(&get(&cluster, "gated"), "x.y/open"), "True");
}

#[test]
fn termination_message_and_host_ips_are_reported() {
    let mut cluster = cluster(without_start_delay);
    create_pod(
        &mut cluster,
        "a",
        r#"{"restartPolicy":"Never","hostNetwork":true,"containers":[{"name":"c","image":"b",
          "command":["sh","-c","echo -n DONE > /dev/termination-log; exit 2"]}]}"#,
    );
    assert_eq!(summary(&cluster, "a"), "Failed | Error 2");
    let pod = get(&cluster, "a");
    let status = &pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0];
    assert_eq!(status.str_at(&["state", "terminated", "message"]), "DONE");
    assert_eq!(pod.str_at(&["status", "podIP"]), "172.18.0.2");
    cluster.assert_quiet();
}

#[test]
fn logs_follow_container_scripts() {
    let mut cluster = cluster(without_start_delay);
    let script = "echo one; sleep 5; echo two; exit 1";
    create_pod(
        &mut cluster,
        "a",
        &format!(r#"{{"containers":[{{"name":"c","image":"b","command":["sh","-c","{script}"]}}]}}"#),
    );
    let read_log = |cluster: &Cluster, previous: bool| {
        let world = cluster.engine.world();
        let pod = world.reader().find("pods", "default", "a").unwrap();
        let log = logs::container_log(
            (&[], &crate::behavior::script_cache::ScriptCache::default()),
            pod,
            "c",
            previous,
            cluster.now,
        )?;
        Ok::<_, String>((log.lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>(), log.is_running))
    };
    assert_eq!(read_log(&cluster, false), Ok((vec!["one".to_owned()], true)));
    let message = "previous terminated container \"c\" in pod \"a\" not found";
    assert_eq!(read_log(&cluster, true), Err(message.to_owned()));
    run_seconds(&mut cluster, 6);
    assert_eq!(read_log(&cluster, false).unwrap().0, ["one"]);
    assert_eq!(read_log(&cluster, true), Ok((vec!["one".to_owned(), "two".to_owned()], false)));
    run_seconds(&mut cluster, 5);
    assert_eq!(read_log(&cluster, false), Ok((vec!["one".to_owned(), "two".to_owned()], false)), "it waits");
}

#[test]
fn invalid_annotation_emits_one_event() {
    let mut cluster = cluster(without_start_delay);
    let object = value!({
        "metadata": {"name": "a", "annotations": {"simulate.setpoint.dev/exit-after": "soon"}},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "nginx"}]},
    });
    cluster.create("pods", "default", object);
    run_seconds(&mut cluster, 30);
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    let emitted = events(&cluster, "InvalidSimulation");
    assert_eq!(emitted.len(), 1, "{emitted:?}");
    assert!(
        emitted[0].contains("simulate.setpoint.dev/exit-after") && emitted[0].contains("is not a duration"),
        "{emitted:?}"
    );
    cluster.assert_quiet();
}
