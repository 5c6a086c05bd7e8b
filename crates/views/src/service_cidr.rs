//! View of a ServiceCIDR.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// View of a ServiceCIDR.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    pub spec: ServiceCidrSpec,
    pub status: ServiceCidrStatus,
}

impl View for ServiceCidr {
    const RESOURCE: &'static str = "servicecidrs.networking.k8s.io";
}

/// Spec of a ServiceCIDR.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    #[serde(deserialize_with = "or_default")]
    pub cidrs: Vec<String>,
}

/// Status of a ServiceCIDR.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
