//! `setpoint certs`, `setpoint users` and `setpoint token`, with and without a server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};

use super::{Client, Server};

const JSON: &str = "content-type: application/json\r\n";

/// Runs a command. Returns its success, its output and its errors.
fn run(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    let output = command.args(args).env_remove("KUBECONFIG").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// Runs a command that fails. Returns its only line of errors.
fn error_of(args: &[&str]) -> String {
    let (ok, _, errors) = run(args);
    assert!(!ok && errors.lines().count() == 1, "{errors}");
    errors
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// CA certificate in PEM that ended with this year.
fn authority(name: &str, end: i32) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2019, 1, 1);
    params.not_after = date_time_ymd(end, 12, 31);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

/// Creates a webhook configuration with this CA.
fn create_webhook(server: &Server, name: &str, pem: &str) {
    let body = format!(
        r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
        "metadata":{{"name":"{name}"}},"webhooks":[{{"name":"a.example.com","sideEffects":"None",
        "admissionReviewVersions":["v1"],"clientConfig":{{"url":"https://127.0.0.1:1","caBundle":"{}"}}}}]}}"#,
        STANDARD.encode(pem)
    );
    let path = "POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let (head, answer) = server.client().send_as(path, JSON, body.as_bytes());
    assert!(head.starts_with("HTTP/1.1 201 "), "{answer}");
}

#[test]
fn certs_lists_certificates_of_the_server_and_the_api() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let missing = error_of(&["certs", "--data-dir", text(&data)]);
    assert!(missing.contains("there are no certificates in") && missing.contains("setpoint up"), "{missing}");
    let server = Server::in_dir(&data);
    create_webhook(&server, "valid", &authority("webhook", 2999));
    let (ok, table, errors) = run(&["certs", "--data-dir", text(&data)]);
    assert!(ok && errors.is_empty(), "{errors}");
    let header = table.lines().next().unwrap();
    for column in ["NAME ", "SUBJECT ", "ISSUER ", "EXPIRES ", "REMAINING ", "RENEWED"] {
        assert!(header.contains(column), "{header}");
    }
    let line =
        |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{table}"));
    for (name, subject) in [
        ("ca ", " CN=kubernetes "),
        ("apiserver ", " CN=kube-apiserver "),
        ("admin ", " O=system:masters,CN=kubernetes-admin "),
        ("front-proxy-ca ", " CN=front-proxy-ca "),
        ("front-proxy-client ", " CN=front-proxy-client "),
        ("service-account-key ", " never "),
        ("kubeconfig/user/kubernetes-admin ", " by setpoint up, with its certificates"),
        ("validatingwebhookconfigurations/valid webhooks[0].clientConfig.caBundle ", " by its owner"),
    ] {
        assert!(line(name).contains(subject) || line(name).ends_with(subject), "{}", line(name));
    }
    assert!(line("apiserver ").contains(" by setpoint up, from "));
    server.stop("INT");
    let (ok, table, errors) = run(&["certs", "--data-dir", text(&data), "-o", "json"]);
    assert!(ok && errors.contains("certificates in the API are not listed: cannot connect"), "{errors}");
    let table: serde_json::Value = serde_json::from_str(&table).unwrap();
    assert_eq!(table["certificates"].as_array().unwrap().len(), 8);
    assert_eq!(table["certificates"][0]["state"], "Valid");
    assert!(
        run(&["certs", "--data-dir", text(&data), "-o", "yaml"]).1.contains("subject: CN=kube-apiserver\n")
    );
}

#[test]
fn expired_bundle_fails_certs_and_is_an_event_and_a_metric() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::in_dir(&data);
    create_webhook(&server, "old", &authority("old webhook", 2020));
    let (ok, table, errors) = run(&["certs", "--data-dir", text(&data)]);
    assert!(!ok && table.contains(" expired "), "{table}");
    let name = "validatingwebhookconfigurations/old webhooks[0].clientConfig.caBundle";
    assert_eq!(errors, format!("setpoint: 1 certificate expired: {name}\n"));
    let mut client = server.client();
    let is_reported = (0..2000).any(|_| {
        let events = client.send("GET /api/v1/events", b"").1;
        events.contains("CertificateExpired")
            && events.contains("certificate \\\"CN=old webhook\\\" has expired")
    });
    assert!(is_reported, "no Event appears");
    let metrics = client.send("GET /metrics", b"").1;
    let name = "setpoint_certificate_expiration_timestamp_seconds";
    for series in [
        r#"{source="validatingwebhookconfigurations.admissionregistration.k8s.io",name="old",field="webhooks[0].clientConfig.caBundle"} 1609372800"#,
        r#"{source="pki",name="apiserver",field=""} "#,
    ] {
        assert!(metrics.contains(&format!("{name}{series}")), "{series}");
    }
}

