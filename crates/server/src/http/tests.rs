//! HTTP server with real sockets, TLS and clients, over both protocols.

mod http1_attacks;
mod http2_attacks;
mod isolation;
#[path = "tests/tls.rs"]
mod tls_versions;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http::{HeaderMap, Method, StatusCode};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use setpoint_api::Time;
use setpoint_api::status::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::exchange::{Admission, BodyPart, Chunks, Cost, Frames, Payload, Request, RequestPermit, Response};
use crate::fairness::Seats;
use crate::responses;
use setpoint_pki::certs::{CertifiedKey, Pki};

/// A service with an endpoint of each type.
struct Sample {
    /// Requests that block their thread go on when this is dropped.
    unblock: Mutex<Option<std::sync::mpsc::Sender<()>>>,
    blocked: Mutex<std::sync::mpsc::Receiver<()>>,
    release: Arc<Notify>,
    entered: Arc<Notify>,
    /// Notified when a request that waits for its seats gives up.
    gave_up: Arc<Notify>,
    stream_gone: Arc<Notify>,
    /// Methods and paths of the requests that were answered.
    answered: Mutex<Vec<String>>,
}

impl Default for Sample {
    fn default() -> Sample {
        let (unblock, blocked) = std::sync::mpsc::channel();
        Sample {
            unblock: Mutex::new(Some(unblock)),
            blocked: Mutex::new(blocked),
            release: Arc::default(),
            entered: Arc::default(),
            gave_up: Arc::default(),
            stream_gone: Arc::default(),
            answered: Mutex::default(),
        }
    }
}

/// Forty chunks of 20,000 bytes, or a panic after ten.
struct Numbers {
    next: usize,
    panics: bool,
}

impl Chunks for Numbers {
    fn next_chunk(&mut self) -> Option<BodyPart> {
        assert!(!self.panics || self.next < 10, "an encoder that panics");
        self.next += 1;
        (self.next <= 40).then(|| format!("{:0>20000}", self.next - 1).into())
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Sends one frame, then waits forever or panics; reports when it is dropped.
struct Feed {
    has_sent: bool,
    panics: bool,
    gone: Arc<Notify>,
}

impl Frames for Feed {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !std::mem::replace(&mut self.has_sent, true) {
            return Poll::Ready(Some(Bytes::from_static(b"first")));
        }
        assert!(!self.panics, "a stream that panics");
        Poll::Pending
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

/// Notifies when it is dropped.
struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Service for Sample {
    fn take_seats<'a>(&'a self, head: &'a Request) -> Result<Admission<'a>, Box<Response>> {
        assert!(head.body.is_empty(), "a request waits before its body is read");
        match head.path.as_str() {
            "/queued" => {
                let waiting = NotifyOnDrop(Arc::clone(&self.gave_up));
                Ok(Admission::Queued(Box::pin(async move {
                    self.entered.notify_one();
                    self.release.notified().await;
                    drop(waiting);
                    Ok(Seats::default())
                })))
            }
            "/queue-full" => Err(Box::new(responses::status(&Status::too_many_requests("full", 7)))),
            _ => Ok(Admission::Seated(Seats::default())),
        }
    }

    fn admit(&self, head: &Request) -> Result<RequestPermit, Box<Response>> {
        assert!(head.body.is_empty(), "a request is admitted before its body is read");
        match head.path.as_str() {
            "/full" => Err(Box::new(responses::status(&Status::too_many_requests("full", 1)))),
            path if path.starts_with("/worker") => {
                Ok(RequestPermit { cost: Cost::Large, ..RequestPermit::default() })
            }
            _ => Ok(RequestPermit::default()),
        }
    }

    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send + '_>> {
        self.answered.lock().push(format!("{} {}", request.method, request.path));
        assert_ne!(request.path, "/panic", "a service that panics at once");
        Box::pin(async move {
            let body = match request.path.as_str() {
                "/panic-later" => {
                    tokio::task::yield_now().await;
                    panic!("a service that panics later");
                }
                "/worker-panic" => panic!("a service that panics on a worker"),
                "/worker-block" => {
                    // One request waits for the channel, the others for the lock.
                    let _ = self.blocked.lock().recv();
                    Payload::Whole(vec!["unblocked".into()])
                }
                "/worker-chunks" | "/worker-chunks-panic" => {
                    let panics = request.path.ends_with("panic");
                    Payload::Chunked(Box::new(Numbers { next: 0, panics }))
                }
                "/large" | "/large-refused" => {
                    Payload::Whole((0..3000).map(|n| format!("{n:0>100}").into()).collect())
                }
                "/stream" | "/stream-panic" => Payload::Stream(Box::new(Feed {
                    has_sent: false,
                    panics: request.path == "/stream-panic",
                    gone: Arc::clone(&self.stream_gone),
                })),
                "/wait" => {
                    self.entered.notify_one();
                    self.release.notified().await;
                    Payload::Whole(vec!["waited".into()])
                }
                _ => {
                    let identity = format!("{} {:?} ", request.identity.user, request.identity.groups);
                    let seen = format!("{}?{} {}", request.path, request.query, request.body.len());
                    Payload::Whole(vec![identity.into(), Bytes::new().into(), seen.into()])
                }
            };
            let is_refused = request.path == "/large-refused";
            let status = if is_refused { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
            Response { status, headers: HeaderMap::new(), body }
        })
    }
}

struct Running {
    address: SocketAddr,
    pki: Pki,
    sample: Arc<Sample>,
    tls: Arc<Tls>,
    counters: Arc<Counters>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<bool>,
}

async fn start(bounds: Bounds) -> Running {
    start_trusting(bounds, ClientTrust::default()).await
}

async fn start_trusting(bounds: Bounds, trust: ClientTrust) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The handshake reads the real clock, so the certificates must hold for a long time around it.
    let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], now(), 7).unwrap();
    let (tls, sample) = (Arc::new(Tls::with_trust(&pki, trust).unwrap()), Arc::new(Sample::default()));
    let counters = Arc::new(Counters::default());
    let drain = Duration::from_secs(5);
    let threads = Threads::start(ThreadCounts { reactors: 2, workers: 2, on_worker_start: || () }).unwrap();
    let options = ServeOptions { bounds, threads, entropy: 9, drain, counters: Arc::clone(&counters) };
    let (stop, stopped) = oneshot::channel();
    let stopped = async move { stopped.await.unwrap_or(()) };
    let service: Arc<dyn Service> = Arc::clone(&sample) as _;
    let served = tokio::spawn(serve(listener, Arc::clone(&tls), service, options, stopped));
    Running { address, pki, sample, tls, counters, stop, served }
}

