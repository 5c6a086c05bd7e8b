//! Deployment tutorial with kubectl, including the messages that people search for.

use std::process::Command;

use crate::asking::{kubectl, wait_for};
use crate::kubelet::{ARGUMENTS, Working};
use crate::server::{Server, installed};

/// Server with all controllers and a node.
struct Course {
    // The node stops before the server does.
    _node: Working,
    server: Server,
}

impl Course {
    fn begin() -> Course {
        let server = Server::with(ARGUMENTS);
        Course { _node: Working::start(&server), server }
    }

    /// Runs a command that must succeed. Returns its output.
    #[track_caller]
    fn ok(&self, words: &str, expected: &str) -> String {
        let arguments: Vec<&str> = words.split(' ').collect();
        let mut command = Command::new(installed().join("kubectl/kubectl"));
        let (ok, said) = self.server.run(command.args(&arguments), "");
        assert!(ok && said.contains(expected), "kubectl {words} should say {expected:?}: {said}");
        said
    }

    /// Polls until the output is the expected one.
    #[track_caller]
    fn until(&self, words: &str, expected: impl Fn(&str) -> bool) -> String {
        wait_for(&self.server, &words.split(' ').collect::<Vec<_>>(), expected)
    }

    fn ask(&self, words: &str) -> String {
        kubectl(&self.server, &words.split(' ').collect::<Vec<_>>())
    }

    /// Waits until the Deployment's status is current and all its replicas are updated and available.
    #[track_caller]
    fn is_rolled_out(&self, replicas: usize, image: &str) {
        self.ok("rollout status deployment/web", "deployment \"web\" successfully rolled out");
        let numbers = "get deploy web -o jsonpath={.metadata.generation}={.status.observedGeneration}";
        let numbers = self.ask(numbers);
        let (generation, observed) = numbers.split_once('=').unwrap();
        assert_eq!(generation, observed);
        let images = "get pods -l app=web -o jsonpath={.items[*].spec.containers[*].image}";
        let all = vec![image; replicas].join(" ");
        self.until(images, |said| said == all);
    }
}

#[test]
fn deployment_is_created_repaired_scaled_rolled_out_paused_and_undone() {
    let course = Course::begin();
    course.ok("create deployment web --image=web:1 --replicas=3", "deployment.apps/web created");
    course.is_rolled_out(3, "web:1");
    let shown = course.ask("get deploy web -o yaml");
    let set = course.ask("get rs -l app=web -o jsonpath={.items[0].metadata.name}");
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

    let old = course.ask("get pods -l app=web -o jsonpath={.items[0].metadata.name}");
    course.ok(&format!("delete pod {old}"), "deleted");
    let three = |said: &str| said.matches("pod/").count() == 3 && !said.contains(&old);
    let names = course.until("get pods -l app=web -o name", three);
    let describe = format!("describe rs {set}");
    for name in names.lines().map(|line| line.trim_start_matches("pod/")) {
        let created = format!("replicaset-controller  Created pod: {name}");
        course.until(&describe, |said| said.contains(&created) && said.contains("SuccessfulCreate"));
    }
    course.until("describe deploy web", |said| {
        said.contains(&format!("deployment-controller  Scaled up replica set {set}"))
    });

    course.ok("scale deployment web --replicas=5", "deployment.apps/web scaled");
    course.is_rolled_out(5, "web:1");
    course.ok("set image deployment/web web=web:2", "image updated");
    course.is_rolled_out(5, "web:2");
    let history = course.ok("rollout history deployment/web", "REVISION  CHANGE-CAUSE");
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    course.ok("rollout history deployment/web --revision=1", "web:1");
    course.ok("rollout undo deployment/web", "rolled back");
    course.is_rolled_out(5, "web:1");
    let history = course.ok("rollout history deployment/web", "REVISION");
    assert!(!history.contains("\n1 ") && history.contains("\n2 ") && history.contains("\n3 "), "{history}");
    let sets = course.ask("get rs -l app=web -o name");
    assert_eq!(sets.lines().count(), 2, "the old ReplicaSet is used again: {sets}");

    course.ok("rollout pause deployment/web", "paused");
    course.ok("set image deployment/web web=web:3", "image updated");
    course.until("get deploy web -o jsonpath={.status.conditions[*].reason}", |said| {
        said.contains("DeploymentPaused")
    });
    course.until("get deploy web -o jsonpath={.metadata.generation}={.status.observedGeneration}", |said| {
        said.split_once('=').is_some_and(|(generation, observed)| generation == observed)
    });
    assert_eq!(course.ask("get rs -l app=web -o name"), sets, "what is paused is not rolled out");
    course.ok("rollout resume deployment/web", "resumed");
    course.is_rolled_out(5, "web:3");
    course.ok("rollout undo deployment/web --to-revision=2", "rolled back");
    course.is_rolled_out(5, "web:2");
    course.ok("rollout restart deployment/web", "restarted");
    course.is_rolled_out(5, "web:2");
}

