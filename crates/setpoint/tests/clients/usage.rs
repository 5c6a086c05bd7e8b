//! Usage of simulated pods and nodes, with `kubectl top` and autoscalers.

use std::process::Command;

use super::kubectl::kubectls;
use super::processes::{ChildProcess, kubectl, run_controllers, wait_for};
use super::server::{Server, clients_dir};

/// Deployment whose pod uses twice the memory that it requests, and an autoscaler with a target of half.
const BUSY: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"busy"},"spec":{"replicas":1,
 "selector":{"matchLabels":{"app":"busy"}},"template":{"metadata":{"labels":{"app":"busy"},
 "annotations":{"simulate.setpoint.dev/cpu":"200m","simulate.setpoint.dev/memory":"64Mi"}},
 "spec":{"containers":[{"name":"c","image":"busy","resources":{"requests":{"memory":"32Mi"}}}]}}}},
{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"busy"},"spec":{"maxReplicas":4,
 "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"busy"},"metrics":[{"type":"Resource",
 "resource":{"name":"memory","target":{"type":"Utilization","averageUtilization":50}}}]}}]}"#;

fn create(server: &Server, objects: &str) {
    wait_for(server, &["get", "serviceaccounts", "default", "-o", "name"], |output| {
        output.contains("default")
    });
    let mut create = Command::new(clients_dir().join("kubectl/kubectl"));
    let (made, output) = server.run(create.args(["create", "-f", "-"]), objects);
    assert!(made, "{output}");
}

#[test]
fn kubectl_top_shows_usage_and_autoscalers_act_on_it() {
    let server = Server::start_with(&["--nodes=2", "--pod-start=0"]);
    create(&server, BUSY);
    wait_for(&server, &["get", "deployment", "busy", "--no-headers"], |output| output.contains("4/4"));
    let current = "jsonpath={.status.currentMetrics[0].resource.current.averageUtilization}";
    wait_for(&server, &["get", "hpa", "busy", "-o", current], |output| output == "200");
    for kubectl in kubectls() {
        let top = |args: &[&str]| {
            let (ok, output) = server.run(Command::new(&kubectl).arg("top").args(args), "");
            assert!(ok, "{} top {args:?}: {output}", kubectl.display());
            output
        };
        let pods = top(&["pods"]);
        assert_eq!(pods.matches(" 200m ").count(), 4, "{pods}");
        assert_eq!(pods.matches("64Mi").count(), 4, "{pods}");
        assert_eq!(top(&["pods", "-A", "-l", "app=busy", "--no-headers"]).lines().count(), 4);
        assert!(top(&["pods", "--containers"]).contains(" c "), "{pods}");
        let nodes = top(&["nodes"]);
        let of = |node: &str| nodes.lines().find(|line| line.starts_with(node)).unwrap().to_owned();
        let cpu = |line: &str| line.split_whitespace().nth(1).unwrap().trim_end_matches('m').parse::<i64>();
        assert_eq!(cpu(&of("node-0")).unwrap() + cpu(&of("node-1")).unwrap(), 800, "{nodes}");
    }
    let table = kubectl(&server, &["get", "pods.metrics.k8s.io", "--no-headers"]);
    assert_eq!(table.matches("200m").count(), 4, "{table}");
    let registered = ["get", "apiservices", "v1beta1.metrics.k8s.io", "--no-headers"];
    wait_for(&server, &registered, |output| output.contains("Local") && output.contains("True"));
}

#[test]
fn autoscaler_in_another_process_queries_the_server() {
    let server = Server::start_with(&["--controllers=scheduler", "--nodes=1", "--pod-start=0"]);
    let _controllers: ChildProcess = run_controllers(&server, &[]);
    create(&server, BUSY);
    wait_for(&server, &["get", "deployment", "busy", "--no-headers"], |output| output.contains("4/4"));
}

#[test]
fn metrics_api_is_absent_without_simulated_nodes() {
    let server = Server::start_with(&["--nodes=0"]);
    let versions = kubectl(&server, &["api-versions"]);
    assert!(versions.contains("autoscaling/v2") && !versions.contains("metrics.k8s.io"), "{versions}");
    let output = kubectl(&server, &["top", "nodes"]);
    assert!(output.contains("Metrics API not available"), "{output}");
}
