//! Validation of a Job spec, of a Job or in the template of a CronJob.

use super::{pod_failure_policy, success_policy};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::core::pod_spec;
use crate::kinds::read::{optional_number, text};
use crate::kinds::workload::{check_nonnegative, check_template};
use crate::names::key;
use crate::quote::Quoted;
use crate::value::Value;

const PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// Completions above which the limits on parallelism and failed indexes are tighter.
const COMPLETIONS_SOFT_MAX: i64 = 100_000;
const PARALLELISM_HIGH_MAX: i64 = 10_000;
const FAILED_INDEXES_HIGH_MAX: i64 = 10_000;
const MANAGED_BY_BYTES_MAX: usize = 63;

/// Quoted strings in brackets: `["a" "b"]`.
pub(super) fn quoted_list(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| Quoted(text).to_string()).collect();
    format!("[{}]", quoted.join(" "))
}

/// `true` if the completion mode is Indexed.
pub(super) fn is_indexed(spec: &Value) -> bool {
    text(spec, "completionMode") == "Indexed"
}

/// Sets defaults of nested fields; the spec itself is defaulted only for a Job.
pub(super) fn default_nested(spec: &mut Value) {
    let spec = spec.make_map();
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        pod_failure_policy::default(policy);
    }
    pod_spec::default_template(spec.ensure("template", Value::map));
}

/// Clears the fields of disabled features: gang scheduling, and those of the template.
pub(super) fn drop_disabled(spec: Option<&mut Value>) {
    let Some(spec) = spec.and_then(Value::as_map_mut) else { return };
    spec.remove("scheduling");
    if let Some(template) = spec.get_mut("template") {
        pod_spec::drop_disabled_template(template);
    }
}

/// Validates a spec except its selector.
pub(super) fn check(errors: &mut ErrorList, spec: &Value, old: Option<&Value>, path: &Path<'_>) {
    let counters = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    check_nonnegative(errors, spec, path, &counters);
    if spec.get("maxFailedIndexes").is_some() && spec.get("backoffLimitPerIndex").is_none() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), detail));
    }
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        let path = path.child("managedBy");
        key::domain_prefixed_path(errors, &path, manager);
        if manager.len() > MANAGED_BY_BYTES_MAX {
            errors.push(FieldError::too_long(&path, MANAGED_BY_BYTES_MAX));
        }
    }
    check_completion_mode(errors, spec, path);
    if let Some(policy) = spec.get("podFailurePolicy") {
        pod_failure_policy::check(errors, spec, policy, &path.child("podFailurePolicy"));
    }
    if let Some(policy) = spec.get("successPolicy") {
        let path = path.child("successPolicy");
        if is_indexed(spec) {
            success_policy::check(errors, spec, policy, &path);
        } else {
            let value = pod_spec::internal::shown(policy, "SuccessPolicy");
            errors.push(FieldError::invalid(&path, value, "requires indexed completion mode"));
        }
    }
    check_replacement(errors, spec, &path.child("podReplacementPolicy"));
    let template_path = path.child("template");
    let template = spec.get("template").unwrap_or(&Value::Null);
    check_template(errors, template, old.and_then(|old| old.get("template")), &template_path);
    let pod_path = template_path.child("spec");
    check_restart_policy(errors, spec, template, &pod_path.child("restartPolicy"));
}

fn check_completion_mode(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    match spec.get("completionMode").and_then(Value::as_str) {
        Some("Indexed") => check_indexed(errors, spec, path),
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = optional_number(spec, field) {
                    let detail = "requires indexed completion mode";
                    errors.push(FieldError::invalid(&path.child(field), value, detail));
                }
            }
        }
        Some(other) => {
            let value = BadValue::json_string(other);
            let path = path.child("completionMode");
            errors.push(FieldError::not_supported(&path, value, &["NonIndexed", "Indexed"]));
        }
    }
}

fn check_indexed(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    let completions = optional_number(spec, "completions");
    let (parallelism, failed) =
        (optional_number(spec, "parallelism"), optional_number(spec, "maxFailedIndexes"));
    let (parallelism_path, failed_path) = (path.child("parallelism"), path.child("maxFailedIndexes"));
    if completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(&path.child("completions"), detail));
    }
    let mut limit = |path: &Path<'_>, value: Option<i64>, max: i64, detail: String| {
        if let Some(value) = value.filter(|value| *value > max) {
            errors.push(FieldError::invalid(path, value, format!("must be less than or equal to {detail}")));
        }
    };
    let detail = format!("{PARALLELISM_MAX} when completion mode is Indexed");
    limit(&parallelism_path, parallelism, PARALLELISM_MAX, detail);
    if let Some(completions) = completions {
        limit(&failed_path, failed, completions, "completions".to_owned());
    }
    limit(&failed_path, failed, FAILED_INDEXES_MAX, FAILED_INDEXES_MAX.to_string());
    let is_high = completions.is_some_and(|completions| completions > COMPLETIONS_SOFT_MAX);
    if !is_high || spec.get("backoffLimitPerIndex").is_none() {
        return;
    }
    let detail = |max: i64| {
        format!(
            "{max} when completions are above {COMPLETIONS_SOFT_MAX} and used with backoff limit per index"
        )
    };
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {COMPLETIONS_SOFT_MAX}");
        errors.push(FieldError::required(&failed_path, detail));
    }
    let mut limit = |path: &Path<'_>, value: Option<i64>, max: i64| {
        if let Some(value) = value.filter(|value| *value > max) {
            let detail = format!("must be less than or equal to {}", detail(max));
            errors.push(FieldError::invalid(path, value, detail));
        }
    };
    limit(&parallelism_path, parallelism, PARALLELISM_HIGH_MAX);
    limit(&failed_path, failed, FAILED_INDEXES_HIGH_MAX);
}

fn check_replacement(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    let Some(policy) = spec.get("podReplacementPolicy").and_then(Value::as_str) else { return };
    let supported: &[&str] = match spec.get("podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    if !supported.contains(&policy) {
        errors.push(FieldError::not_supported(path, BadValue::json_string(policy), supported));
    }
}

fn check_restart_policy(errors: &mut ErrorList, spec: &Value, template: &Value, path: &Path<'_>) {
    match template.str_at(&["spec", "restartPolicy"]) {
        "" | "Always" => {
            errors.push(FieldError::required(path, "valid values: \"OnFailure\", \"Never\""));
        }
        "Never" => {}
        policy @ "OnFailure" => {
            if spec.get("podFailurePolicy").is_some() {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.push(FieldError::invalid(path, BadValue::json_string(policy), detail));
            }
        }
        other => {
            let value = BadValue::json_string(other);
            errors.push(FieldError::not_supported(path, value, &["OnFailure", "Never"]));
        }
    }
}

/// Adds the warnings of a spec.
pub(super) fn warn(spec: &Value, old: Option<&Value>, path: &Path<'_>, warnings: &mut Vec<String>) {
    let count = |field| optional_number(spec, field).unwrap_or(0);
    if is_indexed(spec)
        && count("completions") > COMPLETIONS_SOFT_MAX
        && count("parallelism") > PARALLELISM_HIGH_MAX
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher \
             than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    if let Some(template) = spec.get("template") {
        let old = old.and_then(|old| old.get("template"));
        pod_spec::template_warnings(template, old, &path.child("template"), warnings);
    }
}
