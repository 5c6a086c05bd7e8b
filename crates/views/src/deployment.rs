//! View of a Deployment.

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{
    Condition, PodTemplate, UpdateStrategy, default_replicas, deserialize_selector, or_default,
    serialize_nonzero,
};

/// View of a Deployment.
#[derive(Clone, Debug, Deserialize)]
pub struct Deployment {
    pub spec: DeploymentSpec,
    #[serde(default)]
    pub status: DeploymentStatus,
}

impl View for Deployment {
    const RESOURCE: &'static str = "deployments.apps";
}

/// Spec of a Deployment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    #[serde(default = "default_replicas")]
    pub replicas: i64,
    #[serde(default)]
    pub min_ready_seconds: i64,
    #[serde(deserialize_with = "deserialize_selector")]
    pub selector: Selector,
    #[serde(default)]
    pub template: PodTemplate,
    #[serde(default)]
    pub strategy: UpdateStrategy,
    #[serde(default)]
    pub paused: bool,
    pub revision_history_limit: Option<i64>,
    pub progress_deadline_seconds: Option<i64>,
}

/// Status of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    #[serde(serialize_with = "serialize_nonzero")]
    pub observed_generation: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub replicas: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub updated_replicas: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub ready_replicas: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub available_replicas: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub unavailable_replicas: i64,
    pub terminating_replicas: Option<i64>,
    pub collision_count: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
