//! Tests of in-place resize.

use super::*;

fn resize(cluster: &mut Cluster, name: &str, cpu: &str) {
    request_resize(cluster, name, cpu);
    cluster.settle();
}

fn request_resize(cluster: &mut Cluster, name: &str, cpu: &str) {
    let mut spec = get(cluster, name).get("spec").cloned().unwrap();
    let container = &mut spec.at_mut(&["containers"]).and_then(Value::as_list_mut).unwrap()[0];
    container.make_map().insert("resources", value!({"requests": {"cpu": (cpu)}}));
    let containers = spec.get("containers").cloned().unwrap();
    let patch = value!({"spec": {"containers": (containers)}});
    cluster.patch("pods", &format!("default/{name}"), "resize", patch).unwrap();
}

/// Sets the CPUs that the API shows as allocatable on the node of a pod.
fn show_allocatable(cluster: &mut Cluster, pod: &str, cpu: &str) {
    let node = get(cluster, pod).str_at(&["spec", "nodeName"]).to_owned();
    let status = value!({"status": {"allocatable": {"cpu": (cpu)}}});
    cluster.patch("nodes", &node, "status", status).unwrap();
}

fn pod_requesting(cpu: &str, policy: &str) -> String {
    let policy = format!(r#"[{{"resourceName":"cpu","restartPolicy":"{policy}"}}]"#);
    format!(
        r#"{{"containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}},"resizePolicy":{policy}}}]}}"#
    )
}

/// Formats a pod: `allocated / actual | pending | in progress`.
fn resize_state(cluster: &Cluster, name: &str) -> String {
    let pod = get(cluster, name);
    let status = &pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap()[0];
    let (allocated, actual) =
        (status.str_at(&["allocatedResources", "cpu"]), status.str_at(&["resources", "requests", "cpu"]));
    let [pending, progress] = ["PodResizePending", "PodResizeInProgress"].map(|kind| condition(&pod, kind));
    format!("{allocated} / {actual} | {pending} | {progress}")
}

#[test]
fn resize_that_fits_is_granted_at_once() {
    let mut cluster = cluster(with_start_delay);
    create_pod(&mut cluster, "a", &pod_requesting("1", "NotRequired"));
    run_seconds(&mut cluster, 5);
    assert_eq!(resize_state(&cluster, "a"), "1 / 1 |  | ");
    resize(&mut cluster, "a", "2");
    assert_eq!(resize_state(&cluster, "a"), "2 / 2 |  | ");
    assert_eq!(summary(&cluster, "a"), "Running | ready");
    let summary = r#"{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}],"generation":2}"#;
    assert_eq!(events(&cluster, "ResizeStarted"), [format!("Pod resize started: {summary}")]);
    assert_eq!(events(&cluster, "ResizeCompleted"), [format!("Pod resize completed: {summary}")]);
    cluster.assert_quiet();
}

#[test]
fn resize_beyond_node_capacity_is_infeasible() {
    let mut cluster = cluster(without_start_delay);
    create_pod(&mut cluster, "a", &pod_requesting("1", "NotRequired"));
    // Admission rejects what the node cannot allocate, so the node shrinks between the request and the kubelet's decision.
    show_allocatable(&mut cluster, "a", "200");
    request_resize(&mut cluster, "a", "100");
    show_allocatable(&mut cluster, "a", "16");
    cluster.settle();
    assert_eq!(resize_state(&cluster, "a"), "1 / 1 | True Infeasible | ");
    let emitted = events(&cluster, "ResizeInfeasible");
    assert_eq!(emitted.len(), 1, "{emitted:?}");
    assert!(emitted[0].starts_with("Pod resize Infeasible: {\"containers\":["), "{emitted:?}");
    let why = "Node didn't have enough capacity: cpu, requested: 100000, capacity: 16000";
    assert!(emitted[0].ends_with(&format!("\"generation\":2,\"error\":\"{why}\"}}")), "{emitted:?}");
    cluster.assert_quiet();
    // Another pod uses the free resources.
    create_pod(&mut cluster, "b", &pod_requesting("15", "NotRequired"));
    assert_eq!(summary(&cluster, "b"), "Running | ready");
    resize(&mut cluster, "a", "1");
    assert_eq!(resize_state(&cluster, "a"), "1 / 1 |  | ");
    cluster.assert_quiet();
}

#[test]
fn deferred_resize_is_granted_when_another_pod_ends_or_shrinks() {
    let mut cluster = cluster(without_start_delay);
    for (name, cpu) in [("a", "4"), ("b", "6"), ("c", "6")] {
        create_pod(&mut cluster, name, &pod_requesting(cpu, "NotRequired"));
    }
    resize(&mut cluster, "a", "8");
    assert_eq!(resize_state(&cluster, "a"), "4 / 4 | True Deferred | ");
    let emitted = events(&cluster, "ResizeDeferred");
    let why = "Node didn't have enough resource: cpu, requested: 8000, used: 12000, capacity: 16000";
    assert!(emitted.len() == 1 && emitted[0].contains(why), "{emitted:?}");
    cluster.assert_quiet();
    cluster.crash();
    cluster.settle();
    assert_eq!(resize_state(&cluster, "a"), "4 / 4 | True Deferred | ");
    resize(&mut cluster, "b", "3");
    assert_eq!(resize_state(&cluster, "a"), "4 / 4 | True Deferred | ", "still deferred");
    resize(&mut cluster, "b", "2");
    assert_eq!(resize_state(&cluster, "a"), "8 / 8 |  | ");
    resize(&mut cluster, "a", "12");
    assert_eq!(resize_state(&cluster, "a"), "8 / 8 | True Deferred | ");
    cluster.delete("pods", "default/c", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(resize_state(&cluster, "a"), "12 / 12 |  | ");
    cluster.assert_quiet();
}

#[test]
fn two_deferred_resizes_do_not_get_the_same_resources() {
    let mut cluster = cluster(without_start_delay);
    for (name, cpu) in [("a", "4"), ("b", "4"), ("c", "8")] {
        create_pod(&mut cluster, name, &pod_requesting(cpu, "NotRequired"));
    }
    resize(&mut cluster, "a", "12");
    resize(&mut cluster, "b", "12");
    cluster.delete("pods", "default/c", &value!({})).unwrap();
    cluster.settle();
    assert_eq!(resize_state(&cluster, "a"), "12 / 12 |  | ");
    assert_eq!(resize_state(&cluster, "b"), "4 / 4 | True Deferred | ");
    cluster.assert_quiet();
}

#[test]
fn resize_policy_restart_container_restarts_the_container() {
    let mut cluster = cluster(with_start_delay);
    create_pod(&mut cluster, "a", &pod_requesting("1", "RestartContainer"));
    run_seconds(&mut cluster, 5);
    resize(&mut cluster, "a", "2");
    assert_eq!(resize_state(&cluster, "a"), "2 / 1 |  | True");
    assert_eq!(summary(&cluster, "a"), "Running | ready", "it stops");
    assert_eq!(events(&cluster, "Killing"), ["Container c resize requires restart"]);
    assert_eq!((events(&cluster, "ResizeStarted").len(), events(&cluster, "ResizeCompleted").len()), (1, 0));
    run_seconds(&mut cluster, 4);
    assert_eq!(resize_state(&cluster, "a"), "2 / 2 |  | ");
    assert_eq!(summary(&cluster, "a"), "Running | ready x1");
    assert_eq!((events(&cluster, "Killing").len(), events(&cluster, "ResizeCompleted").len()), (1, 1));
    cluster.assert_quiet();
}
