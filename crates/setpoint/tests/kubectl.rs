//! The walk a newcomer makes, with every kubectl on the machine.
//!
//! `scripts/test` installs one; without any these tests fail.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

struct Server {
    child: Child,
    kubeconfig: PathBuf,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let mut child = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(["up", "--port", "0", "--data-dir"])
            .arg(dir.path().join("data"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("ready")));
        assert!(ready.is_some(), "the server never said that it is ready");
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, kubeconfig, _dir: dir }
    }

    fn kubectl(&self, kubectl: &PathBuf, arguments: &[&str], input: &str) -> (bool, String) {
        let mut child = Command::new(kubectl)
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.kubeconfig.parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Every `kubectl` and `kubectl-VERSION` on the path.
fn kubectls() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    let mut found: Vec<PathBuf> = std::env::split_paths(&path)
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let versioned = name.strip_prefix("kubectl-").or(name.strip_prefix("kubectl."));
            name == "kubectl" || versioned.is_some_and(|rest| rest.starts_with("1."))
        })
        .collect();
    found.sort();
    found.dedup();
    assert!(!found.is_empty(), "no kubectl on this machine: scripts/test installs one");
    found
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
";

#[test]
fn a_newcomer_walks_through_with_every_kubectl() {
    for kubectl in kubectls() {
        let server = Server::start();
        let run = |words: &str, input: &str, expected: &str| {
            let arguments: Vec<&str> = words.split(' ').collect();
            let (ok, text) = server.kubectl(&kubectl, &arguments, input);
            assert!(ok && text.contains(expected), "{} {words}: {text}", kubectl.display());
        };
        run("version", "", "v1.37.0");
        run("get namespaces", "", "kube-system");
        run("create configmap hello --from-literal=a=1", "", "configmap/hello created");
        for format in
            ["wide", "yaml", "json", "name", "jsonpath={.data.a}", "custom-columns=N:.metadata.name"]
        {
            run(
                &format!("get configmap hello -o {format}"),
                "",
                if format.starts_with("json") { "1" } else { "hello" },
            );
        }
        run("label configmap hello x=y", "", "labeled");
        run("annotate configmap hello x=y", "", "annotated");
        run("get configmaps -l x=y -A", "", "hello");
        run("apply -f -", DEPLOYMENT, "deployment.apps/web created");
        run("apply -f -", DEPLOYMENT, "unchanged");
        run("get deployments", "", "web");
        run("patch deployment web -p {\"spec\":{\"replicas\":4}}", "", "patched");
        run("get deployment web -o jsonpath={.spec.replicas}", "", "4");
        run("describe deployment web", "", "RollingUpdateStrategy");
        run("explain deployment.spec.replicas", "", "integer");
        run("api-resources", "", "deployments");
        run("delete configmap hello", "", "deleted");
        run("delete deployment web", "", "deleted");
    }
}

#[test]
fn the_first_wrong_thing_gets_a_clear_answer() {
    let kubectl = kubectls().remove(0);
    let server = Server::start();
    let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_Name}\n";
    let (ok, text) = server.kubectl(&kubectl, &["create", "-f", "-"], bad);
    assert!(!ok && text.contains("metadata.name: Invalid value: \"Bad_Name\""), "{text}");
    let (ok, text) = server.kubectl(&kubectl, &["get", "configmap", "nothing"], "");
    assert!(!ok && text.contains("configmaps \"nothing\" not found"), "{text}");
    let (ok, text) = server.kubectl(&kubectl, &["get", "things"], "");
    assert!(!ok && text.contains("doesn't have a resource type \"things\""), "{text}");
    let elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n";
    let (ok, text) = server.kubectl(&kubectl, &["create", "-f", "-"], elsewhere);
    assert!(!ok && text.contains("namespaces \"nowhere\" not found"), "{text}");
}
