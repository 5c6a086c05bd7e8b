//! Secrets stay where they belong: modes of files, core dumps, listening addresses, and what the server reports.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::{Server, command};

/// Files and directories below `path`, itself included, that others than the owner can access.
fn exposed(path: &Path, found: &mut Vec<String>) -> usize {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    if metadata.permissions().mode() & 0o077 != 0 {
        found.push(format!("{} {:o}", path.display(), metadata.permissions().mode() & 0o777));
    }
    let entries = metadata.is_dir().then(|| std::fs::read_dir(path).unwrap());
    1 + entries.into_iter().flatten().map(|entry| exposed(&entry.unwrap().path(), found)).sum::<usize>()
}

#[test]
fn files_of_the_server_are_readable_only_by_their_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (data, config) = (dir.path().join("data"), dir.path().join("other/config"));
    let server =
        Server::start(&["--data-dir", data.to_str().unwrap(), "--kubeconfig", config.to_str().unwrap()]);
    let map = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let head = "POST /api/v1/namespaces/default/configmaps";
    assert!(server.client().send_as(head, "content-type: application/json\r\n", map).0.contains(" 201 "));
    let mut found = Vec::new();
    assert!(exposed(&data, &mut found) > 15, "store, certificates and keys are there");
    exposed(config.parent().unwrap(), &mut found);
    server.stop("INT");
    for command in ["compact", "check"] {
        let args = ["store", command, "--data-dir", data.to_str().unwrap()];
        assert!(Command::new(env!("CARGO_BIN_EXE_setpoint")).args(args).output().unwrap().status.success());
    }
    exposed(&data, &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn temporary_kubeconfig_is_readable_only_by_its_owner() {
    let server = Server::start(&["--ephemeral"]);
    let mut found = Vec::new();
    exposed(server.kubeconfig.parent().unwrap(), &mut found);
    assert_eq!(found, Vec::<String>::new());
}

/// Limit of the core dumps of a process, soft and hard, as the system prints it.
fn core_limit(process: &str) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    limits.lines().find(|line| line.starts_with("Max core file size")).unwrap().to_owned()
}

