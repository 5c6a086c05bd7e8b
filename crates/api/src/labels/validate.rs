//! Checking a `LabelSelector` in an object.

use super::Expression;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::{key, metadata};

/// Checks a `LabelSelector`. `allow_invalid_values` lets values through that cannot be those of labels, for
/// updates of objects that have such values already.
pub fn validate<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    match_labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    match_expressions: &[Expression<'_>],
    allow_invalid_values: bool,
) {
    metadata::labels(errors, &path.child("matchLabels"), match_labels);
    for (i, expression) in match_expressions.iter().enumerate() {
        let list = path.child("matchExpressions");
        validate_requirement(errors, &list.index(i), expression, allow_invalid_values);
    }
}

/// Checks one expression of a `LabelSelector`.
pub fn validate_requirement(
    errors: &mut ErrorList,
    path: &Path<'_>,
    expression: &Expression<'_>,
    allow_invalid_values: bool,
) {
    let values = path.child("values");
    match expression.operator {
        "In" | "NotIn" if expression.values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values, detail));
        }
        "Exists" | "DoesNotExist" if !expression.values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let value = BadValue::json_string(other);
            errors.push(FieldError::invalid(&path.child("operator"), value, "not a valid selector operator"));
        }
    }
    errors.push_invalid(&path.child("key"), expression.key, key::label_key(expression.key));
    if !allow_invalid_values {
        for (i, value) in expression.values.iter().enumerate() {
            errors.push_invalid(&values.index(i), value, key::label_value(value));
        }
    }
}
