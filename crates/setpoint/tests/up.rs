//! `setpoint up`: output, signals, kubeconfig and log.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "the test measures a process with the real clock")]

#[path = "up/audit.rs"]
mod audit;
#[path = "up/bad_input.rs"]
mod bad_input;
#[path = "up/credentials.rs"]
mod credentials;
#[path = "up/encryption.rs"]
mod encryption;
#[path = "up/kms_plugin.rs"]
mod kms_plugin;
#[path = "up/privacy.rs"]
mod privacy;
#[path = "up/validation.rs"]
mod validation;

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Server under the usual file mode mask, which lets others read new files.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 022; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_setpoint")]);
    command.args(["up", "--nodes", "0"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Server that is ready. Killed when dropped.
struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    output: Vec<String>,
    kubeconfig: PathBuf,
    first_line: Duration,
}

impl Server {
    fn start(args: &[&str]) -> Server {
        Server::spawn(&mut command(args))
    }

    fn spawn(command: &mut Command) -> Server {
        let start = Instant::now();
        let mut child = command.args(["--port", "0"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut output = vec![lines.next().expect("a first line").unwrap()];
        let first_line = start.elapsed();
        while !output.last().unwrap().starts_with("ready after ") {
            output.push(lines.next().unwrap_or_else(|| panic!("it ended after {output:?}")).unwrap());
        }
        let kubeconfig = output.iter().find_map(|line| line.strip_prefix("kubeconfig: ")).unwrap().into();
        Server { child, lines, output, kubeconfig, first_line }
    }

    fn in_dir(dir: &Path) -> Server {
        Server::start(&["--data-dir", dir.to_str().unwrap()])
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        assert!(sent.unwrap().success());
    }

    /// Stops the server by a signal. Returns the time that it elapsed, and its log.
    fn stop(mut self, name: &str) -> (Duration, String) {
        let start = Instant::now();
        self.signal(name);
        let status = self.child.wait().unwrap();
        let elapsed = start.elapsed();
        assert!(status.success(), "{status}");
        assert_eq!(self.lines.next().unwrap().unwrap(), "stopping");
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (elapsed, log)
    }

    fn client(&self) -> Client {
        Client::from_kubeconfig(&self.kubeconfig, true, "http/1.1")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Minimal client that is configured by a kubeconfig.
struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    fn from_kubeconfig(kubeconfig: &Path, with_certificate: bool, alpn: &str) -> Client {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let value = |key: &str| text.split_once(&format!("{key}: ")).unwrap().1.lines().next().unwrap();
        let decoded = |key: &str| STANDARD.decode(value(key)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&decoded("certificate-authority-data")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_root_certificates(roots);
        let mut config = if with_certificate {
            let chain = vec![CertificateDer::from_pem_slice(&decoded("client-certificate-data")).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(&decoded("client-key-data")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let address = value("server").strip_prefix("https://").unwrap();
        let host = address.rsplit_once(':').unwrap().0.to_owned();
        let session = ClientConnection::new(Arc::new(config), host.try_into().unwrap()).unwrap();
        Client(StreamOwned::new(session, TcpStream::connect(address).unwrap()))
    }

    /// Sends a request. Returns the head and the body of the response.
    fn send(&mut self, head: &str, body: &[u8]) -> (String, String) {
        self.send_as(head, "", body)
    }

    /// Sends a request with additional headers.
    fn send_as(&mut self, head: &str, headers: &str, body: &[u8]) -> (String, String) {
        let stream = &mut self.0;
        write!(stream, "{head} HTTP/1.1\r\nhost: a\r\n{headers}content-length: {}\r\n\r\n", body.len())
            .unwrap();
        stream.write_all(body).unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "the response ends in its head: {head}");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }
}

fn failure(args: &[&str]) -> String {
    let Output { status, stderr, .. } = command(args).output().unwrap();
    let errors = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && errors.lines().count() == 1, "{errors}");
    errors
}

#[test]
fn up_prints_its_paths_and_serves_its_kubeconfig() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::in_dir(dir.path());
    assert!(server.output[0].contains(dir.path().to_str().unwrap()), "{:?}", server.output);
    assert_eq!(server.output[1], "store: 0 objects (0 B) at revision 0");
    assert_eq!(server.kubeconfig, dir.path().join("kubeconfig"));
    let mut client = server.client();
    for _ in 0..3 {
        let (head, body) = client.send("GET /readyz", b"");
        assert!(head.starts_with("HTTP/1.1 200 ") && body == "ok", "{head}{body}");
    }
    assert!(client.send("GET /version", b"").1.contains(r#""gitVersion":"v1.37.0""#));
    let mut anonymous = Client::from_kubeconfig(&server.kubeconfig, false, "http/1.1");
    let (head, body) = anonymous.send("GET /readyz", b"");
    assert!(head.starts_with("HTTP/1.1 401 ") && body.contains(r#""reason":"Unauthorized""#), "{head}{body}");
    let (head, body) = server.client().send("POST /readyz", &vec![b'x'; 4 << 20]);
    assert!(head.starts_with("HTTP/1.1 413 ") && body.contains("limit is 3145728"), "{head}{body}");
    let mut second = Client::from_kubeconfig(&server.kubeconfig, true, "h2");
    second.0.flush().unwrap();
    assert_eq!(second.0.conn.alpn_protocol(), Some(&b"h2"[..]));
}

#[test]
fn first_line_is_printed_at_once() {
    let server = Server::start(&["--ephemeral"]);
    // The budget is 100 ms; a machine that runs all tests concurrently gets some slack.
    assert!(server.first_line < Duration::from_millis(500), "{:?}", server.first_line);
}

#[test]
fn both_signals_stop_the_server_within_a_second() {
    for name in ["INT", "TERM"] {
        let server = Server::start(&["--ephemeral"]);
        let mut idle = server.client();
        idle.send("GET /readyz", b"");
        let kubeconfig = server.kubeconfig.clone();
        let (elapsed, log) = server.stop(name);
        assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
        assert_eq!(log, "");
        assert!(!kubeconfig.exists(), "a temporary kubeconfig is removed");
        assert_eq!(idle.0.read(&mut [0; 16]).unwrap_or(0), 0);
    }
}

#[test]
fn restart_keeps_the_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::in_dir(dir.path());
    let before = std::fs::read(dir.path().join("pki/ca.crt")).unwrap();
    server.stop("INT");
    let server = Server::in_dir(dir.path());
    assert_eq!(std::fs::read(dir.path().join("pki/ca.crt")).unwrap(), before);
    assert_eq!(server.client().send("GET /livez", b"").1, "ok");
}

#[test]
fn second_instance_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::in_dir(dir.path());
    let errors = failure(&["--data-dir", dir.path().to_str().unwrap()]);
    let expected = format!(
        "is in use by another setpoint process (process {}): stop it, or choose another data directory",
        server.child.id()
    );
    assert!(errors.contains(&expected), "{errors}");
    assert_eq!(server.client().send("GET /livez", b"").1, "ok");
}

#[test]
fn port_in_use_is_reported() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let errors = failure(&["--ephemeral", "--port", &port]);
    let expected = format!(
        "setpoint: port {port} on 127.0.0.1 is in use: stop the process that listens on it, or choose"
    );
    assert!(errors.starts_with(&expected), "{errors}");
    let errors = failure(&["--ephemeral", "--port", "0", "--listen", "192.0.2.1"]);
    assert!(errors.contains("192.0.2.1 is not an address of this machine"), "{errors}");
}

#[test]
fn unwritable_directory_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let errors = failure(&["--data-dir", file.join("data").to_str().unwrap()]);
    assert!(errors.contains("choose a writable directory with --data-dir"), "{errors}");
    let errors = failure(&["--ephemeral", "--port", "0", "--kubeconfig", file.to_str().unwrap()]);
    assert!(
        errors.contains("was not written by setpoint: choose another path with --kubeconfig"),
        "{errors}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn kubeconfig_is_written_to_the_given_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sub/config");
    let server = Server::start(&["--ephemeral", "--kubeconfig", path.to_str().unwrap()]);
    assert_eq!(server.kubeconfig, path);
    assert_eq!(server.client().send("GET /healthz", b"").1, "ok");
}

#[test]
fn log_can_be_json() {
    let server = Server::start(&["--ephemeral", "--log-level", "debug", "--log-format", "json"]);
    server.client().send("GET /healthz", b"");
    let (_, log) = server.stop("INT");
    let line = log.lines().find(|line| line.contains("/healthz")).unwrap_or_else(|| panic!("{log}"));
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!((&line["level"], &line["fields"]["code"]), (&"DEBUG".into(), &200.into()));
}

#[test]
fn events_are_logged_in_full() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let server = Server::start(&["--ephemeral", "--log-format", "json"]);
    let mut client = server.client();
    let pod = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    // The service account of the pod is created asynchronously, and the scheduler processes the pod later.
    let mut until = |head: &str, body: &[u8], expected: &str| {
        let is_found = (0..2000).any(|_| {
            let (head, body) = client.send_as(head, "content-type: application/json\r\n", body);
            (head + &body).contains(expected)
        });
        assert!(is_found, "{head}: {expected} never appears");
    };
    until(&format!("POST {PODS}"), pod, "HTTP/1.1 201 ");
    until("GET /api/v1/namespaces/default/events", b"", "FailedScheduling");
    let (_, log) = server.stop("INT");
    let line = log.lines().find(|line| line.contains("FailedScheduling")).unwrap_or_else(|| panic!("{log}"));
    let fields = serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].clone();
    assert_eq!((&fields["message"], &fields["component"]), (&"event".into(), &"kube-scheduler".into()));
    assert_eq!(fields["about"], "Pod default/a");
    assert!(fields["note"].as_str().unwrap().starts_with("no nodes available to schedule pods"), "{fields}");
}
