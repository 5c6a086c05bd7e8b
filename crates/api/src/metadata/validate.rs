//! Validation of metadata.

use super::{deletion_timestamp, finalizers, generation, name, namespace, owners, pairs, text};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::json;
use crate::names::{self, NameRule};
use crate::value::Value;

use super::options::validate_field_manager;

/// Maximum bytes of a subresource name in `managedFields`.
const SUBRESOURCE_BYTES_MAX: usize = 256;

/// Per-kind rules for metadata.
#[derive(Clone, Copy, Debug)]
pub struct MetadataRules {
    /// Format of the name.
    pub name: NameRule,
    /// `true` if the kind is namespaced.
    pub namespaced: bool,
    /// `true` if finalizers must be standard or have a domain prefix: built-in kinds.
    pub standard_finalizers: bool,
}

/// Validates the metadata of a new object.
pub fn create(errors: &mut ErrorList, object: &Value, rules: &MetadataRules) {
    check_common(errors, &Path::root("metadata"), object, &Value::Null, rules.name, rules.namespaced);
    if rules.standard_finalizers {
        check_standard_finalizers(errors, object);
    }
}

/// Validates the metadata of an update. The name is immutable, so the format of names is not checked again:
/// an object that was created under an older rule can still be updated.
pub fn update(errors: &mut ErrorList, new: &Value, old: &Value, rules: &MetadataRules) {
    let path = Path::root("metadata");
    check_common(errors, &path, new, old, NameRule::PathSegment, rules.namespaced);
    if deletion_timestamp(old).is_some() {
        let path = path.child("finalizers");
        names::metadata::finalizers_only_removed(errors, &path, &finalizers(new), &finalizers(old));
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid(&path.child("resourceVersion"), "", detail));
    }
    if generation(new) < generation(old) {
        let detail = "must not be decremented";
        errors.push(FieldError::invalid(&path.child("generation"), generation(new), detail));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            let value = text(new, field);
            errors.push(FieldError::invalid(&path.child(field), value, "field is immutable"));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let get =
            |object| super::of(object).and_then(|meta| meta.get(field)).filter(|value| !value.is_null());
        if get(new) != get(old) {
            let value = get(new).map_or(BadValue::Null, |value| BadValue::Json(json::to_text(value).into()));
            errors.push(FieldError::invalid(&path.child(field), value, "field is immutable"));
        }
    }
    if rules.standard_finalizers {
        check_standard_finalizers(errors, new);
    }
}

/// Validates the metadata of a resource that is embedded in another. It needs no name.
pub(crate) fn embedded(errors: &mut ErrorList, path: &Path<'_>, object: &Value) {
    let is_namespaced = !namespace(object).is_empty();
    let mut named = None;
    if name(object).is_empty() {
        let copy = named.insert(object.clone());
        copy.ensure_map("metadata").insert("name", "unnamed");
    }
    let object = named.as_ref().unwrap_or(object);
    check_common(errors, path, object, &Value::Null, NameRule::PathSegment, is_namespaced);
}

/// Validates the fields of all metadata. Parts that `old` has too were validated before.
fn check_common(
    errors: &mut ErrorList,
    path: &Path<'_>,
    object: &Value,
    old: &Value,
    rule: NameRule,
    namespaced: bool,
) {
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        errors.push_invalid(&path.child("generateName"), prefix, rule.check_prefix(prefix));
    }
    match name(object) {
        "" => errors.push(FieldError::required(&path.child("name"), "name or generateName is required")),
        name => errors.push_invalid(&path.child("name"), name, rule.check(name)),
    }
    match (namespaced, namespace(object)) {
        (true, "") => errors.push(FieldError::required(&path.child("namespace"), "")),
        (true, namespace) => {
            errors.push_invalid(&path.child("namespace"), namespace, NameRule::Label.check(namespace));
        }
        (false, "") => {}
        (false, _) => {
            errors.push(FieldError::forbidden(&path.child("namespace"), "not allowed on this type"));
        }
    }
    if generation(object) < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation(object), detail));
    }
    let field = |field: &str| {
        let was = super::of(old).and_then(|meta| meta.get(field));
        super::of(object)?.get(field).filter(|value| Some(*value) != was)
    };
    names::metadata::labels(errors, &path.child("labels"), pairs(field("labels")));
    names::metadata::annotations(errors, &path.child("annotations"), pairs(field("annotations")));
    if let Some(references) = field("ownerReferences") {
        owners::validate(errors, &path.child("ownerReferences"), references);
    }
    if field("finalizers").is_some() {
        names::metadata::finalizers(errors, &path.child("finalizers"), &finalizers(object));
    }
    let entries = field("managedFields").and_then(Value::as_list).unwrap_or_default();
    managed_fields(errors, &path.child("managedFields"), entries);
}

fn check_standard_finalizers(errors: &mut ErrorList, object: &Value) {
    let metadata = Path::root("metadata");
    let path = metadata.child("finalizers");
    for (i, finalizer) in finalizers(object).into_iter().enumerate() {
        names::metadata::finalizer_standard(errors, &path.index(i), finalizer);
    }
}

/// Validates the entries of `managedFields`, except their field sets.
pub fn managed_fields(errors: &mut ErrorList, path: &Path<'_>, entries: &[Value]) {
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        match entry.str_at(&["operation"]) {
            "Apply" | "Update" => {}
            "" => errors.push(FieldError::required(&path.child("operation"), "must not be empty")),
            other => {
                let (path, value) = (path.child("operation"), BadValue::json_string(other));
                errors.push(FieldError::not_supported(&path, value, &["Apply", "Update"]));
            }
        }
        let kind = entry.str_at(&["fieldsType"]);
        if !matches!(kind, "" | "FieldsV1") {
            errors.push(FieldError::invalid(&path.child("fieldsType"), kind, "must be `FieldsV1`"));
        }
        validate_field_manager(errors, &path.child("manager"), entry.str_at(&["manager"]));
        if entry.str_at(&["subresource"]).len() > SUBRESOURCE_BYTES_MAX {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_BYTES_MAX));
        }
    }
}
