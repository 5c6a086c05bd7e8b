//! Immutable fields of a Service.

use super::Spec;
use super::validate::{SPEC, check_class};
use crate::field_error::{BadValue, ErrorList, FieldError};
use crate::value::Value;

/// Validates the changes of an update.
pub(super) fn check(errors: &mut ErrorList, new: &Value, old: &Value) {
    let (is, was) = (Spec::of(new), Spec::of(old));
    if is.needs_cluster_ip() && was.needs_cluster_ip() {
        check_ip_changes(errors, is, was);
        check_family_changes(errors, is, was);
    }
    if is.is_load_balancer() && was.is_load_balancer() {
        let class = is.get("loadBalancerClass");
        if class != was.get("loadBalancerClass") {
            let shown = class.and_then(Value::as_str).map_or(BadValue::Null, BadValue::json_string);
            let path = SPEC.child("loadBalancerClass");
            errors.push(FieldError::invalid(&path, shown, "may not change once set"));
        }
    }
    check_class(errors, is);
    let port = |spec: Spec<'_>| spec.int("healthCheckNodePort");
    if is.needs_health_check() && was.needs_health_check() && port(is) != port(was) {
        errors.push(FieldError::forbidden(&SPEC.child("healthCheckNodePort"), "field is immutable"));
    }
}

fn check_ip_changes(errors: &mut ErrorList, is: Spec<'_>, was: Spec<'_>) {
    if is.is_headless() && was.is_headless() {
        return;
    }
    let path = SPEC.child("clusterIPs");
    let (new, old) = (is.cluster_ips(), was.cluster_ips());
    let mut push = |i, detail| {
        errors.push(FieldError::invalid(&path.index(i), BadValue::json_strings(&new), detail));
    };
    if new.len() == old.len() {
        for (i, _) in new.iter().zip(&old).enumerate().filter(|(_, (new, old))| new != old) {
            push(i, "may not change once set");
        }
        return;
    }
    if new.is_empty() {
        push(0, "primary clusterIP can not be unset");
    } else if old.first().is_some_and(|first| *first != new[0]) {
        push(0, "may not change once set");
    }
    if new.len() < old.len() && new.len() == 1 {
        check_released(errors, is, "must be set to 'SingleStack' when releasing the secondary clusterIP");
    }
}

fn check_family_changes(errors: &mut ErrorList, is: Spec<'_>, was: Spec<'_>) {
    if is.is_headless() || was.is_headless() {
        return;
    }
    let path = SPEC.child("ipFamilies");
    let (new, old) = (is.list("ipFamilies"), was.list("ipFamilies"));
    let mut push = |shown: &[&str], detail| {
        errors.push(FieldError::invalid(&path.index(0), BadValue::json_strings(shown), detail));
    };
    if new.len() == old.len() {
        for _ in new.iter().zip(&old).filter(|(new, old)| new != old) {
            push(&new, "may not change once set");
        }
        return;
    }
    if new.len() < old.len() && is.cluster_ips().is_empty() {
        push(&new, "primary ipFamily can not be unset");
    }
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && new != old
    {
        push(&is.cluster_ips(), "may not change once set");
    }
    if new.len() < old.len() && new.len() == 1 {
        check_released(errors, is, "must be set to 'SingleStack' when releasing the secondary ipFamily");
    }
}

fn check_released(errors: &mut ErrorList, is: Spec<'_>, detail: &'static str) {
    let policy = is.get("ipFamilyPolicy").and_then(Value::as_str);
    if policy != Some("SingleStack") {
        let shown = policy.map_or(BadValue::Null, BadValue::json_string);
        errors.push(FieldError::invalid(&SPEC.child("ipFamilyPolicy"), shown, detail));
    }
}
