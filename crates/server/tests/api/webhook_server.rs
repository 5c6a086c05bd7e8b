//! An HTTPS server that plays a webhook: it admits, mutates, denies, converts, hangs, lies and closes early.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use setpoint_api::{Value, json, value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Response to a review.
pub enum HookReply {
    /// An object with the code 200.
    Json(Value),
    /// Bytes instead of a response.
    Raw(Vec<u8>),
    /// No response.
    Hang,
    /// The connection is closed.
    Close,
    /// A body without end.
    Endless,
}

type Behavior = dyn Fn(&Value) -> HookReply + Send + Sync;

/// A running webhook.
pub struct HookServer {
    pub url: String,
    /// Certificate in PEM, encoded for `caBundle`.
    pub ca_bundle: String,
    state: Arc<HookState>,
    _runtime: Runtime,
}

struct HookState {
    behavior: Box<Behavior>,
    reviews: Mutex<Vec<Value>>,
    received: watch::Sender<usize>,
    connections: AtomicUsize,
}

impl HookServer {
    /// Starts a webhook on loopback.
    pub fn start(behavior: impl Fn(&Value) -> HookReply + Send + Sync + 'static) -> HookServer {
        let names = vec!["127.0.0.1".to_owned(), "hook.default.svc".to_owned()];
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://{}/check", listener.local_addr().unwrap());
        let state = Arc::new(HookState {
            behavior: Box::new(behavior),
            reviews: Mutex::default(),
            received: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&serving), acceptor.clone(), stream));
            }
        });
        HookServer { url, ca_bundle: STANDARD.encode(certificate.pem()), state, _runtime: runtime }
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.url.rsplit_once(':').unwrap().1.trim_end_matches("/check").parse().unwrap()
    }

    /// Requests of all reviews so far.
    pub fn requests(&self) -> Vec<Value> {
        self.state.reviews.lock().iter().map(|review| review.get("request").unwrap().clone()).collect()
    }

    /// All reviews so far.
    pub fn reviews(&self) -> Vec<Value> {
        self.state.reviews.lock().clone()
    }

    /// Connections that were accepted.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Waits until a review has arrived.
    pub fn received(&self) -> impl Future<Output = ()> + use<> {
        let mut received = self.state.received.subscribe();
        async move {
            received.wait_for(|count| *count > 0).await.unwrap();
        }
    }
}

async fn serve(state: Arc<HookState>, acceptor: TlsAcceptor, stream: TcpStream) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    state.connections.fetch_add(1, Ordering::SeqCst);
    let mut buffer = Vec::new();
    loop {
        let Some(review) = next_review(&mut stream, &mut buffer).await else { return };
        let reply = (state.behavior)(&review);
        state.reviews.lock().push(review);
        state.received.send_modify(|count| *count += 1);
        let sent = match reply {
            HookReply::Json(body) => {
                let body = json::to_text(&body);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(text.as_bytes()).await
            }
            HookReply::Raw(bytes) => stream.write_all(&bytes).await,
            HookReply::Close => return,
            HookReply::Hang => std::future::pending().await,
            HookReply::Endless => {
                let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                while sent.is_ok() {
                    sent = stream.write_all(&[b' '; 65536]).await;
                }
                sent
            }
        };
        if sent.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// Reads the next review; `None` at the end of the connection.
async fn next_review(stream: &mut (impl AsyncReadExt + Unpin), buffer: &mut Vec<u8>) -> Option<Value> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let total = end + 4 + length.unwrap_or("0").trim().parse::<usize>().unwrap();
            if buffer.len() >= total {
                let review = json::parse(&buffer[end + 4..total]).unwrap();
                buffer.drain(..total);
                return Some(review);
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// A response to a review with further fields.
pub fn respond(review: &Value, mut response: Value) -> HookReply {
    let uid = review.str_at(&["request", "uid"]).to_owned();
    response.make_map().insert("uid", uid);
    HookReply::Json(
        value!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": (response)}),
    )
}

/// A response to a ConversionReview: each object converted to the requested version.
pub fn convert_objects(review: &Value, convert: impl Fn(&Value, &str) -> Value) -> HookReply {
    let request = review.get("request").unwrap();
    let api_version = request.str_at(&["desiredAPIVersion"]);
    let objects = request.get("objects").and_then(Value::as_list).unwrap();
    let objects: Vec<Value> = objects.iter().map(|object| convert(object, api_version)).collect();
    respond_conversion(review, value!({"result": {"status": "Success"}, "convertedObjects": (objects)}))
}

/// A response to a ConversionReview with these fields.
pub fn respond_conversion(review: &Value, mut response: Value) -> HookReply {
    let uid = review.str_at(&["request", "uid"]).to_owned();
    response.make_map().insert("uid", uid);
    HookReply::Json(
        value!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": (response)}),
    )
}

/// A response that allows the request.
pub fn allow(review: &Value) -> HookReply {
    respond(review, value!({"allowed": true}))
}

/// A response with a JSON patch.
pub fn patch(review: &Value, operations: &str) -> HookReply {
    let patch = STANDARD.encode(operations);
    respond(review, value!({"allowed": true, "patchType": "JSONPatch", "patch": (patch)}))
}
