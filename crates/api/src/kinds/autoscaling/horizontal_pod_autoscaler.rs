//! HorizontalPodAutoscaler: scales a workload by metrics.
//!
//! The storage version is v2; [`super::convert`] converts to and from v1.

use super::{behavior, metrics};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::read::{list, optional_number, set_default, text};
use crate::kinds::workload::check_nonnegative;
use crate::names::key;
use crate::value::{Map, Value};

/// Default target utilization of the requested CPU in percent, for an autoscaler without metrics.
pub(super) const CPU_UTILIZATION_DEFAULT: i64 = 80;

/// Rules of HorizontalPodAutoscaler.
pub struct HorizontalPodAutoscaler;

impl Rules for HorizontalPodAutoscaler {
    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        set_default(spec, "minReplicas", 1);
        if spec.get("metrics").is_none_or(Value::is_empty) {
            spec.insert("metrics", Value::List(vec![cpu_metric(CPU_UTILIZATION_DEFAULT)]));
        }
        if let Some(behavior) = spec.get_mut("behavior").filter(|behavior| !behavior.is_null()) {
            behavior::default(behavior);
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_spec(new, Some(old), errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let Some(status) = new.get("status") else { return };
        let path = Path::root("status");
        let conditions = path.child("conditions");
        for (index, condition) in list(status, "conditions").iter().enumerate() {
            check_nonnegative(errors, condition, &conditions.index(index), &["observedGeneration"]);
        }
        check_nonnegative(errors, status, &path, &["currentReplicas", "desiredReplicas"]);
    }
}

/// CPU utilization metric with a target in percent of the request.
pub(super) fn cpu_metric(percent: i64) -> Value {
    let target: Map =
        [("type", Value::from("Utilization")), ("averageUtilization", percent.into())].into_iter().collect();
    let resource: Map = [("name", Value::from("cpu")), ("target", target.into())].into_iter().collect();
    Value::Map([("type", Value::from("Resource")), ("resource", resource.into())].into_iter().collect())
}

/// Strictness of the validation of an object reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceRules {
    /// Kinds of the core group are allowed.
    pub(super) core_group: bool,
    /// Any version is allowed.
    pub(super) any_version: bool,
}

fn check_spec(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let Some(spec) = new.get("spec") else { return };
    let old = old.and_then(|old| old.get("spec"));
    let path = Path::root("spec");
    let (min, max) =
        (optional_number(spec, "minReplicas"), optional_number(spec, "maxReplicas").unwrap_or(0));
    let max_path = path.child("maxReplicas");
    if min.is_some_and(|min| max < min) {
        errors.push(FieldError::invalid(&max_path, max, "must be greater than or equal to `minReplicas`"));
    }
    let empty = Value::map();
    let target = spec.get("scaleTargetRef").unwrap_or(&empty);
    check_reference(errors, target, &path.child("scaleTargetRef"), target_rules(target, old));
    metrics::check(errors, spec, &path.child("metrics"), metric_rules(old));
    if let Some(behavior) = spec.get("behavior") {
        behavior::check(errors, behavior, &path.child("behavior"));
    }
    // These errors come last.
    if let Some(min) = min.filter(|min| *min < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("minReplicas"), min, detail));
    }
    if max == 0 {
        errors.push(FieldError::required(&max_path, ""));
    } else if max < 0 {
        errors.push(FieldError::invalid(&max_path, max, "must be greater than or equal to 1"));
    }
}

/// An existing target may stay; ReplicationController is the only kind of the core group with a scale.
fn target_rules(target: &Value, old: Option<&Value>) -> ReferenceRules {
    let same = |old: &Value, field| old.str_at(&["scaleTargetRef", field]) == text(target, field);
    let any_version = old.is_some_and(|old| same(old, "apiVersion") && same(old, "kind"));
    ReferenceRules { any_version, core_group: text(target, "kind") == "ReplicationController" }
}

fn metric_rules(old: Option<&Value>) -> ReferenceRules {
    let rules = ReferenceRules { core_group: true, any_version: false };
    let is_bad = |metric: &Value| {
        text(metric, "type") == "Object"
            && metric
                .at(&["object", "describedObject"])
                .is_some_and(|described| version_fault(described, rules).is_some())
    };
    let any_version = old.is_some_and(|old| list(old, "metrics").iter().any(is_bad));
    ReferenceRules { any_version, ..rules }
}

/// Validates a reference to an object of any kind and version.
pub(super) fn check_reference(
    errors: &mut ErrorList,
    reference: &Value,
    path: &Path<'_>,
    rules: ReferenceRules,
) {
    for field in ["kind", "name"] {
        let value = text(reference, field);
        let path = path.child(field);
        if value.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else {
            errors.push_invalid(&path, value, key::path_segment(value));
        }
    }
    if let Some(fault) = version_fault(reference, rules) {
        errors.push(FieldError::invalid(&path.child("apiVersion"), text(reference, "apiVersion"), fault));
    }
}

fn version_fault(reference: &Value, rules: ReferenceRules) -> Option<String> {
    let version = text(reference, "apiVersion");
    if rules.any_version {
        return None;
    }
    let slashes = version.bytes().filter(|byte| *byte == b'/').count();
    if slashes > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    let has_group = slashes == 1 && !version.starts_with('/');
    (!has_group && !rules.core_group).then(|| "apiVersion must specify API group".to_owned())
}
