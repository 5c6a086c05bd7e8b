//! Requirements of pods on nodes: resource requests, host ports, node affinity.
//!
//! The scheduler filters nodes by them, and nodes admit pods by them, so that the two never disagree. Everything is pure
//! and parsed once per pod. Start at [`request::PodRequest`].

pub mod host_ports;
pub mod node_affinity;
pub mod request;

use setpoint_api::Value;

/// Returns the list at a path; empty if there is none.
#[must_use]
pub fn list<'a>(value: Option<&'a Value>, path: &[&str]) -> &'a [Value] {
    value.and_then(|value| value.at(path)).and_then(Value::as_list).unwrap_or_default()
}

/// Returns the strings in the list of a field.
#[must_use]
pub fn strings(value: &Value, field: &str) -> Vec<Box<str>> {
    list(Some(value), &[field]).iter().filter_map(Value::as_str).map(Into::into).collect()
}
