//! Scale: the replicas of a workload, as a subresource.
//!
//! It is a view of a Deployment, ReplicaSet, StatefulSet or ReplicationController: [`view`] builds it,
//! [`validate`] validates an update, and [`apply`] writes it back.

use thiserror::Error;

use crate::custom::ScalePaths;
use crate::field_error::{ErrorList, Path};
use crate::json_path::field_names;
use crate::kinds::read::{expressions, map_entries, match_labels, present};
use crate::kinds::workload::check_nonnegative;
use crate::labels::{Selector, SelectorError};
use crate::value::Value;

/// Fields of an object that its scale shows.
#[derive(Clone, Debug)]
pub struct ScaleFields<'a> {
    replicas: Vec<&'a str>,
    observed: Vec<&'a str>,
    /// Field with a selector in string form; `None` for workloads, whose selector is converted.
    selector: Option<Vec<&'a str>>,
    is_custom: bool,
}

impl<'a> ScaleFields<'a> {
    /// Returns the fields of a built-in workload.
    #[must_use]
    pub fn workload() -> ScaleFields<'a> {
        let field = |parent| vec![parent, "replicas"];
        ScaleFields { replicas: field("spec"), observed: field("status"), selector: None, is_custom: false }
    }

    /// Returns the fields of a custom kind.
    #[must_use]
    pub fn custom(paths: &'a ScalePaths) -> ScaleFields<'a> {
        let names = |path: &'a str| field_names(path).collect();
        ScaleFields {
            replicas: names(&paths.spec_replicas),
            observed: names(&paths.status_replicas),
            selector: Some(paths.label_selector.as_deref().map(names).unwrap_or_default()),
            is_custom: true,
        }
    }

    /// Path of the desired replicas.
    #[must_use]
    pub fn replicas_path(&self) -> &[&'a str] {
        &self.replicas
    }
}

/// Metadata that a scale shares with its workload.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/// The scale cannot be built.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ScaleViewError {
    /// The selector of the workload is not valid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A custom object lacks the field of its replicas.
    #[error("the spec replicas field \".{0}\" does not exist")]
    Replicas(String),
}

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
/// If the selector of the workload is not valid, or a custom object has no replicas. The response is a bad request.
pub fn view(workload: &Value, fields: &ScaleFields<'_>) -> Result<Value, ScaleViewError> {
    let number = |path: &[&str]| workload.at(path).and_then(Value::as_i64);
    if fields.is_custom && number(&fields.replicas).is_none() {
        return Err(ScaleViewError::Replicas(fields.replicas.join(".")));
    }
    let (desired, observed) = (number(&fields.replicas).unwrap_or(0), number(&fields.observed).unwrap_or(0));
    let selector = match &fields.selector {
        Some(path) if path.is_empty() => String::new(),
        Some(path) => workload.str_at(path).to_owned(),
        None => selector_text(workload)?,
    };
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
    if desired != 0 {
        spec.insert("replicas", desired);
    }
    let status = map.ensure_map("status");
    status.insert("replicas", observed);
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
pub fn validate(scale: &Value, fields: &ScaleFields<'_>, errors: &mut ErrorList) {
    // The fields of a custom kind are validated with the whole object.
    if let Some(spec) = scale.get("spec").filter(|_| !fields.is_custom) {
        check_nonnegative(errors, spec, &Path::root("spec"), &["replicas"]);
    }
}

/// Writes a scale back: the replicas, and the expected `resourceVersion`.
///
/// # Errors
/// If the scale is that of another object.
pub fn apply(scale: &Value, workload: &mut Value, fields: &ScaleFields<'_>) -> Result<(), ScaleError> {
    let uid = ["metadata", "uid"];
    let (wanted, found) = (scale.str_at(&uid), workload.str_at(&uid));
    if !wanted.is_empty() && wanted != found {
        return Err(ScaleError::Uid { wanted: wanted.into(), found: found.into() });
    }
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    if let Some((name, parents)) = fields.replicas.split_last() {
        let parent = parents.iter().fold(workload.make_map(), |map, parent| map.ensure_map(parent));
        parent.insert(*name, replicas);
    }
    let metadata = workload.ensure_map("metadata");
    match scale.at(&["metadata", "resourceVersion"]) {
        Some(revision) => drop(metadata.insert("resourceVersion", revision.clone())),
        // An update of a custom object needs a revision: that of the object itself.
        None if fields.is_custom => {}
        None => drop(metadata.remove("resourceVersion")),
    }
    Ok(())
}
