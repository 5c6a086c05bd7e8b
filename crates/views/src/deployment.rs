//! What planners read of a Deployment.

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, Template, UpdateStrategy, nonzero, one, or_default, selector};

/// A Deployment.
#[derive(Clone, Debug, Deserialize)]
pub struct Deployment {
    /// What is wanted.
    pub spec: DeploymentSpec,
    /// How it stands.
    #[serde(default)]
    pub status: DeploymentStatus,
}

impl View for Deployment {
    const RESOURCE: &'static str = "deployments.apps";
}

/// What is wanted of a Deployment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// How many pods.
    #[serde(default = "one")]
    pub replicas: i64,
    /// How long a pod must be ready to count as available.
    #[serde(default)]
    pub min_ready_seconds: i64,
    /// Which replica sets and pods are its own.
    #[serde(deserialize_with = "selector")]
    pub selector: Selector,
    /// What its pods look like.
    #[serde(default)]
    pub template: Template,
    /// How it goes from one template to the next.
    #[serde(default)]
    pub strategy: UpdateStrategy,
    /// Whether it is to leave things as they are.
    #[serde(default)]
    pub paused: bool,
    /// How many old replica sets are kept.
    pub revision_history_limit: Option<i64>,
    /// How long it may make no progress before it says so.
    pub progress_deadline_seconds: Option<i64>,
}

/// How a Deployment stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// Which generation this was seen of.
    #[serde(serialize_with = "nonzero")]
    pub observed_generation: i64,
    /// How many pods there are.
    #[serde(serialize_with = "nonzero")]
    pub replicas: i64,
    /// How many of them are of the latest template.
    #[serde(serialize_with = "nonzero")]
    pub updated_replicas: i64,
    /// How many of them can serve.
    #[serde(serialize_with = "nonzero")]
    pub ready_replicas: i64,
    /// How many of them have been able to for long enough.
    #[serde(serialize_with = "nonzero")]
    pub available_replicas: i64,
    /// How many are missing to what its replica sets are to have.
    #[serde(serialize_with = "nonzero")]
    pub unavailable_replicas: i64,
    /// How many are on their way out.
    pub terminating_replicas: Option<i64>,
    /// How often the name of a replica set was taken.
    pub collision_count: Option<i64>,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
