//! View of a CertificateSigningRequest.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// View of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequest {
    pub spec: CertificateSigningRequestSpec,
    pub status: CertificateSigningRequestStatus,
}

impl View for CertificateSigningRequest {
    const RESOURCE: &'static str = "certificatesigningrequests.certificates.k8s.io";
}

/// Spec of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateSigningRequestSpec {
    /// PEM-encoded request, in base64.
    pub request: String,
    pub signer_name: String,
    #[serde(deserialize_with = "or_default")]
    pub usages: Vec<String>,
    pub expiration_seconds: Option<i64>,
    pub username: String,
    pub uid: String,
    #[serde(deserialize_with = "or_default")]
    pub groups: Vec<String>,
    pub extra: Option<Value>,
}

/// Status of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequestStatus {
    /// PEM-encoded certificate, in base64; empty until it is issued.
    pub certificate: String,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
