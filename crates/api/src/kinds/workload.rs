//! Shared validation of workloads: selectors, pod templates, counters, and int-or-percent values.
//!
//! Messages and paths are upstream's; each function adds its errors in upstream's order.

use std::borrow::Cow;

use super::core::pod_spec::{self, internal};
pub use super::read::{expressions, match_labels};
use super::read::{list, optional_number, shown, text};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::labels;
use crate::names::{dns, key};
use crate::value::Value;

/// Message for a negative counter.
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Adds an error if an immutable struct changed. `ty` is its internal Go type, which the message shows.
pub(crate) fn check_unchanged(
    errors: &mut ErrorList,
    path: &Path<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
    ty: &str,
) {
    let (new, old) = (new.unwrap_or(&Value::Null), old.unwrap_or(&Value::Null));
    if new != old {
        errors.push(FieldError::invalid(path, internal::shown(new, ty), "field is immutable"));
    }
}

/// Clears the fields of disabled features in the pod template at `path`.
pub(crate) fn drop_disabled_template(object: &mut Value, path: &[&str]) {
    if let Some(template) = object.at_mut(path) {
        pod_spec::drop_disabled_template(template);
    }
}

/// Checks that the counters in `fields` are not negative, if set.
pub(crate) fn check_nonnegative(errors: &mut ErrorList, parent: &Value, path: &Path<'_>, fields: &[&str]) {
    for field in fields {
        if let Some(count) = optional_number(parent, field).filter(|count| *count < 0) {
            errors.push(FieldError::invalid(&path.child(field), count, NOT_NEGATIVE));
        }
    }
}

/// Checks that counters of a status do not exceed another one.
pub(crate) fn check_at_most(
    errors: &mut ErrorList,
    status: &Value,
    path: &Path<'_>,
    fields: &[&str],
    limit: &str,
    detail: &'static str,
) {
    let limit = optional_number(status, limit).unwrap_or(0);
    for field in fields {
        if let Some(count) = optional_number(status, field).filter(|count| *count > limit) {
            errors.push(FieldError::invalid(&path.child(field), count, detail));
        }
    }
}

/// Checks that `status.collisionCount` does not decrease.
pub(crate) fn check_collision_count(errors: &mut ErrorList, new: &Value, old: &Value) {
    let count = |object: &Value| object.at(&["status", "collisionCount"]).and_then(Value::as_i64);
    let (new, old) = (count(new), count(old));
    if old.is_some_and(|old| new.is_none_or(|new| new < old)) {
        let status = Path::root("status");
        let path = status.child("collisionCount");
        errors.push(FieldError::invalid(&path, new.unwrap_or(0), "cannot be decremented"));
    }
}

/// Validates a label selector; `true` if it is valid by the strict rule. `lenient` accepts values that are
/// not valid label values.
pub(crate) fn check_selector(
    errors: &mut ErrorList,
    path: &Path<'_>,
    selector: &Value,
    lenient: bool,
) -> bool {
    let expressions = expressions(selector);
    let before = errors.len();
    labels::validate(errors, path, match_labels(selector), &expressions, lenient);
    if !lenient || errors.len() > before {
        return errors.len() == before;
    }
    let mut strict = ErrorList::new();
    labels::validate(&mut strict, path, match_labels(selector), &expressions, false);
    strict.is_empty()
}

/// `true` if a label selector has a value that is not a valid label value.
#[must_use]
pub(crate) fn has_invalid_values(selector: Option<&Value>) -> bool {
    let Some(selector) = selector else { return false };
    expressions(selector)
        .iter()
        .any(|expression| expression.values.iter().any(|value| !key::label_value(value).is_empty()))
}

/// `true` if a valid label selector selects an object with these labels. An absent selector selects nothing.
#[must_use]
pub fn selects(selector: Option<&Value>, labels: Option<&Value>) -> bool {
    let Some(selector) = selector else { return false };
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let holds = |expression: &Value| {
        let value = label(text(expression, "key"));
        let listed = || list(expression, "values").iter().any(|one| one.as_str() == value);
        match text(expression, "operator") {
            "In" => value.is_some() && listed(),
            "NotIn" => value.is_none() || !listed(),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    };
    match_labels(selector).all(|(key, wanted)| label(key) == Some(wanted))
        && list(selector, "matchExpressions").iter().all(holds)
}

/// `true` if a label selector is empty.
#[must_use]
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    let is_empty = |field: &str| selector.get(field).is_none_or(Value::is_empty);
    is_empty("matchLabels") && is_empty("matchExpressions")
}

/// Checks that `selector` selects the pods of `template`, which is at `path`.
pub(crate) fn check_template_labels(
    errors: &mut ErrorList,
    selector: Option<&Value>,
    template: &Value,
    path: &Path<'_>,
) {
    let labels = template.at(&["metadata", "labels"]);
    if !selects(selector, labels) {
        let detail = "`selector` does not match template `labels`";
        let metadata = path.child("metadata");
        errors.push(FieldError::invalid(&metadata.child("labels"), shown(labels), detail));
    }
}

/// Validates a pod template; an update accepts values that the old template has.
pub(crate) fn check_template(errors: &mut ErrorList, template: &Value, old: Option<&Value>, path: &Path<'_>) {
    match old {
        Some(old) => pod_spec::validate_template_update(template, old, path, errors),
        None => pod_spec::validate_template(template, path, errors),
    }
}

/// Rejects fields that a long-running pod may not have. `kind` is the kind in the message.
pub(crate) fn check_long_running(errors: &mut ErrorList, template: &Value, path: &Path<'_>, kind: &str) {
    let spec = path.child("spec");
    let policy = template.str_at(&["spec", "restartPolicy"]);
    if policy != "Always" {
        let path = spec.child("restartPolicy");
        errors.push(FieldError::not_supported(&path, BadValue::json_string(policy), &["Always"]));
    }
    if template.at(&["spec", "activeDeadlineSeconds"]).is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&spec.child("activeDeadlineSeconds"), detail));
    }
}

/// Adds a warning for a name that is not a valid host name.
pub(crate) fn warn_about_name(object: &Value, warnings: &mut Vec<String>) {
    let faults = dns::label(object.str_at(&["metadata", "name"]));
    if !faults.is_empty() {
        let faults: Vec<Cow<'static, str>> = faults;
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
             a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

/// Validates an int-or-percent value.
pub(crate) fn check_int_or_percent(errors: &mut ErrorList, value: &Value, path: &Path<'_>) {
    match value {
        Value::Str(text) => {
            for fault in key::percent(text) {
                errors.push(FieldError::invalid(path, BadValue::json_string(text), fault));
            }
        }
        Value::Int(number) if *number < 0 => {
            errors.push(FieldError::invalid(path, *number, NOT_NEGATIVE));
        }
        _ => {}
    }
}

/// Checks that an int-or-percent value is at most `100%`.
pub(crate) fn check_at_most_100_percent(errors: &mut ErrorList, value: &Value, path: &Path<'_>) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(path, shown(Some(value)), "must not be greater than 100%"));
    }
}

/// Number of an int-or-percent value, percentage or not; 0 if absent.
#[must_use]
pub(crate) fn int_or_percent(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        Some(value @ Value::Str(text)) => percent(value).or_else(|| text.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}

fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if !key::percent(text).is_empty() {
        return None;
    }
    // More digits than fit mean a very large percentage.
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
pub(crate) mod fixture;
