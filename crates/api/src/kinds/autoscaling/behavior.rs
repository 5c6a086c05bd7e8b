//! Scaling behavior of a HorizontalPodAutoscaler: policies and stabilization windows.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::read::{list, optional_number, text};
use crate::quantity::Quantity;
use crate::value::{Map, Value};

const PERIOD_SECONDS_MAX: i64 = 1800;
const WINDOW_SECONDS_MAX: i64 = 3600;
const SELECTIONS: [&str; 3] = ["Disabled", "Max", "Min"];
const POLICIES: [&str; 2] = ["Percent", "Pods"];

/// Sets the defaults of both directions.
pub(super) fn default(behavior: &mut Value) {
    let behavior = behavior.make_map();
    let up = behavior.ensure_map("scaleUp");
    set_default_if_empty_with(up, "stabilizationWindowSeconds", || Value::Int(0));
    set_default_if_empty_with(up, "selectPolicy", || Value::from("Max"));
    set_default_if_empty_with(up, "policies", || {
        Value::from(vec![policy("Pods", 4), policy("Percent", 100)])
    });
    let down = behavior.ensure_map("scaleDown");
    set_default_if_empty_with(down, "selectPolicy", || Value::from("Max"));
    set_default_if_empty_with(down, "policies", || Value::from(vec![policy("Percent", 100)]));
}

fn set_default_if_empty_with(rules: &mut Map, field: &str, make: impl FnOnce() -> Value) {
    if rules.get(field).is_none_or(Value::is_null) {
        rules.insert(field, make());
    }
}

fn policy(kind: &str, value: i64) -> Map {
    [("type", Value::from(kind)), ("value", value.into()), ("periodSeconds", 15.into())].into_iter().collect()
}

/// Validates `spec.behavior`.
pub(super) fn check(errors: &mut ErrorList, behavior: &Value, path: &Path<'_>) {
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = behavior.get(direction) {
            check_rules(errors, rules, &path.child(direction));
        }
    }
}

fn check_rules(errors: &mut ErrorList, rules: &Value, path: &Path<'_>) {
    let window = optional_number(rules, "stabilizationWindowSeconds");
    let window_path = path.child("stabilizationWindowSeconds");
    if let Some(window) = window.filter(|window| *window < 0) {
        errors.push(FieldError::invalid(&window_path, window, "must be greater than or equal to zero"));
    }
    if let Some(window) = window.filter(|window| *window > WINDOW_SECONDS_MAX) {
        errors.push(FieldError::invalid(&window_path, window, "must be less than or equal to 3600"));
    }
    if let Some(selection) = rules.get("selectPolicy").and_then(Value::as_str)
        && !SELECTIONS.contains(&selection)
    {
        let value = BadValue::json_string(selection);
        errors.push(FieldError::not_supported(&path.child("selectPolicy"), value, &SELECTIONS));
    }
    let policies = list(rules, "policies");
    let policies_path = path.child("policies");
    if policies.is_empty() {
        errors.push(FieldError::required(&policies_path, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        check_policy(errors, policy, &policies_path.index(index));
    }
    let tolerance = text(rules, "tolerance");
    if Quantity::parse(tolerance).is_ok_and(|tolerance| tolerance.sign() < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("tolerance"), tolerance, detail));
    }
}

fn check_policy(errors: &mut ErrorList, policy: &Value, path: &Path<'_>) {
    let kind = text(policy, "type");
    if !POLICIES.contains(&kind) {
        let value = BadValue::json_string(kind);
        errors.push(FieldError::not_supported(&path.child("type"), value, &POLICIES));
    }
    let (value, period) = (
        optional_number(policy, "value").unwrap_or(0),
        optional_number(policy, "periodSeconds").unwrap_or(0),
    );
    if value <= 0 {
        errors.push(FieldError::invalid(&path.child("value"), value, "must be greater than zero"));
    }
    let path = path.child("periodSeconds");
    if period <= 0 {
        errors.push(FieldError::invalid(&path, period, "must be greater than zero"));
    }
    if period > PERIOD_SECONDS_MAX {
        errors.push(FieldError::invalid(&path, period, "must be less than or equal to 1800"));
    }
}
