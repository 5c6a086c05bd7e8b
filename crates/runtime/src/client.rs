//! Minimal API client for a remote loop.
//!
//! Reads a kubeconfig and keeps one HTTP/2 connection, which it reopens after a failure. It never retries a request
//! by itself: the caller decides. Pings detect a server that stopped responding, so no request waits forever.
//!
//! Start at [`Client::from_kubeconfig`].

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use setpoint_api::{Value, yaml};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of pings on an open connection, and the time for a reply.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Accepted form of a list of which only metadata is read.
pub const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Accepted form of watch events of which only metadata is read.
pub const METADATA_OBJECT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Failure of a request.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The kubeconfig is incomplete or malformed.
    #[error("the kubeconfig {0}")]
    Kubeconfig(String),
    /// The certificates are unusable.
    #[error("invalid certificates in the kubeconfig: {0}")]
    Tls(#[from] rustls::Error),
    /// The server is unreachable.
    #[error("cannot connect to the server at {address}: {source}")]
    Connect {
        /// The server's address.
        address: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The request is malformed.
    #[error("invalid request: {0}")]
    Request(#[from] http::Error),
}

type Sender = http2::SendRequest<FullBody>;

/// A client of one server.
pub struct Client {
    address: String,
    name: ServerName<'static>,
    connector: TlsConnector,
    token: Option<HeaderValue>,
    agent: HeaderValue,
    sender: Mutex<Option<Sender>>,
}

impl Client {
    /// Creates a client for the current context of a kubeconfig, with `agent` as its user agent.
    ///
    /// # Errors
    /// If the kubeconfig is malformed or incomplete.
    pub fn from_kubeconfig(text: &[u8], agent: &str) -> Result<Client, ClientError> {
        let bad = |why: &str| ClientError::Kubeconfig(why.to_owned());
        let (cluster, user) = context(text)?;
        let server = cluster.str_at(&["server"]);
        let address =
            server.strip_prefix("https://").ok_or_else(|| bad("names no server that speaks HTTPS"))?;
        let address = address.trim_end_matches('/');
        let (host, address) = match address.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (host, address.to_owned())
            }
            _ => (address, format!("{address}:443")),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| bad("has an invalid server name"))?;
        let token = match user.str_at(&["token"]) {
            "" => None,
            token => Some(
                HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| bad("has a token that is none"))?,
            ),
        };
        let connector = TlsConnector::from(Arc::new(tls(&cluster, &user)?));
        let agent = HeaderValue::try_from(agent).map_err(http::Error::from)?;
        Ok(Client { address, name, connector, token, agent, sender: Mutex::new(None) })
    }

    /// CA certificates of a kubeconfig's server, in PEM.
    ///
    /// # Errors
    /// If the kubeconfig is malformed or has none.
    pub fn authority(text: &[u8]) -> Result<String, ClientError> {
        let (cluster, _) = context(text)?;
        let missing = || ClientError::Kubeconfig("has no certificate-authority".to_owned());
        let pem = pem(&cluster, "certificate-authority")?.ok_or_else(missing)?;
        String::from_utf8(pem).map_err(|_| missing())
    }

    /// Sends a request. Returns the response as soon as its headers have arrived.
    ///
    /// # Errors
    /// If the server is unreachable or the connection breaks.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, ClientError> {
        self.send_accepting(method, path, content_type, None, body).await
    }

    /// Sends a request that accepts a form other than plain JSON, as [`Client::send`].
    ///
    /// # Errors
    /// If the server is unreachable or the connection breaks.
    pub async fn send_accepting(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        accept: Option<&'static str>,
        body: Bytes,
    ) -> Result<http::Response<Incoming>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header(ACCEPT, accept.unwrap_or("application/json"))
            .header(USER_AGENT, self.agent.clone());
        if let Some(kind) = content_type {
            request = request.header(CONTENT_TYPE, kind);
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let request = request.body(FullBody::new(body))?;
        let mut sender = self.sender().await?;
        Ok(sender.send_request(request).await?)
    }

    /// Sends a request. Returns the status code and the whole body of the response.
    ///
    /// # Errors
    /// If the server is unreachable or the connection breaks.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&'static str>,
        body: Bytes,
    ) -> Result<(StatusCode, Vec<u8>), ClientError> {
        read(self.send(method, path, content_type, body).await?).await
    }

    /// Sends a GET request. Returns the status code and the whole body of the response.
    ///
    /// # Errors
    /// If the server is unreachable or the connection breaks.
    pub async fn get(
        &self,
        path: &str,
        accept: Option<&'static str>,
    ) -> Result<(StatusCode, Vec<u8>), ClientError> {
        read(self.send_accepting(Method::GET, path, None, accept, Bytes::new()).await?).await
    }

    async fn sender(&self) -> Result<Sender, ClientError> {
        let mut connection_slot = self.sender.lock().await;
        if let Some(sender) = connection_slot.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let failed = |source| ClientError::Connect { address: self.address.clone(), source };
        let connecting = async {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            self.connector.connect(self.name.clone(), stream).await
        };
        // Other requests wait for the same connection.
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = stream.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())).map_err(failed)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await?;
        // The task ends with the connection; pending requests get its error.
        tokio::spawn(connection);
        *connection_slot = Some(sender.clone());
        Ok(sender)
    }
}

