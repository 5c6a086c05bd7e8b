//! What planners read of a ReplicaSet. A ReplicationController is read by its own view, of the same shape.

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, Template, one, or_default, selector};

/// A ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
pub struct ReplicaSet {
    /// What is wanted.
    pub spec: ReplicaSetSpec,
    /// How it stands.
    #[serde(default)]
    pub status: ReplicaSetStatus,
}

impl View for ReplicaSet {
    const RESOURCE: &'static str = "replicasets.apps";
}

/// What is wanted of a ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    /// How many pods.
    #[serde(default = "one")]
    pub replicas: i64,
    /// How long a pod must be ready to count as available.
    #[serde(default)]
    pub min_ready_seconds: i64,
    /// Which pods are its own.
    #[serde(deserialize_with = "selector")]
    pub selector: Selector,
    /// What its pods look like.
    #[serde(default)]
    pub template: Template,
}

/// How a ReplicaSet stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// How many pods there are.
    pub replicas: i64,
    /// How many of them have all labels of the template.
    pub fully_labeled_replicas: Option<i64>,
    /// How many of them can serve.
    pub ready_replicas: Option<i64>,
    /// How many of them have been able to for long enough.
    pub available_replicas: Option<i64>,
    /// How many are on their way out.
    pub terminating_replicas: Option<i64>,
    /// Which generation this was seen of.
    pub observed_generation: Option<i64>,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
