//! Keep-alive connections to webhooks, by endpoint and CA.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use setpoint_runtime::client::FullBody;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::client::CallError;
use super::endpoint::{EndpointAddress, WebhookEndpoint};

/// Idle connections of one endpoint, as upstream's client keeps them.
const IDLE_PER_ENDPOINT_MAX: usize = 25;
/// Endpoints with idle connections.
const ENDPOINTS_MAX: usize = 256;
/// TLS configurations that are kept, one per CA bundle and credentials.
const TLS_CONFIGS_MAX: usize = 256;
/// Time after which an idle connection is not used again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// CA certificates of the system, the first file that exists.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Address, server name, CA bundle and fingerprint of the credentials of an endpoint.
type PoolKey = (String, String, Bytes, [u8; 32]);
/// CA bundle, and fingerprint of the credentials.
type TlsKey = (Bytes, [u8; 32]);

/// An open connection.
pub(super) struct PooledConnection {
    pub sender: http1::SendRequest<FullBody>,
    /// `true` if another call used it before.
    pub is_reused: bool,
}

struct IdleConnection {
    sender: http1::SendRequest<FullBody>,
    since: Instant,
}

/// Pool of connections.
#[derive(Default)]
pub(super) struct ConnectionPool {
    idle: Mutex<BTreeMap<PoolKey, Vec<IdleConnection>>>,
    tls_configs: Mutex<BTreeMap<TlsKey, Arc<ClientConfig>>>,
}

fn pool_key(endpoint: &WebhookEndpoint) -> PoolKey {
    let address = match &endpoint.address {
        EndpointAddress::Name(host, port) => format!("{host}:{port}"),
        EndpointAddress::Socket(address) => address.to_string(),
    };
    (address, endpoint.server_name.clone(), endpoint.ca_bundle.clone(), fingerprint(endpoint))
}

/// Fingerprint of the credentials of an endpoint; zeros without any.
fn fingerprint(endpoint: &WebhookEndpoint) -> [u8; 32] {
    endpoint.credentials.as_ref().map_or([0; 32], |credentials| credentials.fingerprint())
}

