//! Namespace: the scope of most other objects.
//!
//! Deletion: a delete sets the phase Terminating, a controller deletes the contents and then removes its
//! finalizer through the `finalize` subresource. The namespace is removed with its last finalizer.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::{Rules, SelectableFields, keep};
use crate::metadata::delete::{Deletion, GarbagePolicy};
use crate::metadata::options::DeleteOptions;
use crate::metadata::{self, delete, texts, update};
use crate::names::NameRule;
use crate::names::key::label_key;
use crate::names::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, finalizer_standard};
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::{Map, Value};

/// Finalizer for the contents of the namespace.
const FINALIZER_KUBERNETES: &str = "kubernetes";
/// Label with the name of the namespace, which every namespace has, for selectors.
const LABEL_NAME: &str = "kubernetes.io/metadata.name";

const FIELDS: FieldLabels<'static> = FieldLabels {
    known: &[("status.phase", "status.phase"), ("metadata.name", "metadata.name")],
    unsupported: UnsupportedLabel::Plain,
};

/// Rules of Namespace.
pub struct Namespace;

impl Rules for Namespace {
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn default(&self, object: &mut Value) {
        label(object);
        let status = object.ensure_map("status");
        if status.get("phase").is_none_or(Value::is_empty) {
            status.insert("phase", "Active");
        }
    }

    fn has_status(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        label(object);
        let mut status = Map::with_capacity(1);
        status.insert("phase", "Active");
        object.make_map().insert("status", status);
        let finalizers = object.ensure_map("spec").ensure("finalizers", || Value::List(Vec::new()));
        if finalizers.is_null() {
            *finalizers = Value::List(Vec::new());
        }
        if let Value::List(list) = finalizers
            && !list.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER_KUBERNETES))
        {
            list.push(FINALIZER_KUBERNETES.into());
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        let spec = new.ensure_map("spec");
        match old.at(&["spec", "finalizers"]) {
            Some(finalizers) => drop(spec.insert("finalizers", finalizers.clone())),
            None => drop(spec.remove("finalizers")),
        }
        label(new);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let spec = Path::root("spec");
        for finalizer in texts(object.at(&["spec", "finalizers"])) {
            check_finalizer(errors, &spec.child("finalizers"), finalizer);
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let status = Path::root("status");
        let path = status.child("Phase");
        let phase = new.str_at(&["status", "phase"]);
        let value = || BadValue::json_string(phase);
        match (metadata::deletion_timestamp(new), phase) {
            (None, "Active") | (Some(_), "Terminating") => {}
            (None, _) => {
                let detail = "may only be 'Active' if `deletionTimestamp` is empty";
                errors.push(FieldError::invalid(&path, value(), detail));
            }
            (Some(_), _) => {
                let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
                errors.push(FieldError::invalid(&path, value(), detail));
            }
        }
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &FIELDS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        vec![("status.phase", object.str_at(&["status", "phase"]).into())]
    }
}

/// Resets the status in a write to the `finalize` subresource, which may set the finalizers of the spec.
pub fn prepare_finalize(new: &mut Value, old: &Value) {
    keep(new, old, "status");
}

/// Validates a write to the `finalize` subresource.
pub fn validate_finalize(new: &Value, errors: &mut ErrorList) {
    let spec = Path::root("spec");
    let path = spec.child("finalizers");
    for (i, finalizer) in texts(new.at(&["spec", "finalizers"])).into_iter().enumerate() {
        check_finalizer(errors, &path.index(i), finalizer);
    }
}

/// `true` if an update removed the last finalizer of a namespace in deletion.
#[must_use]
pub fn is_released(new: &Value, old: &Value) -> bool {
    texts(new.at(&["spec", "finalizers"])).is_empty() && update::is_released(new, old)
}

/// Applies a delete to a namespace.
///
/// # Errors
/// If the namespace does not meet the preconditions. The response is a conflict on `namespaces`, with the
/// [message of the storage layer](delete::PreconditionError::store_message).
pub fn delete(
    mut namespace: Value,
    options: &DeleteOptions<'_>,
    now: Time,
) -> Result<Deletion, delete::PreconditionError> {
    delete::check_preconditions(&namespace, options)?;
    if metadata::deletion_timestamp(&namespace).is_none() {
        let finalizers = dependents_finalizers(&namespace, options);
        let meta = namespace.ensure_map("metadata");
        meta.insert("deletionTimestamp", Seconds(now).to_string());
        if finalizers.is_empty() {
            meta.remove("finalizers");
        } else {
            meta.insert("finalizers", finalizers);
        }
        namespace.ensure_map("status").insert("phase", "Terminating");
        return Ok(Deletion::Mark(namespace));
    }
    if !texts(namespace.at(&["spec", "finalizers"])).is_empty() {
        return Ok(Deletion::Pending);
    }
    delete::delete(namespace, options, GarbagePolicy::DeleteDependents, None, now)
}

/// Finalizers with that of the propagation policy. Unlike for other kinds, not to orphan means foreground
/// deletion.
fn dependents_finalizers(namespace: &Value, options: &DeleteOptions<'_>) -> Vec<Value> {
    let old = metadata::finalizers(namespace);
    let wants = |finalizer: &str, policy: &str, orphan: bool| match options {
        DeleteOptions { orphan_dependents: Some(orphans), .. } => *orphans == orphan,
        DeleteOptions { propagation_policy: Some(requested), .. } => *requested == policy,
        _ => old.contains(&finalizer),
    };
    let all = [(FINALIZER_ORPHAN, "Orphan", true), (FINALIZER_FOREGROUND, "Foreground", false)];
    let is_ours = |name: &str| all.iter().any(|(ours, ..)| *ours == name);
    let wanted = all.iter().filter(|(name, policy, orphan)| wants(name, policy, *orphan));
    let others = old.iter().copied().filter(|name| !is_ours(name));
    others.chain(wanted.map(|(name, ..)| *name)).map(Value::from).collect()
}

fn check_finalizer(errors: &mut ErrorList, path: &Path<'_>, finalizer: &str) {
    errors.push_invalid(path, finalizer, label_key(finalizer));
    finalizer_standard(errors, path, finalizer);
}

/// Adds the name label, once the namespace has a name.
fn label(object: &mut Value) {
    let name = metadata::name(object).to_owned();
    if !name.is_empty() && metadata::entry(object, "labels", LABEL_NAME) != Some(&name) {
        object.ensure_map("metadata").ensure_map("labels").insert(LABEL_NAME, name);
    }
}
