//! Validation of the spec.

use std::collections::BTreeSet;

use super::internal::{InternalSpec, InternalVersion};
use super::ratchet::{self, SchemaStrictness, Strictness};
use super::{conversion, names, schema, version};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::check::{self, GoLayout, format_go};
use crate::names::dns;
use crate::value::{Map, Value};

const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];
/// Version as messages show it.
const VERSION: GoLayout = GoLayout::Struct(&[
    ("Name", "name", GoLayout::Text),
    ("Served", "served", GoLayout::Bool),
    ("Storage", "storage", GoLayout::Bool),
    ("Deprecated", "deprecated", GoLayout::Bool),
    ("DeprecationWarning", "deprecationWarning", GoLayout::Plain),
    ("Schema", "schema", GoLayout::Plain),
    ("Subresources", "subresources", GoLayout::Plain),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", GoLayout::Plain),
    ("SelectableFields", "selectableFields", GoLayout::Plain),
]);

/// Validates the spec of a definition.
pub(super) fn check_spec(errors: &mut ErrorList, spec: &InternalSpec<'_>, strictness: &Strictness<'_>) {
    let path = Path::root("spec");
    let value = spec.value;
    names::check_group(errors, &path, check::text(value, "group"));
    match check::text(value, "scope") {
        "" => errors.push(FieldError::required(&path.child("scope"), "")),
        scope if !SCOPES.contains(&scope) => {
            errors.push(FieldError::not_supported(&path.child("scope"), scope, &SCOPES));
        }
        _ => {}
    }
    require_schemas(errors, &path, spec, strictness.schemas);
    let mut schemas = strictness.schema;
    let has_defaults = ratchet::has_defaults(spec);
    schemas.structural |= !spec.preserves_unknown_fields() || has_defaults || ratchet::uses_extensions(spec);
    if has_defaults && spec.preserves_unknown_fields() {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(&path.child("preserveUnknownFields"), true, detail));
    }
    let versions = path.child("versions");
    for (i, (one, has_status)) in spec.versions.iter().zip(spec.statuses()).enumerate() {
        check_version(errors, &versions.index(i), one, has_status, schemas, strictness);
    }
    check_version_set(errors, &path, spec);
    let names = check::field(value, "names");
    names::require_names(errors, &path.child("names"), names);
    names::check_names(errors, &path.child("names"), names);
    let has_status = spec.has_any_status();
    schema::check_validation(errors, &path.child("validation"), spec.validation, has_status, schemas);
    version::check_subresources(errors, &path.child("subresources"), spec.subresources);
    version::check_columns(errors, &path, spec.columns);
    if !spec.selectable_fields.is_empty() {
        let path = path.child("selectableFields");
        match spec.validation {
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid(&path, "", detail));
            }
            Some(validation) => {
                let schema = check::field(validation, "openAPIV3Schema");
                let allows_too_many = strictness.too_many_fields.contains("");
                let fields = spec.selectable_fields;
                version::check_selectable_fields(errors, &path, fields, schema, allows_too_many);
            }
        }
    }
    conversion::check_conversion(errors, &path, value, strictness.conversion);
}

/// Adds errors for versions without a schema.
fn require_schemas(errors: &mut ErrorList, path: &Path<'_>, spec: &InternalSpec<'_>, requires_all: bool) {
    let has = |validation: Option<&Value>| {
        validation.is_some_and(|validation| check::is_set(validation, "openAPIV3Schema"))
    };
    if has(spec.validation) || (!requires_all && spec.preserves_unknown_fields()) {
        return;
    }
    let versions = path.child("versions");
    for (i, version) in spec.versions.iter().enumerate() {
        if has(version.schema) || !(requires_all || check::boolean(version.value, "served")) {
            continue;
        }
        let path = versions.index(i);
        let path = path.child("schema");
        let detail = if requires_all { "" } else { "because otherwise all fields are pruned" };
        errors.push(FieldError::required(&path.child("openAPIV3Schema"), detail));
    }
}

fn check_version(
    errors: &mut ErrorList,
    path: &Path<'_>,
    one: &InternalVersion<'_>,
    has_status: bool,
    schemas: SchemaStrictness,
    strictness: &Strictness<'_>,
) {
    names::push_joined(errors, &path.child("name"), one.name, &dns::label_1035(one.name));
    version::check_deprecation(errors, path, one.value);
    schema::check_validation(errors, &path.child("schema"), one.schema, has_status, schemas);
    version::check_subresources(errors, &path.child("subresources"), one.subresources);
    version::check_columns(errors, path, one.columns);
    if one.selectable_fields.is_empty() {
        return;
    }
    let path = path.child("selectableFields");
    let schema = one.schema.map_or(check::ABSENT, |schema| check::field(schema, "openAPIV3Schema"));
    if schema.is_null() {
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        return errors.push(FieldError::invalid(&path, "", detail));
    }
    let allows_too_many = strictness.too_many_fields.contains(one.name);
    version::check_selectable_fields(errors, &path, one.selectable_fields, schema, allows_too_many);
}

/// Validates the versions as a whole.
fn check_version_set(errors: &mut ErrorList, path: &Path<'_>, spec: &InternalSpec<'_>) {
    let names: BTreeSet<&str> = spec.versions.iter().map(|version| version.name).collect();
    let storage = spec.versions.iter().filter(|version| check::boolean(version.value, "storage")).count();
    let path = path.child("versions");
    if names.len() != spec.versions.len() {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid(&path, shown_versions(spec), detail));
    }
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(&path, shown_versions(spec), detail));
    }
}

/// Versions as messages show them: without the parts that they have in common.
fn shown_versions(spec: &InternalSpec<'_>) -> BadValue {
    if check::field(spec.value, "versions").is_null() {
        return BadValue::Null;
    }
    let shown = |version: &InternalVersion<'_>| {
        let mut map = Map::new();
        for name in ["name", "served", "storage", "deprecated", "deprecationWarning"] {
            map.insert(name, check::field(version.value, name).clone());
        }
        for (name, value) in [("schema", version.schema), ("subresources", version.subresources)] {
            map.insert(name, value.cloned().unwrap_or_default());
        }
        let lists =
            [("additionalPrinterColumns", version.columns), ("selectableFields", version.selectable_fields)];
        for (name, list) in lists {
            let value = if list.is_empty() { Value::Null } else { Value::List(list.to_vec()) };
            map.insert(name, value);
        }
        Value::Map(map)
    };
    let versions = Value::List(spec.versions.iter().map(shown).collect());
    format_go(&versions, &GoLayout::List(&VERSION))
}
