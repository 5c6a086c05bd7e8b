//! Connections to extension API servers: kept alive, HTTP/2 if the server offers it, HTTP/1.1 otherwise.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use setpoint_pki::certs::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::registry::RemoteApiService;
use super::tls::{self, BackendTlsError};

/// Time to connect, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Endpoints that are tried until one accepts a connection.
const ATTEMPTS_MAX: usize = 3;
/// Idle HTTP/1.1 connections that are kept for one APIService.
const IDLE_CONNECTIONS_MAX: usize = 16;
/// Header bytes of a response; a server that sends more is cut off.
const RESPONSE_HEADER_BYTES_MAX: u32 = 256 * 1024;
/// Buffered bytes of an HTTP/1.1 connection.
const BUFFER_BYTES_MAX: usize = 512 * 1024;
/// Interval of pings on an HTTP/2 connection with requests in flight, and the time for a reply.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Failure to get a response from an extension API server.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// TLS cannot be configured.
    #[error(transparent)]
    Tls(#[from] Arc<BackendTlsError>),
    /// No endpoint accepts a connection.
    #[error("dial tcp {address}: {source}")]
    Connect {
        /// The last endpoint that was tried.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The connection broke.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// The request cannot be sent.
    #[error("invalid request: {0}")]
    Request(#[from] http::Error),
}

/// Body of a forwarded request.
pub enum ForwardedBody {
    /// A body in memory.
    Whole(Bytes),
    /// The body of the client's request, not read yet.
    Streamed(Incoming),
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            ForwardedBody::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            ForwardedBody::Streamed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ForwardedBody::Whole(bytes) => bytes.is_empty(),
            ForwardedBody::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ForwardedBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ForwardedBody::Streamed(body) => body.size_hint(),
        }
    }
}

type Http1 = http1::SendRequest<ForwardedBody>;
type Http2 = http2::SendRequest<ForwardedBody>;

/// Connections to the server of one APIService.
pub(super) struct Backend {
    /// The APIService without its status, by which a change is detected.
    spec: RemoteApiService,
    authority: Authority,
    name: ServerName<'static>,
    /// Offers HTTP/2 and HTTP/1.1.
    connector: TlsConnector,
    /// Offers HTTP/1.1 alone, for upgrades.
    http1_connector: TlsConnector,
    /// Idle connections by address, the oldest first.
    idle: Mutex<Vec<(String, Http1)>>,
    multiplexed: Mutex<BTreeMap<String, Http2>>,
    /// Requests so far, which spreads them over the endpoints.
    turn: AtomicUsize,
}

/// HTTP/1.1 connection that returns to its backend when the response has been read.
pub(super) struct ConnectionLease {
    backend: Arc<Backend>,
    address: String,
    sender: Http1,
}

impl ConnectionLease {
    /// Keeps the connection for other requests.
    pub fn give_back(self) {
        let ConnectionLease { backend, address, sender } = self;
        if sender.is_closed() {
            return;
        }
        let mut idle = backend.idle.lock();
        if idle.len() >= IDLE_CONNECTIONS_MAX {
            idle.remove(0);
        }
        idle.push((address, sender));
    }
}

