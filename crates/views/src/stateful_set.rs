//! What planners read of a StatefulSet.

use serde::{Deserialize, Serialize};
use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, Template, UpdateStrategy, nonzero, one, or_default, selector};

/// A StatefulSet.
#[derive(Clone, Debug, Deserialize)]
pub struct StatefulSet {
    /// What is wanted.
    pub spec: StatefulSetSpec,
    /// How it stands.
    #[serde(default)]
    pub status: StatefulSetStatus,
}

impl View for StatefulSet {
    const RESOURCE: &'static str = "statefulsets.apps";
}

/// What is wanted of a StatefulSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
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
    /// The claims that each pod has for itself.
    #[serde(default, deserialize_with = "or_default")]
    pub volume_claim_templates: Vec<Value>,
    /// The service that names its pods on the network.
    #[serde(default)]
    pub service_name: String,
    /// `Parallel` if pods need not wait for each other.
    #[serde(default)]
    pub pod_management_policy: String,
    /// How it goes from one template to the next.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// How many old revisions are kept.
    pub revision_history_limit: Option<i64>,
    /// What becomes of claims.
    #[serde(default, rename = "persistentVolumeClaimRetentionPolicy")]
    pub retention: ClaimRetention,
    /// How pods are numbered.
    #[serde(default)]
    pub ordinals: Ordinals,
}

/// What becomes of the claims of a StatefulSet: `Retain` or `Delete`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetention {
    /// When it is deleted.
    pub when_deleted: String,
    /// When it has fewer pods.
    pub when_scaled: String,
}

/// How the pods of a StatefulSet are numbered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    /// The first number.
    pub start: i64,
}

/// How a StatefulSet stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    /// Which generation this was seen of.
    #[serde(serialize_with = "nonzero")]
    pub observed_generation: i64,
    /// How many pods there are.
    pub replicas: i64,
    /// How many of them can serve.
    #[serde(serialize_with = "nonzero")]
    pub ready_replicas: i64,
    /// How many of them are of the current revision.
    #[serde(serialize_with = "nonzero")]
    pub current_replicas: i64,
    /// How many of them are of the revision that it goes to.
    #[serde(serialize_with = "nonzero")]
    pub updated_replicas: i64,
    /// How many have been able to serve for long enough.
    pub available_replicas: i64,
    /// The revision that it comes from.
    pub current_revision: String,
    /// The revision that it goes to.
    pub update_revision: String,
    /// How often the name of a revision was taken.
    pub collision_count: Option<i64>,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
