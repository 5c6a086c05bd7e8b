//! Deployment: replicated pods with rolling updates.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::core::pod_spec::{self, internal};
use crate::kinds::read::{optional_number, present, set_default, set_default_if_empty, shown, text};
use crate::kinds::workload::{
    check_at_most_100_percent, check_collision_count, check_int_or_percent, check_long_running,
    check_nonnegative, check_selector, check_template, check_template_labels, int_or_percent,
    is_empty_selector,
};
use crate::value::Value;

/// Annotation with the revision to roll back to. It counts as a part of the spec.
const ROLLBACK_ANNOTATION: &str = "deprecated.deployment.rollback.to";

/// Rules of Deployment.
pub struct Deployment;

impl Deployment {
    fn check(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let Some(spec) = new.get("spec") else { return };
        let path = Path::root("spec");
        check_nonnegative(errors, spec, &path, &["replicas"]);
        check_selected_template(errors, spec, old.and_then(|old| old.get("spec")), &path);
        check_strategy(errors, spec, &path.child("strategy"));
        check_nonnegative(errors, spec, &path, &["minReadySeconds", "revisionHistoryLimit"]);
        let rollback = new.str_at(&["metadata", "annotations", ROLLBACK_ANNOTATION]);
        if let Some(revision) = rollback.parse().ok().filter(|revision: &i64| *revision < 0) {
            let path = path.child("rollback");
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&path.child("version"), revision, detail));
        }
        check_nonnegative(errors, spec, &path, &["progressDeadlineSeconds"]);
        let deadline = optional_number(spec, "progressDeadlineSeconds");
        let ready = optional_number(spec, "minReadySeconds").unwrap_or(0);
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready) {
            let path = path.child("progressDeadlineSeconds");
            errors.push(FieldError::invalid(&path, deadline, "must be greater than minReadySeconds"));
        }
    }
}

impl Rules for Deployment {
    fn status_reset_fields(&self) -> &'static [&'static str] {
        &["spec", "metadata.labels"]
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    /// Annotations count too, because they are copied to the ReplicaSets.
    fn has_new_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations = ["metadata", "annotations"];
        new.get("spec") != old.get("spec") || new.at(&annotations) != old.at(&annotations)
    }

    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        set_default(spec, "replicas", 1);
        let strategy = spec.ensure_map("strategy");
        set_default_if_empty(strategy, "type", "RollingUpdate");
        if strategy.get_str("type") == Some("RollingUpdate") {
            let rolling = strategy.ensure_map("rollingUpdate");
            set_default(rolling, "maxUnavailable", "25%");
            set_default(rolling, "maxSurge", "25%");
        }
        set_default(spec, "revisionHistoryLimit", 10);
        set_default(spec, "progressDeadlineSeconds", 600);
        pod_spec::default_template(spec.ensure("template", Value::map));
    }

    fn default_status(&self, _object: &mut Value) {}

    fn raw_spec_fields(&self) -> &'static [&'static str] {
        &["template"]
    }

    fn prepare_create(&self, object: &mut Value) {
        super::prepare_create(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        super::prepare_update(new, old);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.check(object, None, errors);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        super::check_same_selector(new, old, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.check(new, Some(old), errors);
        self.validate_transition(new, old, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if let Some(status) = new.get("status") {
            let path = Path::root("status");
            let counters = [
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ];
            check_nonnegative(errors, status, &path, &counters);
            let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
            super::check_parts(errors, status, &path, &parts, "cannot be greater than readyReplicas");
        }
        check_collision_count(errors, new, old);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        super::warnings(self, new, old)
    }
}

/// Validates the selector and the template of a Deployment or ReplicaSet, which have the same messages.
pub(super) fn check_selected_template(
    errors: &mut ErrorList,
    spec: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
) {
    let selector_path = path.child("selector");
    let selector = present(spec, "selector");
    let valid = match selector {
        None => {
            errors.push(FieldError::required(&selector_path, ""));
            true
        }
        Some(selector) => {
            let valid = check_selector(errors, &selector_path, selector, false);
            if is_empty_selector(selector) {
                let detail = "empty selector is invalid for deployment";
                errors.push(FieldError::invalid(&selector_path, shown(Some(selector)), detail));
            }
            valid
        }
    };
    if !valid {
        errors.push(FieldError::invalid(&selector_path, shown(selector), "invalid label selector"));
        return;
    }
    let Some(template) = spec.get("template") else { return };
    let template_path = path.child("template");
    check_template_labels(errors, selector, template, &template_path);
    check_template(errors, template, old.and_then(|old| old.get("template")), &template_path);
    check_long_running(errors, template, &template_path, "ReplicaSet");
}

fn check_strategy(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    let empty = Value::map();
    let strategy = spec.get("strategy").unwrap_or(&empty);
    let rolling = strategy.get("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("Recreate", Some(_)) => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(FieldError::forbidden(&rolling_path, detail));
        }
        ("Recreate", None) => {}
        ("RollingUpdate", Some(rolling)) => check_rolling_update(errors, rolling, &rolling_path),
        ("RollingUpdate", None) => {
            let detail = "this should be defaulted and never be nil";
            errors.push(FieldError::required(&rolling_path, detail));
        }
        _ => {
            let value = internal::shown(strategy, "DeploymentStrategy");
            errors.push(FieldError::not_supported(path, value, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// An int-or-percent value; 0 if absent.
pub(super) fn amount(parent: &Value, field: &str) -> Value {
    present(parent, field).cloned().unwrap_or(Value::Int(0))
}

fn check_rolling_update(errors: &mut ErrorList, rolling: &Value, path: &Path<'_>) {
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    let (unavailable, surge) = (amount(rolling, "maxUnavailable"), amount(rolling, "maxSurge"));
    check_int_or_percent(errors, &unavailable, &unavailable_path);
    check_int_or_percent(errors, &surge, &surge_path);
    if int_or_percent(Some(&unavailable)) == 0 && int_or_percent(Some(&surge)) == 0 {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&unavailable_path, shown(Some(&unavailable)), detail));
    }
    check_at_most_100_percent(errors, &unavailable, &unavailable_path);
}
