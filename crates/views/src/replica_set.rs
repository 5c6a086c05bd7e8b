//! View of a ReplicaSet.

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, PodTemplate, default_replicas, deserialize_selector, or_default};

/// View of a ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
pub struct ReplicaSet {
    pub spec: ReplicaSetSpec,
    #[serde(default)]
    pub status: ReplicaSetStatus,
}

impl View for ReplicaSet {
    const RESOURCE: &'static str = "replicasets.apps";
}

/// Spec of a ReplicaSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    #[serde(default = "default_replicas")]
    pub replicas: i64,
    #[serde(default)]
    pub min_ready_seconds: i64,
    #[serde(deserialize_with = "deserialize_selector")]
    pub selector: Selector,
    #[serde(default)]
    pub template: PodTemplate,
}

/// Status of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    pub replicas: i64,
    pub fully_labeled_replicas: Option<i64>,
    pub ready_replicas: Option<i64>,
    pub available_replicas: Option<i64>,
    pub terminating_replicas: Option<i64>,
    pub observed_generation: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
