//! PodDisruptionBudget: limits voluntary disruptions of pods.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::check::check_conditions;
use crate::kinds::core::pod_spec::internal;
use crate::kinds::read::{list, text};
use crate::kinds::workload::{
    check_at_most_100_percent, check_int_or_percent, check_nonnegative, check_selector, is_empty_selector,
};
use crate::kinds::{Rules, keep};
use crate::value::Value;

/// Label that selected all pods in v1beta1. It excludes all other requirements.
const BETA_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

const EVICTION_POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

/// Rules of PodDisruptionBudget.
pub struct PodDisruptionBudget;

impl Rules for PodDisruptionBudget {
    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn prepare_create(&self, object: &mut Value) {
        if let Some(map) = object.as_map_mut() {
            map.remove("status");
        }
        strip_beta_label(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        let selector = ["spec", "selector"];
        if new.at(&selector) != old.at(&selector) {
            strip_beta_label(new);
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(object, false, errors);
    }

    /// A selector that was invalid already may keep values that are not valid label values.
    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        if let Some(selector) = old.at(&["spec", "selector"]) {
            check_selector(&mut found, &Path::NONE, selector, false);
        }
        check_spec(new, !found.is_empty(), errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let Some(status) = new.get("status") else { return };
        let path = Path::root("status");
        check_conditions(errors, &path, status, "conditions");
        let counters = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        check_nonnegative(errors, status, &path, &counters);
    }
}

/// Removes requirements on the v1beta1 label, unless they are the only one and select nothing.
fn strip_beta_label(object: &mut Value) {
    let Some(selector) = object.at_mut(&["spec", "selector"]) else { return };
    if is_empty_selector(selector) || is_match_nothing(selector) {
        return;
    }
    let Some(selector) = selector.as_map_mut() else { return };
    if let Some(expressions) = selector.get_mut("matchExpressions").and_then(Value::as_list_mut) {
        expressions.retain(|expression| text(expression, "key") != BETA_LABEL);
        if expressions.is_empty() {
            selector.remove("matchExpressions");
        }
    }
}

fn is_match_nothing(selector: &Value) -> bool {
    let [expression] = list(selector, "matchExpressions") else { return false };
    text(expression, "key") == BETA_LABEL
        && text(expression, "operator") == "Exists"
        && list(expression, "values").is_empty()
        && selector.get("matchLabels").is_none_or(Value::is_empty)
}

fn check_spec(object: &Value, lenient: bool, errors: &mut ErrorList) {
    let Some(spec) = object.get("spec") else { return };
    let path = Path::root("spec");
    let amounts = ["minAvailable", "maxUnavailable"];
    if amounts.iter().all(|field| spec.get(field).is_some()) {
        let value = internal::shown(spec, "PodDisruptionBudgetSpec");
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(&path, value, detail));
    }
    for field in amounts {
        if let Some(amount) = spec.get(field) {
            check_int_or_percent(errors, amount, &path.child(field));
            check_at_most_100_percent(errors, amount, &path.child(field));
        }
    }
    if let Some(selector) = spec.get("selector") {
        check_selector(errors, &path.child("selector"), selector, lenient);
    }
    if let Some(policy) = spec.get("unhealthyPodEvictionPolicy").and_then(Value::as_str)
        && !EVICTION_POLICIES.contains(&policy)
    {
        let path = path.child("unhealthyPodEvictionPolicy");
        errors.push(FieldError::not_supported(&path, BadValue::json_string(policy), &EVICTION_POLICIES));
    }
}
