//! Node failures under workloads: a node that stops and returns, one that is drained, and one that is
//! missing. Periods are short, and no duration is asserted.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::processes::{ChildProcess, kubectl, wait_for};
use crate::server::{Server, clients_dir};

/// Arguments with which nodes are not ready after ten seconds, and their pods are evicted a second later.
pub const SHORT_PERIODS: [&str; 6] = [
    "--node-lease-duration=8s",
    "--node-monitor-grace-period=10s",
    "--node-monitor-period=1s",
    "--default-not-ready-toleration-seconds=1",
    "--default-unreachable-toleration-seconds=1",
    "--node-eviction-rate=10",
];

const WORKLOADS: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":6,
 "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
 "spec":{"containers":[{"name":"c","image":"web"}]}}}},
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db"},"spec":{"replicas":1,"serviceName":"db",
 "selector":{"matchLabels":{"app":"db"}},"template":{"metadata":{"labels":{"app":"db"}},
 "spec":{"containers":[{"name":"c","image":"db"}]}}}},
{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"agent"},"spec":{
 "selector":{"matchLabels":{"app":"agent"}},"template":{"metadata":{"labels":{"app":"agent"}},
 "spec":{"containers":[{"name":"c","image":"agent"}]}}}}]}"#;

/// PodDisruptionBudget that permits no disruption of the Deployment.
const BUDGET: &str = r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web"},
 "spec":{"minAvailable":6,"selector":{"matchLabels":{"app":"web"}}}}"#;

/// Runs a subcommand of `setpoint node` that must succeed.
pub fn node(server: &Server, subcommand: &str, name: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command.args(["node", subcommand, name, "--kubeconfig"]).arg(&server.kubeconfig);
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
}

/// Creates objects.
pub fn create(server: &Server, objects: &str) {
    wait_for(server, &["get", "serviceaccounts", "default", "-o", "name"], |output| {
        output.contains("default")
    });
    let mut create = Command::new(clients_dir().join("kubectl/kubectl"));
    let (made, output) = server.run(create.args(["create", "-f", "-"]), objects);
    assert!(made, "{output}");
}

/// Observed state of a pod.
#[derive(Debug)]
struct PodState {
    node: String,
    uid: String,
    is_ready: bool,
    is_terminating: bool,
}

fn pod_state(pod: &Value) -> PodState {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    PodState {
        node: text(&pod["spec"]["nodeName"]),
        uid: text(&pod["metadata"]["uid"]),
        is_ready: conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"),
        is_terminating: !pod["metadata"]["deletionTimestamp"].is_null(),
    }
}

fn pods_of(output: &str) -> Vec<PodState> {
    let list: Value = serde_json::from_str(output).unwrap_or_default();
    list["items"].as_array().into_iter().flatten().map(pod_state).collect()
}

/// Waits until the pods of an application are in the expected state.
#[track_caller]
fn wait_for_pods(server: &Server, app: &str, expected: impl Fn(&[PodState]) -> bool) -> Vec<PodState> {
    let selector = format!("app={app}");
    let output = wait_for(server, &["get", "pods", "-l", &selector, "-o", "json"], |output| {
        expected(&pods_of(output))
    });
    pods_of(&output)
}

fn ready_on<'a>(
    pods: &'a [PodState],
    node: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = &'a PodState> {
    pods.iter().filter(move |pod| pod.is_ready && !pod.is_terminating && node(&pod.node))
}

#[test]
fn stopped_node_loses_its_pods_and_can_return() {
    let server = Server::start_with(&[&["--nodes=3", "--pod-start=0"], &SHORT_PERIODS[..]].concat());
    create(&server, WORKLOADS);
    wait_for_pods(&server, "web", |pods| ready_on(pods, |_| true).count() == 6);
    wait_for_pods(&server, "agent", |pods| ready_on(pods, |_| true).count() == 3);
    let first = wait_for_pods(&server, "db", |pods| ready_on(pods, |_| true).count() == 1).remove(0);
    let lost = first.node.as_str();

    node(&server, "stop", lost);
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    wait_for(&server, &["get", "node", lost, "-o", ready], |output| output == "Unknown");
    let taints = "jsonpath={range .spec.taints[*]}{.key}:{.effect} {end}";
    wait_for(&server, &["get", "node", lost, "-o", taints], |output| {
        output.contains("node.kubernetes.io/unreachable:NoExecute")
    });
    // The Deployment has pods on other nodes; those on the stopped node stay until it confirms their
    // termination.
    wait_for_pods(&server, "web", |pods| ready_on(pods, |node| node != lost).count() == 6);
    wait_for_pods(&server, "web", |pods| pods.iter().all(|pod| pod.is_terminating == (pod.node == lost)));
    // The StatefulSet creates no second pod of that name before the first is known to be gone.
    let db = wait_for_pods(&server, "db", |pods| pods.iter().all(|pod| pod.is_terminating));
    assert!(matches!(&db[..], [pod] if pod.uid == first.uid), "{db:?}");
    // The DaemonSet's pod stays bound to the node.
    let agents = wait_for_pods(&server, "agent", |pods| ready_on(pods, |_| true).count() == 2);
    assert!(agents.len() == 3 && !agents.iter().any(|pod| pod.is_terminating), "{agents:?}");

    node(&server, "start", lost);
    wait_for(&server, &["get", "node", lost, "-o", ready], |output| output == "True");
    wait_for(&server, &["get", "node", lost, "-o", taints], |output| !output.contains("node.kubernetes.io"));
    wait_for_pods(
        &server,
        "db",
        |pods| matches!(pods, [pod] if pod.is_ready && !pod.is_terminating && pod.uid != first.uid),
    );
    wait_for_pods(&server, "agent", |pods| pods.len() == 3 && ready_on(pods, |_| true).count() == 3);
    wait_for_pods(&server, "web", |pods| pods.len() == 6 && ready_on(pods, |_| true).count() == 6);
}

