//! Extension API server of the tests: accepts only clients with a certificate of the front-proxy CA.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONNECTION, LOCATION, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use setpoint_pki::certs::Pki;
use tokio::io::copy;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request body in one piece.
pub struct FullBody(pub Bytes);

impl Body for FullBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

/// A response body that a channel feeds.
pub struct ChannelBody(mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.poll_recv(context).map(|next| next.map(|next| next.map(Frame::data)))
    }
}

/// Reports the end of a request when it is dropped.
struct Ended(&'static str, mpsc::UnboundedSender<&'static str>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

struct State {
    ended: mpsc::UnboundedSender<&'static str>,
    connections: AtomicUsize,
    paths: watch::Sender<Vec<String>>,
}

/// A running extension API server.
pub struct Extension {
    pub address: SocketAddr,
    /// CA certificate in PEM.
    pub ca: String,
    state: Arc<State>,
    ended: mpsc::UnboundedReceiver<&'static str>,
    serving: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Extension {
    /// Starts a server that offers one protocol.
    pub async fn start(pki: &Pki, alpn: &str) -> Extension {
        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(params, ca_key);
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["things.default.svc".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &issuer).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(pki.front_proxy_ca.certificate.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![leaf.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, ended) = mpsc::unbounded_channel();
        let paths = watch::channel(Vec::new()).0;
        let state = Arc::new(State { ended: sender, connections: AtomicUsize::new(0), paths });
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(accept(listener, acceptor, Arc::clone(&state), stopped));
        Extension { address, ca: ca.pem(), state, ended, serving, stop }
    }

    /// The CA of the server, as in an APIService.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca)
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the next request that ended early.
    pub async fn ended(&mut self) -> &'static str {
        self.ended.recv().await.unwrap()
    }

    /// Waits for a request with this path.
    pub async fn wait_for_path(&self, path: &str) {
        let mut paths = self.state.paths.subscribe();
        paths.wait_for(|paths| paths.iter().any(|one| one == path)).await.unwrap();
    }

    /// Returns the paths of all requests so far.
    pub fn paths(&self) -> Vec<String> {
        self.state.paths.borrow().clone()
    }

    /// Stops the server and its connections.
    pub async fn kill(&self) {
        self.serving.abort();
        self.stop.send_replace(true);
        self.stop.closed().await;
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    state: Arc<State>,
    stopped: watch::Receiver<bool>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, state, mut stopped) = (acceptor.clone(), Arc::clone(&state), stopped.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            state.connections.fetch_add(1, Ordering::SeqCst);
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let service = service_fn(move |request| handle(Arc::clone(&state), request));
            let io = TokioIo::new(stream);
            let serving = async {
                if is_http2 {
                    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
                } else {
                    let _ = http1::Builder::new().serve_connection(io, service).with_upgrades().await;
                }
            };
            tokio::select! {
                () = serving => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        });
    }
}

fn respond(code: u16, body: impl Into<Bytes>) -> Response<ChannelBody> {
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(Ok(body.into())).unwrap();
    let mut response = Response::new(ChannelBody(receiver));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

/// The headers that carry an identity.
fn identity(headers: &HeaderMap) -> String {
    let values = |name: &str| {
        let values: Vec<&str> = headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        format!("{name}=[{}]", values.join(","))
    };
    let is_other =
        |name: &&str| name.starts_with("x-remote-") && !["x-remote-user", "x-remote-group"].contains(name);
    let others: Vec<&str> = headers.keys().map(|name| name.as_str()).filter(is_other).collect();
    let known = ["authorization", "x-remote-user", "x-remote-group"].map(values);
    format!("{} others=[{}]", known.join(" "), others.join(","))
}

async fn handle(
    state: Arc<State>,
    mut request: Request<Incoming>,
) -> Result<Response<ChannelBody>, Infallible> {
    let path = request.uri().path().to_owned();
    state.paths.send_modify(|paths| paths.push(path.clone()));
    let last = path.rsplit('/').next().unwrap_or_default();
    Ok(match (request.method(), last) {
        (&Method::POST, "things") => {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(async move {
                let body = request.body_mut();
                while let Some(frame) =
                    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
                {
                    sender.send(Ok(frame.unwrap().into_data().unwrap())).await.unwrap();
                }
            });
            let mut response = Response::new(ChannelBody(receiver));
            *response.status_mut() = StatusCode::CREATED;
            response
        }
        (_, "things") => {
            let (sender, receiver) = mpsc::channel(1);
            sender.try_send(Ok(Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{}}\n"))).unwrap();
            let ended = Ended("watch", state.ended.clone());
            tokio::spawn(async move {
                sender.closed().await;
                drop(ended);
            });
            Response::new(ChannelBody(receiver))
        }
        (_, "echo") => respond(200, echo(&mut request).await),
        (_, "who") => respond(200, identity(request.headers())),
        (_, "hang") => {
            state.ended.send("hang began").unwrap();
            let _ended = Ended("hang", state.ended.clone());
            std::future::pending().await
        }
        (_, "die") => {
            let (sender, receiver) = mpsc::channel(2);
            sender.try_send(Ok(Bytes::from_static(b"part"))).unwrap();
            let mut paths = state.paths.subscribe();
            paths.mark_unchanged();
            tokio::spawn(async move {
                // The next request is sent when the client has read the part.
                paths.changed().await.unwrap();
                sender.send(Err(std::io::Error::other("died"))).await.unwrap();
            });
            Response::new(ChannelBody(receiver))
        }
        (_, "redirect") => {
            let mut response = respond(302, "");
            response.headers_mut().insert(LOCATION, "https://elsewhere.example".parse().unwrap());
            response
        }
        (_, "tunnel") => {
            let upgrading = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgrading.await.unwrap()));
                let _ = copy(&mut reader, &mut writer).await;
            });
            let (_, receiver) = mpsc::channel(1);
            let mut response = Response::new(ChannelBody(receiver));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(CONNECTION, "Upgrade".parse().unwrap());
            response.headers_mut().insert(UPGRADE, "websocket".parse().unwrap());
            response
        }
        _ => document(&path),
    })
}