#[test]
fn dependents_are_deleted_in_background_or_foreground_or_orphaned() {
    let course = Course::begin();
    let make = || {
        course.ask("create deployment web --image=web:1 --replicas=2");
        course.is_rolled_out(2, "web:1");
    };
    let nothing = |what: &str| {
        course.until(&format!("get {what} -l app=web -o name"), |said| !said.contains("web"));
    };
    make();
    course.ok("delete deployment web", "deleted");
    nothing("deployments");
    nothing("replicasets");
    nothing("pods");

    make();
    // With foreground deletion, waiting for the Deployment includes waiting for its dependents.
    course.ok("delete deployment web --cascade=foreground", "deleted");
    let left = course.ask("get deployments,replicasets,pods -l app=web -o name");
    assert!(!left.contains("web"), "{left}");

    make();
    let before = course.ask("get replicasets,pods -l app=web -o name");
    course.ok("delete deployment web --cascade=orphan", "deleted");
    course.until("get rs -l app=web -o jsonpath={.items[*].metadata.ownerReferences}", str::is_empty);
    assert_eq!(course.ask("get replicasets,pods -l app=web -o name"), before, "they stay");
    // A Deployment that is created again adopts them.
    make();
    assert_eq!(course.ask("get replicasets,pods -l app=web -o name"), before, "they are adopted");
    course.until("get rs -l app=web -o jsonpath={.items[*].metadata.ownerReferences[*].name}", |said| {
        said == "web"
    });
}

#[test]
fn finalizer_delays_deletion() {
    let course = Course::begin();
    course.ok("create configmap guarded", "created");
    let add = r#"{"metadata":{"finalizers":["example.com/backup"]}}"#;
    course.ok(&format!("patch configmap guarded --type=merge -p {add}"), "patched");
    course.ok("delete configmap guarded --wait=false", "deleted");
    let going = "get configmap guarded -o jsonpath={.metadata.deletionTimestamp}{.metadata.finalizers}";
    let said = course.ask(going);
    assert!(said.starts_with("20") && said.contains("example.com/backup"), "{said}");
    course.ok("patch configmap guarded --type=merge -p {\"metadata\":{\"finalizers\":null}}", "");
    course.until("get configmap guarded", |said| said.contains("configmaps \"guarded\" not found"));
}

#[test]
fn lease_has_its_holder_and_namespace_is_deleted_with_its_objects() {
    let course = Course::begin();
    let leases = course.until("-n kube-system get lease", |said| said.contains("kube-controller-manager"));
    let line = leases.lines().find(|line| line.starts_with("kube-controller-manager")).unwrap();
    assert!(leases.starts_with("NAME") && leases.contains("HOLDER") && line.contains('_'), "{leases}");

    course.ok("create namespace full", "created");
    course.ok("-n full create deployment web --image=web:1 --replicas=3", "created");
    course.ok("-n full create job once --image=job:1", "created");
    course.ok("-n full create configmap some --from-literal=a=1", "created");
    course.ok("-n full expose deployment web --port=80", "exposed");
    course.ok("-n full rollout status deployment/web", "successfully rolled out");
    let slices = "-n full get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].endpoints[*].addresses[*]}";
    course.until(slices, |said| said.split_whitespace().count() == 3);
    course.until("-n full get job once -o jsonpath={.status.succeeded}", |said| said == "1");
    course.ok("delete namespace full", "deleted");
    course.until("get namespace full", |said| said.contains("namespaces \"full\" not found"));
    assert!(course.ask("-n full get all,configmaps,endpoints").contains("No resources found"));
}
