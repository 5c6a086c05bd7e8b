//! Owner references.

use std::collections::BTreeSet;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::json;
use crate::value::Value;

/// Removes duplicate references and returns a warning if there were any. Admission may add references, hence
/// the warning differs before and after it.
pub fn deduplicate(object: &mut Value, after_admission: bool) -> Option<String> {
    let Value::List(references) = object.at_mut(&["metadata", "ownerReferences"])? else { return None };
    if references.len() < 2 {
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut duplicates = Vec::new();
    references.retain(|reference| {
        let is_new = seen.insert(identity(reference));
        if !is_new {
            duplicates.push(reference.str_at(&["uid"]).to_owned());
        }
        is_new
    });
    if duplicates.is_empty() {
        return None;
    }
    let when = if after_admission { " after mutating admission happens" } else { "" };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in \
         1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) \
         observed: {}",
        duplicates.join(", ")
    ))
}

/// Fields by which two references are equal.
fn identity(reference: &Value) -> ([String; 4], [Option<bool>; 2]) {
    let text = |field: &str| reference.str_at(&[field]).to_owned();
    let truth = |field: &str| reference.get(field).and_then(Value::as_bool);
    (["uid", "name", "kind", "apiVersion"].map(text), ["controller", "blockOwnerDeletion"].map(truth))
}

/// Maximum number of further references with `controller: true` that are reported one by one.
const CONTROLLERS_SHOWN_MAX: usize = 4;

/// Validates owner references.
pub(super) fn validate(errors: &mut ErrorList, path: &Path<'_>, references: &Value) {
    let mut controller: Option<String> = None;
    let mut more = 0;
    for (i, reference) in references.as_list().unwrap_or_default().iter().enumerate() {
        validate_one(errors, &path.index(i), reference);
        if reference.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let this = format!("{}/{}", reference.str_at(&["kind"]), reference.str_at(&["name"]));
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for \
                     {first} and {this}"
                );
                // Each of these errors shows all references: the text would grow with the square of their
                // number.
                more += 1;
                if more <= CONTROLLERS_SHOWN_MAX {
                    errors.push(FieldError::invalid(path, shown(references), detail));
                }
            }
        }
    }
}

fn validate_one(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let version = reference.str_at(&["apiVersion"]);
    let parsed = match version.split_once('/') {
        Some((group, version)) if !version.contains('/') => Some((group, version)),
        Some(_) => None,
        None => Some(("", version)),
    };
    if version.is_empty() {
        errors.push(FieldError::required(&path.child("apiVersion"), "must not be empty"));
    } else if parsed.is_none_or(|(_, version)| version.is_empty()) {
        let detail = "must be <group>/<version> or <version>";
        errors.push(FieldError::invalid(&path.child("apiVersion"), version, detail));
    }
    for field in ["kind", "name", "uid"] {
        if reference.str_at(&[field]).is_empty() {
            errors.push(FieldError::required(&path.child(field), "must not be empty"));
        }
    }
    // Events must not own objects.
    if parsed == Some(("", "v1")) && reference.str_at(&["kind"]) == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid(path, shown(reference), detail));
    }
}

fn shown(value: &Value) -> BadValue {
    BadValue::Json(json::to_text(value).into())
}
