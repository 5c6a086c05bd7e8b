//! Audit over the whole request path: real sockets, a policy, and a queue in place of a backend.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use setpoint_api::status::Status;
use setpoint_api::{Clock as _, Value, json};
use setpoint_audit::Policy;
use setpoint_pki::certs::Pki;
use setpoint_server::api::{Api, service};
use setpoint_server::audit::{
    AuditBackend, AuditMetrics, Auditor, BatchBounds, BatchOptions, EventQueue, LogFormat, Mode,
    RequestOrigin, TruncationOptions, WebhookOptions, start_webhook,
};
use setpoint_server::authentication::{Authentication, AuthenticationOptions};
use setpoint_server::exchange::{Admission, Credentials, Payload, Request, RequestPermit, Response, Service};
use setpoint_server::http::{Bounds, Counters, ServeOptions, ThreadCounts, Threads, Tls, serve};
use setpoint_server::webhooks::kubeconfig::read_endpoint;
use setpoint_store::{Retention, Store};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{self, MAPS, PODS, SystemClock, TestServer};
use crate::webhook_server::{HookReply, HookServer};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Administrator of the token file.
const ANN: &str = "Authorization: Bearer ann-token\r\n";
/// User without permissions.
const BOB: &str = "Authorization: Bearer bob-token\r\n";
const TOKENS: &str = "ann-token,ann,u-ann,\"system:masters\"\nbob-token,bob,u-bob,\"devs\"\n";
const ALL: &str = "[{level: Metadata}]";

/// An API server that panics for some paths, and has no room for others.
struct Panicking(Api);

type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Service for Panicking {
    fn auditor(&self) -> Option<&Arc<Auditor>> {
        self.0.auditor()
    }

    fn authenticate<'a>(&'a self, credentials: &Credentials<'_>) -> Authentication<'a> {
        self.0.authenticate(credentials)
    }

    fn impersonate<'a>(&'a self, head: &'a mut Request) -> Pending<'a, Result<(), Box<Response>>> {
        self.0.impersonate(head)
    }

    fn take_seats<'a>(&'a self, head: &'a Request) -> Result<Admission<'a>, Box<Response>> {
        self.0.take_seats(head)
    }

    fn authorize<'a>(&'a self, head: &'a Request) -> Pending<'a, Result<(), Box<Response>>> {
        self.0.authorize(head)
    }

    fn admit(&self, head: &Request) -> Result<RequestPermit, Box<Response>> {
        if head.path.starts_with("/full") {
            let body = Status::too_many_requests("try again later", 1).to_json();
            let (status, headers) = (StatusCode::TOO_MANY_REQUESTS, HeaderMap::new());
            return Err(Box::new(Response { status, headers, body: Payload::Whole(vec![body.into()]) }));
        }
        self.0.admit(head)
    }

    fn answer(&self, request: Request) -> Pending<'_, Response> {
        assert!(!request.path.starts_with("/panic"), "a request that panics");
        self.0.answer(request)
    }
}

/// A running server whose events are in a queue.
struct AuditedServer {
    address: std::net::SocketAddr,
    pki: Pki,
    queue: Arc<EventQueue>,
    metrics: Arc<AuditMetrics>,
    _files: TempDir,
}

fn batch() -> Mode {
    let options = BatchOptions { buffer_size: 100, max_size: 1, max_wait: Duration::ZERO, throttle: None };
    Mode::new("log", "batch", options).unwrap()
}

/// Server with the rules of a policy, `more` of its fields, and a queue of this length.
async fn start(rules: &str, more: &str, queue: usize, mode: Mode) -> AuditedServer {
    start_with(rules, more, queue, (mode, None), |api| api).await
}

