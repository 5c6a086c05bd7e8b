//! Kinds of the group `certificates.k8s.io`.
//!
//! The content of PEM blocks is not parsed here: signatures and X.509 are checked by the server.

pub mod cluster_trust_bundle;
pub mod expiry;
pub mod pem;
pub mod pod_certificate_request;
pub mod signer;
pub mod signing_request;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "CertificateSigningRequest" => &signing_request::SigningRequest,
        "ClusterTrustBundle" => &cluster_trust_bundle::ClusterTrustBundle,
        "PodCertificateRequest" => &pod_certificate_request::PodCertificateRequest,
        _ => return None,
    })
}
