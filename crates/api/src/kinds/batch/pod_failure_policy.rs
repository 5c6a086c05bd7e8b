//! Validation of the pod failure policy of a Job.

use std::collections::BTreeSet;

use super::job_spec::quoted_list;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::read::{list, shown, text};
use crate::names::key;
use crate::value::Value;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const CONDITIONS_MAX: usize = 20;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// The default status of a pod condition pattern is True.
pub(super) fn default(policy: &mut Value) {
    let rules = policy.get_mut("rules").and_then(Value::as_list_mut).into_iter().flatten();
    for pattern in
        rules.filter_map(|rule| rule.get_mut("onPodConditions").and_then(Value::as_list_mut)).flatten()
    {
        if let Some(pattern) = pattern.as_map_mut() {
            crate::kinds::read::set_default_if_empty(pattern, "status", "True");
        }
    }
}

/// Validates `spec.podFailurePolicy` of a Job.
pub(super) fn check(errors: &mut ErrorList, spec: &Value, policy: &Value, path: &Path<'_>) {
    let path = path.child("rules");
    let rules = list(policy, "rules");
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(&path, Some(rules.len()), RULES_MAX));
    }
    let pod = spec.at(&["template", "spec"]).unwrap_or(&Value::Null);
    let containers = list(pod, "containers").iter().chain(list(pod, "initContainers"));
    let names: BTreeSet<&str> = containers.map(|container| text(container, "name")).collect();
    for (index, rule) in rules.iter().enumerate() {
        check_rule(errors, spec, &names, rule, &path.index(index));
    }
}

fn check_rule(errors: &mut ErrorList, spec: &Value, names: &BTreeSet<&str>, rule: &Value, path: &Path<'_>) {
    let action_path = path.child("action");
    match text(rule, "action") {
        "" => {
            let detail = format!("valid values: {}", quoted_list(&ACTIONS));
            errors.push(FieldError::required(&action_path, detail));
        }
        action @ "FailIndex" => {
            if spec.get("backoffLimitPerIndex").is_none() {
                let detail = "requires the backoffLimitPerIndex to be set";
                errors.push(FieldError::invalid(&action_path, BadValue::json_string(action), detail));
            }
        }
        action if ACTIONS.contains(&action) => {}
        action => {
            errors.push(FieldError::not_supported(&action_path, BadValue::json_string(action), &ACTIONS));
        }
    }
    let (codes, conditions) = (rule.get("onExitCodes"), list(rule, "onPodConditions"));
    if let Some(codes) = codes {
        check_exit_codes(errors, names, codes, &path.child("onExitCodes"));
    }
    check_conditions(errors, conditions, &path.child("onPodConditions"));
    let fault = match (codes, conditions.is_empty()) {
        (Some(_), false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (None, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(FieldError::invalid(path, BadValue::Omitted, fault));
}

fn check_conditions(errors: &mut ErrorList, conditions: &[Value], path: &Path<'_>) {
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(path, Some(conditions.len()), CONDITIONS_MAX));
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = text(pattern, "type");
        errors.push_invalid(&path.child("type"), kind, key::label_key(kind));
        let path = path.child("status");
        match text(pattern, "status") {
            "" => {
                let detail = format!("valid values: {}", quoted_list(&STATUSES));
                errors.push(FieldError::required(&path, detail));
            }
            status if STATUSES.contains(&status) => {}
            status => {
                errors.push(FieldError::not_supported(&path, BadValue::json_string(status), &STATUSES));
            }
        }
    }
}

fn check_exit_codes(errors: &mut ErrorList, names: &BTreeSet<&str>, codes: &Value, path: &Path<'_>) {
    let operator = text(codes, "operator");
    let operator_path = path.child("operator");
    if operator.is_empty() {
        let detail = format!("valid values: {}", quoted_list(&OPERATORS));
        errors.push(FieldError::required(&operator_path, detail));
    } else if !OPERATORS.contains(&operator) {
        errors.push(FieldError::not_supported(&operator_path, BadValue::json_string(operator), &OPERATORS));
    }
    if let Some(name) = codes.get("containerName").and_then(Value::as_str)
        && !names.contains(name)
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(&path.child("containerName"), name, detail));
    }
    check_values(errors, operator, codes, &path.child("values"));
}

fn check_values(errors: &mut ErrorList, operator: &str, codes: &Value, path: &Path<'_>) {
    let values: Vec<i64> = list(codes, "values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.push(FieldError::invalid(path, BadValue::Null, "at least one value is required"));
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(FieldError::too_many(path, Some(values.len()), EXIT_CODES_MAX));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            let detail = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(&path.index(index), *value, detail));
        }
        if !seen.insert(*value) {
            errors.push(FieldError::duplicate(&path.index(index), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(path, shown(codes.get("values")), "must be ordered"));
    }
}