async fn start_with(
    rules: &str,
    more: &str,
    queue: usize,
    (mode, truncation): (Mode, Option<TruncationOptions>),
    change: impl FnOnce(Api) -> Api + Send + 'static,
) -> AuditedServer {
    let policy = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: {rules}{more}}}");
    let policy = Policy::read(policy.as_bytes()).unwrap();
    let (queue, metrics) = (Arc::new(EventQueue::new(queue, 64 << 20)), Arc::new(AuditMetrics::default()));
    let backend =
        AuditBackend::over_queue(LogFormat::Json, mode, truncation, Arc::clone(&queue), Arc::clone(&metrics));
    let auditor = Auditor::new(policy, vec![backend], Arc::new(SystemClock), Arc::clone(&metrics));
    let files = tempfile::tempdir().unwrap();
    let tokens = files.path().join("tokens");
    std::fs::write(&tokens, TOKENS).unwrap();
    let api = tokio::task::spawn_blocking(move || {
        let store = Store::in_memory(Retention::default());
        let api = service(store, harness::options(Arc::new(SystemClock))).unwrap();
        let options = AuthenticationOptions { token_file: Some(tokens), ..Default::default() };
        change(api.with_authentication(options).unwrap().with_audit(Arc::new(auditor)))
    });
    let api = Panicking(api.await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], SystemClock.now(), 7).unwrap();
    let tls = Arc::new(Tls::new(&pki).unwrap());
    let threads = Threads::start(ThreadCounts { reactors: 1, workers: 1, on_worker_start: || () }).unwrap();
    let (bounds, counters) = (Bounds::default(), Arc::new(Counters::default()));
    let options = ServeOptions { threads, bounds, entropy: 9, drain: Duration::from_secs(1), counters };
    tokio::spawn(serve(listener, tls, Arc::new(api), options, std::future::pending()));
    AuditedServer { address, pki, queue, metrics, _files: files }
}

impl AuditedServer {
    async fn connect(&self) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pki.ca.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Sends a request, and returns its response.
    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = self.connect().await;
        let (mut text, length) = (String::new(), body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: kubectl/v1\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    async fn json(&self, method: Method, path: &str, body: &str) -> String {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.send(method.as_str(), path, &format!("{ANN}Content-Type: {kind}\r\n"), body).await
    }

    /// Takes this number of events.
    async fn events(&self, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        let bounds = BatchBounds { awaited: 1, wait: Duration::ZERO, events: count, bytes: usize::MAX };
        while events.len() < count {
            let batch = tokio::time::timeout(Duration::from_secs(60), self.queue.next_batch(bounds)).await;
            for event in batch.expect("an event").unwrap() {
                if let Some(written) = event.written {
                    let _ = written.send(true);
                }
                events.push(json::parse(&event.bytes).unwrap());
            }
        }
        assert_eq!(events.len(), count, "{events:?}");
        events
    }

    /// Sends a request that is audited at the end of its response alone, and returns its event.
    async fn event(&self, method: Method, path: &str, body: &str) -> Value {
        self.json(method, path, body).await;
        self.events(1).await.remove(0)
    }
}

fn code(event: &Value) -> i64 {
    event.at(&["responseStatus", "code"]).and_then(Value::as_i64).unwrap_or_default()
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event.str_at(&["stage"])).collect()
}

fn config_map(name: &str) -> String {
    format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}"}},"data":{{"k":"v"}}}}"#)
}

/// Stages that tests of single events omit.
const COMPLETE: &str = ", omitStages: [RequestReceived, ResponseStarted]";