/// The request as it arrived: method, target, content type and body.
async fn echo(request: &mut Request<Incoming>) -> String {
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| Pin::new(request.body_mut()).poll_frame(context)).await
    {
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
    }
    let content_type = request.headers().get("content-type").map_or("", |value| value.to_str().unwrap());
    let target = request.uri().path_and_query().unwrap();
    format!("{} {target} {content_type} {}", request.method(), String::from_utf8(bytes).unwrap())
}

fn document(path: &str) -> Response<ChannelBody> {
    let text = match path {
        "/apis/things.example.com/v1" => {
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"things.example.com/v1","resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get","list"],"shortNames":["th"]},{"name":"things/status","singularName":"","namespaced":true,"kind":"Thing","verbs":["get"]}]}"#
        }
        "/openapi/v3" => {
            r#"{"paths":{"apis/things.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/things.example.com/v1?hash=ABC"}}}"#
        }
        "/openapi/v3/apis/things.example.com/v1" => r#"{"openapi":"3.0.0"}"#,
        "/openapi/v2" => {
            r#"{"swagger":"2.0","paths":{"/apis/things.example.com/v1/things":{"get":{}},"/version/":{"get":{}}},"definitions":{"example.Thing":{"type":"object"}}}"#
        }
        "/apis/metrics.k8s.io/v1beta1/nodes" => r#"{"kind":"NodeMetricsList","items":[]}"#,
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/requests" => {
            r#"{"items":[{"describedObject":{"kind":"Pod","name":"web-1"},"timestamp":"2027-01-15T08:00:00Z","value":"1500m"}]}"#
        }
        _ => return respond(404, "404 page not found\n"),
    };
    respond(200, text)
}
