//! Tests of the pod life cycle as clients see it: states, Events and their order.

use super::*;

fn create_annotated_pod(cluster: &mut Cluster, name: &str, annotations: Value, spec: &str) {
    let mut spec = setpoint_sim::cluster::parsed(spec);
    spec.make_map().insert("nodeName", "node-0");
    let metadata = value!({"name": (name), "annotations": (annotations)});
    cluster.create("pods", "default", value!({"metadata": (metadata), "spec": (spec)}));
    cluster.settle();
}

/// Returns the sum of the counts of Events with a reason.
fn event_count(cluster: &Cluster, reason: &str) -> i64 {
    let all = cluster.list("events");
    let about = all.iter().filter(|event| event.str_at(&["reason"]) == reason);
    about.map(|event| event.get("count").and_then(Value::as_i64).unwrap_or(1)).sum()
}

/// Returns the distinct states of a pod, sampled each tenth of a second.
fn observed_states(cluster: &mut Cluster, name: &str, tenths: u32) -> Vec<String> {
    let mut observed_states = vec![summary(cluster, name)];
    for _ in 0..tenths {
        cluster.run(Duration::from_millis(100));
        let now = summary(cluster, name);
        if observed_states.last() != Some(&now) {
            observed_states.push(now);
        }
    }
    observed_states
}

