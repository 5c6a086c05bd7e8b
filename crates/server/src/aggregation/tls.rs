//! TLS of connections to extension API servers: the front-proxy certificate, and verification of the server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use setpoint_pki::certs::CertifiedKey;

use super::registry::RemoteApiService;

/// CA bundles of common systems, of which the first that exists is used for an APIService without one.
const SYSTEM_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Failure to configure TLS for an APIService.
#[derive(Debug, thiserror::Error)]
pub enum BackendTlsError {
    /// A certificate or a key is malformed.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// The CA bundle has no certificate.
    #[error("unable to load root certificates: unable to parse bytes as PEM block")]
    NoCertificate,
    /// The TLS library rejects the configuration.
    #[error("cannot use the certificates: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Builds the configuration for an APIService. With `alpn` the protocol is negotiated.
pub(super) fn config(
    service: &RemoteApiService,
    identity: Option<&CertifiedKey>,
    alpn: &[&[u8]],
) -> Result<ClientConfig, BackendTlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = if service.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(UnverifiedServer(provider)))
    } else {
        builder.with_root_certificates(roots(&service.ca_bundle)?)
    };
    let mut config = match identity {
        Some(identity) => {
            let chain =
                CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

fn roots(bundle: &[u8]) -> Result<RootCertStore, BackendTlsError> {
    let mut roots = RootCertStore::empty();
    if bundle.is_empty() {
        let system = SYSTEM_BUNDLES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
        // Bundles of systems have certificates that the library does not accept.
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&system).filter_map(Result::ok));
        return Ok(roots);
    }
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate?)?;
    }
    if roots.is_empty() { Err(BackendTlsError::NoCertificate) } else { Ok(roots) }
}

/// Verifier for `insecureSkipTLSVerify`: only possession of the key is checked.
#[derive(Debug)]
struct UnverifiedServer(Arc<CryptoProvider>);

impl ServerCertVerifier for UnverifiedServer {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