impl Backend {
    /// Creates a backend without a connection.
    pub fn new(
        service: &RemoteApiService,
        identity: Option<&CertifiedKey>,
    ) -> Result<Backend, BackendTlsError> {
        let name = service.server_name();
        let authority = format!("{name}:{}", service.port);
        let authority = Authority::try_from(authority).map_err(|_| invalid_name(&name))?;
        let connector = |alpn: &[&[u8]]| -> Result<TlsConnector, BackendTlsError> {
            Ok(TlsConnector::from(Arc::new(tls::config(service, identity, alpn)?)))
        };
        Ok(Backend {
            spec: RemoteApiService { is_available: true, ..service.clone() },
            authority,
            name: ServerName::try_from(name.clone()).map_err(|_| invalid_name(&name))?,
            connector: connector(&[b"h2", b"http/1.1"])?,
            http1_connector: connector(&[b"http/1.1"])?,
            idle: Mutex::default(),
            multiplexed: Mutex::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// `true` if connections to this backend serve the APIService.
    pub fn is_for(&self, service: &RemoteApiService) -> bool {
        self.spec == RemoteApiService { is_available: true, ..service.clone() }
    }

    /// Sends a request to one of the addresses. Returns the response as soon as its head has arrived, and the
    /// connection unless others use it too.
    pub async fn send(
        self: &Arc<Backend>,
        addresses: &[String],
        mut request: Request<ForwardedBody>,
    ) -> Result<(Response<Incoming>, Option<ConnectionLease>), BackendError> {
        // A kept connection may be closed by the server at this moment; the request then returns unsent.
        for _ in 0..ATTEMPTS_MAX {
            let Some(connection) = self.kept_connection(addresses) else { break };
            match self.send_on(connection, request).await {
                Ok(response) => return Ok(response),
                Err((Some(unsent), _)) => request = unsent,
                Err((None, error)) => return Err(error),
            }
        }
        let connection = self.connect(addresses).await?;
        self.send_on(connection, request).await.map_err(|(_, error)| error)
    }

    /// Sends a request that asks for an upgrade, on a connection of its own.
    pub async fn send_upgrade(
        &self,
        addresses: &[String],
        mut request: Request<ForwardedBody>,
    ) -> Result<Response<Incoming>, BackendError> {
        let (_, stream) = self.dial(addresses, &self.http1_connector).await?;
        let (mut sender, connection) = http1_builder().handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        self.address_http1(&mut request)?;
        Ok(sender.send_request(request).await?)
    }

    fn kept_connection(&self, addresses: &[String]) -> Option<BackendConnection> {
        let mut multiplexed = self.multiplexed.lock();
        multiplexed.retain(|_, sender| !sender.is_closed());
        let count = multiplexed.len().max(1);
        let at = self.turn.fetch_add(1, Ordering::Relaxed) % count;
        let mut usable = multiplexed.iter().filter(|(address, _)| addresses.contains(address));
        if let Some((_, sender)) = usable.nth(at.min(count - 1)) {
            return Some(BackendConnection::Http2(sender.clone()));
        }
        drop(multiplexed);
        let mut idle = self.idle.lock();
        idle.retain(|(address, sender)| !sender.is_closed() && addresses.contains(address));
        let at = idle.iter().rposition(|(_, sender)| sender.is_ready())?;
        let (address, sender) = idle.remove(at);
        Some(BackendConnection::Http1(address, sender))
    }

    async fn connect(&self, addresses: &[String]) -> Result<BackendConnection, BackendError> {
        let (address, stream) = self.dial(addresses, &self.connector).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_header_list_size(RESPONSE_HEADER_BYTES_MAX)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_INTERVAL);
            let (sender, connection) = builder.handshake(io).await?;
            tokio::spawn(connection);
            self.multiplexed.lock().insert(address, sender.clone());
            return Ok(BackendConnection::Http2(sender));
        }
        let (sender, connection) = http1_builder().handshake(io).await?;
        tokio::spawn(connection);
        Ok(BackendConnection::Http1(address, sender))
    }

    /// Connects to the first of the addresses that accepts, from a rotating start.
    async fn dial(
        &self,
        addresses: &[String],
        connector: &TlsConnector,
    ) -> Result<(String, TlsStream<TcpStream>), BackendError> {
        let start = self.turn.load(Ordering::Relaxed);
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let mut tried = String::new();
        for at in 0..addresses.len().min(ATTEMPTS_MAX) {
            let address = &addresses[(start + at) % addresses.len()];
            let connecting = async {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                connector.connect(self.name.clone(), stream).await
            };
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(stream)) => return Ok((address.clone(), stream)),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = io::Error::new(io::ErrorKind::TimedOut, "i/o timeout"),
            }
            tried.clone_from(address);
        }
        Err(BackendError::Connect { address: tried, source: failure })
    }

    /// Sends a request on a connection. An error has the request if it was not sent.
    async fn send_on(
        self: &Arc<Backend>,
        connection: BackendConnection,
        mut request: Request<ForwardedBody>,
    ) -> Result<(Response<Incoming>, Option<ConnectionLease>), (Option<Request<ForwardedBody>>, BackendError)>
    {
        match connection {
            BackendConnection::Http1(address, mut sender) => {
                self.address_http1(&mut request).map_err(|error| (None, error))?;
                match sender.try_send_request(request).await {
                    Ok(response) => {
                        Ok((response, Some(ConnectionLease { backend: Arc::clone(self), address, sender })))
                    }
                    Err(mut error) => Err((error.take_message(), error.into_error().into())),
                }
            }
            BackendConnection::Http2(mut sender) => {
                self.address_http2(&mut request).map_err(|error| (None, error))?;
                match sender.try_send_request(request).await {
                    Ok(response) => Ok((response, None)),
                    Err(mut error) => Err((error.take_message(), error.into_error().into())),
                }
            }
        }
    }

    /// Sets the request target in origin form, and the host header.
    fn address_http1(&self, request: &mut Request<ForwardedBody>) -> Result<(), BackendError> {
        let target = path_and_query(request.uri());
        *request.uri_mut() = Uri::builder().path_and_query(target).build()?;
        let host = HeaderValue::from_str(self.authority.as_str()).map_err(http::Error::from)?;
        request.headers_mut().insert(HOST, host);
        *request.version_mut() = http::Version::HTTP_11;
        Ok(())
    }

    /// Sets the request target in absolute form.
    fn address_http2(&self, request: &mut Request<ForwardedBody>) -> Result<(), BackendError> {
        let target = path_and_query(request.uri());
        let uri = Uri::builder().scheme(Scheme::HTTPS).authority(self.authority.clone());
        *request.uri_mut() = uri.path_and_query(target).build()?;
        request.headers_mut().remove(HOST);
        *request.version_mut() = http::Version::HTTP_2;
        Ok(())
    }
}

/// A connection that is ready for a request.
enum BackendConnection {
    Http1(String, Http1),
    Http2(Http2),
}

fn invalid_name(name: &str) -> BackendTlsError {
    BackendTlsError::Rustls(rustls::Error::General(format!("invalid server name {name}")))
}

fn path_and_query(uri: &Uri) -> PathAndQuery {
    uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(BUFFER_BYTES_MAX);
    builder
}