#[test]
fn pod_writes_do_not_restart_a_failing_pull() {
    let mut cluster = cluster(with_start_delay);
    for part in [10, 310, 990] {
        cluster.run(Duration::from_millis(part));
        let name = format!("p{part}");
        create_pod(&mut cluster, &name, r#"{"containers":[{"name":"c","image":"web:404"}]}"#);
        cluster.run(Duration::from_millis(300));
        let patch = value!({"metadata": {"labels": {"a": "b"}}});
        cluster.patch("pods", &format!("default/{name}"), "", patch).unwrap();
        let observed_states = observed_states(&mut cluster, &name, 60);
        let expected = ["ContainerCreating", "ErrImagePull", "ImagePullBackOff"];
        assert_eq!(observed_states, expected.map(|state| format!("Pending | {state}")), "{part}");
    }
}

#[test]
fn killing_event_is_emitted_once_when_the_stop_begins() {
    let mut cluster = cluster(with_start_delay);
    let probe = r#"{"tcpSocket":{"port":80},"periodSeconds":5,"failureThreshold":1}"#;
    create_annotated_pod(
        &mut cluster,
        "a",
        value!({"simulate.setpoint.dev/hangs": "true", "simulate.setpoint.dev/unwell-after": "12s"}),
        &format!(
            r#"{{"terminationGracePeriodSeconds":20,"containers":[{{"name":"c","image":"i","livenessProbe":{probe}}}]}}"#
        ),
    );
    run_seconds(&mut cluster, 20);
    assert_eq!(summary(&cluster, "a"), "Running | ready", "it hangs");
    let killing = ["Container c failed liveness probe, will be restarted"];
    assert_eq!(events(&cluster, "Killing"), killing);
    assert_eq!(events(&cluster, "Unhealthy"), ["Liveness probe failed: simulated"]);
    run_seconds(&mut cluster, 20);
    assert_eq!(summary(&cluster, "a"), "Running | ready x1");
    assert_eq!(event_count(&cluster, "Killing"), 1, "Event already emitted");
}

#[test]
fn exceeded_deadline_emits_an_event() {
    let mut cluster = cluster(with_start_delay);
    create_annotated_pod(
        &mut cluster,
        "a",
        value!({"simulate.setpoint.dev/hangs": "true"}),
        r#"{"activeDeadlineSeconds":8,"terminationGracePeriodSeconds":20,"containers":[{"name":"c","image":"i"}]}"#,
    );
    run_seconds(&mut cluster, 10);
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    let why = "Pod was active on the node longer than the specified deadline";
    assert_eq!(events(&cluster, "DeadlineExceeded"), [why]);
    assert_eq!(events(&cluster, "Killing"), ["Stopping container c"]);
    run_seconds(&mut cluster, 20);
    assert_eq!(summary(&cluster, "a"), "Failed | Error 137");
    assert_eq!((event_count(&cluster, "DeadlineExceeded"), event_count(&cluster, "Killing")), (1, 1));
}

fn set_image(cluster: &mut Cluster, name: &str, image: &str) {
    set_image_of(cluster, name, 0, image);
}

fn set_image_of(cluster: &mut Cluster, name: &str, number: usize, image: &str) {
    set_images(cluster, name, "containers", number..number + 1, image);
}

fn set_images(cluster: &mut Cluster, name: &str, of: &str, numbers: std::ops::Range<usize>, image: &str) {
    let mut spec = get(cluster, name).get("spec").cloned().unwrap();
    let containers = spec.at_mut(&[of]).and_then(Value::as_list_mut).unwrap();
    for container in &mut containers[numbers] {
        container.make_map().insert("image", image);
    }
    cluster.patch("pods", &format!("default/{name}"), "", value!({"spec": (spec)})).unwrap();
    cluster.settle();
}

#[test]
fn image_change_restarts_the_container() {
    let mut cluster = cluster(with_start_delay);
    create_pod(&mut cluster, "a", r#"{"restartPolicy":"Never","containers":[{"name":"c","image":"web:1"}]}"#);
    run_seconds(&mut cluster, 5);
    let image = |cluster: &Cluster| {
        let pod = get(cluster, "a");
        let status = &pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0];
        status.str_at(&["image"]).to_owned()
    };
    set_image(&mut cluster, "a", "web:2");
    assert_eq!(
        (summary(&cluster, "a").as_str(), image(&cluster).as_str()),
        ("Running | ready", "web:1"),
        "it stops"
    );
    assert_eq!(events(&cluster, "Killing"), ["Container c definition changed, will be restarted"]);
    run_seconds(&mut cluster, 3);
    assert_eq!((summary(&cluster, "a").as_str(), image(&cluster).as_str()), ("Running | ready x1", "web:2"));
    assert_eq!(event_count(&cluster, "Killing"), 1);
    cluster.assert_quiet();
    set_image(&mut cluster, "a", "web:404");
    run_seconds(&mut cluster, 3);
    assert_eq!(summary(&cluster, "a"), "Running | ErrImagePull x1");
    set_image(&mut cluster, "a", "web:3");
    run_seconds(&mut cluster, 3);
    assert_eq!((summary(&cluster, "a").as_str(), image(&cluster).as_str()), ("Running | ready x2", "web:3"));
    assert!(events(&cluster, "Failed").contains(&"Error: ErrImagePull".to_owned()));
    cluster.assert_quiet();
}

/// Creates a pod with containers that take 25 s to stop.
fn create_slowly_stopping_pod(cluster: &mut Cluster, containers: Value) {
    let object = value!({
        "metadata": {"name": "a", "annotations": {"simulate.setpoint.dev/stop-takes": "25s"}},
        "spec": {"nodeName": "node-0", "containers": (containers)},
    });
    cluster.create("pods", "default", object);
    run_seconds(cluster, 5);
}

#[test]
fn pod_writes_do_not_extend_the_stop_of_a_changed_container() {
    let mut cluster = cluster(with_start_delay);
    create_slowly_stopping_pod(&mut cluster, value!([{"name": "c", "image": "web:1"}]));
    set_image(&mut cluster, "a", "web:2");
    let changing = |cluster: &Cluster| condition(&get(cluster, "a"), "setpoint.dev/ContainersChanging");
    for number in ["1", "2", "3"] {
        assert_eq!(
            (summary(&cluster, "a").as_str(), &*changing(&cluster)),
            ("Running | ready", "True ImageChanged")
        );
        run_seconds(&mut cluster, 8);
        let patch = value!({"metadata": {"annotations": {"note": (number)}}});
        cluster.patch("pods", "default/a", "", patch).unwrap();
        cluster.settle();
    }
    cluster.crash();
    run_seconds(&mut cluster, 3);
    assert_eq!((summary(&cluster, "a").as_str(), &*changing(&cluster)), ("Running | ready x1", ""));
    assert_eq!(event_count(&cluster, "Killing"), 1);
    cluster.assert_quiet();
}

#[test]
fn container_changed_during_another_stop_gets_its_full_grace_period() {
    let mut cluster = cluster(with_start_delay);
    create_slowly_stopping_pod(
        &mut cluster,
        value!([{"name": "c", "image": "web:1"}, {"name": "d", "image": "web:1"}]),
    );
    set_image_of(&mut cluster, "a", 0, "web:2");
    run_seconds(&mut cluster, 20);
    set_image_of(&mut cluster, "a", 1, "web:2");
    assert_eq!(summary(&cluster, "a"), "Running | ready, ready");
    assert_eq!(event_count(&cluster, "Killing"), 1);
    run_seconds(&mut cluster, 7);
    assert_eq!(summary(&cluster, "a"), "Running | ready x1, ready");
    assert_eq!(event_count(&cluster, "Killing"), 2);
    run_seconds(&mut cluster, 20);
    assert_eq!(summary(&cluster, "a"), "Running | ready x1, ready", "it gets its full stop duration");
    run_seconds(&mut cluster, 7);
    assert_eq!(summary(&cluster, "a"), "Running | ready x1, ready x1");
    assert_eq!(event_count(&cluster, "Killing"), 2);
    cluster.assert_quiet();
}

#[test]
fn sidecars_changed_together_get_their_full_grace_periods() {
    let mut cluster = cluster(with_start_delay);
    let sidecar = |name: &str| format!(r#"{{"name":"{name}","image":"web:1","restartPolicy":"Always"}}"#);
    let spec = format!(
        r#"{{"initContainers":[{},{},{{"name":"i","image":"b","command":["sleep","600"]}}],"containers":[{{"name":"c","image":"b"}}]}}"#,
        sidecar("one"),
        sidecar("two")
    );
    create_annotated_pod(&mut cluster, "a", value!({"simulate.setpoint.dev/stop-takes": "25s"}), &spec);
    run_seconds(&mut cluster, 5);
    let named = |cluster: &Cluster| {
        let pod = get(cluster, "a");
        let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap().to_vec();
        let changing = conditions
            .iter()
            .find(|one| one.str_at(&["type"]) == crate::lifecycle::image_change::CONTAINERS_CHANGING);
        changing.map_or(String::new(), |one| one.str_at(&["message"]).to_owned())
    };
    set_images(&mut cluster, "a", "initContainers", 0..2, "web:2");
    assert_eq!(named(&cluster), "[one]");
    run_seconds(&mut cluster, 27);
    assert_eq!(summary(&cluster, "a"), "Pending | ready x1, ready, running, PodInitializing");
    assert_eq!(named(&cluster), "[two]");
    run_seconds(&mut cluster, 27);
    assert_eq!(summary(&cluster, "a"), "Pending | ready x1, ready x1, running, PodInitializing");
    assert_eq!((&*named(&cluster), event_count(&cluster, "Killing")), ("", 2));
    cluster.assert_quiet();
}

#[test]
fn pod_starts_behind_init_containers_with_unknown_commands() {
    let mut cluster = cluster(without_start_delay);
    let init =
        |name: &str, command: &str| format!(r#"{{"name":"{name}","image":"app","command":{command}}}"#);
    let spec = |policy: &str, first: &str, second: &str| {
        let (first, second) = (init("init1", first), init("init2", second));
        format!(
            r#"{{"restartPolicy":"{policy}","initContainers":[{first},{second}],"containers":[{{"name":"run1","image":"app"}}]}}"#
        )
    };
    create_pod(
        &mut cluster,
        "starts",
        &spec("Never", r#"["/app/prepare"]"#, r#"["sh","-c","sleep 3; migrate"]"#),
    );
    assert_eq!(summary(&cluster, "starts"), "Pending | Completed 0, running, PodInitializing");
    run_seconds(&mut cluster, 3);
    assert_eq!(summary(&cluster, "starts"), "Running | Completed 0, Completed 0, ready");
    assert_eq!(condition(&get(&cluster, "starts"), "Initialized"), "True");
    // Commands that are known to fail, or to run until they are stopped, do so.
    create_pod(&mut cluster, "fails", &spec("Never", r#"["/bin/true"]"#, r#"["/bin/false"]"#));
    assert_eq!(summary(&cluster, "fails"), "Failed | Completed 0, Error 1, PodInitializing");
    create_pod(&mut cluster, "waits", &spec("Always", r#"["/bin/false"]"#, r#"["/app/prepare"]"#));
    assert_eq!(summary(&cluster, "waits"), "Pending | CrashLoopBackOff x1, PodInitializing, PodInitializing");
    create_pod(&mut cluster, "stays", &spec("Always", r#"["tail","-f","/dev/null"]"#, r#"["/app/prepare"]"#));
    run_seconds(&mut cluster, 3600);
    assert_eq!(summary(&cluster, "stays"), "Pending | running, PodInitializing, PodInitializing");
}

#[test]
fn pod_that_fails_before_its_start_has_no_waiting_container() {
    let mut cluster = cluster(without_start_delay);
    let finalizers = value!(["x.y/z"]);
    let spec = value!({
        "nodeName": "node-0", "activeDeadlineSeconds": 5, "containers": [{"name": "c", "image": "web:404"}],
    });
    let metadata = value!({"name": "a", "finalizers": (finalizers)});
    cluster.create("pods", "default", value!({"metadata": (metadata), "spec": (spec)}));
    run_seconds(&mut cluster, 10);
    assert_eq!(summary(&cluster, "a"), "Failed | ContainerStatusUnknown 137");
    assert_eq!(event_count(&cluster, "DeadlineExceeded"), 1);
    cluster.delete("pods", "default/a", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(summary(&cluster, "a"), "Failed | ContainerStatusUnknown 137");
    cluster.assert_quiet();
}

#[test]
fn annotations_of_a_running_container_do_not_change_its_past() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx"}]}"#);
    run_seconds(&mut cluster, 100);
    let patch = value!({"metadata": {"annotations": {"simulate.setpoint.dev/exit-after": "5s"}}});
    cluster.patch("pods", "default/a", "", patch).unwrap();
    let now = crate::lifecycle::truncate_to_seconds(cluster.now);
    cluster.settle();
    assert_eq!(summary(&cluster, "a"), "Succeeded | Completed 0");
    let pod = get(&cluster, "a");
    let status = &pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0];
    let expected = setpoint_api::rfc3339::Seconds(now).to_string();
    assert_eq!(status.str_at(&["state", "terminated", "finishedAt"]), expected);
}

#[test]
fn every_back_off_emits_an_event() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"b","command":["false"]}]}"#);
    run_seconds(&mut cluster, 120);
    assert_eq!(summary(&cluster, "a"), "Running | CrashLoopBackOff x4");
    assert_eq!(event_count(&cluster, "BackOff"), 4);
}

#[test]
fn ephemeral_container_terminates_with_a_reason() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", r#"{"containers":[{"name":"c","image":"nginx"}]}"#);
    let mut spec = get(&cluster, "a").get("spec").cloned().unwrap();
    spec.make_map().insert("ephemeralContainers", value!([{"name": "look", "image": "busybox"}]));
    cluster.patch("pods", "default/a", "ephemeralcontainers", value!({"spec": (spec)})).unwrap();
    let now = setpoint_api::rfc3339::Seconds(crate::lifecycle::truncate_to_seconds(cluster.now)).to_string();
    cluster.settle();
    let end = |cluster: &Cluster| {
        let statuses = get(cluster, "a").at(&["status", "ephemeralContainerStatuses"]).cloned().unwrap();
        statuses.as_list().unwrap()[0].at(&["state", "terminated"]).cloned().unwrap()
    };
    let first = end(&cluster);
    assert_eq!(first.str_at(&["reason"]), "ContainerCannotRun");
    assert!(first.str_at(&["message"]).contains("simulated"));
    assert_eq!((first.str_at(&["startedAt"]), first.str_at(&["finishedAt"])), (&*now, &*now));
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    cluster.assert_quiet();
    // Later changes of the pod do not change this end time.
    run_seconds(&mut cluster, 60);
    cluster.patch("pods", "default/a", "", value!({"metadata": {"labels": {"seen": "later"}}})).unwrap();
    cluster.settle();
    assert_eq!(end(&cluster), first);
    cluster.assert_quiet();
}

#[test]
fn lost_readiness_emits_an_event() {
    let mut cluster = cluster(without_start_delay);
    let probe = r#"{"tcpSocket":{"port":80},"periodSeconds":2,"failureThreshold":2}"#;
    create_annotated_pod(
        &mut cluster,
        "a",
        value!({"simulate.setpoint.dev/ready-after": "5s", "simulate.setpoint.dev/unwell-after": "19s"}),
        &format!(r#"{{"containers":[{{"name":"c","image":"i","readinessProbe":{probe}}}]}}"#),
    );
    assert_eq!(summary(&cluster, "a"), "Running | running");
    assert_eq!(event_count(&cluster, "Unhealthy"), 1);
    run_seconds(&mut cluster, 15);
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    assert_eq!(event_count(&cluster, "Unhealthy"), 1);
    run_seconds(&mut cluster, 60);
    assert_eq!(summary(&cluster, "a"), "Running | running");
    assert_eq!(condition(&get(&cluster, "a"), "Ready"), "False ContainersNotReady");
    assert_eq!(event_count(&cluster, "Unhealthy"), 2);
    assert_eq!(events(&cluster, "Unhealthy"), ["Readiness probe failed: simulated"]);
    cluster.assert_quiet();
}

#[test]
fn post_start_hook_delays_or_kills_the_container() {
    let mut cluster = cluster(without_start_delay);
    let spec = |hook: &str| {
        format!(r#"{{"containers":[{{"name":"c","image":"i","lifecycle":{{"postStart":{hook}}}}}]}}"#)
    };
    create_pod(&mut cluster, "slow", &spec(r#"{"sleep":{"seconds":5}}"#));
    assert_eq!(summary(&cluster, "slow"), "Running | running");
    run_seconds(&mut cluster, 6);
    assert_eq!(summary(&cluster, "slow"), "Running | ready");
    cluster.assert_quiet();
    create_pod(&mut cluster, "fine", &spec(r#"{"exec":{"command":["true"]}}"#));
    assert_eq!(summary(&cluster, "fine"), "Running | ready");
    create_pod(&mut cluster, "bad", &spec(r#"{"exec":{"command":["false"]}}"#));
    assert_eq!(summary(&cluster, "bad"), "Running | CrashLoopBackOff x1");
    assert_eq!(events(&cluster, "FailedPostStartHook"), ["PostStartHook failed"]);
    assert_eq!(events(&cluster, "Killing"), ["FailedPostStartHook"]);
    assert_eq!(event_count(&cluster, "Killing"), 2);
    cluster.assert_quiet();
}

#[test]
fn slow_pull_emits_an_event_at_its_start_and_happens_once() {
    for controllers in [without_start_delay, with_start_delay] {
        let mut cluster = cluster(controllers);
        let slow = value!({"simulate.setpoint.dev/pull-takes": "95s"});
        let spec = r#"{"containers":[{"name":"c","image":"large:1"}]}"#;
        create_annotated_pod(&mut cluster, "a", slow.clone(), spec);
        run_seconds(&mut cluster, 5);
        assert_eq!(summary(&cluster, "a"), "Pending | ContainerCreating");
        assert_eq!(events(&cluster, "Pulling"), ["Pulling image \"large:1\""]);
        run_seconds(&mut cluster, 95);
        assert_eq!(summary(&cluster, "a"), "Running | ready");
        assert_eq!(event_count(&cluster, "Pulling"), 1);
        let pulled = "Successfully pulled image \"large:1\" in 1m35s (1m35s including waiting).";
        assert!(events(&cluster, "Pulled")[0].starts_with(pulled), "{:?}", events(&cluster, "Pulled"));
        create_annotated_pod(&mut cluster, "b", slow, spec);
        run_seconds(&mut cluster, 5);
        assert_eq!(summary(&cluster, "b"), "Running | ready", "the image is present");
        assert_eq!(event_count(&cluster, "Pulling"), 1);
    }
}

#[test]
fn pull_policy_always_pulls_at_every_start() {
    let mut cluster = cluster(without_start_delay);
    let spec = |policy: &str| {
        format!(
            r#"{{"containers":[{{"name":"c","image":"b","imagePullPolicy":"{policy}","command":["sleep","700"]}}]}}"#
        )
    };
    create_pod(&mut cluster, "once", &spec("IfNotPresent"));
    let before = event_count(&cluster, "Pulling");
    create_pod(&mut cluster, "always", &spec("Always"));
    run_seconds(&mut cluster, 1500);
    assert_eq!(summary(&cluster, "once"), "Running | ready x2");
    assert_eq!(summary(&cluster, "always"), "Running | ready x2");
    assert_eq!(event_count(&cluster, "Pulling") - before, 3);
}

#[test]
fn container_that_violates_run_as_non_root_never_starts() {
    let mut cluster = cluster(without_start_delay);
    let spec = |own: &str| {
        format!(
            r#"{{"securityContext":{{"runAsNonRoot":true,"runAsUser":0}},"containers":[{{"name":"c","image":"i"{own}}}]}}"#
        )
    };
    create_pod(&mut cluster, "root", &spec(""));
    assert_eq!(summary(&cluster, "root"), "Pending | CreateContainerConfigError");
    let uid = get(&cluster, "root").str_at(&["metadata", "uid"]).to_owned();
    let why = "Error: container's runAsUser breaks non-root policy (pod: \"root_default(";
    assert_eq!(events(&cluster, "Failed"), [format!("{why}{uid})\", container: c)")]);
    create_pod(&mut cluster, "user", &spec(r#","securityContext":{"runAsUser":7}"#));
    assert_eq!(summary(&cluster, "user"), "Running | ready");
    cluster.assert_quiet();
}

#[test]
fn pull_policy_never_requires_the_image_on_the_node() {
    let mut cluster = cluster(without_start_delay);
    let never = r#"{"containers":[{"name":"c","image":"local:1","imagePullPolicy":"Never"}]}"#;
    create_pod(&mut cluster, "a", never);
    assert_eq!(summary(&cluster, "a"), "Pending | ErrImageNeverPull");
    let emitted = "Container image \"local:1\" is not present with pull policy of Never";
    assert_eq!(events(&cluster, "ErrImageNeverPull"), [emitted]);
    create_annotated_pod(&mut cluster, "b", value!({"simulate.setpoint.dev/image-present": "true"}), never);
    assert_eq!(summary(&cluster, "b"), "Running | ready");
    // Once a pod of the node runs the image, it is present for others too.
    create_pod(&mut cluster, "d", never);
    assert_eq!(summary(&cluster, "d"), "Running | ready");
    run_seconds(&mut cluster, 70);
    assert_eq!(summary(&cluster, "a"), "Running | ready");
}

#[test]
fn container_above_its_memory_limit_is_oom_killed() {
    let mut cluster = cluster(without_start_delay);
    let limited = r#"{"containers":[{"name":"c","image":"i","resources":{"limits":{"memory":"64Mi"}}}]}"#;
    create_annotated_pod(&mut cluster, "fits", value!({"simulate.setpoint.dev/memory": "64Mi"}), limited);
    create_annotated_pod(&mut cluster, "exceeds", value!({"simulate.setpoint.dev/memory": "65Mi"}), limited);
    run_seconds(&mut cluster, 5);
    assert_eq!(summary(&cluster, "fits"), "Running | ready");
    let pod = get(&cluster, "exceeds");
    let status = pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0].clone();
    let last = status.at(&["lastState", "terminated"]).or(status.at(&["state", "terminated"])).unwrap();
    assert_eq!(last.str_at(&["reason"]), "OOMKilled");
    assert_eq!(last.get("exitCode").and_then(Value::as_i64), Some(137));
}

#[test]
fn missing_command_is_a_start_error() {
    let mut cluster = cluster(without_start_delay);
    let command = |command: &str, policy: &str| {
        format!(
            r#"{{"restartPolicy":"{policy}","containers":[{{"name":"c","image":"i","command":["{command}"]}}]}}"#
        )
    };
    create_pod(&mut cluster, "once", &command("/nonexistent", "Never"));
    create_pod(&mut cluster, "again", &command("does-not-exist", "Always"));
    let once = get(&cluster, "once");
    assert_eq!(once.str_at(&["status", "phase"]), "Failed");
    let status = once.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0].clone();
    let end = status.at(&["state", "terminated"]).unwrap();
    assert_eq!(end.str_at(&["reason"]), "StartError");
    assert_eq!(end.get("exitCode").and_then(Value::as_i64), Some(128));
    let message = end.str_at(&["message"]);
    assert!(
        message.ends_with("exec: \"/nonexistent\": stat /nonexistent: no such file or directory"),
        "{message}"
    );
    let emitted = events(&cluster, "Failed");
    assert!(emitted.contains(&format!("Error: {message}")), "{emitted:?}");
    let again = get(&cluster, "again");
    let status = again.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0].clone();
    assert_eq!(status.str_at(&["state", "waiting", "reason"]), "CrashLoopBackOff");
    let message = status.str_at(&["lastState", "terminated", "message"]);
    assert!(message.ends_with("exec: \"does-not-exist\": executable file not found in $PATH"), "{message}");
}

#[test]
fn host_path_of_wrong_type_keeps_the_pod_pending() {
    let mut cluster = cluster(without_start_delay);
    let mounts = |path: &str, kind: &str| {
        format!(
            r#"{{"volumes":[{{"name":"v","hostPath":{{"path":"{path}","type":"{kind}"}}}}],"containers":[{{"name":"c","image":"i"}}]}}"#
        )
    };
    create_pod(&mut cluster, "missing", &mounts("/data", "Directory"));
    create_pod(&mut cluster, "made", &mounts("/data", "DirectoryOrCreate"));
    create_pod(&mut cluster, "usual", &mounts("/var/log", "Directory"));
    assert_eq!(summary(&cluster, "missing"), "Pending | ContainerCreating");
    let emitted =
        "MountVolume.SetUp failed for volume \"v\" : hostPath type check failed: /data is not a directory";
    assert_eq!(events(&cluster, "FailedMount"), [emitted]);
    assert_eq!(
        (summary(&cluster, "made"), summary(&cluster, "usual")),
        ("Running | ready".into(), "Running | ready".into())
    );
    cluster.assert_quiet();
}
