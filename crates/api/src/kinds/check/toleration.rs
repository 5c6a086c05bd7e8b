//! Tolerations outside of pods.

use super::{is_set, label_key, text};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::key::label_value;
use crate::value::Value;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks a list of tolerations. Operators that compare numbers are refused, as they are everywhere while the
/// feature is off.
pub(crate) fn tolerations(errors: &mut ErrorList, path: &Path<'_>, tolerations: &[Value]) {
    for (i, toleration) in tolerations.iter().enumerate() {
        one(errors, &path.index(i), toleration);
    }
}

fn one(errors: &mut ErrorList, path: &Path<'_>, toleration: &Value) {
    let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
    let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
    let at = path.child("operator");
    if !key.is_empty() {
        label_key(errors, &path.child("key"), key);
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(&at, BadValue::json_string(operator), detail));
    }
    if is_set(toleration, "tolerationSeconds") && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(&path.child("effect"), BadValue::json_string(effect), detail));
    }
    match operator {
        "Equal" | "" => {
            let faults = label_value(value);
            if !faults.is_empty() {
                errors.push(FieldError::invalid(&at, value, faults.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            errors.push(FieldError::invalid(&at, value, "value must be empty when `operator` is 'Exists'"));
        }
        "Exists" => {}
        "Lt" | "Gt" => {
            let supported = ["Equal", "Exists", "Lt", "Gt"];
            errors.push(FieldError::not_supported(&at, BadValue::json_string(operator), &supported));
        }
        other => {
            errors.push(FieldError::not_supported(&at, BadValue::json_string(other), &["Equal", "Exists"]));
        }
    }
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        let path = path.child("effect");
        errors.push(FieldError::not_supported(&path, BadValue::json_string(effect), &EFFECTS));
    }
}
