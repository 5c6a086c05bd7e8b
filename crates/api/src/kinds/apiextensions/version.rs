//! Validation of the parts of a version: deprecation, subresources, printer columns and selectable fields.

use std::collections::BTreeSet;

use super::field_path;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::check;
use crate::quote::is_printable;
use crate::value::Value;

/// Maximum number of selectable fields of a version.
pub const SELECTABLE_FIELDS_MAX: usize = 8;

const WARNING_BYTES_MAX: usize = 256;
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";

/// Validates `deprecationWarning`.
pub(super) fn check_deprecation(errors: &mut ErrorList, path: &Path<'_>, version: &Value) {
    let Some(warning) = check::field(version, "deprecationWarning").as_str() else { return };
    let path = path.child("deprecationWarning");
    let mut reject =
        |detail: String| errors.push(FieldError::invalid(&path, BadValue::json_string(warning), detail));
    if !check::boolean(version, "deprecated") {
        return reject("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > WARNING_BYTES_MAX {
        reject(format!("must be <= {WARNING_BYTES_MAX} characters long"));
    }
    if warning.is_empty() {
        reject("must not be an empty string".to_owned());
    }
    // Unlike Rust, Go counts only the space among the separators as printable.
    let is_good = |c: char| c == ' ' || (is_printable(c) && !c.is_whitespace());
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !is_good(*c)) {
        reject(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

/// Validates the form of a path that is only evaluated later.
fn check_simple_path(errors: &mut ErrorList, path: &Path<'_>, text: &str) -> bool {
    let is_good = text.starts_with('.');
    if !is_good {
        errors.push(FieldError::invalid(path, text, "must be a simple json path starting with ."));
    }
    is_good
}

/// Validates `subresources`.
pub(super) fn check_subresources(errors: &mut ErrorList, path: &Path<'_>, subresources: Option<&Value>) {
    let scale = subresources.map_or(check::ABSENT, |subresources| check::field(subresources, "scale"));
    if scale.is_null() {
        return;
    }
    let required = [
        ("specReplicasPath", "scale.specReplicasPath", ".spec", ".spec."),
        ("statusReplicasPath", "scale.statusReplicasPath", ".status", ".status."),
    ];
    for (field, name, parent, prefix) in required {
        let (text, path) = (check::text(scale, field), path.child(name));
        if text.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if check_simple_path(errors, &path, text) && !text.starts_with(prefix) {
            errors.push(FieldError::invalid(&path, text, format!("should be a json path under {parent}")));
        }
    }
    let (text, path) = (check::text(scale, "labelSelectorPath"), path.child("scale.labelSelectorPath"));
    if !text.is_empty()
        && check_simple_path(errors, &path, text)
        && ![".spec.", ".status."].iter().any(|prefix| text.starts_with(prefix))
    {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(&path, BadValue::json_string(text), detail));
    }
}

/// Validates `additionalPrinterColumns`.
pub(super) fn check_columns(errors: &mut ErrorList, path: &Path<'_>, columns: &[Value]) {
    let path = path.child("additionalPrinterColumns");
    for (i, column) in columns.iter().enumerate() {
        check_column(errors, &path.index(i), column);
    }
}

fn check_column(errors: &mut ErrorList, path: &Path<'_>, column: &Value) {
    if check::text(column, "name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let one_of = |supported: &str| format!("must be one of {supported}");
    let is_in = |text: &str, supported: &str| supported.split(',').any(|one| one == text);
    match check::text(column, "type") {
        "" => errors.push(FieldError::required(&path.child("type"), one_of(COLUMN_TYPES))),
        kind if !is_in(kind, COLUMN_TYPES) => {
            errors.push(FieldError::invalid(&path.child("type"), kind, one_of(COLUMN_TYPES)));
        }
        _ => {}
    }
    let format = check::text(column, "format");
    if !format.is_empty() && !is_in(format, COLUMN_FORMATS) {
        errors.push(FieldError::invalid(&path.child("format"), format, one_of(COLUMN_FORMATS)));
    }
    // Upstream spells the field as in the internal version.
    let (text, path) = (check::text(column, "jsonPath"), path.child("JSONPath"));
    if text.is_empty() {
        errors.push(FieldError::required(&path, ""));
    } else {
        check_simple_path(errors, &path, text);
    }
}

/// Validates `selectableFields` against the schema of the version.
pub(super) fn check_selectable_fields(
    errors: &mut ErrorList,
    path: &Path<'_>,
    fields: &[Value],
    schema: &Value,
    allows_too_many: bool,
) {
    let mut seen = BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let (text, path) = (check::text(field, "jsonPath"), path.index(i));
        let path = path.child("jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let found = match field_path::resolve(text, schema, false) {
            Ok(found) => found,
            Err(fault) => {
                errors.push(FieldError::invalid(&path, text, format!("is an invalid path: {fault}")));
                continue;
            }
        };
        if found.root == "metadata" {
            errors.push(FieldError::invalid(&path, text, "must not point to fields in metadata"));
        }
        let kind = found.schema.map_or("", |schema| check::text(schema, "type"));
        if !["string", "boolean", "integer"].contains(&kind) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&path, text, detail));
        }
        if !seen.insert(found.path) {
            errors.push(FieldError::duplicate(&path, text));
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX && !allows_too_many {
        errors.push(FieldError::too_many(path, Some(seen.len()), SELECTABLE_FIELDS_MAX));
    }
}