#[test]
fn core_dumps_are_forbidden_unless_they_are_allowed() {
    let server = Server::start(&["--ephemeral"]);
    let limit = core_limit(&server.child.id().to_string());
    assert_eq!(limit.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{limit}");
    let server = Server::start(&["--ephemeral", "--allow-core-dumps"]);
    assert_eq!(core_limit(&server.child.id().to_string()), core_limit("self"));
}

/// Local addresses of listening sockets on a port, as the system prints them: hexadecimal, in network order.
fn listening(port: u16) -> Vec<String> {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let suffix = format!(":{port:04X}");
    let lines = tables.iter().flat_map(|table| table.lines());
    let columns = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = columns.filter(|columns| columns.get(3) == Some(&"0A"));
    listening.filter_map(|columns| columns[1].strip_suffix(&suffix).map(str::to_owned)).collect()
}

#[test]
fn server_listens_on_loopback_unless_configured_otherwise() {
    let server = Server::start(&["--ephemeral"]);
    let url = server.output.last().unwrap().rsplit(' ').next().unwrap().to_owned();
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(url, format!("https://127.0.0.1:{port}"));
    assert_eq!(listening(port), [format!("{:08X}", u32::from_le_bytes([127, 0, 0, 1]))]);
}

const JSON: &str = "content-type: application/json\r\n";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MARKER: &str = "marker-5f2c9e71";

/// Secret with the marker in its data and `rest` behind them.
fn secret(name: &str, rest: &str) -> Vec<u8> {
    let data = STANDARD.encode(MARKER);
    format!(r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{name}"}},"data":{{"a":"{data}"}}{rest}}}"#)
        .into_bytes()
}

/// Failing requests with the marker in their headers or bodies: head, headers, body.
fn failing_requests() -> Vec<(String, String, Vec<u8>)> {
    let post = |rest: &str| (format!("POST {SECRETS}"), JSON.to_owned(), secret("b", rest));
    let get = |header: String| (format!("GET {SECRETS}"), header, Vec::new());
    let basic = STANDARD.encode(format!("admin:{MARKER}"));
    let protocol = URL_SAFE_NO_PAD.encode(MARKER);
    let yaml = "content-type: application/yaml\r\n".to_owned();
    let patch = "content-type: application/merge-patch+json\r\n".to_owned();
    let mut large = secret("b", "");
    large.resize(4 << 20, b' ');
    vec![
        post(","),
        post(r#","type":5"#),
        post(r#","type":"kubernetes.io/tls""#),
        post(r#","kind":"Pod""#),
        (format!("POST {SECRETS}"), JSON.to_owned(), secret("Not Valid", "")),
        (format!("POST {SECRETS}"), JSON.to_owned(), large),
        (format!("POST {SECRETS}"), yaml, format!("data: {{a: {MARKER}, b: [}}").into_bytes()),
        (format!("POST {SECRETS}"), "content-type: text/plain\r\n".to_owned(), MARKER.into()),
        (format!("POST {SECRETS}?fieldValidation=Strict"), JSON.to_owned(), secret("b", r#","extra":1"#)),
        (format!("PATCH {SECRETS}/missing"), patch, secret("missing", "")),
        get(format!("authorization: Bearer {MARKER}\r\n")),
        get(format!("authorization: Basic {basic}\r\n")),
        get(format!(
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-protocol: \
             base64url.bearer.authorization.k8s.io.{protocol}\r\n"
        )),
    ]
}

/// Requests a token of the default service account, which is created asynchronously.
fn token(server: &Server) -> String {
    let head = "POST /api/v1/namespaces/default/serviceaccounts/default/token";
    let body = br#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}"#;
    let mut client = server.client();
    let created = (0..2000).find_map(|_| {
        let (head, body) = client.send_as(head, JSON, body);
        head.starts_with("HTTP/1.1 201 ").then_some(body)
    });
    let created: serde_json::Value = serde_json::from_str(&created.expect("a token")).unwrap();
    created["status"]["token"].as_str().unwrap().to_owned()
}

/// Sends a request with a bearer token over HTTP/2, which is forbidden. Returns the error.
fn forbidden_request(server: &Server, token: &str, dir: &Path) -> String {
    let admin = std::fs::read_to_string(&server.kubeconfig).unwrap();
    // The user is at the end of the file.
    let lines = admin.lines().filter(|line| !line.contains("client-"));
    let text: String =
        lines.chain([format!("    token: {token}").as_str()]).flat_map(|line| [line, "\n"]).collect();
    let config = dir.join("config");
    std::fs::write(&config, text).unwrap();
    let args = ["token", "-n", "kube-system", "--kubeconfig", config.to_str().unwrap()];
    let output = Command::new(env!("CARGO_BIN_EXE_setpoint")).args(args).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("system:serviceaccount:default:default"), "{errors}");
    errors
}

/// The most verbose log, metrics, states, Events and errors have no secret of a request.
#[test]
fn no_secret_is_in_logs_metrics_events_or_errors() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = command(&["--ephemeral", "--log-level", "trace", "--log-format", "json"]);
    let mut server = Server::spawn(command.stderr(File::create(&log).unwrap()));
    let (head, _) = server.client().send_as(&format!("POST {SECRETS}"), JSON, &secret("a", ""));
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
    let token = token(&server);
    let bearer = format!("authorization: Bearer {token}\r\n");
    let mut reported = String::new();
    let mut anonymous = super::Client::from_kubeconfig(&server.kubeconfig, false, "http/1.1");
    let (head, body) = anonymous.send_as(&format!("GET {SECRETS}"), &bearer, b"");
    assert!(head.starts_with("HTTP/1.1 403 "), "the token is valid: {head}{body}");
    reported += &body;
    reported += &forbidden_request(&server, &token, dir.path());
    for (head, headers, body) in failing_requests() {
        let is_get = head.starts_with("GET ");
        let mut client = super::Client::from_kubeconfig(&server.kubeconfig, !is_get, "http/1.1");
        let (answer, body) = client.send_as(&head, &headers, &body);
        assert!(answer.starts_with("HTTP/1.1 4"), "{head}: {answer}");
        reported += &(answer + &body);
    }
    let mut client = server.client();
    let paths =
        ["/metrics", "/setpoint/loop", "/api/v1/events", "/apis", "/readyz?verbose", "/openid/v1/jwks"];
    for path in paths {
        let (head, body) = client.send(&format!("GET {path}"), b"");
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        reported += &body;
    }
    let key = std::fs::read_to_string(&server.kubeconfig).unwrap();
    let key = key.split_once("client-key-data: ").unwrap().1.lines().next().unwrap().to_owned();
    server.signal("INT");
    assert!(server.child.wait().unwrap().success());
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("\"TRACE\"") && log.contains("/api/v1/namespaces/default/secrets"), "{log}");
    let signature = token.rsplit('.').next().unwrap();
    let encoded = [STANDARD.encode(MARKER), URL_SAFE_NO_PAD.encode(MARKER)];
    let bytes = format!("{:?}", MARKER.as_bytes());
    for secret in [MARKER, signature, &key, &encoded[0], &encoded[1], bytes.trim_matches(['[', ']'])] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
        let line = reported.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in a response");
    }
}
