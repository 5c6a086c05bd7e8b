//! What planners read of a ServiceCIDR.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// A ServiceCIDR: a range of addresses of Services.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    /// What is wanted.
    pub spec: ServiceCidrSpec,
    /// How it stands.
    pub status: ServiceCidrStatus,
}

impl View for ServiceCidr {
    const RESOURCE: &'static str = "servicecidrs.networking.k8s.io";
}

/// What is wanted of a range.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// Its networks, one for each family of addresses.
    #[serde(deserialize_with = "or_default")]
    pub cidrs: Vec<String>,
}

/// How a range stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrStatus {
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
