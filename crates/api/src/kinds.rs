//! What is particular to each kind: defaults, validation, what a write may touch.
//!
//! Everything that kinds have in common (names, metadata, decoding, apply, storage) is done elsewhere, driven by
//! the schema. What is left is [`Rules`], one implementation per kind, one file per kind or small group. To
//! add a kind, add its file and a line in [`rules`].

pub mod core;

use crate::field_error::{ErrorList, Path};
use crate::fields::FieldLabels;
use crate::names::NameRule;
use crate::value::Value;

/// What is particular to a kind. Objects are those of its storage version, decoded; absent and null are the same.
///
/// The pipeline calls, for a create: `default`, admission, `prepare_create`, `validate`, `validate_create`. For an
/// update: `default`, admission, `prepare_update`, `validate`, `validate_update`. For the status subresource:
/// `default`, `prepare_status`, `validate_status`.
pub trait Rules: Send + Sync {
    /// How the object may be called.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Fills in what the client left out, as upstream's versioned defaults do. Idempotent.
    fn default(&self, _object: &mut Value) {}

    /// What a create may not say: by default nothing but `status`, where that is a subresource.
    fn prepare_create(&self, object: &mut Value) {
        if self.has_status()
            && let Some(map) = object.as_map_mut()
        {
            map.remove("status");
        }
    }

    /// What an update may not change: by default `status`, where that is a subresource.
    fn prepare_update(&self, new: &mut Value, old: &Value) {
        if self.has_status() {
            keep(new, old, "status");
        }
    }

    /// What a status update may not change: by default `spec`. The pipeline has kept the metadata already.
    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
    }

    /// Whether `status` is written through a subresource of its own.
    fn has_status(&self) -> bool {
        false
    }

    /// Whether `metadata.generation` counts: it is 1 at first and rises when [`Rules::desire_changed`].
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether an update changed what is wanted: by default `spec`.
    fn desire_changed(&self, new: &Value, old: &Value) -> bool {
        new.get("spec") != old.get("spec")
    }

    /// What is wrong with an object, metadata apart.
    fn validate(&self, object: &Value, errors: &mut ErrorList);

    /// What is wrong with a new object, beside what is wrong with any.
    fn validate_create(&self, _object: &Value, _errors: &mut ErrorList) {}

    /// What is wrong with a change, beside what is wrong with the new object.
    fn validate_update(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    /// What is wrong with a change of the status.
    fn validate_status(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    /// What the writer should know, although it is no error.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update may make the object if it is not there.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update may leave out the revision it expects.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// By which fields, beside name and namespace, objects can be selected.
    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &FieldLabels::METADATA
    }

    /// The values of those fields.
    fn fields(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The rules of a kind, by group and kind; nothing if it is not served.
#[must_use]
pub fn rules(group: &str, kind: &str) -> Option<&'static dyn Rules> {
    Some(match (group, kind) {
        ("", "ConfigMap") => &core::config_map::ConfigMap,
        ("", "Pod") => &core::pod::Pod,
        ("", "PodTemplate") => &core::pod_template::PodTemplate,
        ("", "ReplicationController") => &core::replication_controller::ReplicationController,
        _ => return None,
    })
}

/// Sets a top-level field of `new` back to what it is in `old`.
pub fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(map) = new.as_map_mut() else { return };
    match old.get(field) {
        Some(value) => drop(map.insert(field, value.clone())),
        None => drop(map.remove(field)),
    }
}

/// The error for a field that differs from what it was.
pub fn check_immutable(errors: &mut ErrorList, path: &Path<'_>, new: Option<&Value>, old: Option<&Value>) {
    let or_null = |value: Option<&Value>| value.cloned().unwrap_or(Value::Null);
    if or_null(new) != or_null(old) {
        let shown = crate::field_error::BadValue::Json(crate::json::to_text(&or_null(new)).into());
        errors.push(crate::field_error::FieldError::invalid(path, shown, "field is immutable"));
    }
}