#[test]
fn drained_node_is_empty_and_the_budget_is_respected() {
    let server = Server::start_with(&["--nodes=2", "--pod-start=0"]);
    create(&server, WORKLOADS);
    wait_for_pods(&server, "web", |pods| ready_on(pods, |_| true).count() == 6);
    wait_for_pods(&server, "agent", |pods| ready_on(pods, |_| true).count() == 2);
    assert!(kubectl(&server, &["cordon", "node-1"]).contains("node/node-1 cordoned"));
    let nodes = kubectl(&server, &["get", "nodes", "--no-headers"]);
    assert_eq!(nodes.matches("SchedulingDisabled").count(), 1, "{nodes}");
    create(&server, BUDGET);
    let allowed =
        ["get", "pdb", "web", "-o", "jsonpath={.status.currentHealthy}/{.status.disruptionsAllowed}"];
    wait_for(&server, &allowed, |output| output == "6/0");
    let drain = ["drain", "node-1", "--ignore-daemonsets", "--timeout=3s"];
    let evicted = kubectl(&server, &drain);
    assert!(evicted.contains("would violate the pod's disruption budget"), "{evicted}");

    kubectl(&server, &["patch", "pdb", "web", "--type=merge", "-p", r#"{"spec":{"minAvailable":5}}"#]);
    wait_for(&server, &allowed, |output| output == "6/1");
    let drained = kubectl(&server, &["drain", "node-1", "--ignore-daemonsets"]);
    // Old versions print `evicted`.
    let ends = ["node/node-1 drained", "node/node-1 evicted"];
    assert!(ends.iter().any(|end| drained.contains(end)), "{drained}");
    wait_for_pods(&server, "web", |pods| {
        pods.len() == 6 && ready_on(pods, |node| node == "node-0").count() == 6
    });
    let agents = wait_for_pods(&server, "agent", |_| true);
    assert_eq!(ready_on(&agents, |_| true).count(), 2, "{agents:?}");

    assert!(kubectl(&server, &["uncordon", "node-1"]).contains("node/node-1 uncordoned"));
    kubectl(&server, &["scale", "deployment", "web", "--replicas=12"]);
    wait_for_pods(&server, "web", |pods| {
        ready_on(pods, |_| true).count() == 12 && ready_on(pods, |node| node == "node-1").count() > 0
    });
}

#[test]
fn unschedulable_pod_has_a_reason_and_is_bound_to_a_new_node() {
    let server = Server::start_with(&["--nodes=1", "--pod-start=0"]);
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"huge","labels":{"app":"huge"}},"spec":{
        "containers":[{"name":"c","image":"huge","resources":{"requests":{"cpu":"100"}}}]}}"#;
    create(&server, pod);
    let condition = ["get", "pod", "huge", "-o", "jsonpath={.status.phase}: {.status.conditions[0].message}"];
    wait_for(&server, &condition, |output| {
        output.starts_with("Pending: 0/1 nodes are available: 1 Insufficient cpu.")
    });
    let described = kubectl(&server, &["describe", "pod", "huge"]);
    assert!(described.contains("FailedScheduling"), "{described}");
    let mut more = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    more.args(["node", "simulate", "--node-cpu=200", "--pod-start=0", "--kubeconfig"])
        .arg(&server.kubeconfig);
    let _more = ChildProcess(more.stdout(Stdio::null()).spawn().unwrap());
    wait_for_pods(&server, "huge", |pods| ready_on(pods, |node| node == "sim-0").count() == 1);
}