impl ConnectionPool {
    /// Returns an idle connection to the endpoint, or opens one.
    pub(super) async fn connect(
        &self,
        endpoint: &WebhookEndpoint,
        must_be_new: bool,
    ) -> Result<PooledConnection, CallError> {
        if !must_be_new && let Some(sender) = self.take_idle(endpoint) {
            return Ok(PooledConnection { sender, is_reused: true });
        }
        let config = self.tls_config(endpoint)?;
        let stream = open_stream(endpoint).await?;
        let name = ServerName::try_from(endpoint.server_name.clone())
            .map_err(|_| CallError::Tls(format!("tls: invalid server name {}", endpoint.server_name)))?;
        let stream =
            TlsConnector::from(config).connect(name, stream).await.map_err(|error| tls_error(&error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| CallError::Http(error.to_string()))?;
        // The task ends with the connection; a pending request gets its error.
        tokio::spawn(connection);
        Ok(PooledConnection { sender, is_reused: false })
    }

    #[expect(clippy::disallowed_methods, reason = "sockets live in real time")]
    fn take_idle(&self, endpoint: &WebhookEndpoint) -> Option<http1::SendRequest<FullBody>> {
        let now = Instant::now();
        let mut pools = self.idle.lock();
        let idle = pools.get_mut(&pool_key(endpoint))?;
        while let Some(connection) = idle.pop() {
            if connection.sender.is_ready() && now.duration_since(connection.since) < IDLE_TIMEOUT {
                return Some(connection.sender);
            }
        }
        None
    }

    /// Keeps a connection whose response was read, unless the server closes it.
    #[expect(clippy::disallowed_methods, reason = "sockets live in real time")]
    pub(super) fn release(&self, endpoint: &WebhookEndpoint, connection: PooledConnection) {
        if connection.sender.is_closed() {
            return;
        }
        let now = Instant::now();
        let mut pools = self.idle.lock();
        let is_fresh =
            |one: &IdleConnection| !one.sender.is_closed() && now.duration_since(one.since) < IDLE_TIMEOUT;
        pools.retain(|_, idle| {
            idle.retain(is_fresh);
            !idle.is_empty()
        });
        let key = pool_key(endpoint);
        if pools.len() >= ENDPOINTS_MAX && !pools.contains_key(&key) {
            return;
        }
        let idle = pools.entry(key).or_default();
        if idle.len() < IDLE_PER_ENDPOINT_MAX {
            idle.push(IdleConnection { sender: connection.sender, since: now });
        }
    }

    fn tls_config(&self, endpoint: &WebhookEndpoint) -> Result<Arc<ClientConfig>, CallError> {
        let key = (endpoint.ca_bundle.clone(), fingerprint(endpoint));
        if let Some(config) = self.tls_configs.lock().get(&key) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(build_config(endpoint)?);
        let mut configs = self.tls_configs.lock();
        if configs.len() >= TLS_CONFIGS_MAX {
            configs.clear();
        }
        configs.insert(key, Arc::clone(&config));
        Ok(config)
    }
}

fn build_config(endpoint: &WebhookEndpoint) -> Result<ClientConfig, CallError> {
    let ca_bundle = &endpoint.ca_bundle;
    let mut roots = RootCertStore::empty();
    if ca_bundle.is_empty() {
        let system = SYSTEM_ROOTS.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
        let certificates = CertificateDer::pem_slice_iter(&system).filter_map(Result::ok);
        roots.add_parsable_certificates(certificates);
    } else {
        // As upstream does, text that is not a certificate is skipped, but one certificate must be usable.
        let certificates = CertificateDer::pem_slice_iter(ca_bundle).filter_map(Result::ok);
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(CallError::Roots("unable to parse bytes as PEM block".to_owned()));
        }
    }
    let unusable = |error: rustls::Error| CallError::Roots(error.to_string());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots);
    let certificate = endpoint.credentials.as_ref().and_then(|credentials| credentials.certificate());
    let mut config = match certificate {
        Some((chain, key)) => config
            .with_client_auth_cert(chain, key)
            .map_err(|error| CallError::Tls(format!("tls: client certificate: {error}")))?,
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn open_stream(endpoint: &WebhookEndpoint) -> Result<TcpStream, CallError> {
    let (address, opened) = match &endpoint.address {
        EndpointAddress::Socket(address) => (address.to_string(), TcpStream::connect(address).await),
        EndpointAddress::Name(host, port) => {
            let resolved = tokio::net::lookup_host((host.as_str(), *port)).await;
            let addresses: Vec<_> = resolved.map(Iterator::collect).unwrap_or_default();
            let Some(first) = addresses.first() else { return Err(CallError::Resolve(host.clone())) };
            (first.to_string(), TcpStream::connect(&addresses[..]).await)
        }
    };
    let stream = opened.map_err(|error| CallError::Connect { address, why: connect_text(&error) })?;
    // A small request should not wait for the acknowledgment of the one before.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Text of Go's net package.
fn connect_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => format!("connect: {error}"),
    }
}

fn tls_error(error: &io::Error) -> CallError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let verify = |why: &str| CallError::Tls(format!("tls: failed to verify certificate: x509: {why}"));
    match cause {
        Some(rustls::Error::InvalidCertificate(fault)) => match fault {
            CertificateError::UnknownIssuer => verify("certificate signed by unknown authority"),
            CertificateError::Expired
            | CertificateError::NotValidYet
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYetContext { .. } => {
                verify(&format!("certificate has expired or is not yet valid: {fault}"))
            }
            other => verify(&other.to_string()),
        },
        Some(other) => CallError::Tls(format!("tls: {other}")),
        None if error.kind() == io::ErrorKind::UnexpectedEof => CallError::Closed,
        None => CallError::Http(error.to_string()),
    }
}
