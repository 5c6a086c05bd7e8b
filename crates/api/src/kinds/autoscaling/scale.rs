//! Scale: the replicas of a workload, as a subresource.
//!
//! It is a view of a Deployment, ReplicaSet, StatefulSet or ReplicationController: [`view`] builds it,
//! [`validate`] validates an update, and [`apply`] writes it back.

use thiserror::Error;

use crate::field_error::{ErrorList, Path};
use crate::kinds::read::{expressions, map_entries, match_labels, present};
use crate::kinds::workload::check_nonnegative;
use crate::labels::{Selector, SelectorError};
use crate::value::Value;

/// Metadata that a scale shares with its workload.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/// The scale cannot be written back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScaleError {
    /// The UID of the scale differs from that of the workload. The response is a conflict.
    #[error("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")]
    Uid {
        /// UID of the scale.
        wanted: Box<str>,
        /// UID of the workload.
        found: Box<str>,
    },
}

/// Builds the scale of a workload.
///
/// # Errors
/// If the selector of the workload is not valid. The response is a bad request.
pub fn view(workload: &Value) -> Result<Value, SelectorError> {
    let replicas = |at: &str| workload.at(&[at, "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    let selector = selector_text(workload)?;
    let mut scale = Value::map();
    let map = scale.make_map();
    map.insert("kind", "Scale");
    map.insert("apiVersion", "autoscaling/v1");
    let metadata = map.ensure_map("metadata");
    for field in METADATA {
        if let Some(value) = workload.at(&["metadata", field]) {
            metadata.insert(field, value.clone());
        }
    }
    let spec = map.ensure_map("spec");
    if replicas("spec") != 0 {
        spec.insert("replicas", replicas("spec"));
    }
    let status = map.ensure_map("status");
    status.insert("replicas", replicas("status"));
    if !selector.is_empty() {
        status.insert("selector", selector);
    }
    Ok(scale)
}

/// Selector in string form. That of a ReplicationController is a map of labels.
fn selector_text(workload: &Value) -> Result<String, SelectorError> {
    let Some(selector) = workload.get("spec").and_then(|spec| present(spec, "selector")) else {
        return Ok(String::new());
    };
    if workload.str_at(&["kind"]) == "ReplicationController" {
        return Ok(Selector::from_labels(map_entries(Some(selector))).to_string());
    }
    Ok(Selector::from_parts(match_labels(selector), expressions(selector))?.to_string())
}

/// Validates a scale.
pub fn validate(scale: &Value, errors: &mut ErrorList) {
    if let Some(spec) = scale.get("spec") {
        check_nonnegative(errors, spec, &Path::root("spec"), &["replicas"]);
    }
}

/// Writes a scale back: the replicas, and the expected `resourceVersion`.
///
/// # Errors
/// If the scale is that of another object.
pub fn apply(scale: &Value, workload: &mut Value) -> Result<(), ScaleError> {
    let uid = ["metadata", "uid"];
    let (wanted, found) = (scale.str_at(&uid), workload.str_at(&uid));
    if !wanted.is_empty() && wanted != found {
        return Err(ScaleError::Uid { wanted: wanted.into(), found: found.into() });
    }
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    workload.ensure_map("spec").insert("replicas", replicas);
    let metadata = workload.ensure_map("metadata");
    match scale.at(&["metadata", "resourceVersion"]) {
        Some(revision) => drop(metadata.insert("resourceVersion", revision.clone())),
        None => drop(metadata.remove("resourceVersion")),
    }
    Ok(())
}
