//! What planners read of a CertificateSigningRequest.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// A CertificateSigningRequest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CertificateSigningRequest {
    /// What is wanted.
    pub spec: RequestSpec,
    /// How it stands.
    pub status: RequestStatus,
}

impl View for CertificateSigningRequest {
    const RESOURCE: &'static str = "certificatesigningrequests.certificates.k8s.io";
}

/// What is wanted of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestSpec {
    /// The request itself, encoded.
    pub request: String,
    /// Who is to sign it.
    pub signer_name: String,
    /// What the certificate is for.
    #[serde(deserialize_with = "or_default")]
    pub usages: Vec<String>,
    /// How long the certificate is to live.
    pub expiration_seconds: Option<i64>,
    /// Who asks.
    pub username: String,
    /// The identity of who asks.
    pub uid: String,
    /// The groups of who asks.
    #[serde(deserialize_with = "or_default")]
    pub groups: Vec<String>,
    /// What else is known of who asks.
    pub extra: Option<Value>,
}

/// How a request stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RequestStatus {
    /// The certificate, encoded; empty while there is none.
    pub certificate: String,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
