//! DaemonSet: one pod on each eligible node.
//!
//! Upstream keeps the template generation in the internal spec; in this version it is an annotation that only
//! the server writes.

use super::TEMPLATE;
use super::deployment::amount;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::core::pod_spec::{self, internal};
use crate::kinds::read::{present, set_default, set_default_if_empty, shown, text};
use crate::kinds::workload::{
    check_at_most_100_percent, check_collision_count, check_int_or_percent, check_long_running,
    check_nonnegative, check_selector, check_template, check_template_labels, has_invalid_values,
    int_or_percent, is_empty_selector,
};
use crate::value::Value;

/// Annotation with the template generation, which starts at 1.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Rules of DaemonSet.
pub struct DaemonSet;

impl DaemonSet {
    fn check(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let Some(spec) = new.get("spec") else { return };
        let old = old.and_then(|old| old.get("spec"));
        let path = Path::root("spec");
        let template_path = path.child("template");
        let template = spec.get("template").unwrap_or(&Value::Null);
        check_daemon_selector(errors, spec, old, &path);
        check_template(errors, template, old.and_then(|old| old.get("template")), &template_path);
        check_long_running(errors, template, &template_path, "DaemonSet");
        check_nonnegative(errors, spec, &path, &["minReadySeconds"]);
        check_update_strategy(errors, spec, &path.child("updateStrategy"));
        check_nonnegative(errors, spec, &path, &["revisionHistoryLimit"]);
    }
}

impl Rules for DaemonSet {
    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn default(&self, object: &mut Value) {
        // The annotation is always set, so that every writer owns it.
        set_template_generation(object, template_generation(object));
        let spec = object.ensure_map("spec");
        let strategy = spec.ensure_map("updateStrategy");
        set_default_if_empty(strategy, "type", "RollingUpdate");
        if strategy.get_str("type") == Some("RollingUpdate") {
            let rolling = strategy.ensure_map("rollingUpdate");
            set_default(rolling, "maxUnavailable", 1);
            set_default(rolling, "maxSurge", 0);
        }
        set_default(spec, "revisionHistoryLimit", 10);
        pod_spec::default_template(spec.ensure("template", Value::map));
    }

    fn prepare_create(&self, object: &mut Value) {
        super::prepare_create(object);
        set_template_generation(object, template_generation(object).max(1));
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        super::prepare_update(new, old);
        let changed = new.at(&TEMPLATE) != old.at(&TEMPLATE);
        set_template_generation(new, template_generation(old).saturating_add(changed.into()));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.check(object, None, errors);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        super::check_same_selector(new, old, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_transition(new, old, errors);
        self.check(new, Some(old), errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if let Some(status) = new.get("status") {
            let counters = [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ];
            check_nonnegative(errors, status, &Path::root("status"), &counters);
        }
        check_collision_count(errors, new, old);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none_or(|old| new.at(&TEMPLATE) != old.at(&TEMPLATE)) {
            super::warn_about_template(new, old, &mut warnings);
        }
        warnings
    }
}

fn template_generation(object: &Value) -> i64 {
    object.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = object.ensure_map("metadata").ensure_map("annotations");
    annotations.insert(TEMPLATE_GENERATION, generation.to_string());
}

fn check_daemon_selector(errors: &mut ErrorList, spec: &Value, old: Option<&Value>, path: &Path<'_>) {
    let selector_path = path.child("selector");
    let selector = present(spec, "selector");
    let lenient = has_invalid_values(old.and_then(|old| present(old, "selector")));
    let valid = selector.is_none_or(|selector| check_selector(errors, &selector_path, selector, lenient));
    if valid {
        let template = spec.get("template").unwrap_or(&Value::Null);
        check_template_labels(errors, selector, template, &path.child("template"));
    }
    if let Some(selector) = selector.filter(|selector| is_empty_selector(selector)) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid(&selector_path, shown(Some(selector)), detail));
    }
}

fn check_update_strategy(errors: &mut ErrorList, spec: &Value, path: &Path<'_>) {
    let empty = Value::map();
    let strategy = spec.get("updateStrategy").unwrap_or(&empty);
    let rolling = strategy.get("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.push(FieldError::required(&rolling_path, "")),
        ("RollingUpdate", Some(rolling)) => check_rolling_update(errors, rolling, &rolling_path),
        _ => {
            let value = internal::shown(strategy, "DaemonSetUpdateStrategy");
            errors.push(FieldError::not_supported(path, value, &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn check_rolling_update(errors: &mut ErrorList, rolling: &Value, path: &Path<'_>) {
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    let (unavailable, surge) = (amount(rolling, "maxUnavailable"), amount(rolling, "maxSurge"));
    check_int_or_percent(errors, &unavailable, &unavailable_path);
    check_int_or_percent(errors, &surge, &surge_path);
    check_at_most_100_percent(errors, &unavailable, &unavailable_path);
    check_at_most_100_percent(errors, &surge, &surge_path);
    match (int_or_percent(Some(&unavailable)) != 0, int_or_percent(Some(&surge)) != 0) {
        (true, true) => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(&surge_path, shown(Some(&surge)), detail));
        }
        (false, false) => {
            errors.push(FieldError::required(&unavailable_path, "cannot be 0 when maxSurge is 0"));
        }
        _ => {}
    }
}
