//! Simulated nodes in their own process, with kubectl.

use std::process::{Command, Stdio};

use super::processes::{ChildProcess, kubectl, run_controllers, wait_for};
use super::server::{Server, clients_dir};

fn setpoint(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command.args(args).arg("--kubeconfig").arg(&server.kubeconfig).stdout(Stdio::piped());
    command
}

const PODS: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"nodeName":"sim-0",
 "containers":[{"name":"c","image":"nginx"}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"work"},"spec":{"nodeName":"sim-1","restartPolicy":"Never",
 "containers":[{"name":"c","image":"busybox","command":["sh","-c","echo at work; sleep 1; exit 3"]}]}}]}"#;

#[test]
fn pods_run_on_simulated_nodes_that_are_stopped_and_started() {
    let server = Server::start();
    let _controllers = run_controllers(&server, &[]);
    let nodes = setpoint(&server, &["node", "simulate", "--count", "2", "--pod-start", "0"]).spawn();
    let _nodes = ChildProcess(nodes.unwrap());
    let jsonpath = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
    wait_for(&server, &["get", "nodes", "-o", jsonpath], |output| output == "True True");
    let wide = kubectl(&server, &["get", "nodes", "-o", "wide"]);
    assert!(wide.contains("simulated://") && wide.contains("Setpoint simulated node"), "{wide}");
    wait_for(&server, &["get", "serviceaccounts", "default", "-o", "name"], |output| {
        output.contains("default")
    });
    let mut create = Command::new(clients_dir().join("kubectl/kubectl"));
    let (made, output) = server.run(create.args(["create", "-f", "-"]), PODS);
    assert!(made, "{output}");
    wait_for(&server, &["get", "pods", "--no-headers"], |output| {
        output.lines().count() == 2 && output.contains("Running") && output.contains("Error")
    });
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(kubectl(&server, &["get", "pod", "work", "-o", code]), "3");
    let described = kubectl(&server, &["describe", "pod", "web"]);
    assert!(described.contains("Container started") && described.contains("kubelet"), "{described}");
    wait_for(&server, &["logs", "work"], |output| output == "at work\n");
    let nodes = kubectl(&server, &["get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"]);
    assert!(nodes.contains("sim-0") && nodes.contains("sim-1"), "{nodes}");
    let groups = kubectl(&server, &["get", "--raw", "/apis"]);
    assert!(groups.contains("metrics.k8s.io/v1beta1"), "{groups}");
    let executed = kubectl(&server, &["exec", "web", "--", "true"]);
    assert!(executed.contains("the node of this pod is simulated"), "{executed}");
    for (subcommand, power) in
        [("stop", "off"), ("start", "on"), ("partition", "partitioned"), ("reboot", "on")]
    {
        let output = setpoint(&server, &["node", subcommand, "sim-0"]).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output, format!("node sim-0 is {power}\n"));
        let unavailable = [("stop", "no route to host"), ("partition", "i/o timeout")];
        if let Some((_, message)) = unavailable.into_iter().find(|(other, _)| *other == subcommand) {
            let log = kubectl(&server, &["logs", "web"]);
            assert!(log.contains("dial tcp") && log.contains(message), "{log}");
        }
    }
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    wait_for(&server, &["get", "pod", "web", "-o", restarts], |output| output == "1" || output == "2");
    assert!(kubectl(&server, &["delete", "pod", "web"]).contains("deleted"));
}

#[test]
fn nodes_of_other_fleets_are_not_modified() {
    let server = Server::start();
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"real-0"},
        "status":{"nodeInfo":{"containerRuntimeVersion":"containerd://2.0.0"}}}"#;
    let mut create = Command::new(clients_dir().join("kubectl/kubectl"));
    let (made, output) = server.run(create.args(["create", "--validate=false", "-f", "-"]), node);
    assert!(made, "{output}");
    let rejection_of = |args: &[&str]| {
        let mut command = setpoint(&server, args).stderr(Stdio::piped()).spawn().unwrap();
        // A fleet that is not rejected would keep running.
        let has_ended = (0..100).any(|_| {
            kubectl(&server, &["get", "nodes"]);
            command.try_wait().unwrap().is_some()
        });
        if !has_ended {
            command.kill().unwrap();
        }
        let outcome = command.wait_with_output().unwrap();
        assert!(has_ended && !outcome.status.success(), "{args:?}");
        String::from_utf8(outcome.stderr).unwrap()
    };
    for (args, message) in [
        (&["node", "stop", "real-0"][..], "is not simulated"),
        (&["node", "simulate", "--prefix", "real-"], "is not simulated"),
        (&["node", "simulate", "--prefix", "Foo Bar"], "a lowercase RFC 1123 subdomain"),
        (&["node", "simulate", "--node-labels", "a b=c d"], "invalid key \"a b\""),
        (&["node", "simulate", "--node-zones", ",,"], "zone must not be empty"),
    ] {
        let output = rejection_of(args);
        assert!(output.contains(message), "{args:?}: {output}");
    }
    let nodes = setpoint(&server, &["node", "simulate", "--prefix", "mine-"]).spawn();
    let _nodes = ChildProcess(nodes.unwrap());
    wait_for(&server, &["get", "nodes", "mine-0", "--no-headers"], |output| output.contains(" simulated "));
    let fleet = r#"jsonpath={.metadata.annotations.setpoint\.dev/fleet}"#;
    assert_eq!(kubectl(&server, &["get", "node", "mine-0", "-o", fleet]), "setpoint-nodes-mine");
    wait_for(&server, &["get", "leases", "-n", "kube-node-lease", "-o", "name"], |output| {
        output.contains("mine-0")
    });
    // A prefix whose names partly equal those of another fleet is still a different fleet.
    let mark = r#"{"metadata":{"annotations":{"setpoint.dev/fleet":"setpoint-up"}}}"#;
    kubectl(&server, &["patch", "node", "mine-0", "-p", mark]);
    let output = rejection_of(&["node", "simulate", "--prefix", "mine-"]);
    assert!(output.contains("node mine-0 is run by fleet setpoint-up"), "{output}");
}
