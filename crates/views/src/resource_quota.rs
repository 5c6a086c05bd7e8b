//! View of a ResourceQuota.

use serde::Deserialize;
use setpoint_reconcile::object::{Pairs, View};

use super::or_default;
use crate::quota::ResourceQuotaSpec;

/// View of a ResourceQuota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    pub spec: ResourceQuotaSpec,
    pub status: ResourceQuotaStatus,
}

impl View for ResourceQuota {
    const RESOURCE: &'static str = "resourcequotas";
}

/// Status of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    #[serde(deserialize_with = "or_default")]
    pub hard: Pairs,
    #[serde(deserialize_with = "or_default")]
    pub used: Pairs,
}
