//! What planners read of a ResourceQuota.

use serde::Deserialize;
use setpoint_reconcile::object::{Pairs, View};

use super::or_default;
use crate::quota::Spec;

/// A ResourceQuota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// What is wanted.
    pub spec: Spec,
    /// How it stands.
    pub status: QuotaStatus,
}

impl View for ResourceQuota {
    const RESOURCE: &'static str = "resourcequotas";
}

/// How a ResourceQuota stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QuotaStatus {
    /// The limits that are in force.
    #[serde(deserialize_with = "or_default")]
    pub hard: Pairs,
    /// What is used.
    #[serde(deserialize_with = "or_default")]
    pub used: Pairs,
}
