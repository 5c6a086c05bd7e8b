//! View of a DaemonSet.

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, PodTemplate, UpdateStrategy, deserialize_selector, or_default, serialize_nonzero};

/// View of a DaemonSet.
#[derive(Clone, Debug, Deserialize)]
pub struct DaemonSet {
    pub spec: DaemonSetSpec,
    #[serde(default)]
    pub status: DaemonSetStatus,
}

impl View for DaemonSet {
    const RESOURCE: &'static str = "daemonsets.apps";
}

/// Spec of a DaemonSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetSpec {
    #[serde(default)]
    pub min_ready_seconds: i64,
    #[serde(deserialize_with = "deserialize_selector")]
    pub selector: Selector,
    #[serde(default)]
    pub template: PodTemplate,
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    pub revision_history_limit: Option<i64>,
}

/// Status of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    pub current_number_scheduled: i64,
    pub number_misscheduled: i64,
    pub desired_number_scheduled: i64,
    pub number_ready: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub observed_generation: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub updated_number_scheduled: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub number_available: i64,
    #[serde(serialize_with = "serialize_nonzero")]
    pub number_unavailable: i64,
    pub collision_count: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
