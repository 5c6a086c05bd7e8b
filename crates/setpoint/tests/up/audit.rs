//! Audit of the binary: a policy file, a rotated log, and policies that are refused.

use std::path::Path;

use super::Server;
use super::validation::reject_before_start;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Reads are not recorded, Secrets without their contents, and the rest in full.
const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
  resources: [{resources: [secrets]}]
- level: RequestResponse
  resources: [{resources: [configmaps]}]
";

fn flag(name: &str, path: &Path) -> String {
    format!("--audit-{name}={}", path.display())
}

fn events(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn requests_and_writes_of_controllers_are_in_the_rotated_log() {
    let dir = tempfile::tempdir().unwrap();
    let (policy, log) = (dir.path().join("policy.yaml"), dir.path().join("audit/audit.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let flags = [flag("policy-file", &policy), flag("log-path", &log)];
    let more = ["--ephemeral", "--audit-log-mode=batch", "--audit-log-maxsize=1", "--audit-log-maxbackup=50"];
    let server = Server::start(&[&[&*flags[0], &*flags[1]], &more[..]].concat());
    let mut client = server.client();
    let secret = br#"{"metadata":{"name":"s"},"stringData":{"k":"hidden-value"}}"#;
    let (head, _) = client.send("POST /api/v1/namespaces/default/secrets", secret);
    let id = head.lines().find_map(|line| line.strip_prefix("audit-id: ")).unwrap().to_owned();
    let filler = "x".repeat(20_000);
    for number in 0..30 {
        let body = format!(r#"{{"metadata":{{"name":"m{number}"}},"data":{{"k":"{filler}"}}}}"#);
        assert!(client.send(&format!("POST {MAPS}"), body.as_bytes()).0.starts_with("HTTP/1.1 201"));
    }
    let metrics = client.send("GET /metrics", b"").1;
    assert!(
        metrics.contains("apiserver_audit_event_total ") && !metrics.contains("apiserver_audit_error_total{")
    );
    server.stop("TERM");
    let mut files: Vec<_> =
        std::fs::read_dir(log.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 1 && files.contains(&log), "{files:?}");
    assert!(files.iter().all(|file| std::fs::metadata(file).unwrap().len() <= 1024 * 1024));
    let events: Vec<serde_json::Value> = files.iter().flat_map(|file| events(file)).collect();
    let maps = |event: &&serde_json::Value| {
        event["objectRef"]["resource"] == "configmaps" && event["user"]["username"] == "kubernetes-admin"
    };
    assert_eq!(events.iter().filter(maps).count(), 30);
    assert!(events.iter().filter(maps).all(|event| event["responseObject"]["data"]["k"] == *filler));
    let secrets: Vec<_> = events.iter().filter(|event| event["auditID"] == *id).collect();
    assert_eq!(secrets.len(), 1);
    assert_eq!(secrets[0]["objectRef"]["name"], "s");
    let text = secrets[0].to_string();
    assert!(!text.contains("hidden-value") && !text.contains("aGlkZGVuLXZhbHVl"), "{text}");
    // The root CA is published into each namespace by a controller.
    let published =
        events.iter().find(|event| event["objectRef"]["name"] == "kube-root-ca.crt").expect("a ConfigMap");
    let user = published["user"]["username"].as_str().unwrap();
    assert_eq!(user, "system:serviceaccount:kube-system:root-ca-cert-publisher");
    assert!(published["userAgent"].as_str().unwrap().starts_with("kube-controller-manager/"), "{published}");
    let uri = published["requestURI"].as_str().unwrap();
    assert!(uri.starts_with("/api/v1/namespaces/") && uri.ends_with("/configmaps"), "{uri}");
    assert_eq!(published["responseStatus"]["code"], 201);
    assert!(
        published["requestObject"]["data"].is_object() && published["responseObject"]["data"].is_object()
    );
}

#[test]
fn unusable_policies_and_flags_are_rejected_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (policy, log) = (dir.path().join("policy.yaml"), dir.path().join("audit.log"));
    let flags = [flag("policy-file", &policy), flag("log-path", &log)];
    for (text, expected) in [
        ("", "Object 'Kind' is missing"),
        ("apiVersion: audit.k8s.io/v1\nkind: Policy\n", "loaded illegal policy with 0 rules"),
        (&POLICY.replace("level: None", "level: Some"), "rules[0].level: Unsupported value: \"Some\""),
        (&POLICY.replace("verbs", "verb"), "unknown field \"rules[0].verb\""),
    ] {
        std::fs::write(&policy, text).unwrap();
        let error = reject_before_start(&[&flags[0], &flags[1]], dir.path());
        assert!(error.lines().count() == 1 && error.contains(expected), "{error}");
        assert!(error.contains("loading audit policy file: ") && error.contains("policy.yaml"), "{error}");
        assert!(!log.exists(), "the log was created before the policy was read");
    }
    std::fs::write(&policy, POLICY).unwrap();
    let error = reject_before_start(&[&flags[0]], dir.path());
    assert!(
        error.lines().count() == 1 && error.contains("--audit-policy-file has no effect without"),
        "{error}"
    );
}
