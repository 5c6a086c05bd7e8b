//! Validation of claim templates of ephemeral volumes.

use super::super::resources;
use crate::field_error::{BadValue, ErrorList, Path};
use crate::kinds::read::{
    check_optional_selector, check_supported, list, optional_text, present, push_forbidden, push_invalid,
    push_required, quantity, text, text_entries,
};
use crate::names::{dns, metadata};
use crate::value::Value;

/// Access modes.
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// Metadata that a claim template must not have, in the order of validation.
const NOT_IN_TEMPLATES: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
];

/// Validates an ephemeral volume.
pub(super) fn check_template(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = present(source, "volumeClaimTemplate") else {
        return push_required(errors, &path, "");
    };
    if let Some(meta) = present(template, "metadata") {
        let path = path.child("metadata");
        metadata::annotations(errors, &path.child("annotations"), text_entries(meta, "annotations"));
        metadata::labels(errors, &path.child("labels"), text_entries(meta, "labels"));
        for field in NOT_IN_TEMPLATES.into_iter().chain(["managedFields"]) {
            if present(meta, field).is_some_and(|value| !value.is_empty()) {
                let shown = if field == "uid" { "uID" } else { field };
                push_forbidden(errors, &path.child(shown), "cannot be set");
            }
        }
    }
    let none = Value::map();
    check_claim_spec(errors, &path.child("spec"), present(template, "spec").unwrap_or(&none));
}

/// Validates a claim spec.
pub(crate) fn check_claim_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let modes_path = path.child("accessModes");
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        push_required(errors, &modes_path, "at least 1 access mode is required");
    }
    check_optional_selector(errors, &path.child("selector"), present(spec, "selector"));
    let (mut for_one_pod, mut for_more) = (false, false);
    for mode in modes.iter().map(|mode| mode.as_str().unwrap_or_default()) {
        check_supported(errors, &modes_path, mode, &ACCESS_MODES);
        for_one_pod |= mode == "ReadWriteOncePod";
        for_more |= mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode);
    }
    if for_one_pod && for_more {
        push_forbidden(errors, &modes_path, "may not use ReadWriteOncePod with other access modes");
    }
    check_storage(errors, &path.child("resources").key("storage"), spec);
    check_class_name(errors, path, spec, "storageClassName");
    if let Some(mode) = optional_text(spec, "volumeMode") {
        check_supported(errors, &path.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    check_data_sources(errors, path, spec);
    check_class_name(errors, path, spec, "volumeAttributesClassName");
}

fn check_storage(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    match spec.at(&["resources", "requests", "storage"]) {
        None => push_required(errors, path, ""),
        Some(amount) if quantity(amount).sign() <= 0 => {
            push_invalid(errors, path, quantity(amount).to_string(), "must be greater than zero");
        }
        Some(amount) => resources::check_amount(errors, path, "storage", amount),
    }
}

fn check_class_name(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, field: &str) {
    let name = text(spec, field);
    if !name.is_empty() {
        errors.push_invalid(&path.child(field), name, dns::subdomain(name));
    }
}

fn check_data_sources(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let sources =
        ["dataSource", "dataSourceRef"].map(|field| present(spec, field).map(|source| (field, source)));
    for (field, source) in sources.iter().flatten() {
        let path = path.child(field);
        for field in ["name", "kind"] {
            if text(source, field).is_empty() {
                push_required(errors, &path.child(field), "");
            }
        }
        let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            push_invalid(errors, &path, kind, detail);
        }
        if !group.is_empty() {
            errors.push_invalid(&path.child("apiGroup"), group, dns::subdomain(group));
        }
        let namespace = text(source, "namespace");
        if !namespace.is_empty() {
            errors.push_invalid(&path.child("namespace"), namespace, dns::label(namespace));
        }
    }
    let [Some((_, source)), Some((_, reference))] = sources else { return };
    // The message shows the path as an object without fields, as Go prints it.
    let shown = || BadValue::Json("{}".into());
    if !text(reference, "namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        push_invalid(errors, path, shown(), detail);
    } else if ["apiGroup", "kind", "name"]
        .iter()
        .any(|field| present(source, field) != present(reference, field))
    {
        push_invalid(errors, path, shown(), "must match dataSourceRef");
    }
}
