//! Validation of flags and data directories before the server starts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::Server;

/// Returns the output and the error of a command that must fail. One that does not fail would keep running.
fn refused(arguments: &[&str]) -> (Vec<String>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        let runs_on = line.starts_with("ready after ") || line.starts_with("simulating ");
        said.push(line);
        if runs_on {
            child.kill().unwrap();
            break;
        }
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert!(!status.success() && status.code().is_some(), "{arguments:?} is not refused: {said:?}");
    (said, String::from_utf8(stderr).unwrap())
}

/// Returns the error of `setpoint up` with these arguments, which must fail before it prints or creates
/// anything.
fn refused_at_once(arguments: &[&str], dir: &Path) -> String {
    let data = dir.join("data");
    let place = ["up", "--port", "0", "--data-dir", data.to_str().unwrap()];
    let (said, why) = refused(&[&place, arguments].concat());
    assert!(said.is_empty(), "{arguments:?} is refused late: {said:?}");
    assert!(!data.exists(), "{arguments:?} is refused when there is a directory already");
    why
}

#[test]
fn invalid_flags_are_rejected_before_the_data_directory_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.yaml");
    std::fs::write(&rules, "rules:\n- exit-after: soon\n").unwrap();
    let rules = rules.to_str().unwrap();
    let pods_in_services = ["--service-cluster-ip-range", "10.1.0.0/16", "--cluster-cidr", "10.0.0.0/8"];
    let services_in_pods = ["--service-cluster-ip-range", "fd00::/108,10.200.0.0/16"];
    for (arguments, why) in [
        (&["--simulate", rules][..], rules),
        (
            &["--node-monitor-grace-period", "5s"],
            "--node-monitor-grace-period 5s must be longer than the 10s",
        ),
        (&["--node-cidr-mask-size", "8"], "10.128.0.0/9 in blocks of /8"),
        (&pods_in_services, "the addresses of pods, 10.0.0.0/8, and those of Services, 10.1.0.0/16, overlap"),
        (
            &services_in_pods,
            "the addresses of pods, 10.128.0.0/9, and those of Services, 10.200.0.0/16, overlap",
        ),
    ] {
        let said = refused_at_once(arguments, dir.path());
        assert!(said.lines().count() == 1 && said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn pod_range_must_not_overlap_the_service_range() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let all = ["--cluster-cidr", "10.0.0.0/8"];
    let why = refused(&[&["up", "--port", "0", "--ephemeral"], &all[..]].concat()).1;
    assert!(why.contains("those of Services, 10.0.0.0/16, overlap: choose another --cluster-cidr"), "{why}");
    // The range with which the cluster was created counts, not the flag of a later start.
    let elsewhere = ["--data-dir", data, "--service-cluster-ip-range", "192.168.0.0/16"];
    Server::start(&[&elsewhere, &all[..]].concat()).stop("INT");
    Server::start(&[&["--data-dir", data], &all[..]].concat()).stop("INT");
    let why = refused(&["up", "--port", "0", "--data-dir", data, "--cluster-cidr", "192.168.0.0/20"]).1;
    assert!(why.contains("192.168.0.0/20, and those of Services, 192.168.0.0/16, overlap"), "{why}");
    // A server that assigns no pod CIDRs does not check them.
    Server::start(&["--data-dir", data, "--cluster-cidr", "192.168.0.0/20", "--controllers=*,-node-ipam"]);
}

#[test]
fn simulating_zero_nodes_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("kubeconfig");
    let (_, why) = refused(&["node", "simulate", "--count", "0", "--kubeconfig", nowhere.to_str().unwrap()]);
    assert!(why.contains("--count"), "{why}");
}

#[test]
fn node_without_a_fleet_is_not_reported_as_on() {
    let server = Server::start(&["--ephemeral", "--controllers="]);
    let node = br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"sim-0"}}"#;
    let (head, body) =
        server.client().send_as("POST /api/v1/nodes", "content-type: application/json\r\n", node);
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}{body}");
    let deed = |deed: &str, name: &str| {
        let kubeconfig = server.kubeconfig.to_str().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(["node", deed, name, "--kubeconfig", kubeconfig])
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (ok, said, why) = deed("start", "sim-0");
    assert!(!ok && said.is_empty() && why.contains("marked as on, but no fleet runs it"), "{said}{why}");
    let (ok, said, why) = deed("stop", "sim-0");
    assert!(ok && said == "node sim-0 is off\n", "{said}{why}");
    // Only a running fleet could report that the node booted.
    let (ok, said, why) = deed("start", "sim-0");
    assert!(!ok && said.is_empty() && why.contains("marked as on, but no fleet runs it"), "{said}{why}");
    let (ok, _, why) = deed("start", "sim-1");
    assert!(!ok && why.contains("\"sim-1\" not found"), "{why}");
}

/// A new authority would invalidate every kubeconfig and client certificate in use.
#[test]
fn unusable_authority_is_one_line_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::in_dir(dir.path());
    let kubeconfig = std::fs::read(&server.kubeconfig).unwrap();
    let path = server.kubeconfig.clone();
    server.stop("TERM");
    let key = dir.path().join("pki/ca.key");
    let kept = std::fs::read(&key).unwrap();
    for harm in [None, Some(""), Some("garbage")] {
        match harm {
            None => std::fs::remove_file(&key).unwrap(),
            Some(text) => std::fs::write(&key, text).unwrap(),
        }
        let place = ["up", "--nodes", "0", "--port", "0", "--data-dir", dir.path().to_str().unwrap()];
        let (_, why) = refused(&place);
        let lines: Vec<&str> = why.lines().filter(|line| line.contains("ca.key")).collect();
        assert!(lines.len() == 1 && lines[0].contains("restore it from a backup"), "{harm:?}: {why}");
        assert_eq!(std::fs::read(&path).unwrap(), kubeconfig, "{harm:?}");
    }
    std::fs::write(&key, kept).unwrap();
    let server = Server::in_dir(dir.path());
    assert_eq!(std::fs::read(&server.kubeconfig).unwrap().len(), kubeconfig.len());
    server.stop("TERM");
}
