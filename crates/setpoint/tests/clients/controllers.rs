//! Controllers in their own process, with kubectl: a server without controllers beside `setpoint run
//! controllers`.

use super::processes::{kubectl, run_controllers, wait_for};
use super::server::Server;

#[test]
fn deployment_gets_pods_and_namespace_is_deleted_with_its_objects() {
    let server = Server::start();
    let lease = [
        "-n",
        "kube-system",
        "get",
        "lease",
        "kube-controller-manager",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ];
    let pods = ["-n", "full", "get", "pods", "-o", "name"];
    kubectl(&server, &["create", "namespace", "full"]);
    kubectl(&server, &["-n", "full", "create", "deployment", "web", "--image=web"]);
    kubectl(&server, &["-n", "full", "scale", "deployment", "web", "--replicas=3"]);
    assert!(!kubectl(&server, &pods).contains("pod/"), "no controller runs yet");

    let _first = run_controllers(&server, &[]);
    let holder = wait_for(&server, &lease, |output| output.contains('_'));
    let _second = run_controllers(&server, &[]);
    let output = wait_for(&server, &pods, |output| output.matches("pod/").count() == 3);
    let name = output.lines().next().unwrap();
    kubectl(&server, &["-n", "full", "delete", name, "--grace-period=0", "--force"]);
    wait_for(&server, &pods, |output| output.matches("pod/").count() == 3 && !output.contains(name));
    let events = kubectl(&server, &["-n", "full", "get", "events"]);
    assert!(
        events.contains("Created pod: web-") && events.contains("Scaled up replica set web-"),
        "{events}"
    );
    assert_eq!(kubectl(&server, &lease), holder, "the second waits");

    kubectl(&server, &["delete", "namespace", "full", "--wait=false"]);
    // No node terminates the pods, so the test deletes them by force in its place.
    wait_for(&server, &["get", "namespaces", "-o", "name"], |output| {
        kubectl(&server, &["-n", "full", "delete", "pods", "--all", "--grace-period=0", "--force"]);
        !output.contains("full")
    });
}
