//! Deployment tutorial with kubectl, including the messages that users search for.

use std::process::Command;

use crate::kubelet::{ARGS, RunningNode};
use crate::processes::{self, kubectl};
use crate::server::{Server, clients_dir};

/// Server with all controllers and a node.
struct Tutorial {
    // The node stops before the server does.
    _node: RunningNode,
    server: Server,
}

impl Tutorial {
    fn start() -> Tutorial {
        let server = Server::start_with(ARGS);
        Tutorial { _node: RunningNode::start(&server), server }
    }

    /// Runs a command that must succeed. Returns its output.
    #[track_caller]
    fn ok(&self, command_line: &str, expected: &str) -> String {
        let args: Vec<&str> = command_line.split(' ').collect();
        let mut command = Command::new(clients_dir().join("kubectl/kubectl"));
        let (ok, output) = self.server.run(command.args(&args), "");
        assert!(
            ok && output.contains(expected),
            "kubectl {command_line} should print {expected:?}: {output}"
        );
        output
    }

    /// Polls until the output is the expected one.
    #[track_caller]
    fn wait_for(&self, command_line: &str, expected: impl Fn(&str) -> bool) -> String {
        processes::wait_for(&self.server, &command_line.split(' ').collect::<Vec<_>>(), expected)
    }

    fn run(&self, command_line: &str) -> String {
        kubectl(&self.server, &command_line.split(' ').collect::<Vec<_>>())
    }

    /// Waits until the Deployment's status is current and all its replicas are updated and available.
    #[track_caller]
    fn wait_for_rollout(&self, replicas: usize, image: &str) {
        self.ok("rollout status deployment/web", "deployment \"web\" successfully rolled out");
        let numbers = "get deploy web -o jsonpath={.metadata.generation}={.status.observedGeneration}";
        let numbers = self.run(numbers);
        let (generation, observed) = numbers.split_once('=').unwrap();
        assert_eq!(generation, observed);
        let images = "get pods -l app=web -o jsonpath={.items[*].spec.containers[*].image}";
        let all = vec![image; replicas].join(" ");
        self.wait_for(images, |output| output == all);
    }
}

