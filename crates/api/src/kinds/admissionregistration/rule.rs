//! Validation of admission rules: operations, groups, versions, resources.

use std::collections::BTreeSet;

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::check;
use crate::names::key;
use crate::value::Value;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Validates a rule with operations.
pub(super) fn check_with_operations(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let (operations, at) = (check::texts(rule, "operations"), path.child("operations"));
    if operations.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    check_star_alone(errors, &at, &operations, "operations");
    for (i, operation) in operations.iter().enumerate() {
        check::check_one_of(errors, &at.index(i), operation, &OPERATIONS);
    }
    for (name, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let (list, path) = (check::texts(rule, name), path.child(name));
        if list.is_empty() {
            errors.push(FieldError::required(&path, ""));
        }
        check_star_alone(errors, &path, &list, what);
        for (i, _) in list.iter().enumerate().filter(|(_, one)| name == "apiVersions" && one.is_empty()) {
            errors.push(FieldError::required(&path.index(i), ""));
        }
    }
    check_resources(errors, &path.child("resources"), &check::texts(rule, "resources"));
    if let Some(scope) = check::field(rule, "scope").as_str() {
        check::check_one_of(errors, &path.child("scope"), scope, &SCOPES);
    }
}

/// Validates a rule that may also have resource names.
pub(super) fn check_with_names(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let at = path.child("resourceNames");
    let mut seen = BTreeSet::new();
    for (i, name) in check::texts(rule, "resourceNames").into_iter().enumerate() {
        errors.push_invalid(&at.index(i), name, key::path_segment(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.index(i), name));
        }
    }
    check_with_operations(errors, path, rule);
}

fn check_star_alone(errors: &mut ErrorList, path: &Path<'_>, list: &[&str], what: &str) {
    if list.len() > 1 && list.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path, check::shown_texts(list), detail));
    }
}

/// Validates resources and subresources: none may overlap with another.
fn check_resources(errors: &mut ErrorList, path: &Path<'_>, resources: &[&str]) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_below, mut below_all) = (BTreeSet::new(), BTreeSet::new());
    // As upstream, only the last resource without a subresource counts.
    let mut plain = false;
    for (i, one) in resources.iter().enumerate() {
        let path = path.index(i);
        if one.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let Some((resource, sub)) = one.split_once('/') else {
            plain = *one != "*";
            continue;
        };
        if all_below.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {one}");
            errors.push(FieldError::invalid(&path, *one, detail));
        }
        if below_all.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {one}");
            errors.push(FieldError::invalid(&path, *one, detail));
        }
        if sub == "*" {
            all_below.insert(resource);
        }
        if resource == "*" {
            below_all.insert(sub);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, check::shown_texts(resources), detail));
    }
    if resources.contains(&"*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, check::shown_texts(resources), detail));
    }
}
