//! What planners read of a PodDisruptionBudget.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, IntOrString, or_default, selector, unless_empty};

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Deserialize)]
pub struct PodDisruptionBudget {
    /// What is wanted.
    #[serde(default)]
    pub spec: PodDisruptionBudgetSpec,
    /// How it stands.
    #[serde(default)]
    pub status: PodDisruptionBudgetStatus,
}

impl View for PodDisruptionBudget {
    const RESOURCE: &'static str = "poddisruptionbudgets.policy";
}

/// What is wanted of a PodDisruptionBudget.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetSpec {
    /// How many pods must stay.
    pub min_available: Option<IntOrString>,
    /// How many pods may be missing.
    pub max_unavailable: Option<IntOrString>,
    /// Which pods it is about.
    #[serde(deserialize_with = "selector")]
    pub selector: Selector,
}

impl Default for PodDisruptionBudgetSpec {
    fn default() -> PodDisruptionBudgetSpec {
        PodDisruptionBudgetSpec { min_available: None, max_unavailable: None, selector: Selector::Nothing }
    }
}

/// How a PodDisruptionBudget stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// Which generation this was seen of.
    pub observed_generation: Option<i64>,
    /// Pods whose eviction was granted, with the time; absent for none.
    #[serde(deserialize_with = "or_default", serialize_with = "map_unless_empty")]
    pub disrupted_pods: BTreeMap<String, String>,
    /// How many pods may be evicted now.
    pub disruptions_allowed: i64,
    /// How many pods can serve.
    pub current_healthy: i64,
    /// How many should.
    pub desired_healthy: i64,
    /// How many there should be.
    pub expected_pods: i64,
    /// Its conditions.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub conditions: Vec<Condition>,
}

/// Writes a map; an empty one is removed.
fn map_unless_empty<S: serde::Serializer>(
    map: &BTreeMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if map.is_empty() { serializer.serialize_none() } else { map.serialize(serializer) }
}
