//! Scale: the number of pods of a workload, as an object of its own.
//!
//! It is a view of a Deployment, ReplicaSet, StatefulSet or ReplicationController: [`view`] makes it,
//! [`validate`] judges a new one, and [`apply`] writes it back.

use thiserror::Error;

use crate::field_error::{ErrorList, Path};
use crate::kinds::read::{expressions, map_entries, match_labels, part};
use crate::kinds::workload::nonnegative;
use crate::labels::{Selector, SelectorError};
use crate::value::Value;

/// What of the metadata of a workload its scale has too.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/// Why a scale cannot be written back.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The scale is that of an object that was there before. To the client it is a conflict.
    #[error("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}")]
    Uid {
        /// The uid in the scale.
        wanted: Box<str>,
        /// The uid of the workload.
        found: Box<str>,
    },
}

/// The scale of a workload.
///
/// # Errors
/// If the selector of the workload is not valid. To the client it is a bad request.
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

/// The selector as text. That of a ReplicationController is a plain map of labels.
fn selector_text(workload: &Value) -> Result<String, SelectorError> {
    let Some(selector) = workload.get("spec").and_then(|spec| part(spec, "selector")) else {
        return Ok(String::new());
    };
    if workload.str_at(&["kind"]) == "ReplicationController" {
        return Ok(Selector::from_labels(map_entries(Some(selector))).to_string());
    }
    Ok(Selector::from_parts(match_labels(selector), expressions(selector))?.to_string())
}

/// What is wrong with a scale.
pub fn validate(scale: &Value, errors: &mut ErrorList) {
    if let Some(spec) = scale.get("spec") {
        nonnegative(errors, spec, &Path::root("spec"), &["replicas"]);
    }
}

/// Writes a scale back: the number of pods, and the revision that the writer expects.
///
/// # Errors
/// If the scale is that of another object.
pub fn apply(scale: &Value, workload: &mut Value) -> Result<(), ApplyError> {
    let uid = ["metadata", "uid"];
    let (wanted, found) = (scale.str_at(&uid), workload.str_at(&uid));
    if !wanted.is_empty() && wanted != found {
        return Err(ApplyError::Uid { wanted: wanted.into(), found: found.into() });
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
