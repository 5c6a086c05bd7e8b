//! The kinds of certificates.k8s.io.
//!
//! What stands in a PEM block is not parsed: whether a request is well formed and signed, whether a certificate
//! is one and belongs to its request, needs X.509 and is left to the server's cryptography.

pub mod cluster_trust_bundle;
pub mod pem;
pub mod pod_certificate_request;
pub mod signer;
pub mod signing_request;

use super::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "CertificateSigningRequest" => &signing_request::SigningRequest,
        "ClusterTrustBundle" => &cluster_trust_bundle::ClusterTrustBundle,
        "PodCertificateRequest" => &pod_certificate_request::PodCertificateRequest,
        _ => return None,
    })
}
