//! Validation of a schema: keywords that are not supported, and extensions that contradict each other.

use super::field_path;
use super::ratchet::SchemaStrictness;
use super::schema_lists;
use super::structural_checks;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::check;
use crate::value::Value;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// Fields that every object has.
const META_FIELDS: [(&str, &str); 3] = [
    ("apiVersion", "in top-level apiVersion"),
    ("kind", "in top-level kind"),
    ("metadata", "in top-level metadata"),
];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
/// Fields that a root schema may have if the status is a subresource, with their names in Go.
const ROOT_FIELDS: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// Position of a schema that decides on allowed keywords.
#[derive(Clone, Copy, Default)]
struct Position {
    is_root: bool,
    /// Inside the metadata of an object.
    is_in_meta: bool,
    /// Reason for which defaults are forbidden.
    forbidden_defaults: Option<&'static str>,
}

/// Validates the schema of a version. `path` is that of the structure around it.
pub(super) fn check_validation(
    errors: &mut ErrorList,
    path: &Path<'_>,
    validation: Option<&Value>,
    has_status: bool,
    strictness: SchemaStrictness,
) {
    let Some(schema) = validation.and_then(|validation| validation.get("openAPIV3Schema")) else { return };
    if schema.is_null() {
        return;
    }
    let before = errors.len();
    if has_status {
        check_root_with_status(errors, path, schema);
    }
    if check::boolean(schema, "nullable") {
        let path = path.child("openAPIV3Schema.nullable");
        errors.push(FieldError::forbidden(&path, "nullable cannot be true at the root"));
    }
    let path = path.child("openAPIV3Schema");
    let mut fault = None;
    if strictness.structural {
        let result = structural_checks::check(errors, &path, schema, strictness.pruned_defaults);
        debug_assert!(result.is_valid || result.conversion_fault.is_some() || errors.len() > before);
        fault = result.conversion_fault;
    }
    check_schema(errors, &path, schema, Position { is_root: true, ..Position::default() }, strictness);
    if let Some(fault) = fault.filter(|_| errors.len() == before) {
        errors.push(fault);
    }
}

/// Validates a root schema whose property `status` is validated on its own.
fn check_root_with_status(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    // Go compares the fields in their order; these come before the type.
    let is_early = |name: &str| matches!(name, "id" | "$schema" | "$ref");
    let is_allowed = |name: &str| ROOT_FIELDS.iter().any(|(_, allowed)| *allowed == name);
    let forbidden: Vec<&str> = schema
        .as_map()
        .into_iter()
        .flat_map(|map| map.iter())
        .filter(|(name, value)| !is_allowed(name) && !is_zero(name, value))
        .map(|(name, _)| name)
        .collect();
    let kind = check::text(schema, "type");
    let has_bad_type = !kind.is_empty() && kind != "object";
    if has_bad_type && !forbidden.iter().any(|name| is_early(name)) {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return errors.push(FieldError::invalid(&path.child("openAPIV3Schema.type"), kind, detail));
    }
    if !forbidden.is_empty() {
        let names: Vec<&str> = ROOT_FIELDS.iter().map(|(go, _)| *go).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        let value = check::shown(schema);
        errors.push(FieldError::invalid(&path.child("openAPIV3Schema"), value, detail));
    }
}

/// `true` if a field has the zero value of its Go type.
fn is_zero(name: &str, value: &Value) -> bool {
    let is_pointer = matches!(
        name,
        "$ref"
            | "default"
            | "maxProperties"
            | "minProperties"
            | "not"
            | "additionalProperties"
            | "additionalItems"
            | "x-kubernetes-list-type"
            | "x-kubernetes-map-type"
    );
    if is_pointer { value.is_null() } else { value.is_empty() }
}

/// `true` if the type is not one of OpenAPI.
pub(super) fn has_invalid_type(schema: &Value) -> bool {
    let kind = check::text(schema, "type");
    !kind.is_empty() && !TYPES.contains(&kind)
}

fn check_schema(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    position: Position,
    strictness: SchemaStrictness,
) {
    if schema.as_map().is_none() || errors.is_full() {
        return;
    }
    check_keywords(errors, path, schema, position, strictness);
    check_fields(errors, path, schema, position, strictness);
    let inner = Position { is_root: false, ..position };
    check_schema(errors, &path.child("not"), check::field(schema, "not"), inner, strictness);
    for name in ["allOf", "oneOf", "anyOf"] {
        let path = path.child(name);
        for (i, part) in check::list(schema, name).iter().enumerate() {
            check_schema(errors, &path.index(i), part, inner, strictness);
        }
    }
    let check_map = |errors: &mut ErrorList, name: &str| {
        let path = path.child(name);
        for (key, part) in check::entries(schema, name) {
            check_schema(errors, &path.key(key), part, inner, strictness);
        }
    };
    check_map(errors, "definitions");
    let items = path.child("items");
    match check::field(schema, "items") {
        Value::List(schemas) => {
            for (i, part) in schemas.iter().enumerate() {
                check_schema(errors, &items.index(i), part, inner, strictness);
            }
        }
        schema => check_schema(errors, &items, schema, inner, strictness),
    }
    check_map(errors, "dependencies");
    if check::field(schema, "x-kubernetes-preserve-unknown-fields").as_bool() == Some(false) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(&path, false, "must be true or undefined"));
    }
    schema_lists::check_list_and_map_types(errors, path, schema, strictness);
    for (i, rule) in check::list(schema, "x-kubernetes-validations").iter().enumerate() {
        let path = path.child("x-kubernetes-validations");
        check_rule(errors, &path.index(i), schema, rule);
    }
}