/// Reads the whole body of a response.
async fn read(response: http::Response<Incoming>) -> Result<(StatusCode, Vec<u8>), ClientError> {
    let status = response.status();
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(part) = next_chunk(&mut body).await? {
        bytes.extend_from_slice(&part);
    }
    Ok((status, bytes))
}

/// Returns the next chunk of a body; `None` at its end.
///
/// # Errors
/// If the connection breaks.
pub async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, ClientError> {
    loop {
        let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context)).await;
        match frame.transpose()?.map(http_body::Frame::into_data) {
            None => return Ok(None),
            Some(Ok(data)) => return Ok(Some(data)),
            // Trailers are ignored.
            Some(Err(_)) => {}
        }
    }
}

/// Returns the cluster and the user of a kubeconfig's current context.
fn context(text: &[u8]) -> Result<(Value, Value), ClientError> {
    let bad = |error| ClientError::Kubeconfig(format!("is not valid YAML: {error}"));
    let (config, _) = yaml::parse_strict(text).map_err(bad)?;
    let named = |list: &str, name: &str, part: &str| {
        let list = config.get(list).and_then(Value::as_list).unwrap_or_default();
        let found = list.iter().find(|entry| entry.str_at(&["name"]) == name);
        found.and_then(|entry| entry.get(part)).cloned().unwrap_or_default()
    };
    let context = named("contexts", config.str_at(&["current-context"]), "context");
    let cluster = named("clusters", context.str_at(&["cluster"]), "cluster");
    Ok((cluster, named("users", context.str_at(&["user"]), "user")))
}

/// Returns the inline data or the file content of a kubeconfig field.
fn pem(part: &Value, name: &str) -> Result<Option<Vec<u8>>, ClientError> {
    let bad = |why: String| ClientError::Kubeconfig(why);
    let (data, file) = (part.str_at(&[&format!("{name}-data")]), part.str_at(&[name]));
    match (data, file) {
        ("", "") => Ok(None),
        ("", file) => std::fs::read(file).map(Some).map_err(|error| bad(format!("names {file}: {error}"))),
        (data, _) => {
            STANDARD.decode(data).map(Some).map_err(|error| bad(format!("has a bad {name}: {error}")))
        }
    }
}

fn tls(cluster: &Value, user: &Value) -> Result<rustls::ClientConfig, ClientError> {
    let bad = |why: String| ClientError::Kubeconfig(why);
    let unreadable =
        |error: rustls::pki_types::pem::Error| bad(format!("has a certificate that is none: {error}"));
    let certificates = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let mut roots = rustls::RootCertStore::empty();
    let authority = pem(cluster, "certificate-authority")?
        .ok_or_else(|| bad("has no certificate-authority".to_owned()))?;
    for certificate in certificates(&authority).map_err(unreadable)? {
        roots.add(certificate)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match (pem(user, "client-certificate")?, pem(user, "client-key")?) {
        (Some(chain), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(unreadable)?;
            config.with_client_auth_cert(certificates(&chain).map_err(unreadable)?, key)?
        }
        _ => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// A request body in one piece.
pub struct FullBody(Option<Bytes>);

impl FullBody {
    /// The body of these bytes.
    #[must_use]
    pub fn new(bytes: Bytes) -> FullBody {
        FullBody(Some(bytes))
    }
}

impl http_body::Body for FullBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut FullBody>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::convert::Infallible>>> {
        let body = self.0.take().filter(|body| !body.is_empty());
        std::task::Poll::Ready(body.map(|body| Ok(http_body::Frame::data(body))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0.as_ref().map_or(0, |body| body.len() as u64))
    }
}

/// Encodes a text as the value of a query parameter.
#[must_use]
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