/// A file that the server reads is logged when it expires, and is in the metrics.
#[test]
fn expired_client_ca_file_is_logged_and_a_metric() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.crt");
    std::fs::write(&ca, authority("old clients", 2020)).unwrap();
    let server = Server::start(&["--ephemeral", "--client-ca-file", text(&ca)]);
    let series = format!(r#"source="file",name="{}",field=""}} 1609372800"#, ca.display());
    let mut client = server.client();
    assert!((0..2000).any(|_| client.send("GET /metrics", b"").1.contains(&series)), "{series}");
    let (_, log) = server.stop("INT");
    let line =
        log.lines().find(|line| line.contains("certificate has expired")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("CN=old clients") && line.contains("2020-12-31T00:00:00Z"), "{line}");
}

#[test]
fn added_user_is_authenticated_and_needs_a_binding() {
    let dir = tempfile::tempdir().unwrap();
    let (data, config) = (dir.path().join("data"), dir.path().join("ann.kubeconfig"));
    let add =
        ["users", "add", "ann", "--group", "dev", "--data-dir", text(&data), "--kubeconfig", text(&config)];
    let missing = error_of(&add);
    assert!(missing.contains("there is no data directory") && missing.contains("setpoint up"), "{missing}");
    let server = Server::in_dir(&data);
    let (ok, output, errors) = run(&add);
    assert!(ok, "{errors}");
    assert!(output.contains("kubectl create rolebinding NAME --clusterrole=edit --group=dev "), "{output}");
    assert_eq!(std::fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
    let again = error_of(&add);
    assert!(again.contains("exists: choose another --kubeconfig, or replace it with --force"), "{again}");
    let before = std::fs::read(&config).unwrap();
    assert!(run(&[&add[..], &["--force", "--expires", "10m"]].concat()).0);
    assert_ne!(std::fs::read(&config).unwrap(), before);
    for reserved in [&["system:admin"][..], &["bob", "--group", "system:masters"]] {
        let error = error_of(&[&["users", "add"][..], reserved, &["--data-dir", text(&data)]].concat());
        assert!(error.contains("has the reserved prefix system:"), "{error}");
    }

    let mut ann = Client::from_kubeconfig(&config, true, "http/1.1");
    let maps = "GET /api/v1/namespaces/default/configmaps";
    let (head, body) = ann.send(maps, b"");
    assert!(
        head.starts_with("HTTP/1.1 403 ") && body.contains(r#"User \"ann\" cannot list"#),
        "{head}{body}"
    );
    let binding =
        br#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"dev"},
        "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"},
        "subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"dev"}]}"#;
    let path = "POST /apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert!(server.client().send_as(path, JSON, binding).0.contains(" 201 "));
    assert!(ann.send(maps, b"").0.starts_with("HTTP/1.1 200 "));
    let token = error_of(&["token", "-n", "kube-system", "--kubeconfig", text(&config)]);
    assert!(token.contains(r#"User "ann" cannot create resource "serviceaccounts/token""#), "{token}");
}

#[test]
fn token_authenticates_as_its_service_account() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let missing = error_of(&["token", "--data-dir", text(&data)]);
    assert!(missing.contains("there is no kubeconfig") && missing.contains("setpoint up"), "{missing}");
    let server = Server::in_dir(&data);
    let account = br#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"builder"}}"#;
    let path = "POST /api/v1/namespaces/default/serviceaccounts";
    assert!(server.client().send_as(path, JSON, account).0.contains(" 201 "));
    let (ok, token, errors) = run(&["token", "builder", "--duration", "10m", "--data-dir", text(&data)]);
    assert!(ok, "{errors}");
    let review = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let headers = format!("{JSON}authorization: Bearer {}\r\n", token.trim());
    let mut client = Client::from_kubeconfig(&server.kubeconfig, false, "http/1.1");
    let body = client.send_as("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", &headers, review).1;
    assert!(body.contains("system:serviceaccount:default:builder"), "{body}");
    let unknown = error_of(&["token", "unknown", "--data-dir", text(&data)]);
    assert_eq!(unknown, "setpoint: cannot request a token: serviceaccounts \"unknown\" not found\n");
    server.stop("INT");
    let down = error_of(&["token", "builder", "--data-dir", text(&data)]);
    assert!(down.contains("cannot reach the server of") && down.contains("setpoint up"), "{down}");
}
