//! Aggregation layer over sockets: an extension API server in this process, with TLS and the front-proxy certificate.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "aggregation/extension.rs"]
mod extension;
#[path = "harness/test_server.rs"]
mod harness;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use extension::{Extension, FullBody};
use harness::{SystemClock, request};
use http::header::{CONNECTION, UPGRADE};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use setpoint_api::{Clock, Value, json, value};
use setpoint_pki::certs::Pki;
use setpoint_reconcile::Query;
use setpoint_server::api::{Api, service};
use setpoint_server::exchange::{Payload, Service};
use setpoint_server::http::{Bounds, Counters, ServeOptions, ThreadCounts, Threads, Tls, serve};
use setpoint_store::{Retention, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const THINGS: &str = "/apis/things.example.com/v1/namespaces/default/things";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// An API server on a socket.
struct Server {
    api: Arc<Api>,
    pki: Pki,
    address: std::net::SocketAddr,
}

impl Server {
    async fn start() -> Server {
        let options = harness::options(Arc::new(SystemClock));
        let starting = move || service(Store::in_memory(Retention::default()), options).unwrap();
        let api = Arc::new(tokio::task::spawn_blocking(starting).await.unwrap());
        let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], SystemClock.now(), 7).unwrap();
        api.use_front_proxy(&pki);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Arc::new(Tls::new(&pki).unwrap());
        let threads =
            Threads::start(ThreadCounts { reactors: 2, workers: 1, on_worker_start: || () }).unwrap();
        let sockets = ServeOptions {
            bounds: Bounds::default(),
            threads,
            entropy: 9,
            drain: Duration::from_secs(5),
            counters: Arc::new(Counters::default()),
        };
        let served: Arc<dyn Service> = Arc::clone(&api) as _;
        tokio::spawn(serve(listener, tls, served, sockets, std::future::pending()));
        Server { api, pki, address }
    }

    /// Sends a request without a socket. Returns the code and the JSON body.
    async fn call(&self, method: &str, path: &str, body: &Value, accept: &str) -> (u16, Value) {
        let content_type = harness::content_type(method);
        let request = request(method, path, json::to_vec(body), &[content_type, ("accept", accept)]);
        let response = self.api.answer(request).await;
        let mut bytes = Vec::new();
        match response.body {
            Payload::Whole(parts) => parts.iter().for_each(|part| bytes.extend_from_slice(part)),
            Payload::Chunked(mut chunks) => {
                std::iter::from_fn(|| chunks.next_chunk()).for_each(|chunk| bytes.extend_from_slice(&chunk));
            }
            Payload::Stream(mut frames) => {
                while let Some(frame) = std::future::poll_fn(|context| frames.poll_frame(context)).await {
                    bytes.extend_from_slice(&frame);
                }
            }
        }
        (response.status.as_u16(), json::parse(&bytes).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> Value {
        let (code, body) = self.call("GET", path, &Value::map(), "application/json").await;
        assert_eq!(code, 200, "{path}: {}", json::to_text(&body));
        body
    }

    async fn create(&self, path: &str, object: Value) {
        let (code, body) = self.call("POST", path, &object, "application/json").await;
        assert_eq!(code, 201, "{path}: {}", json::to_text(&body));
    }

    /// Registers an extension API server for a group version, available or not.
    async fn register(&self, extension: &Extension, group: &str, version: &str, is_available: bool) {
        let name = format!("{version}.{group}");
        let spec = value!({
            "group": (group), "version": (version), "groupPriorityMinimum": 2000, "versionPriority": 10,
            "caBundle": (extension.ca_bundle()),
            "service": {"namespace": "default", "name": "things", "port": (i64::from(extension.address.port()))},
        });
        self.create(API_SERVICES, value!({"metadata": {"name": (name.as_str())}, "spec": (spec)})).await;
        let status = if is_available { "True" } else { "False" };
        let condition = value!({"type": "Available", "status": (status)});
        let status = value!({"status": {"conditions": [(condition)]}});
        let path = format!("{API_SERVICES}/{name}/status");
        let (code, body) = self.call("PATCH", &path, &status, "application/json").await;
        assert_eq!(code, 200, "{}", json::to_text(&body));
    }

    /// Creates the Service of an extension API server on this machine. Endpoints may not have loopback addresses.
    async fn route(&self) {
        let service = value!({"metadata": {"name": "things"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
        self.create("/api/v1/namespaces/default/services", service).await;
    }

    /// Connects as the administrator.
    async fn connect(&self, alpn: &str) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pki.ca.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(self.pki.admin.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(self.pki.admin.key.as_bytes()).unwrap();
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Sends a request on a connection of its own. Returns the response and, for HTTP/1.1, the connection.
    async fn send(&self, alpn: &str, mut request: http::Request<FullBody>) -> http::Response<Incoming> {
        let stream = TokioIo::new(self.connect(alpn).await);
        if alpn == "h2" {
            let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            let uri = format!("https://127.0.0.1{}", request.uri());
            *request.uri_mut() = uri.parse().unwrap();
            return sender.send_request(request).await.unwrap();
        }
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        request.headers_mut().insert("host", "127.0.0.1".parse().unwrap());
        sender.send_request(request).await.unwrap()
    }

    /// Runs the availability check of the group version of things.
    async fn check(&self) -> Result<Value, String> {
        let queries = self.api.aggregated_queries(tokio::runtime::Handle::current());
        let question = value!({"name": "v1.things.example.com"});
        let query = Query { target: "api-service", id: "1".to_owned(), question };
        queries.start(&query).unwrap().await.unwrap()
    }
}

async fn next_frame(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
    Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = next_frame(&mut body).await {
        bytes.extend_from_slice(&frame?);
    }
    Ok(bytes)
}

fn outgoing(method: &str, path: &str, body: impl Into<Bytes>) -> http::Request<FullBody> {
    http::Request::builder().method(method).uri(path).body(FullBody(body.into())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_request_has_the_identity_of_its_user_alone() {
    let server = Server::start().await;
    for backend_alpn in ["h2", "http/1.1"] {
        let server = if backend_alpn == "h2" { &server } else { &Server::start().await };
        let extension = Extension::start(&server.pki, backend_alpn).await;
        server.route().await;
        server.register(&extension, "things.example.com", "v1", true).await;
        for alpn in ["h2", "http/1.1"] {
            let mut request = outgoing("GET", &format!("{THINGS}/who"), "");
            for name in
                ["x-remote-user", "x-remote-group", "x-remote-uid", "x-remote-extra-scope", "authorization"]
            {
                request.headers_mut().insert(name, "mallory".parse().unwrap());
            }
            let response = server.send(alpn, request).await;
            assert_eq!(response.status(), 200, "{backend_alpn} {alpn}");
            let text = String::from_utf8(read(response.into_body()).await.unwrap()).unwrap();
            let expected = "authorization=[] x-remote-user=[kubernetes-admin] \
                            x-remote-group=[system:masters,system:authenticated] \
                            others=[x-remote-extra-authentication.kubernetes.io%2fcredential-id]";
            assert_eq!(text, expected, "{backend_alpn} {alpn}");
        }
        assert_eq!(extension.connections(), 1, "connections are kept alive: {backend_alpn}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_is_forwarded_with_its_query_and_body() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "h2").await;
    server.route().await;
    server.register(&extension, "things.example.com", "v1", true).await;
    let merge = "application/merge-patch+json";
    for (method, content_type, query, body) in [
        ("GET", "", "?labelSelector=a%3Db&limit=5", ""),
        ("POST", "application/json", "?dryRun=All", r#"{"kind":"Thing"}"#),
        ("PUT", "application/json", "?fieldManager=me", r#"{"kind":"Thing","spec":{}}"#),
        ("PATCH", merge, "", r#"{"spec":{"size":3}}"#),
        ("PATCH", "application/apply-patch+yaml", "?fieldManager=me&force=true", "spec: {size: 3}"),
        ("DELETE", "application/json", "?gracePeriodSeconds=0", r#"{"propagationPolicy":"Orphan"}"#),
    ] {
        for alpn in ["h2", "http/1.1"] {
            let target = format!("{THINGS}/echo{query}");
            let mut request = outgoing(method, &target, body);
            if !content_type.is_empty() {
                request.headers_mut().insert("content-type", content_type.parse().unwrap());
            }
            let response = server.send(alpn, request).await;
            assert_eq!(response.status(), 200, "{alpn} {method}");
            let text = String::from_utf8(read(response.into_body()).await.unwrap()).unwrap();
            assert_eq!(text, format!("{method} {target} {content_type} {body}"), "{alpn}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_permission_is_not_forwarded() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "h2").await;
    server.route().await;
    server.register(&extension, "things.example.com", "v1", true).await;
    let role = value!({
        "metadata": {"name": "reader"},
        "rules": [{"verbs": ["get"], "apiGroups": ["things.example.com"], "resources": ["things"]}],
    });
    server.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    let binding = value!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    server.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    let send = async |method: &str, name: &str, user: &str| {
        let mut request = outgoing(method, &format!("{THINGS}/{name}"), "");
        request.headers_mut().insert("impersonate-user", user.parse().unwrap());
        let response = server.send("h2", request).await;
        let code = response.status().as_u16();
        (code, String::from_utf8(read(response.into_body()).await.unwrap()).unwrap())
    };
    let (code, text) = send("GET", "who", "jane").await;
    assert_eq!(code, 200, "{text}");
    assert!(text.contains("x-remote-user=[jane] x-remote-group=[system:authenticated] others=[]"), "{text}");
    for (method, verb, user) in
        [("DELETE", "delete", "jane"), ("PUT", "update", "jane"), ("GET", "get", "joe")]
    {
        let (code, text) = send(method, "secret", user).await;
        assert_eq!(code, 403, "{text}");
        let resource =
            r#"resource \"things\" in API group \"things.example.com\" in the namespace \"default\""#;
        let message = format!(
            r#"things.things.example.com \"secret\" is forbidden: User \"{user}\" cannot {verb} {resource}"#
        );
        assert!(text.contains(&message), "{text}");
    }
    let forwarded = extension.paths();
    assert!(!forwarded.iter().any(|path| path.ends_with("/secret")), "{forwarded:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_streamed_in_both_directions_beyond_the_limit_of_this_server() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "h2").await;
    server.route().await;
    server.register(&extension, "things.example.com", "v1", true).await;
    let body = vec![b'x'; 5 * 1024 * 1024];
    let response = server.send("http/1.1", outgoing("POST", THINGS, body.clone())).await;
    assert_eq!(response.status(), 201);
    assert!(read(response.into_body()).await.unwrap() == body);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_is_streamed_and_ends_with_its_client() {
    for alpn in ["h2", "http/1.1"] {
        let server = Server::start().await;
        let mut extension = Extension::start(&server.pki, alpn).await;
        server.route().await;
        server.register(&extension, "things.example.com", "v1", true).await;
        let response = server.send(alpn, outgoing("GET", &format!("{THINGS}?watch=true"), "")).await;
        let mut body = response.into_body();
        let first = next_frame(&mut body).await.unwrap().unwrap();
        assert!(first.starts_with(b"{\"type\":\"ADDED\""), "{alpn}");
        drop(body);
        assert_eq!(extension.ended().await, "watch");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_to_a_hanging_server_ends_with_its_client() {
    let server = Server::start().await;
    let mut extension = Extension::start(&server.pki, "http/1.1").await;
    server.route().await;
    server.register(&extension, "things.example.com", "v1", true).await;
    let sending = server.send("http/1.1", outgoing("GET", &format!("{THINGS}/hang"), ""));
    tokio::select! {
        _ = sending => panic!("the server hangs"),
        begun = extension.ended() => assert_eq!(begun, "hang began"),
    }
    // The client's connection was dropped with its request.
    assert_eq!(extension.ended().await, "hang");
}

#[tokio::test(flavor = "multi_thread")]
async fn response_of_a_dying_server_is_aborted() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "h2").await;
    server.route().await;
    server.register(&extension, "things.example.com", "v1", true).await;
    for alpn in ["h2", "http/1.1"] {
        let response = server.send(alpn, outgoing("GET", &format!("{THINGS}/die"), "")).await;
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        assert_eq!(next_frame(&mut body).await.unwrap().unwrap(), "part");
        server.send(alpn, outgoing("GET", &format!("{THINGS}/who"), "")).await;
        assert!(read(body).await.is_err(), "{alpn}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_untrusted_or_redirecting_server_is_an_error() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "h2").await;
    let text = async |path: String| {
        let response = server.send("h2", outgoing("GET", &path, "")).await;
        let status = response.status().as_u16();
        (status, String::from_utf8(read(response.into_body()).await.unwrap()).unwrap())
    };
    server.register(&extension, "down.example.com", "v1", false).await;
    let unavailable = (503, "service unavailable\n".to_owned());
    assert_eq!(text("/apis/down.example.com/v1".to_owned()).await, unavailable);
    server.register(&extension, "things.example.com", "v1", true).await;
    assert_eq!(text(format!("{THINGS}/who")).await, unavailable, "there is no Service");
    server.route().await;
    let redirected = "the backend attempted to redirect this request, which is not permitted".to_owned();
    assert_eq!(text(format!("{THINGS}/redirect")).await, (502, redirected));
    let mut other = Extension::start(&server.pki, "h2").await;
    other.ca = extension.ca.clone();
    server.register(&other, "untrusted.example.com", "v1", true).await;
    let (code, message) = text("/apis/untrusted.example.com/v1".to_owned()).await;
    assert_eq!(code, 503);
    assert!(message.starts_with("error trying to reach service: "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn upgraded_connection_is_a_tunnel() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "http/1.1").await;
    server.route().await;
    server.register(&extension, "things.example.com", "v1", true).await;
    let mut request = outgoing("GET", &format!("{THINGS}/tunnel"), "");
    request.headers_mut().insert(CONNECTION, "Upgrade".parse().unwrap());
    request.headers_mut().insert(UPGRADE, "websocket".parse().unwrap());
    let mut response = server.send("http/1.1", request).await;
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()[UPGRADE], "websocket");
    let mut tunnel = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    for message in [b"first", b"again"] {
        tunnel.write_all(message).await.unwrap();
        let mut echoed = [0; 5];
        tunnel.read_exact(&mut echoed).await.unwrap();
        assert_eq!(&echoed, message);
    }
    tunnel.shutdown().await.unwrap();
    assert_eq!(tunnel.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_and_openapi_are_merged_and_stale_when_the_server_is_gone() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "h2").await;
    server.route().await;
    server.register(&extension, "things.example.com", "v1", true).await;
    assert_eq!(server.check().await, Ok(Value::map()));
    let entry = async || {
        let (_, all) = server.call("GET", "/apis", &Value::map(), AGGREGATED).await;
        let items = all.get("items").and_then(Value::as_list).unwrap().to_vec();
        let at =
            items.iter().position(|item| item.str_at(&["metadata", "name"]) == "things.example.com").unwrap();
        (at, items.len(), items[at].get("versions").unwrap().as_list().unwrap()[0].clone())
    };
    let (at, count, version) = entry().await;
    assert_eq!(at + 1, count, "built-in groups have a higher priority");
    let expected = r#"{"version":"v1","resources":[{"resource":"things","responseKind":{"group":"things.example.com","version":"v1","kind":"Thing"},"scope":"Namespaced","singularResource":"thing","verbs":["get","list"],"shortNames":["th"],"subresources":[{"subresource":"status","responseKind":{"group":"things.example.com","version":"v1","kind":"Thing"},"verbs":["get"]}]}],"freshness":"Current"}"#;
    assert_eq!(json::to_text(&version), expected);
    let group = server.get("/apis/things.example.com").await;
    assert_eq!(group.str_at(&["preferredVersion", "groupVersion"]), "things.example.com/v1");
    let groups = server.get("/apis").await;
    let groups = groups.get("groups").and_then(Value::as_list).unwrap();
    assert!(groups.iter().any(|group| group.str_at(&["name"]) == "things.example.com"));
    let list = server.get("/apis/things.example.com/v1").await;
    assert_eq!(list.str_at(&["kind"]), "APIResourceList");
    // The OpenAPI documents are read after the check is answered.
    extension.wait_for_path("/openapi/v2").await;
    let merged = async || {
        let swagger = server.get("/openapi/v2").await;
        swagger.at(&["paths", "/apis/things.example.com/v1/things"]).is_some()
    };
    while !merged().await {
        tokio::task::yield_now().await;
    }
    let index = server.get("/openapi/v3").await;
    let url = index.at(&["paths", "apis/things.example.com/v1", "serverRelativeURL"]).and_then(Value::as_str);
    assert_eq!(url, Some("/openapi/v3/apis/things.example.com/v1?hash=ABC"));
    assert_eq!(server.get("/openapi/v3/apis/things.example.com/v1").await.str_at(&["openapi"]), "3.0.0");
    extension.kill().await;
    let error = server.check().await.unwrap_err();
    assert!(error.starts_with("failing or missing response from https://localhost:"), "{error}");
    assert_eq!(entry().await.2.str_at(&["freshness"]), "Stale");
    let other = server.call("GET", "/api/v1/namespaces", &Value::map(), "application/json").await;
    assert_eq!(other.0, 200, "other groups are not affected");
}

#[tokio::test(flavor = "multi_thread")]
async fn api_service_takes_over_resource_metrics_and_serves_custom_metrics() {
    let server = Server::start().await;
    let extension = Extension::start(&server.pki, "h2").await;
    server.route().await;
    server.register(&extension, "metrics.k8s.io", "v1beta1", true).await;
    server.register(&extension, "custom.metrics.k8s.io", "v1beta2", true).await;
    assert_eq!(server.get("/apis/metrics.k8s.io/v1beta1/nodes").await.str_at(&["kind"]), "NodeMetricsList");
    let queries = server.api.aggregated_queries(tokio::runtime::Handle::current());
    let question =
        value!({"type": "Pods", "namespace": "default", "selector": "app=web", "name": "requests"});
    let query = Query { target: "metrics", id: "1".to_owned(), question };
    let answer = queries.start(&query).unwrap().await.unwrap().unwrap();
    assert_eq!(answer.at(&["pods", "web-1", "value"]).and_then(Value::as_i64), Some(1500));
    let unserved = value!({"type": "External", "namespace": "default", "name": "depth"});
    let query = Query { target: "metrics", id: "2".to_owned(), question: unserved };
    let error = queries.start(&query).unwrap().await.unwrap().unwrap_err();
    assert!(error.ends_with("(get depth.external.metrics.k8s.io)"), "{error}");
}
