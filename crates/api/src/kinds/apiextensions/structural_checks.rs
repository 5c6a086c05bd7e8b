//! Checks that schemas are structural, and of their defaults. Validation rules are checked by the caller of the kind.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::structural::{Schema, StructuralError, prune, structural_violations, validate_defaults};
use crate::value::Value;

/// Result of the structural checks of a schema.
pub(super) struct StructuralResult {
    /// `true` if the schema is structural and its defaults are valid.
    pub is_valid: bool,
    /// Fault that prevents the conversion to a structural schema. It is reported only if nothing else is, because
    /// the schema checks report most of these too.
    pub conversion_fault: Option<FieldError>,
}

/// Validates that a schema is structural, and its defaults. Adds the errors below `path`.
pub(super) fn check(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    needs_pruned_defaults: bool,
) -> StructuralResult {
    let before = errors.len();
    let mut conversion_fault = None;
    match Schema::compile_as_sent(schema) {
        // The type is reported by the checks of the schema, unless the old one has such types too.
        Err(StructuralError::Type(_)) => errors.append(structural_violations(schema, path)),
        Err(error) => conversion_fault = Some(FieldError::invalid(path, "", error.to_string()).into()),
        Ok(compiled) => {
            errors.append(structural_violations(schema, path));
            if errors.len() == before {
                validate_defaults(&compiled, path, needs_pruned_defaults, errors, &mut |_, _| true);
            }
        }
    }
    StructuralResult { is_valid: conversion_fault.is_none() && errors.len() == before, conversion_fault }
}

/// `true` if a schema is structural.
pub(super) fn is_structural(schema: &Value) -> bool {
    matches!(Schema::compile_as_sent(schema), Ok(_) | Err(StructuralError::Type(_)))
        && structural_violations(schema, &Path::NONE).is_empty()
}

/// `true` if a default of a structural schema has fields without a schema.
pub(super) fn has_unpruned_defaults(schema: &Value) -> bool {
    Schema::compile_as_sent(schema).is_ok_and(|compiled| has_unpruned_default(&compiled, true))
}

fn has_unpruned_default(schema: &Schema, is_root: bool) -> bool {
    let is_resource = is_root || schema.embedded_resource;
    let is_unpruned = schema.default.as_ref().is_some_and(|default| {
        let mut pruned = (**default).clone();
        prune(&mut pruned, schema, is_resource);
        pruned != **default
    });
    is_unpruned
        || schema.items.as_ref().is_some_and(|items| has_unpruned_default(items, false))
        || schema.additional.schema().is_some_and(|schema| has_unpruned_default(schema, false))
        || schema.properties().any(|(_, property)| has_unpruned_default(property, false))
}
