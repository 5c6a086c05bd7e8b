//! Pods of the control plane.

use super::processes::{kubectl, wait_for};
use super::server::Server;

const READY: &str =
    "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=='Ready')].status} {end}";

#[test]
fn control_plane_has_pods_with_logs() {
    let server = Server::start_with(&["--pod-start=0"]);
    let all = "kube-apiserver-node-0=True kube-controller-manager-node-0=True kube-scheduler-node-0=True ";
    let get_pods = ["-n", "kube-system", "get", "pods", "-l", "tier=control-plane", "-o", READY];
    wait_for(&server, &get_pods, |output| output == all);
    for component in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let selector = format!("component={component}");
        let log = kubectl(&server, &["-n", "kube-system", "logs", "-l", &selector, "--tail=-1"]);
        assert!(log.contains(&format!("{component} runs in setpoint")), "{log}");
    }
    // A Deployment that cannot create pods because of a quota is a line in the log of its controller.
    kubectl(&server, &["create", "quota", "none", "--hard=pods=0"]);
    kubectl(&server, &["create", "deployment", "web", "--image=web"]);
    let log = ["-n", "kube-system", "logs", "kube-controller-manager-node-0"];
    wait_for(&server, &log, |output| output.contains("exceeded quota") && output.contains("replicaset"));

    let uid = ["-n", "kube-system", "get", "pod", "kube-scheduler-node-0", "-o", "jsonpath={.metadata.uid}"];
    let before = kubectl(&server, &uid);
    kubectl(&server, &["-n", "kube-system", "delete", "pod", "kube-scheduler-node-0", "--wait=false"]);
    wait_for(&server, &uid, |output| output.len() == before.len() && output != before);
    wait_for(&server, &get_pods, |output| output == all);
    let drained = kubectl(&server, &["drain", "node-0"]);
    assert!(drained.contains("node/node-0 drained"), "{drained}");
    assert_eq!(kubectl(&server, &get_pods), all);
}

#[test]
fn component_that_does_not_run_has_no_pod() {
    let server = Server::start_with(&["--controllers=*,-scheduler", "--pod-start=0"]);
    let get_pods = ["-n", "kube-system", "get", "pods", "-o", READY];
    let two = "kube-apiserver-node-0=True kube-controller-manager-node-0=True ";
    wait_for(&server, &get_pods, |output| output == two);
}
