//! Validation of `meta/v1` conditions.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{check_label_key, check_one_of, field, list, number, text};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::Value;

const REASON_BYTES_MAX: usize = 1 << 10;
const MESSAGE_BYTES_MAX: usize = 32 << 10;
const REASON_FAULT: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Validates the conditions in field `name` of `value`.
pub(crate) fn check_conditions(errors: &mut ErrorList, path: &Path<'_>, value: &Value, name: &str) {
    let path = path.child(name);
    let mut seen = BTreeSet::new();
    for (i, one) in list(value, name).iter().enumerate() {
        let at = path.index(i);
        if !seen.insert(text(one, "type")) {
            errors.push(FieldError::duplicate(&at, text(one, "type")));
        }
        check_condition(errors, &at, one);
    }
}

fn check_condition(errors: &mut ErrorList, path: &Path<'_>, of: &Value) {
    match text(of, "type") {
        "" => errors.push(FieldError::required(&path.child("type"), "is required")),
        kind => check_label_key(errors, &path.child("type"), kind),
    }
    match text(of, "status") {
        "" => errors.push(FieldError::required(&path.child("status"), "")),
        status => check_one_of(errors, &path.child("status"), status, &["False", "True", "Unknown"]),
    }
    if number(of, "observedGeneration") < 0 {
        let detail = "must be greater than or equal to zero";
        let path = path.child("observedGeneration");
        errors.push(FieldError::invalid(&path, number(of, "observedGeneration"), detail));
    }
    if field(of, "lastTransitionTime").is_empty() {
        errors.push(FieldError::required(&path.child("lastTransitionTime"), ""));
    }
    let at = path.child("reason");
    match text(of, "reason") {
        "" => errors.push(FieldError::required(&at, "")),
        reason => {
            errors.push_invalid(&at, reason, reason_faults(reason));
            if reason.len() > REASON_BYTES_MAX {
                errors.push(FieldError::too_long(&at, REASON_BYTES_MAX));
            }
        }
    }
    if text(of, "message").len() > MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("message"), MESSAGE_BYTES_MAX));
    }
}

/// Validates the reason of a condition.
pub(crate) fn reason_faults(reason: &str) -> Option<Cow<'static, str>> {
    let bytes = reason.as_bytes();
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let good = match bytes {
        [first, rest @ ..] => {
            first.is_ascii_alphabetic()
                && rest.iter().all(|b| word(*b) || matches!(b, b',' | b':'))
                && rest.last().is_none_or(|b| word(*b))
        }
        [] => false,
    };
    (!good).then_some(Cow::Borrowed(REASON_FAULT))
}