/// Validates the keywords of OpenAPI that schemas may not use.
fn check_keywords(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    position: Position,
    strictness: SchemaStrictness,
) {
    let kind = check::text(schema, "type");
    if strictness.valid_types && has_invalid_type(schema) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
    }
    let mut forbid =
        |name: &str, detail: String| errors.push(FieldError::forbidden(&path.child(name), detail));
    if let Some(reason) = position.forbidden_defaults.filter(|_| check::is_set(schema, "default")) {
        forbid("default", format!("must not be set {reason}"));
    }
    let has = |name: &str| {
        let value = check::field(schema, name);
        match name {
            "id" | "patternProperties" | "definitions" => !value.is_empty(),
            _ => !value.is_null(),
        }
    };
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if has(name) {
            forbid(name, format!("{name} is not supported"));
        }
    }
    if kind == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative".to_owned());
    }
    if !check::list(schema, "items").is_empty() {
        forbid("items", "items must be a schema object and not an array".to_owned());
    }
    if position.is_in_meta && check::boolean(schema, "x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta".to_owned());
    }
    if check::boolean(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbid("uniqueItems", detail.to_owned());
    }
}

/// Validates `additionalProperties` and `properties`.
fn check_fields(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    position: Position,
    strictness: SchemaStrictness,
) {
    let (others, properties) =
        (check::field(schema, "additionalProperties"), check::entries(schema, "properties"));
    let inner = Position { is_root: false, ..position };
    if !others.is_null() {
        let path = path.child("additionalProperties");
        if !properties.is_empty() && others.as_bool() != Some(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&path, detail));
        }
        let reason = "inside additionalProperties applying to object metadata";
        let forbidden = if position.is_in_meta { Some(reason) } else { position.forbidden_defaults };
        check_schema(errors, &path, others, Position { forbidden_defaults: forbidden, ..inner }, strictness);
    }
    let path = path.child("properties");
    let is_object = position.is_root || check::boolean(schema, "x-kubernetes-embedded-resource");
    for (name, property) in properties {
        let meta = META_FIELDS.iter().find(|(field, _)| is_object && *field == name);
        let mut inner = inner;
        if let Some((_, reason)) = meta {
            inner.is_in_meta = true;
            if position.is_root {
                inner.forbidden_defaults = Some(reason);
            }
        }
        check_schema(errors, &path.key(name), property, inner, strictness);
    }
}

/// Validates a validation rule, except its expressions.
fn check_rule(errors: &mut ErrorList, path: &Path<'_>, schema: &Value, rule: &Value) {
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let (source, message) = (check::text(rule, "rule").trim(), check::text(rule, "message"));
    let trimmed = message.trim();
    let at = path.child("message");
    if source.is_empty() {
        errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && trimmed.is_empty() {
        errors.push(FieldError::invalid(&at, message, "must be non-empty if specified"));
    } else if has_breaks(trimmed) {
        errors.push(FieldError::invalid(&at, message, "must not contain line breaks"));
    } else if has_breaks(source) && trimmed.is_empty() {
        errors.push(FieldError::required(&at, "message must be specified if rule contains line breaks"));
    }
    let expression = check::text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&path.child("messageExpression"), detail));
    }
    if let Some(reason) = check::field(rule, "reason").as_str().filter(|reason| !REASONS.contains(reason)) {
        let value = BadValue::json_string(reason);
        errors.push(FieldError::not_supported(&path.child("reason"), value, &REASONS));
    }
    let (target, at) = (check::text(rule, "fieldPath"), path.child("fieldPath"));
    if target.is_empty() {
        return;
    }
    if target.trim().is_empty() {
        errors.push(FieldError::invalid(&at, target, "must be non-empty if specified"));
    }
    if has_breaks(target) {
        errors.push(FieldError::invalid(&at, target, "must not contain line breaks"));
    }
    if field_path::resolve(target, schema, true).is_err() {
        errors.push(FieldError::invalid(&at, target, "must be a valid path"));
    }
}
