//! Validation of the metrics of a HorizontalPodAutoscaler.

use super::horizontal_pod_autoscaler::{ReferenceRules, check_reference};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::core::resource_list::check_container_name;
use crate::kinds::read::{list, optional_number, text};
use crate::names::{dns, key};
use crate::quantity::Quantity;
use crate::value::Value;

/// Metric types, sorted, with their fields.
const TYPES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
const TYPE_NAMES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Order in which the fields are validated.
const FIELDS: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];

/// Validates `spec.metrics`.
pub(super) fn check(errors: &mut ErrorList, spec: &Value, path: &Path<'_>, rules: ReferenceRules) {
    let metrics = list(spec, "metrics");
    for (index, metric) in metrics.iter().enumerate() {
        check_metric(errors, metric, &path.index(index), rules);
    }
    let works_without_pods = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    if optional_number(spec, "minReplicas") == Some(0) && !metrics.iter().any(works_without_pods) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(path, detail));
    }
}

fn check_metric(errors: &mut ErrorList, metric: &Value, path: &Path<'_>, rules: ReferenceRules) {
    let kind = text(metric, "type");
    let kind_path = path.child("type");
    let unsupported = || FieldError::not_supported(&kind_path, BadValue::json_string(kind), &TYPE_NAMES);
    let expected = TYPES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    if kind.is_empty() {
        errors.push(FieldError::required(&kind_path, "must specify a metric source type"));
    }
    if expected.is_none() {
        errors.push(unsupported());
    }
    let mut present: Vec<&str> = FIELDS.into_iter().filter(|field| metric.get(field).is_some()).collect();
    if let Some(field) = present.first()
        && let Some(source) = metric.get(field)
    {
        check_source(errors, field, source, &path.child(field), rules);
    }
    match expected {
        Some(field) if metric.get(field).is_none() => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(&path.child(field), detail));
        }
        Some(_) => {}
        // Upstream reports this error twice.
        None => errors.push(unsupported()),
    }
    if present.len() != 1 {
        present.sort_unstable();
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
}

fn check_source(errors: &mut ErrorList, field: &str, source: &Value, path: &Path<'_>, rules: ReferenceRules) {
    let empty = Value::map();
    let target = source.get("target").unwrap_or(&empty);
    let target_path = path.child("target");
    let has = |field: &str| target.get(field).is_some();
    match field {
        "object" => {
            let described = source.get("describedObject").unwrap_or(&empty);
            check_reference(errors, described, &path.child("describedObject"), rules);
            check_identifier(errors, source, &path.child("metric"));
        }
        "external" | "pods" => check_identifier(errors, source, &path.child("metric")),
        _ => check_resource(errors, field, source, path),
    }
    check_target(errors, target, &target_path);
    let (missing, required) = match field {
        "object" => ("averageValue", "must set either a target value or averageValue"),
        "external" => ("averageValue", "must set either a target value for metric or a per-pod target"),
        "pods" => ("averageValue", "must specify a positive target averageValue"),
        _ => ("averageUtilization", "must set either a target raw value or a target utilization"),
    };
    let other = match field {
        "object" | "external" => "value",
        "pods" => "averageValue",
        _ => "averageUtilization",
    };
    if !has("averageValue") && !has(other) {
        errors.push(FieldError::required(&target_path.child(missing), required));
    }
    let (at, forbidden) = match field {
        "external" => ("value", "may not set both a target value for metric and a per-pod target"),
        "resource" | "containerResource" => {
            ("averageValue", "may not set both a target raw value and a target utilization")
        }
        _ => return,
    };
    if has("averageValue") && has(other) {
        errors.push(FieldError::forbidden(&target_path.child(at), forbidden));
    }
}

fn check_identifier(errors: &mut ErrorList, source: &Value, path: &Path<'_>) {
    let name = source.str_at(&["metric", "name"]);
    let path = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path, "must specify a metric name"));
    } else {
        errors.push_invalid(&path, name, key::path_segment(name));
    }
}

fn check_resource(errors: &mut ErrorList, field: &str, source: &Value, path: &Path<'_>) {
    let name = text(source, "name");
    let name_path = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&name_path, "must specify a resource name"));
    }
    if field == "resource" {
        return;
    }
    if !name.is_empty() {
        check_container_name(errors, &name_path, name);
    }
    let container = text(source, "container");
    let path = path.child("container");
    if container.is_empty() {
        errors.push(FieldError::required(&path, "must specify a container"));
    } else {
        errors.push_invalid(&path, container, dns::label(container));
    }
}

fn check_target(errors: &mut ErrorList, target: &Value, path: &Path<'_>) {
    let kind = text(target, "type");
    let kind_path = path.child("type");
    if kind.is_empty() {
        errors.push(FieldError::required(&kind_path, "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&kind_path, BadValue::json_string(kind), detail));
    }
    for field in ["value", "averageValue"] {
        let amount = text(target, field);
        if Quantity::parse(amount).is_ok_and(|amount| amount.sign() != 1) {
            let value = BadValue::json_string(amount);
            errors.push(FieldError::invalid(&path.child(field), value, "must be positive"));
        }
    }
    if let Some(percent) = optional_number(target, "averageUtilization").filter(|percent| *percent < 1) {
        let path = path.child("averageUtilization");
        errors.push(FieldError::invalid(&path, percent, "must be greater than 0"));
    }
}
