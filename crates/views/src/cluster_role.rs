//! What planners read of a ClusterRole.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{or_default, selector};

/// A ClusterRole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRole {
    /// What it allows.
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<Value>,
    /// From which others its rules are gathered; nothing if they are its own.
    pub aggregation_rule: Option<AggregationRule>,
}

impl View for ClusterRole {
    const RESOURCE: &'static str = "clusterroles.rbac.authorization.k8s.io";
}

/// From which others the rules of a role are gathered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregationRule {
    /// From those that any of these selects.
    #[serde(deserialize_with = "or_default")]
    pub cluster_role_selectors: Vec<RoleSelector>,
}

/// A selector of roles.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct RoleSelector(#[serde(deserialize_with = "selector")] pub Selector);
