//! TLS configuration, and identities of client certificates.
//!
//! As upstream does, the handshake accepts certificates of any CA, so that the client gets a readable error instead of
//! a TLS alert. That is safe because the handshake only proves possession of the key:
//! [`ClientCertificate::proof`], the only source of identities, verifies the certificate against the CAs for clients.

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

use crate::exchange::CertificateProof;
use setpoint_authentication::certificate;
use setpoint_authentication::user::with_authenticated_group;
use setpoint_pki::certs::Pki;
use setpoint_pki::x509::validity;

/// Time after which the certificate of an open connection is verified again.
const VERIFIED_FOR: Duration = Duration::from_secs(60);
/// Maximum number of cached verifications.
const VERIFICATIONS_MAX: usize = 1024;

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

/// CA certificates in PEM that clients are verified with, beside the cluster CA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTrust {
    /// CAs of users; may be empty.
    pub client_ca: Vec<u8>,
    /// CAs of authenticating proxies; empty if there are none.
    pub proxy_ca: Vec<u8>,
}

/// TLS configuration of the server. Certificates can be replaced at any time.
pub struct Tls {
    state: RwLock<TlsState>,
    /// Certificates and CAs of the state.
    inputs: RwLock<(Pki, ClientTrust)>,
}

/// Configuration of a new connection.
#[derive(Clone)]
pub(super) struct TlsState {
    pub acceptor: TlsAcceptor,
    /// Verifies certificates of users.
    verifier: Arc<dyn ClientCertVerifier>,
    /// Verifies certificates of authenticating proxies.
    proxy_verifier: Option<Arc<dyn ClientCertVerifier>>,
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
        let proof = self.proof(chain, now);
        let expires = chain.first().and_then(|leaf| validity(leaf)).map(|(_, end)| end.0 / 1_000_000);
        let expires = expires.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(now);
        let valid_until = expires.min(now.saturating_add(VERIFIED_FOR.as_secs()));
        let verified = Verification { verified_at: now, valid_until, proof };
        if let Some(leaf) = leaf.filter(|_| verified.is_valid()) {
            let mut verifications = self.verifications.lock();
            if verifications.len() >= VERIFICATIONS_MAX {
                verifications.clear();
            }
            verifications.insert(leaf.as_ref().into(), verified.clone());
        }
        verified
    }

    /// Verifies a chain: it must be signed by a CA for clients, for client authentication, and valid now. One that is
    /// signed by the CA for proxies is that of a proxy.
    fn proof(&self, chain: &[CertificateDer<'_>], now: u64) -> CertificateProof {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return CertificateProof { identity: Ok(None), proxy: None };
        };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let verified =
            |verifier: &Arc<dyn ClientCertVerifier>| verifier.verify_client_cert(leaf, intermediates, now);
        let identity = verified(&self.verifier).map_err(|error| error.to_string()).and_then(|_| {
            let identity = certificate::identity(leaf).map_err(|error| error.to_string())?;
            Ok(identity.map(with_authenticated_group))
        });
        if let Err(error) = &identity {
            tracing::debug!(error, "client certificate rejected");
        }
        let is_proxy = self.proxy_verifier.as_ref().is_some_and(|verifier| verified(verifier).is_ok());
        CertificateProof { identity, proxy: is_proxy.then(|| certificate::common_name(leaf)) }
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
    proof: CertificateProof,
}

impl Verification {
    /// `true` if the certificate proves anything.
    fn is_valid(&self) -> bool {
        matches!(self.proof.identity, Ok(Some(_))) || self.proof.proxy.is_some()
    }

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

    /// Returns what the certificate proves at this time.
    pub fn proof(&self, now: u64) -> CertificateProof {
        let mut verified = self.verified.lock();
        if !verified.holds_at(now) {
            *verified = self.tls.verified(&self.chain, now);
        }
        verified.proof.clone()
    }

    /// `true` if the certificate is valid at this time.
    pub fn is_valid(&self, now: u64) -> bool {
        let proof = self.proof(now);
        matches!(proof.identity, Ok(Some(_))) || proof.proxy.is_some()
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
        Tls::with_trust(pki, ClientTrust::default())
    }

    /// Uses the serving certificate, and verifies clients against its CA and these.
    ///
    /// # Errors
    /// If a certificate is unusable.
    pub fn with_trust(pki: &Pki, trust: ClientTrust) -> Result<Tls, TlsError> {
        let state = RwLock::new(build_state(pki, &trust)?);
        Ok(Tls { state, inputs: RwLock::new((pki.clone(), trust)) })
    }

    /// Replaces the trusted CAs for new connections; open connections keep the old ones.
    ///
    /// # Errors
    /// If a certificate is unusable.
    pub fn set_trust(&self, trust: ClientTrust) -> Result<(), TlsError> {
        let mut inputs = self.inputs.write();
        *self.state.write() = build_state(&inputs.0, &trust)?;
        inputs.1 = trust;
        Ok(())
    }

    /// Replaces the certificates for new connections; open connections keep the old ones.
    ///
    /// # Errors
    /// If a certificate is unusable.
    pub fn replace(&self, pki: &Pki) -> Result<(), TlsError> {
        let mut inputs = self.inputs.write();
        *self.state.write() = build_state(pki, &inputs.1)?;
        inputs.0 = pki.clone();
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

/// Verifier of clients whose certificates one of these CAs has signed.
fn client_verifier(
    cas: &[&[u8]],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for pem in cas {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate?)?;
        }
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    Ok(builder.allow_unauthenticated().build()?)
}

fn build_state(pki: &Pki, trust: &ClientTrust) -> Result<TlsState, TlsError> {
    let provider = Arc::new(provider());
    let verifier = client_verifier(&[pki.ca.certificate.as_bytes(), &trust.client_ca], &provider)?;
    let proxy_ca = Some(&trust.proxy_ca[..]).filter(|ca| !ca.is_empty());
    let proxy_verifier = proxy_ca.map(|ca| client_verifier(&[ca], &provider)).transpose()?;
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
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Ok(TlsState { acceptor, verifier, proxy_verifier, verifications: Arc::default() })
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
