//! What planners read of a DaemonSet.

use serde::{Deserialize, Serialize};
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, Template, UpdateStrategy, nonzero, or_default, selector};

/// A DaemonSet.
#[derive(Clone, Debug, Deserialize)]
pub struct DaemonSet {
    /// What is wanted.
    pub spec: DaemonSetSpec,
    /// How it stands.
    #[serde(default)]
    pub status: DaemonSetStatus,
}

impl View for DaemonSet {
    const RESOURCE: &'static str = "daemonsets.apps";
}

/// What is wanted of a DaemonSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetSpec {
    /// How long a pod must be ready to count as available.
    #[serde(default)]
    pub min_ready_seconds: i64,
    /// Which pods are its own.
    #[serde(deserialize_with = "selector")]
    pub selector: Selector,
    /// What its pods look like.
    #[serde(default)]
    pub template: Template,
    /// How it goes from one template to the next.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// How many old revisions are kept.
    pub revision_history_limit: Option<i64>,
}

/// How a DaemonSet stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// How many nodes have a pod that are to have one.
    pub current_number_scheduled: i64,
    /// How many nodes have one that are not to.
    pub number_misscheduled: i64,
    /// How many nodes are to have one.
    pub desired_number_scheduled: i64,
    /// On how many of them it can serve.
    pub number_ready: i64,
    /// Which generation this was seen of.
    #[serde(serialize_with = "nonzero")]
    pub observed_generation: i64,
    /// On how many it is of the latest template.
    #[serde(serialize_with = "nonzero")]
    pub updated_number_scheduled: i64,
    /// On how many it has been able to serve for long enough.
    #[serde(serialize_with = "nonzero")]
    pub number_available: i64,
    /// On how many it has not.
    #[serde(serialize_with = "nonzero")]
    pub number_unavailable: i64,
    /// How often the name of a revision was taken.
    pub collision_count: Option<i64>,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
