//! Role and ClusterRole.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::NameRule;
use crate::value::Value;

/// Rules of Role and, if not namespaced, of ClusterRole.
pub struct Role {
    /// `true` for Role.
    pub namespaced: bool,
}

impl Rules for Role {
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.check(object, false, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let selectors = check::field(old, "aggregationRule");
        let invalid = check::list(selectors, "clusterRoleSelectors").iter().any(check::is_invalid_selector);
        self.check(new, invalid, errors);
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

impl Role {
    fn check(&self, object: &Value, allow_invalid_values: bool, errors: &mut ErrorList) {
        let path = Path::root("rules");
        let mut declarative = ErrorList::new();
        for (i, rule) in check::list(object, "rules").iter().enumerate() {
            check_policy_rule(errors, &mut declarative, &path.index(i), rule, self.namespaced);
        }
        let aggregation = check::field(object, "aggregationRule");
        if !self.namespaced && !aggregation.is_null() {
            let path = Path::root("aggregationRule");
            let path = path.child("clusterRoleSelectors");
            let selectors = check::list(aggregation, "clusterRoleSelectors");
            if selectors.is_empty() {
                let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                errors.push(FieldError::required(&path, detail));
            }
            for (i, selector) in selectors.iter().enumerate() {
                check::check_selector(errors, &path.index(i), selector, allow_invalid_values);
                if check::is_invalid_selector(selector) {
                    let detail = "invalid label selector.";
                    errors.push(FieldError::invalid(&path.index(i), BadValue::Null, detail));
                }
            }
        }
        errors.append(declarative);
    }
}

/// Validates one rule. Errors of declarative validation come after all others, in `declarative`.
fn check_policy_rule(
    errors: &mut ErrorList,
    declarative: &mut ErrorList,
    path: &Path<'_>,
    rule: &Value,
    namespaced: bool,
) {
    let is_empty = |name| check::list(rule, name).is_empty();
    if is_empty("verbs") {
        declarative.push(FieldError::required(&path.child("verbs"), ""));
    }
    let urls = check::texts(rule, "nonResourceURLs");
    if !urls.is_empty() {
        let path = path.child("nonResourceURLs");
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&path, check::shown_texts(&urls), detail));
        }
        if !(is_empty("apiGroups") && is_empty("resources") && is_empty("resourceNames")) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&path, check::shown_texts(&urls), detail));
        }
        return;
    }
    if is_empty("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(&path.child("apiGroups"), detail));
    }
    if is_empty("resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(&path.child("resources"), detail));
    }
}
