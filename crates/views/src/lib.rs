//! Typed views: one struct per resource, with the fields that planners read.
//!
//! Views are decoded from the stored form, in which defaults are applied; fields that may be absent there have a default
//! here. Statuses that planners write implement `Serialize`: an absent value becomes `null`, which removes the field.
//! Start at [`pod::Pod`].

#![expect(missing_docs, reason = "fields mirror the API fields of the same name")]

pub mod admission_policy;
pub mod api_service;
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
pub mod device_class;
pub mod device_taint_rule;
pub mod endpoint_slice;
pub mod endpoints;
pub mod flow_control;
pub mod horizontal_pod_autoscaler;
mod interned_str;
pub mod ip_address;
pub mod job;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_disruption_budget;
mod quantity_field;
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

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use setpoint_api::labels::{Expression, Selector};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value};
use setpoint_reconcile::world::{Heartbeat, Index, SharedView, WorldConfig};

pub use self::interned_str::InternedStr;
pub use self::quantity_field::QuantityField;
pub use setpoint_reconcile::object::{deserialize_time, or_default};

/// Heartbeats of nodes and of holders of Leases, which are most writes of an idle cluster.
const HEARTBEATS: [Heartbeat; 2] = [
    Heartbeat { resource: "nodes", field: "lastHeartbeatTime" },
    Heartbeat { resource: "leases.coordination.k8s.io", field: "renewTime" },
];

/// Views that share equal parts: pods, which have the most objects and the most changes.
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

/// Condition in a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: InternedStr,
    /// `True`, `False` or `Unknown`.
    pub status: InternedStr,
    /// Only in conditions of Jobs and pods.
    #[serde(
        deserialize_with = "deserialize_time",
        serialize_with = "serialize_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_probe_time: Option<Time>,
    /// Only in conditions of Deployments and CertificateSigningRequests.
    #[serde(
        deserialize_with = "deserialize_time",
        serialize_with = "serialize_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_update_time: Option<Time>,
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "is_empty")]
    pub reason: InternedStr,
    #[serde(skip_serializing_if = "is_empty")]
    pub message: Box<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Returns a condition with `now` as its transition time.
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

    /// `true` if the status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

fn is_empty(text: &impl Deref<Target = str>) -> bool {
    text.is_empty()
}

/// Returns the condition of a type.
#[must_use]
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Serializes a time as RFC 3339, with seconds.
///
/// # Errors
/// If the serializer fails.
pub fn serialize_time<S: Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&Seconds(*time)),
        None => serializer.serialize_none(),
    }
}

/// Serializes a list; an empty one as `null`, which removes the field.
///
/// # Errors
/// If the serializer fails.
pub fn serialize_unless_empty<T: Serialize, S: Serializer>(
    list: &Vec<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if list.is_empty() { serializer.serialize_none() } else { list.serialize(serializer) }
}

/// Number, percentage or name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i64),
    /// Percentage, such as `25%`, or a port name.
    Text(String),
}

impl IntOrString {
    /// Resolves a percentage of a total, rounded up or down; a number is returned as it is. `None` for any other text.
    #[must_use]
    pub fn scaled(&self, total: i64, round_up: bool) -> Option<i64> {
        match self {
            IntOrString::Int(number) => Some(*number),
            IntOrString::Text(text) => {
                let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
                let hundredths = percent.checked_mul(total)?;
                Some(if round_up {
                    hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) > 0)
                } else {
                    hundredths.div_euclid(100)
                })
            }
        }
    }
}

/// Update strategy of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `RollingUpdate`, `Recreate` or `OnDelete`.
    #[serde(rename = "type")]
    pub kind: String,
    pub rolling_update: Option<RollingUpdate>,
}

/// Bounds of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub max_unavailable: Option<IntOrString>,
    pub max_surge: Option<IntOrString>,
    /// Lowest ordinal that is updated.
    pub partition: Option<i64>,
}

/// Serializes a counter; 0 as `null`, which removes the field.
fn serialize_nonzero<S: serde::Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    if *number == 0 { serializer.serialize_none() } else { serializer.serialize_i64(*number) }
}

fn default_replicas() -> i64 {
    1
}

/// Deserializes a label selector. An absent selector matches nothing, an empty one everything.
fn deserialize_selector<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Selector, D::Error> {
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
    let expressions = parts.match_expressions.iter().map(|requirement| Expression {
        key: &requirement.key,
        operator: &requirement.operator,
        values: requirement.values.iter().map(String::as_str).collect(),
    });
    Selector::from_parts(parts.match_labels.iter(), expressions).map_err(serde::de::Error::custom)
}

/// Whole pod template: it is copied into pods and compared with other templates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Value);
