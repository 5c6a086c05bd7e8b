//! View of a PodDisruptionBudget.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, IntOrString, deserialize_selector, or_default, serialize_unless_empty};

/// View of a PodDisruptionBudget.
#[derive(Clone, Debug, Deserialize)]
pub struct PodDisruptionBudget {
    #[serde(default)]
    pub spec: PodDisruptionBudgetSpec,
    #[serde(default)]
    pub status: PodDisruptionBudgetStatus,
}

impl View for PodDisruptionBudget {
    const RESOURCE: &'static str = "poddisruptionbudgets.policy";
}

/// Spec of a PodDisruptionBudget.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    pub min_available: Option<IntOrString>,
    pub max_unavailable: Option<IntOrString>,
    #[serde(deserialize_with = "deserialize_selector")]
    pub selector: Selector,
}

impl Default for PodDisruptionBudgetSpec {
    fn default() -> PodDisruptionBudgetSpec {
        PodDisruptionBudgetSpec { min_available: None, max_unavailable: None, selector: Selector::Nothing }
    }
}

/// Status of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    pub observed_generation: Option<i64>,
    /// Eviction time by pod name; absent if empty.
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_map_unless_empty")]
    pub disrupted_pods: BTreeMap<String, String>,
    pub disruptions_allowed: i64,
    pub current_healthy: i64,
    pub desired_healthy: i64,
    pub expected_pods: i64,
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub conditions: Vec<Condition>,
}

/// Writes a map; an empty one is removed.
fn serialize_map_unless_empty<S: serde::Serializer>(
    map: &BTreeMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if map.is_empty() { serializer.serialize_none() } else { map.serialize(serializer) }
}
