//! View of an APIService.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// View of an APIService.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiService {
    #[serde(deserialize_with = "or_default")]
    pub spec: ApiServiceSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ApiServiceStatus,
}

impl View for ApiService {
    const RESOURCE: &'static str = "apiservices.apiregistration.k8s.io";
}

/// Spec of an APIService.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiServiceSpec {
    pub group: String,
    pub version: String,
    /// Absent for a group version of this server.
    pub service: Option<ServiceReference>,
}

/// Service of an extension API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    pub port: i64,
}

/// Status of an APIService.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiServiceStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
