//! Validation of flags and data directories before the server starts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::Server;

/// Returns the output and the error of a command that must fail. One that does not fail would keep running.
fn expect_failure(args: &[&str]) -> (Vec<String>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let is_running = line.starts_with("ready after ") || line.starts_with("simulating ");
        output.push(line);
        if is_running {
            child.kill().unwrap();
            break;
        }
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert!(!status.success() && status.code().is_some(), "{args:?} did not fail: {output:?}");
    (output, String::from_utf8(stderr).unwrap())
}

/// Returns the error of `setpoint up` with these args, which must fail before it prints or creates
/// anything.
pub fn reject_before_start(args: &[&str], dir: &Path) -> String {
    let data = dir.join("data");
    let up = ["up", "--port", "0", "--data-dir", data.to_str().unwrap()];
    let (output, message) = expect_failure(&[&up, args].concat());
    assert!(output.is_empty(), "{args:?} failed late: {output:?}");
    assert!(!data.exists(), "{args:?} created the data directory before it failed");
    message
}

#[test]
fn invalid_flags_are_rejected_before_the_data_directory_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.yaml");
    std::fs::write(&rules, "rules:\n- exit-after: soon\n").unwrap();
    let rules = rules.to_str().unwrap();
    let pods_in_services = ["--service-cluster-ip-range", "10.1.0.0/16", "--cluster-cidr", "10.0.0.0/8"];
    let services_in_pods = ["--service-cluster-ip-range", "fd00::/108,10.200.0.0/16"];
    for (args, message) in [
        (&["--simulate", rules][..], rules),
        (&["--node-monitor-grace-period", "5s"], "--node-monitor-grace-period 5s must be longer than 10s"),
        (&["--node-cidr-mask-size", "8"], "10.128.0.0/9 in blocks of /8"),
        (&pods_in_services, "pod CIDR 10.0.0.0/8 overlaps with Service CIDR 10.1.0.0/16"),
        (&services_in_pods, "pod CIDR 10.128.0.0/9 overlaps with Service CIDR 10.200.0.0/16"),
    ] {
        let output = reject_before_start(args, dir.path());
        assert!(output.lines().count() == 1 && output.contains(message), "{args:?}: {output}");
    }
}

#[test]
fn pod_range_must_not_overlap_the_service_range() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let all = ["--cluster-cidr", "10.0.0.0/8"];
    let message = expect_failure(&[&["up", "--port", "0", "--ephemeral"], &all[..]].concat()).1;
    assert!(
        message.contains("overlaps with Service CIDR 10.0.0.0/16: choose another --cluster-cidr"),
        "{message}"
    );
    // The range with which the cluster was created counts, not the flag of a later start.
    let elsewhere = ["--data-dir", data, "--service-cluster-ip-range", "192.168.0.0/16"];
    Server::start(&[&elsewhere, &all[..]].concat()).stop("INT");
    Server::start(&[&["--data-dir", data], &all[..]].concat()).stop("INT");
    let message =
        expect_failure(&["up", "--port", "0", "--data-dir", data, "--cluster-cidr", "192.168.0.0/20"]).1;
    assert!(
        message.contains("pod CIDR 192.168.0.0/20 overlaps with Service CIDR 192.168.0.0/16"),
        "{message}"
    );
    // A server that assigns no pod CIDRs does not check them.
    Server::start(&["--data-dir", data, "--cluster-cidr", "192.168.0.0/20", "--controllers=*,-node-ipam"]);
}

#[test]
fn simulating_zero_nodes_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("kubeconfig");
    let (_, message) =
        expect_failure(&["node", "simulate", "--count", "0", "--kubeconfig", nowhere.to_str().unwrap()]);
    assert!(message.contains("--count"), "{message}");
}

#[test]
fn node_without_a_fleet_is_not_reported_as_on() {
    let server = Server::start(&["--ephemeral", "--controllers="]);
    let node = br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"sim-0"}}"#;
    let (head, body) =
        server.client().send_as("POST /api/v1/nodes", "content-type: application/json\r\n", node);
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}{body}");
    let subcommand = |subcommand: &str, name: &str| {
        let kubeconfig = server.kubeconfig.to_str().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(["node", subcommand, name, "--kubeconfig", kubeconfig])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (ok, output, message) = subcommand("start", "sim-0");
    assert!(
        !ok && output.is_empty() && message.contains("powered on, but no fleet reported it"),
        "{output}{message}"
    );
    let (ok, output, message) = subcommand("stop", "sim-0");
    assert!(ok && output == "node sim-0 is off\n", "{output}{message}");
    // Only a running fleet could report that the node booted.
    let (ok, output, message) = subcommand("start", "sim-0");
    assert!(
        !ok && output.is_empty() && message.contains("powered on, but no fleet reported it"),
        "{output}{message}"
    );
    let (ok, _, message) = subcommand("start", "sim-1");
    assert!(!ok && message.contains("\"sim-1\" not found"), "{message}");
}

/// A new authority would invalidate every kubeconfig and client certificate in use.
#[test]
fn unreadable_ca_key_fails_with_one_line_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::in_dir(dir.path());
    let kubeconfig = std::fs::read(&server.kubeconfig).unwrap();
    let path = server.kubeconfig.clone();
    server.stop("TERM");
    let key = dir.path().join("pki/ca.key");
    let kept = std::fs::read(&key).unwrap();
    for damage in [None, Some(""), Some("garbage")] {
        match damage {
            None => std::fs::remove_file(&key).unwrap(),
            Some(text) => std::fs::write(&key, text).unwrap(),
        }
        let up = ["up", "--nodes", "0", "--port", "0", "--data-dir", dir.path().to_str().unwrap()];
        let (_, message) = expect_failure(&up);
        let lines: Vec<&str> = message.lines().filter(|line| line.contains("ca.key")).collect();
        assert!(lines.len() == 1 && lines[0].contains("restore it from a backup"), "{damage:?}: {message}");
        assert_eq!(std::fs::read(&path).unwrap(), kubeconfig, "{damage:?}");
    }
    std::fs::write(&key, kept).unwrap();
    let server = Server::in_dir(dir.path());
    assert_eq!(std::fs::read(&server.kubeconfig).unwrap().len(), kubeconfig.len());
    server.stop("TERM");
}
