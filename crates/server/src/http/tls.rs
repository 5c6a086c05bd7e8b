//! TLS configuration, and identities of client certificates.
//!
//! As upstream does, the handshake accepts certificates of any CA, so that the client gets a readable error instead of
//! a TLS alert. That is safe because the handshake only proves possession of the key:
//! [`ClientCertificate::identity`], the only source of identities, verifies the certificate against the cluster CA.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    version,
};
use tokio_rustls::TlsAcceptor;

use crate::exchange::Identity;
use setpoint_pki::certs::Pki;
use setpoint_pki::x509::{Subject, subject, validity};

/// Time after which the certificate of an open connection is verified again.
const VERIFIED_FOR: Duration = Duration::from_secs(60);
/// Maximum number of cached verifications.
const VERIFICATIONS_MAX: usize = 1024;
/// Group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

/// Failure to configure TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or a key is malformed.
    #[error("cannot read the certificates: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The TLS library rejects them.
    #[error("cannot use the certificates: {0}")]
    Rustls(#[from] rustls::Error),
    /// No client verifier can be built from the CA.
    #[error("cannot verify clients with the CA certificate: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// TLS configuration of the server. Certificates can be replaced at any time.
pub struct Tls {
    state: RwLock<TlsState>,
}

/// Configuration of a new connection.
#[derive(Clone)]
pub(super) struct TlsState {
    pub acceptor: TlsAcceptor,
    verifier: Arc<dyn ClientCertVerifier>,
    /// Certificates that were verified against this authority, shared by all connections: a client that opens many
    /// has its certificate verified once.
    verifications: Arc<Mutex<BTreeMap<Box<[u8]>, Verification>>>,
}

impl TlsState {
    /// Verifies the certificate chain of a client, unless it is cached.
    fn verified(&self, chain: &[CertificateDer<'static>], now: u64) -> Verification {
        // A certificate of an intermediate CA depends on the rest of the chain, so it is not cached.
        let leaf = if let [leaf] = chain { Some(leaf) } else { None };
        let cached = leaf.and_then(|leaf| self.verifications.lock().get(leaf.as_ref()).cloned());
        if let Some(cached) = cached.filter(|cached| cached.holds_at(now)) {
            return cached;
        }
        let identity = self.identity(chain, now);
        let expires = chain.first().and_then(|leaf| validity(leaf)).map(|(_, end)| end.0 / 1_000_000);
        let expires = expires.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(now);
        let valid_until = expires.min(now.saturating_add(VERIFIED_FOR.as_secs()));
        let verified = Verification { verified_at: now, valid_until, identity };
        if let Some(leaf) = leaf.filter(|_| verified.identity.is_some()) {
            let mut verifications = self.verifications.lock();
            if verifications.len() >= VERIFICATIONS_MAX {
                verifications.clear();
            }
            verifications.insert(leaf.as_ref().into(), verified.clone());
        }
        verified
    }

    /// Verifies a chain; `None` unless it is signed by the cluster CA, for client authentication, and valid now.
    fn identity(&self, chain: &[CertificateDer<'_>], now: u64) -> Option<Identity> {
        let (leaf, intermediates) = chain.split_first()?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        match self.verifier.verify_client_cert(leaf, intermediates, now) {
            Ok(_) => identity(leaf),
            Err(error) => {
                tracing::debug!(%error, "client certificate rejected");
                None
            }
        }
    }
}

/// Certificate that a client presented in its handshake. Connections are long-lived, so it is verified again: when it
/// expires, and every [`VERIFIED_FOR`] for the CAs above it.
pub(super) struct ClientCertificate {
    tls: TlsState,
    chain: Vec<CertificateDer<'static>>,
    verified: Mutex<Verification>,
}

/// Result of the last verification. Times are seconds since 1970.
#[derive(Clone)]
struct Verification {
    verified_at: u64,
    valid_until: u64,
    identity: Option<Identity>,
}

impl Verification {
    /// `true` if the certificate need not be verified again. The clock may have been set back, perhaps to before the
    /// certificate is valid.
    fn holds_at(&self, now: u64) -> bool {
        self.verified_at <= now && now <= self.valid_until
    }
}

impl ClientCertificate {
    pub fn new(tls: TlsState, chain: &[CertificateDer<'_>], now: u64) -> ClientCertificate {
        let chain: Vec<_> = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let verified = Mutex::new(tls.verified(&chain, now));
        ClientCertificate { tls, chain, verified }
    }

    /// Returns the identity that the certificate proves at this time.
    pub fn identity(&self, now: u64) -> Option<Identity> {
        let mut verified = self.verified.lock();
        if !verified.holds_at(now) {
            *verified = self.tls.verified(&self.chain, now);
        }
        verified.identity.clone()
    }
}

/// Client verifier that accepts every certificate; only possession of the key is checked. See the module
/// documentation.
#[derive(Debug)]
struct DeferredVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for DeferredVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl Tls {
    /// Uses the serving certificate, and verifies clients against its CA.
    ///
    /// # Errors
    /// If a certificate is unusable.
    pub fn new(pki: &Pki) -> Result<Tls, TlsError> {
        Ok(Tls { state: RwLock::new(build_state(pki)?) })
    }

    /// Replaces the certificates for new connections; open connections keep the old ones.
    ///
    /// # Errors
    /// If a certificate is unusable.
    pub fn replace(&self, pki: &Pki) -> Result<(), TlsError> {
        *self.state.write() = build_state(pki)?;
        Ok(())
    }

    /// Configuration of new connections.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(self.state.read().acceptor.config())
    }

    pub(super) fn state(&self) -> TlsState {
        self.state.read().clone()
    }
}

fn build_state(pki: &Pki) -> Result<TlsState, TlsError> {
    let provider = Arc::new(provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca.certificate.as_bytes())?)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()?;
    let chain = vec![CertificateDer::from_pem_slice(pki.server.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(pki.server.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_client_cert_verifier(Arc::new(DeferredVerifier(Arc::clone(&verifier))))
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    // A resumed session would skip the client certificate, which may have expired.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsState { acceptor: TlsAcceptor::from(Arc::new(config)), verifier, verifications: Arc::default() })
}

/// The library's ciphers, AES-128 before AES-256: it is a quarter cheaper, and both are secure.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        CipherSuite::TLS13_AES_256_GCM_SHA384 | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => 1,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => 2,
        _ => 3,
    });
    provider
}

/// Returns the identity of the holder of a verified certificate: the common name is the user, organizations are groups.
fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let Subject { common_name, mut organizations } = subject(certificate)?;
    organizations.push(AUTHENTICATED.to_owned());
    Some(Identity::new(common_name, organizations))
}
