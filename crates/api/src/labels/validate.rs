//! Validation of a `LabelSelector` in an object.

use super::Expression;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::{key, metadata};

/// Validates a `LabelSelector`. `allow_invalid_values` accepts values that are not valid label values, for
/// updates of objects that already have them.
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

/// Validates one match expression of a `LabelSelector`.
pub(crate) fn validate_requirement(
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
