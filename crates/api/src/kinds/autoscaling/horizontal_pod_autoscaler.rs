//! HorizontalPodAutoscaler: as many pods as a metric asks for.
//!
//! It is stored in version 2; [`super::convert`] makes version 1 of it and back.

use super::{behavior, metrics};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::read::{fill_absent, list, number_part, text};
use crate::kinds::workload::nonnegative;
use crate::names::key;
use crate::value::{Map, Value};

/// The share of the requested CPU that pods should use, unless the autoscaler says what to measure.
pub(super) const CPU_UTILIZATION_DEFAULT: i64 = 80;

/// The rules of HorizontalPodAutoscaler.
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
        fill_absent(spec, "minReplicas", 1);
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

    fn check_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_spec(new, Some(old), errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let Some(status) = new.get("status") else { return };
        let path = Path::root("status");
        let conditions = path.child("conditions");
        for (index, condition) in list(status, "conditions").iter().enumerate() {
            nonnegative(errors, condition, &conditions.index(index), &["observedGeneration"]);
        }
        nonnegative(errors, status, &path, &["currentReplicas", "desiredReplicas"]);
    }
}

/// The metric that keeps the use of CPU at a share of what was requested.
pub(super) fn cpu_metric(percent: i64) -> Value {
    let target: Map =
        [("type", Value::from("Utilization")), ("averageUtilization", percent.into())].into_iter().collect();
    let resource: Map = [("name", Value::from("cpu")), ("target", target.into())].into_iter().collect();
    Value::Map([("type", Value::from("Resource")), ("resource", resource.into())].into_iter().collect())
}

/// How strictly a reference to another object is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceRules {
    /// Kinds of the core group are meant too.
    pub(super) core_group: bool,
    /// Any version will do.
    pub(super) any_version: bool,
}

fn check_spec(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let Some(spec) = new.get("spec") else { return };
    let old = old.and_then(|old| old.get("spec"));
    let path = Path::root("spec");
    let (min, max) = (number_part(spec, "minReplicas"), number_part(spec, "maxReplicas").unwrap_or(0));
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
    // These are named last.
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

/// What was there already may stay; ReplicationController is the one kind of the core group that scales.
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

/// Checks a reference to an object of some kind and version.
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