#[expect(clippy::disallowed_methods, reason = "a real handshake looks at the real clock")]
fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time::from_seconds(i64::try_from(since.as_secs()).unwrap())
}

impl Running {
    async fn connect(&self, alpn: &str, with_certificate: bool) -> TlsStream<TcpStream> {
        self.connect_as(alpn, with_certificate.then_some(&self.pki.admin)).await
    }

    async fn connect_as(&self, alpn: &str, certified_key: Option<&CertifiedKey>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pki.ca.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = if let Some(certified_key) = certified_key {
            let chain = vec![CertificateDer::from_pem_slice(certified_key.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(certified_key.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    async fn client(&self, alpn: &str) -> Client {
        Client::over(self.connect(alpn, true).await, alpn).await
    }

    /// Stops the server, and waits for its end.
    async fn finish(self) -> bool {
        self.stop.send(()).unwrap();
        self.served.await.unwrap()
    }
}

enum Client {
    One(http1::SendRequest<String>),
    Two(http2::SendRequest<String>),
}

impl Client {
    async fn over(stream: TlsStream<TcpStream>, alpn: &str) -> Client {
        if alpn == "h2" {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            Client::Two(sender)
        } else {
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            Client::One(sender)
        }
    }

    async fn open(&mut self, request: ::http::Request<String>) -> hyper::Result<::http::Response<Incoming>> {
        match self {
            Client::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Client::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    async fn send(&mut self, request: ::http::Request<String>) -> (StatusCode, HeaderMap, Vec<u8>) {
        let (parts, body) = self.open(request).await.unwrap().into_parts();
        (parts.status, parts.headers, read(body).await.unwrap())
    }

    async fn get(&mut self, path: &str) -> (StatusCode, HeaderMap, Vec<u8>) {
        self.send(request(Method::GET, path, String::new())).await
    }
}

async fn read(mut body: Incoming) -> hyper::Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(part) = next(&mut body).await? {
        all.extend_from_slice(&part);
    }
    Ok(all)
}

async fn next(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
    Ok(frame.transpose()?.and_then(|frame| frame.into_data().ok()))
}

fn request(method: Method, path: &str, body: String) -> ::http::Request<String> {
    let uri = format!("https://127.0.0.1{path}");
    ::http::Request::builder().method(method).uri(uri).header("host", "127.0.0.1").body(body).unwrap()
}

const BOTH: [&str; 2] = ["http/1.1", "h2"];

#[tokio::test]
async fn requests_carry_the_identity_of_the_certificate() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        let mut client = running.client(alpn).await;
        for _ in 0..3 {
            let request = request(Method::POST, "/a%20b?c=d&e", "12345".to_owned());
            let (code, headers, body) = client.send(request).await;
            assert_eq!(code, StatusCode::OK);
            let expected = r#"kubernetes-admin ["system:masters", "system:authenticated"] /a%20b?c=d&e 5"#;
            assert_eq!(String::from_utf8(body).unwrap(), expected);
            assert_eq!(headers["content-length"], expected.len().to_string());
            assert_eq!(headers["cache-control"], "no-cache, private");
            assert!(headers.contains_key("date"));
            assert_eq!(headers["audit-id"].len(), 36);
        }
        let mut request = request(Method::GET, "/", String::new());
        request.headers_mut().insert("audit-id", "mine".parse().unwrap());
        assert_eq!(client.send(request).await.1["audit-id"], "mine");
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn certificate_of_an_additional_ca_authenticates() {
    let foreign = Pki::ephemeral(&["127.0.0.1".to_owned()], now(), 8).unwrap();
    let trust =
        ClientTrust { client_ca: foreign.ca.certificate.clone().into_bytes(), ..ClientTrust::default() };
    let running = start_trusting(Bounds::default(), trust).await;
    for certified_key in [&foreign.admin, &running.pki.admin] {
        let stream = running.connect_as("h2", Some(certified_key)).await;
        assert_eq!(Client::over(stream, "h2").await.get("/").await.0, StatusCode::OK);
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn request_waits_for_its_seats_and_gives_up_when_its_client_is_gone() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        let mut client = running.client(alpn).await;
        let (code, headers, _) = client.get("/queue-full").await;
        assert_eq!((code, &headers["retry-after"]), (StatusCode::TOO_MANY_REQUESTS, &"7".parse().unwrap()));
        let sent =
            tokio::spawn(
                async move { client.send(request(Method::POST, "/queued", "12345".to_owned())).await },
            );
        running.sample.entered.notified().await;
        running.sample.release.notify_one();
        let (code, _, body) = sent.await.unwrap();
        assert_eq!(code, StatusCode::OK);
        assert!(String::from_utf8(body).unwrap().ends_with("/queued? 5"), "the body is read after the wait");
        running.sample.gave_up.notified().await;
        let mut client = running.client(alpn).await;
        let waiting = tokio::spawn(async move { client.get("/queued").await });
        running.sample.entered.notified().await;
        waiting.abort();
        running.sample.gave_up.notified().await;
    }
    assert!(running.finish().await);
}

#[test]
fn certificate_of_the_proxy_ca_proves_a_proxy_and_no_user() {
    let (pki, proxies) = (
        Pki::ephemeral(&["127.0.0.1".to_owned()], now(), 7).unwrap(),
        Pki::ephemeral(&["127.0.0.1".to_owned()], now(), 8).unwrap(),
    );
    let trust =
        ClientTrust { proxy_ca: proxies.ca.certificate.clone().into_bytes(), ..ClientTrust::default() };
    let state = Tls::with_trust(&pki, trust).unwrap().state();
    let seconds = u64::try_from(now().0 / 1_000_000).unwrap();
    let proof = |certified_key: &CertifiedKey| {
        let chain = [CertificateDer::from_pem_slice(certified_key.certificate.as_bytes()).unwrap()];
        tls::ClientCertificate::new(state.clone(), &chain, seconds).proof(seconds)
    };
    let proxy = proof(&proxies.admin);
    assert_eq!(proxy.proxy.as_deref(), Some("kubernetes-admin"));
    assert!(proxy.identity.is_err());
    let admin = proof(&pki.admin);
    assert_eq!(admin.proxy, None);
    let admin = admin.identity.unwrap().unwrap();
    let id = &admin.extra["authentication.kubernetes.io/credential-id"];
    assert!(id[0].starts_with("X509SHA256="), "{id:?}");
}

#[tokio::test]
async fn request_without_certificate_is_unauthorized() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        let mut client = Client::over(running.connect(alpn, false).await, alpn).await;
        let (code, headers, body) = client.get("/healthz").await;
        assert_eq!(
            (code, headers["content-type"].to_str().unwrap()),
            (StatusCode::UNAUTHORIZED, "application/json")
        );
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains(r#""message":"Unauthorized","reason":"Unauthorized","code":401"#), "{body}");
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn certificate_of_another_ca_or_usage_is_unauthenticated() {
    let running = start(Bounds::default()).await;
    // Another CA with the same name, so that only the signature differs.
    let foreign = Pki::ephemeral(&["127.0.0.1".to_owned()], now(), 8).unwrap();
    for alpn in ["http/1.1", "h2"] {
        for certified_key in [&foreign.admin, &foreign.server, &running.pki.server] {
            let mut client = Client::over(running.connect_as(alpn, Some(certified_key)).await, alpn).await;
            let (status, _, body) = client.get("/any").await;
            assert_eq!(status, 401, "{alpn}");
            assert!(String::from_utf8(body).unwrap().contains(r#""reason":"Unauthorized""#));
        }
        assert_eq!(running.client(alpn).await.get("/any").await.0, 200);
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn unadmitted_request_is_rejected_before_its_body_is_read() {
    let running = start(Bounds::default()).await;
    let mut client = running.client("http/1.1").await;
    let (status, headers, body) = client.send(request(Method::POST, "/full", "x".repeat(1000))).await;
    assert_eq!((status, headers["retry-after"].to_str().unwrap()), (StatusCode::TOO_MANY_REQUESTS, "1"));
    assert!(String::from_utf8(body).unwrap().contains(r#""reason":"TooManyRequests""#));
    assert_eq!(client.get("/any").await.0, 200);
    assert!(running.finish().await);
}

#[tokio::test]
async fn oversized_body_is_rejected_and_the_next_request_served() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        for (bytes, expected) in
            [(BODY_BYTES_MAX, 200), (BODY_BYTES_MAX + 1, 413), (4 << 20, 413), (64 << 20, 413)]
        {
            let mut client = running.client(alpn).await;
            // A client whose oversized body is not read may see the connection close before the response.
            let Ok(response) = client.open(request(Method::POST, "/", "x".repeat(bytes))).await else {
                assert!(bytes > BODY_BYTES_MAX + BODY_DISCARD_MAX, "{alpn}, {bytes}");
                continue;
            };
            assert_eq!(response.status().as_u16(), expected, "{alpn}, {bytes}");
            let body = String::from_utf8(read(response.into_body()).await.unwrap()).unwrap();
            let expected_status = r#""message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413"#;
            assert_eq!(body.contains(expected_status), expected == 413, "{body}");
        }
        let mut client = running.client(alpn).await;
        assert_eq!(client.get("/").await.0, StatusCode::OK);
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn large_responses_are_compressed_if_accepted() {
    let running = start(Bounds::default()).await;
    let expected: String = (0..3000).map(|n| format!("{n:0>100}")).collect();
    for alpn in BOTH {
        let mut client = running.client(alpn).await;
        let (_, headers, body) = client.get("/large").await;
        assert_eq!((headers["content-length"].to_str().unwrap(), headers.get("vary")), ("300000", None));
        assert!(body == expected.as_bytes());
        let mut zipped = request(Method::GET, "/large", String::new());
        zipped.headers_mut().insert("accept-encoding", "br, gzip;q=0.5".parse().unwrap());
        let (_, headers, body) = client.send(zipped).await;
        assert_eq!(
            (&headers["content-encoding"], &headers["vary"]),
            (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
        );
        assert!(body.len() < 100_000 && !headers.contains_key("content-length"));
        assert!(std::io::read_to_string(GzDecoder::new(&body[..])).unwrap() == expected);
        let mut small = request(Method::GET, "/", String::new());
        small.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
        assert!(!client.send(small).await.1.contains_key("content-encoding"));
        let mut refused = request(Method::GET, "/large", String::new());
        refused.headers_mut().insert("accept-encoding", "gzip;q=0".parse().unwrap());
        assert!(!client.send(refused).await.1.contains_key("content-encoding"));
        let (_, headers, body) = client.send(request(Method::HEAD, "/large", String::new())).await;
        assert_eq!((headers["content-length"].to_str().unwrap(), body.len()), ("300000", 0));
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn panic_fails_one_request() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        let mut client = running.client(alpn).await;
        for path in ["/panic", "/panic-later"] {
            let (code, _, body) = client.get(path).await;
            assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
            assert!(String::from_utf8(body).unwrap().contains(r#""reason":"InternalError""#));
        }
        assert_eq!(client.get("/").await.0, StatusCode::OK);
        // The head may not have been sent; either way the client sees an incomplete response.
        if let Ok(response) = client.open(request(Method::GET, "/stream-panic", String::new())).await {
            assert!(read(response.into_body()).await.is_err());
        }
        assert_eq!(running.client(alpn).await.get("/").await.0, StatusCode::OK);
    }
    assert_eq!(running.counters.panics(), 6);
    assert!(running.finish().await);
}

#[tokio::test]
async fn stream_ends_when_its_client_disconnects() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        let mut client = running.client(alpn).await;
        let response = client.open(request(Method::GET, "/stream", String::new())).await.unwrap();
        let mut body = response.into_body();
        assert_eq!(next(&mut body).await.unwrap().unwrap(), "first");
        drop((body, client));
        running.sample.stream_gone.notified().await;
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn drain_ends_streams_and_finishes_responses() {
    for alpn in BOTH {
        let running = start(Bounds::default()).await;
        let (mut watching, mut waiting) = (running.client(alpn).await, running.client(alpn).await);
        let _idle = running.client(alpn).await;
        let mut stream =
            watching.open(request(Method::GET, "/stream", String::new())).await.unwrap().into_body();
        assert_eq!(next(&mut stream).await.unwrap().unwrap(), "first");
        let waited = tokio::spawn(async move { waiting.get("/wait").await });
        running.sample.entered.notified().await;
        running.stop.send(()).unwrap();
        assert!(read(stream).await.unwrap().is_empty(), "the stream ends well");
        running.sample.release.notify_one();
        let (code, _, body) = waited.await.unwrap();
        assert_eq!((code, &body[..]), (StatusCode::OK, &b"waited"[..]));
        assert!(running.served.await.unwrap(), "every connection is closed");
        assert!(TcpStream::connect(running.address).await.is_err());
    }
}

#[tokio::test]
async fn drain_times_out() {
    let running = start(Bounds::default()).await;
    let mut client = running.client("h2").await;
    let waiting =
        tokio::spawn(async move { client.open(request(Method::GET, "/wait", String::new())).await });
    running.sample.entered.notified().await;
    tokio::time::pause();
    assert!(!running.finish().await);
    assert!(waiting.await.unwrap().is_err());
}

/// Bounds that are reached soon. The handshake timeout allows for a busy machine.
fn short_timeouts() -> Bounds {
    let milliseconds = Duration::from_millis;
    Bounds {
        tick: milliseconds(100),
        body_timeout: milliseconds(200),
        handshake_timeout: milliseconds(1000),
        stall_timeout: milliseconds(300),
        ..Bounds::default()
    }
}

#[tokio::test]
async fn slow_writers_are_disconnected() {
    let running = start(short_timeouts()).await;
    // A connection without a TLS handshake.
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    assert_eq!(silent.read(&mut [0; 16]).await.unwrap(), 0);
    // A connection with half a header.
    let mut half = running.connect("http/1.1", true).await;
    half.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    assert_eq!(half.read(&mut [0; 16]).await.unwrap_or(0), 0);
    // An HTTP/2 connection without a request.
    let mut quiet = running.connect("h2", true).await;
    quiet.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut received = Vec::new();
    let _ = quiet.read_to_end(&mut received).await;
    assert!(running.counters.connections_cut() >= 2);
    // A connection with half a body.
    let mut slow = running.connect("http/1.1", true).await;
    slow.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf").await.unwrap();
    let mut received = Vec::new();
    let _ = slow.read_to_end(&mut received).await;
    let received = String::from_utf8(received).unwrap();
    assert!(received.starts_with("HTTP/1.1 408 ") && received.contains(r#""code":408"#), "{received}");
    assert!(running.finish().await);
}

#[tokio::test]
async fn quiet_watch_is_not_closed() {
    let running = start(short_timeouts()).await;
    for alpn in BOTH {
        let mut client = running.client(alpn).await;
        let mut stream =
            client.open(request(Method::GET, "/stream", String::new())).await.unwrap().into_body();
        next(&mut stream).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(600), next(&mut stream)).await;
        assert!(waited.is_err(), "{alpn}: the watch ended");
    }
    assert!(running.finish().await);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "polls a server over real sockets")]
async fn client_that_does_not_read_is_disconnected() {
    let running = start(short_timeouts()).await;
    let mut greedy = running.connect("http/1.1", true).await;
    for _ in 0..400 {
        if greedy.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.is_err() {
            break;
        }
    }
    // The client reads nothing, and 120 MB exceed all buffers. The write times out, and others are served meanwhile.
    let mut other = running.client("h2").await;
    while greedy.write_all(b"\r\n").await.is_ok() {
        assert_eq!(other.get("/").await.0, StatusCode::OK);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn connections_over_the_limit_are_closed() {
    let running = start(Bounds { connections: 2, ..Bounds::default() }).await;
    let (mut one, mut two) = (running.client("h2").await, running.client("h2").await);
    assert_eq!((one.get("/").await.0, two.get("/").await.0), (StatusCode::OK, StatusCode::OK));
    let mut third = running.connect("h2", true).await;
    assert_eq!(third.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert_eq!(running.counters.connections_refused(), 1);
    assert_eq!(one.get("/").await.0, StatusCode::OK);
    assert!(running.finish().await);
}

#[tokio::test]
async fn headers_are_bounded() {
    let running = start(Bounds::default()).await;
    for alpn in BOTH {
        let mut many = request(Method::GET, "/", String::new());
        for number in 0..HEADERS_MAX + 1 {
            many.headers_mut().append("x-many", number.to_string().parse().unwrap());
        }
        let mut long = request(Method::GET, "/", String::new());
        long.headers_mut().insert("x-long", "x".repeat(HEADER_BYTES_MAX + 1).parse().unwrap());
        for request in [many, long] {
            let response = match running.client(alpn).await.open(request).await {
                Ok(response) => response,
                // The connection may close while the client is still writing, and then it does not read.
                Err(error) => {
                    assert_eq!(alpn, "http/1.1", "{error}");
                    continue;
                }
            };
            assert_eq!(response.status().as_u16(), 431, "{alpn}");
            assert_eq!(response.headers()["content-type"], "application/json", "{alpn}");
            let body = read(response.into_body()).await.unwrap();
            let status = setpoint_api::json::parse(&body).unwrap();
            assert_eq!(status.str_at(&["kind"]), "Status", "{alpn}");
            assert!(status.str_at(&["message"]).contains("header fields"), "{alpn}");
        }
    }
    assert!(running.finish().await);
}

#[tokio::test]
async fn malformed_http_gets_a_status() {
    let running = start(Bounds::default()).await;
    for bad in
        ["not http at all\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n", "GET \u{1} HTTP/1.1\r\n\r\n"]
    {
        let mut stream = running.connect("http/1.1", true).await;
        stream.write_all(bad.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // The server closes the connection without close_notify, which is a read error.
        let _ = stream.read_to_end(&mut response).await;
        let response = String::from_utf8(response).unwrap();
        assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{bad:?}: {response}");
        let body = response.split("\r\n\r\n").nth(1).unwrap();
        assert!(response.contains(&format!("content-length: {}\r\n", body.len())), "{response}");
        let status = setpoint_api::json::parse(body.as_bytes()).unwrap();
        assert_eq!(status.str_at(&["reason"]), "BadRequest");
    }
    assert!(running.finish().await);
}
