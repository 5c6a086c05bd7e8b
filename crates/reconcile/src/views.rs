//! What planners read of each kind: one struct per resource, with the fields that somebody needs.
//!
//! Views are read from the stored form, in which defaults are filled in; what may be absent there has a default
//! here. Statuses that a planner writes can also be written: what is absent becomes `null`, which removes it.

pub mod config_map;
pub mod custom_resource_definition;
pub mod endpoint_slice;
pub mod endpoints;
pub mod namespace;
pub mod pod;
pub mod replica_set;
pub mod service;

use serde::{Deserialize, Deserializer, Serialize};
use setpoint_api::labels::{Expression, Selector};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value};

pub use crate::object::{or_default, time};

/// A condition in a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
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
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For which generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition that is so since `now`.
    #[must_use]
    pub fn new(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(now),
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Condition::default()
        }
    }

    /// Whether it holds.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
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
pub fn write_time<S: serde::Serializer>(time: &Option<Time>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&Seconds(*time)),
        None => serializer.serialize_none(),
    }
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
        match_labels: crate::object::Pairs,
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