#[test]
fn deployment_is_created_repaired_scaled_rolled_out_paused_and_undone() {
    let tutorial = Tutorial::start();
    tutorial.ok("create deployment web --image=web:1 --replicas=3", "deployment.apps/web created");
    tutorial.wait_for_rollout(3, "web:1");
    let shown = tutorial.run("get deploy web -o yaml");
    let set = tutorial.run("get rs -l app=web -o jsonpath={.items[0].metadata.name}");
    let condition = |kind: &str, reason: &str, message: &str| {
        format!("message: {message}\n    reason: {reason}\n    status: \"True\"\n    type: {kind}\n")
    };
    let progressed = format!("ReplicaSet \"{set}\" has successfully progressed.");
    for wanted in [
        condition("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        condition("Progressing", "NewReplicaSetAvailable", &progressed),
    ] {
        assert!(shown.contains(&wanted), "{wanted}{shown}");
    }

    let old = tutorial.run("get pods -l app=web -o jsonpath={.items[0].metadata.name}");
    tutorial.ok(&format!("delete pod {old}"), "deleted");
    let three = |output: &str| output.matches("pod/").count() == 3 && !output.contains(&old);
    let names = tutorial.wait_for("get pods -l app=web -o name", three);
    let describe = format!("describe rs {set}");
    for name in names.lines().map(|line| line.trim_start_matches("pod/")) {
        let created = format!("replicaset-controller  Created pod: {name}");
        tutorial
            .wait_for(&describe, |output| output.contains(&created) && output.contains("SuccessfulCreate"));
    }
    tutorial.wait_for("describe deploy web", |output| {
        output.contains(&format!("deployment-controller  Scaled up replica set {set}"))
    });

    tutorial.ok("scale deployment web --replicas=5", "deployment.apps/web scaled");
    tutorial.wait_for_rollout(5, "web:1");
    tutorial.ok("set image deployment/web web=web:2", "image updated");
    tutorial.wait_for_rollout(5, "web:2");
    let history = tutorial.ok("rollout history deployment/web", "REVISION  CHANGE-CAUSE");
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    tutorial.ok("rollout history deployment/web --revision=1", "web:1");
    tutorial.ok("rollout undo deployment/web", "rolled back");
    tutorial.wait_for_rollout(5, "web:1");
    let history = tutorial.ok("rollout history deployment/web", "REVISION");
    assert!(!history.contains("\n1 ") && history.contains("\n2 ") && history.contains("\n3 "), "{history}");
    let sets = tutorial.run("get rs -l app=web -o name");
    assert_eq!(sets.lines().count(), 2, "the old ReplicaSet is used again: {sets}");

    tutorial.ok("rollout pause deployment/web", "paused");
    tutorial.ok("set image deployment/web web=web:3", "image updated");
    tutorial.wait_for("get deploy web -o jsonpath={.status.conditions[*].reason}", |output| {
        output.contains("DeploymentPaused")
    });
    tutorial.wait_for(
        "get deploy web -o jsonpath={.metadata.generation}={.status.observedGeneration}",
        |output| output.split_once('=').is_some_and(|(generation, observed)| generation == observed),
    );
    assert_eq!(tutorial.run("get rs -l app=web -o name"), sets, "a paused Deployment is not rolled out");
    tutorial.ok("rollout resume deployment/web", "resumed");
    tutorial.wait_for_rollout(5, "web:3");
    tutorial.ok("rollout undo deployment/web --to-revision=2", "rolled back");
    tutorial.wait_for_rollout(5, "web:2");
    tutorial.ok("rollout restart deployment/web", "restarted");
    tutorial.wait_for_rollout(5, "web:2");
}

#[test]
fn dependents_are_deleted_in_background_or_foreground_or_orphaned() {
    let tutorial = Tutorial::start();
    let create = || {
        tutorial.run("create deployment web --image=web:1 --replicas=2");
        tutorial.wait_for_rollout(2, "web:1");
    };
    let wait_for_none = |what: &str| {
        tutorial.wait_for(&format!("get {what} -l app=web -o name"), |output| !output.contains("web"));
    };
    create();
    tutorial.ok("delete deployment web", "deleted");
    wait_for_none("deployments");
    wait_for_none("replicasets");
    wait_for_none("pods");

    create();
    // With foreground deletion, waiting for the Deployment includes waiting for its dependents.
    tutorial.ok("delete deployment web --cascade=foreground", "deleted");
    let left = tutorial.run("get deployments,replicasets,pods -l app=web -o name");
    assert!(!left.contains("web"), "{left}");

    create();
    let before = tutorial.run("get replicasets,pods -l app=web -o name");
    tutorial.ok("delete deployment web --cascade=orphan", "deleted");
    tutorial.wait_for("get rs -l app=web -o jsonpath={.items[*].metadata.ownerReferences}", str::is_empty);
    assert_eq!(tutorial.run("get replicasets,pods -l app=web -o name"), before, "they stay");
    // A Deployment that is created again adopts them.
    create();
    assert_eq!(tutorial.run("get replicasets,pods -l app=web -o name"), before, "they are adopted");
    tutorial
        .wait_for("get rs -l app=web -o jsonpath={.items[*].metadata.ownerReferences[*].name}", |output| {
            output == "web"
        });
}

#[test]
fn finalizer_delays_deletion() {
    let tutorial = Tutorial::start();
    tutorial.ok("create configmap guarded", "created");
    let add = r#"{"metadata":{"finalizers":["example.com/backup"]}}"#;
    tutorial.ok(&format!("patch configmap guarded --type=merge -p {add}"), "patched");
    tutorial.ok("delete configmap guarded --wait=false", "deleted");
    let terminating = "get configmap guarded -o jsonpath={.metadata.deletionTimestamp}{.metadata.finalizers}";
    let output = tutorial.run(terminating);
    assert!(output.starts_with("20") && output.contains("example.com/backup"), "{output}");
    tutorial.ok("patch configmap guarded --type=merge -p {\"metadata\":{\"finalizers\":null}}", "");
    tutorial.wait_for("get configmap guarded", |output| output.contains("configmaps \"guarded\" not found"));
}

#[test]
fn lease_has_its_holder_and_namespace_is_deleted_with_its_objects() {
    let tutorial = Tutorial::start();
    let leases =
        tutorial.wait_for("-n kube-system get lease", |output| output.contains("kube-controller-manager"));
    let line = leases.lines().find(|line| line.starts_with("kube-controller-manager")).unwrap();
    assert!(leases.starts_with("NAME") && leases.contains("HOLDER") && line.contains('_'), "{leases}");

    tutorial.ok("create namespace full", "created");
    tutorial.ok("-n full create deployment web --image=web:1 --replicas=3", "created");
    tutorial.ok("-n full create job once --image=job:1", "created");
    tutorial.ok("-n full create configmap some --from-literal=a=1", "created");
    tutorial.ok("-n full expose deployment web --port=80", "exposed");
    tutorial.ok("-n full rollout status deployment/web", "successfully rolled out");
    let slices = "-n full get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].endpoints[*].addresses[*]}";
    tutorial.wait_for(slices, |output| output.split_whitespace().count() == 3);
    tutorial.wait_for("-n full get job once -o jsonpath={.status.succeeded}", |output| output == "1");
    tutorial.ok("delete namespace full", "deleted");
    tutorial.wait_for("get namespace full", |output| output.contains("namespaces \"full\" not found"));
    assert!(tutorial.run("-n full get all,configmaps,endpoints").contains("No resources found"));
}
