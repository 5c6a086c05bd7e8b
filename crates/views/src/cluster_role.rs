//! View of a ClusterRole.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{deserialize_selector, or_default};

/// View of a ClusterRole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRole {
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<Value>,
    /// Set if the rules are aggregated from other ClusterRoles.
    pub aggregation_rule: Option<AggregationRule>,
}

impl View for ClusterRole {
    const RESOURCE: &'static str = "clusterroles.rbac.authorization.k8s.io";
}

/// Selectors of the ClusterRoles that are aggregated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregationRule {
    /// ClusterRoles that match any of these are aggregated.
    #[serde(deserialize_with = "or_default")]
    pub cluster_role_selectors: Vec<RoleSelector>,
}

/// Label selector of ClusterRoles.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct RoleSelector(#[serde(deserialize_with = "deserialize_selector")] pub Selector);
