//! TLS, and who the client's certificate says it is.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{CipherSuite, RootCertStore, ServerConfig, version};
use tokio_rustls::TlsAcceptor;

use crate::certs::Pki;
use crate::exchange::Identity;

/// The group of everybody who proved who they are.
const AUTHENTICATED: &str = "system:authenticated";

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate or a key does not read.
    #[error("cannot read the certificates: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The library refuses them.
    #[error("cannot use the certificates: {0}")]
    Rustls(#[from] rustls::Error),
    /// There is no way to verify clients by them.
    #[error("cannot verify clients by the certificate of the authority: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// How connections are secured. The certificates can be replaced while it serves.
pub struct Tls {
    acceptor: RwLock<TlsAcceptor>,
}

impl Tls {
    /// Secures connections with the server's certificate, and takes clients of the same authority.
    ///
    /// # Errors
    /// If the certificates are of no use.
    pub fn new(pki: &Pki) -> Result<Tls, TlsError> {
        Ok(Tls { acceptor: RwLock::new(acceptor(pki)?) })
    }

    /// New connections get new certificates; those that are open go on with the old ones.
    ///
    /// # Errors
    /// If the certificates are of no use.
    pub fn replace(&self, pki: &Pki) -> Result<(), TlsError> {
        *self.acceptor.write() = acceptor(pki)?;
        Ok(())
    }

    /// How new connections are secured now.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(self.acceptor.read().config())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().clone()
    }
}

fn acceptor(pki: &Pki) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca.certificate.as_bytes())?)?;
    // A client without a certificate gets through the handshake, so that it can be told in words that it may not.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()?;
    let chain = vec![CertificateDer::from_pem_slice(pki.server.certificate.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(pki.server.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    // A resumed session would not look at the client's certificate again, which may have expired.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The library's ciphers, AES with 128 bits before 256: it takes a quarter less time, and nobody breaks either.
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

/// Who a verified certificate says its holder is: the common name, and the organizations as groups.
pub(super) fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?;
    if user.is_empty() {
        return None;
    }
    let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok());
    let groups = organizations.chain([AUTHENTICATED]).map(str::to_owned).collect();
    Some(Identity { user: user.to_owned(), groups })
}
