//! Validation of `matchResources` and `matchConditions` of policies and bindings.

use std::collections::BTreeSet;

use super::{MATCH_POLICIES, rule};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::check;
use crate::value::Value;

const CONDITIONS_MAX: usize = 64;
/// Operations that a mutating policy can match: all but deletes.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Validates the requests that a policy or binding matches.
pub(super) fn check_resources(errors: &mut ErrorList, path: &Path<'_>, resources: &Value) {
    match check::field(resources, "matchPolicy").as_str() {
        None => errors.push(FieldError::required(&path.child("matchPolicy"), "")),
        Some(policy) => check::check_one_of(errors, &path.child("matchPolicy"), policy, &MATCH_POLICIES),
    }
    for name in ["namespaceSelector", "objectSelector"] {
        match check::field(resources, name) {
            Value::Null => errors.push(FieldError::required(&path.child(name), "")),
            selector => check::check_selector(errors, &path.child(name), selector, false),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        let path = path.child(name);
        for (i, one) in check::list(resources, name).iter().enumerate() {
            rule::check_with_names(errors, &path.index(i), one);
        }
    }
}

/// Checks that matched requests can be mutated.
pub(super) fn check_mutable(errors: &mut ErrorList, path: &Path<'_>, resources: &Value) {
    let path = path.child("resourceRules");
    let path = path.child("operations");
    for rule in check::list(resources, "resourceRules") {
        for operation in check::texts(rule, "operations") {
            check::check_one_of(errors, &path, operation, &MUTATING_OPERATIONS);
        }
    }
}

/// Validates the match conditions.
pub(super) fn check_conditions(errors: &mut ErrorList, path: &Path<'_>, conditions: &[Value]) {
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(path, Some(conditions.len()), CONDITIONS_MAX));
    }
    let mut names = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        if check::text(condition, "expression").trim().is_empty() {
            errors.push(FieldError::required(&path.child("expression"), ""));
        }
        let (name, path) = (check::text(condition, "name"), path.child("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        check::check_label_key(errors, &path, name);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
    }
}
