//! The loop in a process of its own, watched with kubectl: a server without controllers beside `setpoint run controllers`.

use super::asking::{kubectl, run_controllers, wait_for};
use super::server::Server;

#[test]
fn a_deployment_gets_its_pods_and_a_namespace_goes_with_all_it_holds() {
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
    assert!(!kubectl(&server, &pods).contains("pod/"), "nobody acts yet");

    let _first = run_controllers(&server, &[]);
    let holder = wait_for(&server, &lease, |said| said.contains('_'));
    let _second = run_controllers(&server, &[]);
    let said = wait_for(&server, &pods, |said| said.matches("pod/").count() == 3);
    let name = said.lines().next().unwrap();
    kubectl(&server, &["-n", "full", "delete", name, "--grace-period=0", "--force"]);
    wait_for(&server, &pods, |said| said.matches("pod/").count() == 3 && !said.contains(name));
    let events = kubectl(&server, &["-n", "full", "get", "events"]);
    assert!(
        events.contains("Created pod: web-") && events.contains("Scaled up replica set web-"),
        "{events}"
    );
    assert_eq!(kubectl(&server, &lease), holder, "the second waits");

    kubectl(&server, &["delete", "namespace", "full", "--wait=false"]);
    // No node lets the pods go; whoever deletes them by force plays its part.
    wait_for(&server, &["get", "namespaces", "-o", "name"], |said| {
        kubectl(&server, &["-n", "full", "delete", "pods", "--all", "--grace-period=0", "--force"]);
        !said.contains("full")
    });
}
