//! View of a StatefulSet.

use serde::{Deserialize, Serialize};
use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{
    Condition, PodTemplate, UpdateStrategy, default_replicas, deserialize_selector, or_default,
    serialize_nonzero,
};

/// View of a StatefulSet.
#[derive(Clone, Debug, Deserialize)]
pub struct StatefulSet {
    pub spec: StatefulSetSpec,
    #[serde(default)]
    pub status: StatefulSetStatus,
}

impl View for StatefulSet {
    const RESOURCE: &'static str = "statefulsets.apps";
}

/// Spec of a StatefulSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    #[serde(default = "default_replicas")]
    pub replicas: i64,
    #[serde(default)]
    pub min_ready_seconds: i64,
    #[serde(deserialize_with = "deserialize_selector")]
    pub selector: Selector,
    #[serde(default)]
    pub template: PodTemplate,
    #[serde(default, deserialize_with = "or_default")]
    pub volume_claim_templates: Vec<Value>,
    #[serde(default)]
    pub service_name: String,
    /// `OrderedReady` or `Parallel`.
    #[serde(default)]
    pub pod_management_policy: String,
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    pub revision_history_limit: Option<i64>,
    /// Renamed from `persistentVolumeClaimRetentionPolicy`.
    #[serde(default, rename = "persistentVolumeClaimRetentionPolicy")]
    pub retention: ClaimRetentionPolicy,
    #[serde(default)]
    pub ordinals: StatefulSetOrdinals,
}

/// Retention of the claims of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetentionPolicy {
    /// `Retain` or `Delete`.
    pub when_deleted: String,
    /// `Retain` or `Delete`.
    pub when_scaled: String,
}

/// Ordinals of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatefulSetOrdinals {
    pub start: i64,
}

/// Status of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    #[serde(serialize_with = "serialize_nonzero")]
    pub observed_generation: i64,
    pub replicas: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub ready_replicas: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub current_replicas: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub updated_replicas: i64,
    pub available_replicas: i64,
    pub current_revision: String,
    pub update_revision: String,
    pub collision_count: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
