//! Conditions in a status.

use std::collections::BTreeSet;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::workload::{int, text};
use crate::names::key;
use crate::value::Value;

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON_FAULT: &str = "a condition reason must start with alphabetic character, optionally followed by a \
    string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. \
    'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for \
    validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Checks a list of conditions.
pub(super) fn check_all(errors: &mut ErrorList, conditions: &[Value], path: &Path<'_>) {
    let mut seen = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&path.index(index), kind));
        }
        check(errors, condition, &path.index(index));
    }
}

fn check(errors: &mut ErrorList, condition: &Value, path: &Path<'_>) {
    let kind = text(condition, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), "is required"));
    } else {
        errors.push_invalid(&path.child("type"), kind, key::label_key(kind));
    }
    let status = text(condition, "status");
    if status.is_empty() {
        errors.push(FieldError::required(&path.child("status"), ""));
    } else if !STATUSES.contains(&status) {
        let value = BadValue::json_string(status);
        errors.push(FieldError::not_supported(&path.child("status"), value, &STATUSES));
    }
    if let Some(generation) = int(condition, "observedGeneration").filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(&path.child("observedGeneration"), generation, detail));
    }
    if text(condition, "lastTransitionTime").is_empty() {
        errors.push(FieldError::required(&path.child("lastTransitionTime"), ""));
    }
    check_reason(errors, text(condition, "reason"), &path.child("reason"));
    if text(condition, "message").len() > MESSAGE_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("message"), MESSAGE_BYTES_MAX));
    }
}

fn check_reason(errors: &mut ErrorList, reason: &str, path: &Path<'_>) {
    if reason.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = reason.as_bytes();
    let is_good = bytes[0].is_ascii_alphabetic()
        && is_word(bytes[bytes.len() - 1])
        && bytes.iter().all(|byte| is_word(*byte) || matches!(byte, b',' | b':'));
    if !is_good {
        errors.push(FieldError::invalid(path, reason, REASON_FAULT));
    }
    if reason.len() > REASON_BYTES_MAX {
        errors.push(FieldError::too_long(path, REASON_BYTES_MAX));
    }
}
