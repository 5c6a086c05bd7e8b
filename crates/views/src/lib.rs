//! What planners read of each kind: one struct per resource, with the fields that somebody needs.
//!
//! Views are read from the stored form, in which defaults are filled in; what may be absent there has a default
//! here. Statuses that a planner writes can also be written: what is absent becomes `null`, which removes it.

pub mod certificate_signing_request;
pub mod cluster_role;
pub mod cluster_trust_bundle;
pub mod config_map;
pub mod controller_revision;
pub mod cron_job;
pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod custom_resource_definition;
pub mod daemon_set;
pub mod deployment;
pub mod device_taint_rule;
pub mod endpoint_slice;
pub mod endpoints;
pub mod flow_control;
pub mod horizontal_pod_autoscaler;
pub mod ip_address;
pub mod job;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_disruption_budget;
pub mod quota;
pub mod replica_set;
pub mod replication_controller;
pub mod resource_claim;
pub mod resource_quota;
pub mod resource_slice;
pub mod secret;
pub mod service;
pub mod service_account;
pub mod service_cidr;
pub mod stateful_set;
pub mod storage_class;
pub mod storage_version_migration;
pub mod volume_attachment;
mod word;

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use setpoint_api::labels::{Expression, Selector};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value};
use setpoint_reconcile::world::{Heartbeat, Index, SharedView, WorldConfig};

pub use self::word::Word;
pub use setpoint_reconcile::object::{or_default, time};

/// Heartbeats of nodes and of the holders of Leases: most writes of a quiet cluster.
const HEARTBEATS: [Heartbeat; 2] = [
    Heartbeat { resource: "nodes", field: "lastHeartbeatTime" },
    Heartbeat { resource: "leases.coordination.k8s.io", field: "renewTime" },
];

/// Pods have the most objects and the most changes.
static SHARED_VIEWS: [SharedView; 1] = [SharedView::of::<pod::Pod>()];

/// Returns the configuration of a world with the built-in kinds and these indexes.
#[must_use]
pub fn world_config(indexes: impl IntoIterator<Item = Index>) -> WorldConfig {
    WorldConfig {
        indexes: indexes.into_iter().collect(),
        unindexed: &["events"],
        heartbeats: &HEARTBEATS,
        shared_views: &SHARED_VIEWS,
    }
}

/// A condition in a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: Word,
    /// `True`, `False` or `Unknown`.
    pub status: Word,
    /// When that was last looked at; only conditions of Jobs and pods have it.
    #[serde(
        deserialize_with = "time",
        serialize_with = "write_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_probe_time: Option<Time>,
    /// When that was last written.
    #[serde(
        deserialize_with = "time",
        serialize_with = "write_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_update_time: Option<Time>,
    /// Since when it is so.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "is_empty")]
    pub reason: Word,
    /// Why, in words.
    #[serde(skip_serializing_if = "is_empty")]
    pub message: Box<str>,
    /// For which generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition that is so since `now`.
    #[must_use]
    pub fn new(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Condition {
        Condition {
            kind: kind.into(),
            status: status.into(),
            last_transition_time: Some(now),
            reason: reason.into(),
            message: message.into(),
            ..Condition::default()
        }
    }

    /// Whether it holds.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

fn is_empty(text: &impl Deref<Target = str>) -> bool {
    text.is_empty()
}

/// The condition of a type.
#[must_use]
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Writes a time as the API does.
///
/// # Errors
/// If it cannot be written.
pub fn write_time<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&Seconds(*time)),
        None => serializer.serialize_none(),
    }
}

/// Writes a list; an empty one is removed.
///
/// # Errors
/// If it cannot be written.
pub fn unless_empty<T: Serialize, S: Serializer>(list: &Vec<T>, serializer: S) -> Result<S::Ok, S::Error> {
    if list.is_empty() { serializer.serialize_none() } else { list.serialize(serializer) }
}

/// A number, or a share in percent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A share, as in `25%`.
    Text(String),
}

impl IntOrString {
    /// The number that it means of a total: a share is rounded up or down.
    #[must_use]
    pub fn scaled(&self, total: i64, round_up: bool) -> Option<i64> {
        match self {
            IntOrString::Int(number) => Some(*number),
            IntOrString::Text(text) => {
                let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
                let hundredfold = percent.checked_mul(total)?;
                Some(if round_up {
                    hundredfold.div_euclid(100) + i64::from(hundredfold.rem_euclid(100) > 0)
                } else {
                    hundredfold.div_euclid(100)
                })
            }
        }
    }
}

/// How a workload goes from one template to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `RollingUpdate`, `Recreate` or `OnDelete`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The bounds of a rolling update.
    pub rolling_update: Option<RollingUpdate>,
}

/// The bounds of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many pods may be missing.
    pub max_unavailable: Option<IntOrString>,
    /// How many there may be too many.
    pub max_surge: Option<IntOrString>,
    /// The least ordinal that is updated.
    pub partition: Option<i64>,
}

/// Writes a count that is not stored when it is zero.
///
/// # Errors
/// If it cannot be written.
pub fn nonzero<S: serde::Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    if *number == 0 { serializer.serialize_none() } else { serializer.serialize_i64(*number) }
}

/// How many pods a workload has that does not say.
fn one() -> i64 {
    1
}

/// Reads a label selector; one that is absent selects nothing, an empty one everything.
///
/// # Errors
/// If it is no selector.
pub fn selector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Selector, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Parts {
        #[serde(deserialize_with = "or_default")]
        match_labels: setpoint_reconcile::object::Pairs,
        #[serde(deserialize_with = "or_default")]
        match_expressions: Vec<Requirement>,
    }
    #[derive(Deserialize)]
    struct Requirement {
        key: String,
        operator: String,
        #[serde(default, deserialize_with = "or_default")]
        values: Vec<String>,
    }
    let Some(parts) = Option::<Parts>::deserialize(deserializer)? else { return Ok(Selector::Nothing) };
    let expressions = parts.match_expressions.iter().map(|one| Expression {
        key: &one.key,
        operator: &one.operator,
        values: one.values.iter().map(String::as_str).collect(),
    });
    Selector::from_parts(parts.match_labels.iter(), expressions).map_err(serde::de::Error::custom)
}

/// A pod template, whole: it is copied into pods and compared with others.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Value);