#[tokio::test]
async fn request_has_an_event_when_it_is_received_and_when_its_response_is_complete() {
    let server = start(ALL, "", 100, batch()).await;
    let headers = format!("{ANN}Audit-ID: my-id\r\nX-Forwarded-For: 10.9.8.7\r\n");
    let response = server.send("GET", &format!("{MAPS}/m?a=1&b"), &headers, "").await;
    assert!(response.contains("audit-id: my-id\r\n"), "{response}");
    let events = server.events(2).await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    for event in &events {
        for (path, expected) in [
            (&["kind"][..], "Event"),
            (&["apiVersion"], "audit.k8s.io/v1"),
            (&["level"], "Metadata"),
            (&["auditID"], "my-id"),
            (&["verb"], "get"),
            (&["requestURI"], "/api/v1/namespaces/default/configmaps/m?a=1&b"),
            (&["user", "username"], "ann"),
            (&["user", "uid"], "u-ann"),
            (&["userAgent"], "kubectl/v1"),
            (&["objectRef", "resource"], "configmaps"),
            (&["objectRef", "namespace"], "default"),
            (&["objectRef", "name"], "m"),
            (&["objectRef", "apiVersion"], "v1"),
        ] {
            assert_eq!(event.str_at(path), expected, "{path:?}");
        }
        let ips = json::to_text(event.get("sourceIPs").unwrap());
        assert_eq!(ips, r#"["10.9.8.7","127.0.0.1"]"#);
    }
    assert!(events[0].get("responseStatus").is_none() && events[0].get("annotations").is_none());
    assert_eq!(events[0].str_at(&["requestReceivedTimestamp"]), events[0].str_at(&["stageTimestamp"]));
    let status = events[1].get("responseStatus").unwrap();
    assert_eq!((code(&events[1]), status.str_at(&["reason"])), (404, "NotFound"));
    assert_eq!(status.str_at(&["message"]), "configmaps \"m\" not found");
    assert_eq!(events[1].str_at(&["annotations", "authorization.k8s.io/decision"]), "allow");
    let text = server.send("GET", "/version", ANN, "").await;
    let id = text.lines().find_map(|line| line.strip_prefix("audit-id: ")).unwrap();
    assert!(server.events(2).await.iter().all(|event| event.str_at(&["auditID"]) == id));
}

#[tokio::test]
async fn levels_select_the_objects_of_events() {
    let rules = "[{level: None, verbs: [list]}, {level: Metadata, verbs: [update, delete]},
        {level: Request, verbs: [create]}, {level: RequestResponse}]";
    let server = start(rules, COMPLETE, 100, batch()).await;
    let created = server.event(Method::POST, MAPS, &config_map("m")).await;
    assert_eq!((code(&created), created.str_at(&["objectRef", "name"])), (201, "m"));
    assert_eq!(created.str_at(&["requestObject", "data", "k"]), "v");
    assert!(created.get("responseObject").is_none());
    server.json(Method::GET, MAPS, "").await;
    let got = server.event(Method::GET, &format!("{MAPS}/m"), "").await;
    assert_eq!(got.str_at(&["verb"]), "get", "lists are not audited");
    assert_eq!(got.str_at(&["responseObject", "metadata", "name"]), "m");
    assert!(got.get("requestObject").is_none());
    let updated = server.event(Method::PUT, &format!("{MAPS}/m"), &config_map("m")).await;
    assert_eq!(code(&updated), 200);
    assert!(updated.get("requestObject").is_none() && updated.get("responseObject").is_none());
    let patched = server.event(Method::PATCH, &format!("{MAPS}/m"), r#"{"data":{"k":"w"}}"#).await;
    assert_eq!(json::to_text(patched.get("requestObject").unwrap()), r#"{"data":{"k":"w"}}"#);
    assert_eq!(patched.str_at(&["responseObject", "data", "k"]), "w");
    let deleted = server.event(Method::DELETE, &format!("{MAPS}/m"), "").await;
    assert_eq!(deleted.str_at(&["responseStatus", "status"]), "Success");
}

#[tokio::test]
async fn lists_and_deleted_collections_have_their_items() {
    let server =
        start("[{level: None, verbs: [create]}, {level: RequestResponse}]", COMPLETE, 100, batch()).await;
    for name in ["a", "b"] {
        server.json(Method::POST, MAPS, &config_map(name)).await;
    }
    let names = |event: &Value| {
        let items = event.at(&["responseObject", "items"]).and_then(Value::as_list).unwrap().iter();
        items.map(|item| item.str_at(&["metadata", "name"]).to_owned()).collect::<Vec<_>>()
    };
    let listed = server.event(Method::GET, MAPS, "").await;
    assert_eq!((names(&listed), listed.str_at(&["verb"])), (vec!["a".to_owned(), "b".to_owned()], "list"));
    let deleted = server.event(Method::DELETE, MAPS, r#"{"gracePeriodSeconds":0}"#).await;
    assert_eq!(deleted.str_at(&["verb"]), "deletecollection");
    assert_eq!(names(&deleted), ["a", "b"]);
    assert!(deleted.at(&["requestObject", "gracePeriodSeconds"]).is_some());
}

#[tokio::test]
async fn refused_requests_are_audited() {
    let server = start(ALL, COMPLETE, 100, batch()).await;
    let response = server.send("GET", PODS, BOB, "").await;
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    let forbidden = server.events(1).await.remove(0);
    assert_eq!((code(&forbidden), forbidden.str_at(&["user", "username"])), (403, "bob"));
    assert_eq!(forbidden.str_at(&["annotations", "authorization.k8s.io/decision"]), "forbid");
    assert_eq!(forbidden.str_at(&["responseStatus", "reason"]), "Forbidden");
    let impersonation = format!("{BOB}Impersonate-User: ann\r\n");
    server.send("GET", PODS, &impersonation, "").await;
    let refused = server.events(1).await.remove(0);
    assert_eq!(code(&refused), 403);
    assert!(refused.get("impersonatedUser").is_none(), "the impersonation was refused");
    server.send("GET", "/full", ANN, "").await;
    assert_eq!(code(&server.events(1).await[0]), 429);
}

#[tokio::test]
async fn failed_authentication_is_audited_once() {
    let server = start(ALL, "", 100, batch()).await;
    let response = server.send("GET", PODS, "Authorization: Bearer wrong\r\n", "").await;
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    server.send("GET", "/healthz", "", "").await;
    let events = server.events(2).await;
    assert_eq!(stages(&events), ["ResponseStarted", "ResponseStarted"]);
    let messages: Vec<&str> =
        events.iter().map(|event| event.str_at(&["responseStatus", "message"])).collect();
    assert_eq!(
        messages,
        ["Authentication failed, attempted: bearer", "Authentication failed, no credentials provided"]
    );
    assert!(events.iter().all(|event| code(event) == 401 && event.str_at(&["user", "username"]).is_empty()));
    assert!(!json::to_text(&events[0]).contains("wrong"), "tokens are not recorded");
}

#[tokio::test]
async fn impersonation_is_recorded() {
    let server = start("[{level: Metadata, users: [ann]}]", COMPLETE, 100, batch()).await;
    let headers = format!("{ANN}Impersonate-User: bob\r\nImpersonate-Group: devs\r\n");
    server.send("GET", PODS, &headers, "").await;
    let event = server.events(1).await.remove(0);
    assert_eq!(event.str_at(&["user", "username"]), "ann", "rules match the authenticated user");
    assert_eq!(event.str_at(&["impersonatedUser", "username"]), "bob");
    assert!(json::to_text(event.at(&["impersonatedUser", "groups"]).unwrap()).contains("devs"));
    assert_eq!(code(&event), 403);
}

#[tokio::test]
async fn watch_has_an_event_at_its_start_and_at_its_end() {
    let server = start(ALL, "", 100, batch()).await;
    let mut stream = server.connect().await;
    let head = format!("GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\n{ANN}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let events = server.events(2).await;
    assert_eq!(stages(&events), ["RequestReceived", "ResponseStarted"]);
    assert_eq!((events[1].str_at(&["verb"]), code(&events[1])), ("watch", 200));
    drop(stream);
    let ended = server.events(1).await.remove(0);
    assert_eq!((ended.str_at(&["stage"]), code(&ended)), ("ResponseComplete", 200));
    assert_eq!(ended.str_at(&["auditID"]), events[0].str_at(&["auditID"]));
}

#[tokio::test]
async fn panic_has_a_stage_of_its_own() {
    let server = start(ALL, "", 100, batch()).await;
    let response = server.send("GET", "/panic", ANN, "").await;
    assert!(response.starts_with("HTTP/1.1 500"), "{response}");
    let events = server.events(2).await;
    assert_eq!(stages(&events), ["RequestReceived", "Panic"]);
    assert_eq!((code(&events[1]), events[1].str_at(&["responseStatus", "reason"])), (500, "InternalError"));
}

#[tokio::test]
async fn omitted_stages_have_no_events() {
    let rules = "[{level: Metadata, verbs: [get], omitStages: [ResponseComplete]}, {level: Metadata}]";
    let server = start(rules, ", omitStages: [RequestReceived]", 100, batch()).await;
    server.json(Method::GET, &format!("{MAPS}/m"), "").await;
    let listed = server.event(Method::GET, MAPS, "").await;
    assert_eq!((listed.str_at(&["verb"]), listed.str_at(&["stage"])), ("list", "ResponseComplete"));
}

#[tokio::test]
async fn managed_fields_are_omitted_where_the_policy_wants() {
    let rules = "[{level: None, verbs: [create]}, {level: RequestResponse, verbs: [list]},
        {level: RequestResponse, verbs: [get], omitManagedFields: false}]";
    let server = start(rules, ", omitStages: [RequestReceived], omitManagedFields: true", 100, batch()).await;
    server.json(Method::POST, MAPS, &config_map("m")).await;
    let got = json::to_text(&server.event(Method::GET, &format!("{MAPS}/m"), "").await);
    assert!(got.contains("managedFields"), "{got}");
    let listed = json::to_text(&server.event(Method::GET, MAPS, "").await);
    assert!(listed.contains(r#""k":"v""#) && !listed.contains("managedFields"), "{listed}");
}

#[tokio::test]
async fn secret_is_not_recorded_below_the_level_of_its_rule() {
    let rules = "[{level: Metadata, resources: [{resources: [secrets]}]}, {level: RequestResponse}]";
    let server = start(rules, "", 100, batch()).await;
    let secret =
        r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"stringData":{"key":"hidden-value"}}"#;
    let path = format!("{SECRETS}/s");
    let patch = r#"{"stringData":{"key":"hidden-value"}}"#;
    let protobuf = format!("{ANN}Accept: application/vnd.kubernetes.protobuf\r\n");
    server.json(Method::POST, SECRETS, secret).await;
    server.json(Method::PATCH, &path, patch).await;
    server.json(Method::PUT, &path, secret).await;
    server.json(Method::POST, SECRETS, &secret.replace("Secret", "Wrong")).await;
    server.send("GET", SECRETS, &protobuf, "").await;
    server.json(Method::GET, &path, "").await;
    server.json(Method::DELETE, &path, "").await;
    for event in server.events(14).await {
        let text = json::to_text(&event);
        // The value and its base64 form.
        assert!(!text.contains("hidden-value") && !text.contains("aGlkZGVuLXZhbHVl"), "{text}");
        assert!(event.get("requestObject").is_none() && event.get("responseObject").is_none(), "{text}");
    }
}

#[tokio::test]
async fn stuck_backend_drops_and_counts_events_while_requests_are_answered() {
    let server = start(ALL, "", 3, batch()).await;
    for _ in 0..5 {
        let response = server.json(Method::GET, MAPS, "").await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    assert_eq!(server.metrics.errors(), 7, "3 of 10 events have room");
    let metrics = server.send("GET", "/metrics", ANN, "").await;
    // The request for the metrics was received, and has no room either.
    assert!(metrics.contains("apiserver_audit_error_total{plugin=\"buffered\"} 8\n"), "{metrics}");
    assert!(
        metrics.contains("apiserver_audit_event_total 11\n")
            && metrics.contains("apiserver_audit_level_total{level=\"Metadata\"} 6\n")
    );
    assert_eq!(stages(&server.events(3).await), ["RequestReceived", "ResponseComplete", "RequestReceived"]);
}

#[tokio::test]
async fn blocking_backend_is_awaited_and_a_strict_one_rejects_requests() {
    let server = start(ALL, "", 100, Mode::Blocking { is_strict: true }).await;
    let (response, events) = tokio::join!(server.json(Method::GET, MAPS, ""), server.events(2));
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert_eq!(stages(&events), ["RequestReceived", "ResponseComplete"]);
    server.queue.close();
    let server_is_strict = server.json(Method::GET, MAPS, "").await;
    assert!(server_is_strict.starts_with("HTTP/1.1 500"), "{server_is_strict}");
    assert!(server_is_strict.contains("failed to store audit event"), "{server_is_strict}");
}

#[tokio::test]
async fn annotations_of_admission_are_in_the_event() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic";
    let rules = "[{level: Metadata, resources: [{resources: [configmaps, pods]}]}]";
    let server = start(rules, COMPLETE, 100, batch()).await;
    let policy = r#"{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],
        "apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
        "validations":[{"expression":"has(object.data.a)","message":"wants a"}],
        "auditAnnotations":[{"key":"k","valueExpression":"'name is ' + object.metadata.name"}]}}"#;
    let binding = r#"{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Audit"]}}"#;
    for (path, body) in [("ies", policy), ("ybindings", binding)] {
        let response = server.json(Method::POST, &format!("{POLICIES}{path}"), body).await;
        assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    }
    let created = server.event(Method::POST, MAPS, &config_map("m")).await;
    let annotation = |event: &Value, key: &str| event.str_at(&["annotations", key]).to_owned();
    assert_eq!(annotation(&created, "p/k"), "name is m");
    assert_eq!(
        annotation(&created, "validation.policy.admission.k8s.io/validation_failure"),
        r#"[{"message":"wants a","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Audit"]}]"#
    );
    let deleted = server.event(Method::DELETE, PODS, "").await;
    assert_eq!(annotation(&deleted, "authorization.k8s.io/decision"), "allow");
    assert!(deleted.at(&["annotations", "p/k"]).is_none());
}

#[tokio::test]
async fn large_objects_are_truncated() {
    let truncation = TruncationOptions { max_event_bytes: 2000, max_batch_bytes: 4000 };
    let rules = "[{level: RequestResponse}]";
    let server = start_with(rules, COMPLETE, 100, (batch(), Some(truncation)), |api| api).await;
    let small = server.event(Method::POST, MAPS, &config_map("m")).await;
    assert!(small.get("requestObject").is_some());
    let large = config_map("n").replace(r#""k":"v""#, &format!(r#""k":"{}""#, "x".repeat(3000)));
    let large = server.event(Method::POST, MAPS, &large).await;
    assert!(large.get("requestObject").is_none() && large.get("responseObject").is_none());
    assert_eq!(large.str_at(&["annotations", "audit.k8s.io/truncated"]), "true");
    assert_eq!((code(&large), large.str_at(&["objectRef", "name"])), (201, "n"));
}

#[test]
fn webhook_gets_lists_of_events_and_failed_calls_are_repeated() {
    let calls = AtomicUsize::new(0);
    let hook = HookServer::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => HookReply::Raw(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n".to_vec()),
        _ => HookReply::Json(Value::map()),
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let kubeconfig = format!(
        "{{clusters: [{{name: c, cluster: {{server: '{url}', certificate-authority-data: {ca}}}}}],
        contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
    );
    std::fs::write(&path, kubeconfig).unwrap();
    let (metrics, clock) = (Arc::new(AuditMetrics::default()), Arc::new(SystemClock));
    let throttle = None;
    let options =
        BatchOptions { buffer_size: 100, max_size: 3, max_wait: Duration::from_secs(3600), throttle };
    let options = WebhookOptions {
        initial_backoff: Duration::from_millis(1),
        mode: Mode::new("webhook", "batch", options).unwrap(),
        truncation: None,
    };
    let endpoint = read_endpoint(&path).unwrap();
    let backend = start_webhook(endpoint, options, Arc::default(), &metrics).unwrap();
    let policy = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: {ALL}}}");
    let policy = Policy::read(policy.as_bytes()).unwrap();
    let auditor = Arc::new(Auditor::new(policy, vec![backend], clock, Arc::clone(&metrics)));
    let server = TestServer::new();
    for id in ["one", "two"] {
        let mut request = harness::request("GET", MAPS, "", &[]);
        let origin = RequestOrigin { audit_id: id, peer: None, received_at: auditor.now() };
        server.runtime.block_on(async {
            let audited = auditor.begin(&mut request, origin).unwrap().receive().await.unwrap();
            audited.respond(server.api.answer(request).await).await;
        });
    }
    auditor.shutdown(Duration::from_secs(60));
    assert_eq!(metrics.errors(), 0);
    let lists = hook.reviews();
    let ids: Vec<Vec<&str>> = lists
        .iter()
        .map(|list| {
            assert_eq!(
                (list.str_at(&["kind"]), list.str_at(&["apiVersion"])),
                ("EventList", "audit.k8s.io/v1")
            );
            let items = list.get("items").and_then(Value::as_list).unwrap();
            items.iter().map(|event| event.str_at(&["auditID"])).collect()
        })
        .collect();
    let mut all = ids.concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!((lists.len(), all), (3, vec!["one", "two"]), "{ids:?}");
    assert!(ids.contains(&vec!["one", "one", "two"]) && ids.contains(&vec!["two"]), "{ids:?}");
}
