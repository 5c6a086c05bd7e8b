//! Kinds of the group `authorization.k8s.io`: access reviews, which are answered and never stored.

use super::Rules;
use super::check::{self, GoLayout};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::labels;
use crate::value::Value;

const NON_RESOURCE: GoLayout = GoLayout::Pointer(&GoLayout::Struct(&[
    ("Path", "path", GoLayout::Text),
    ("Verb", "verb", GoLayout::Text),
]));

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "SubjectAccessReview" => &AccessReview::Subject,
        "SelfSubjectAccessReview" => &AccessReview::SelfSubject,
        "LocalSubjectAccessReview" => &AccessReview::Local,
        "SelfSubjectRulesReview" => &SelfSubjectRulesReview,
        _ => return None,
    })
}

/// Rules of SelfSubjectRulesReview. A review without a namespace is a bad request, see
/// [`rules_review_fault`].
pub struct SelfSubjectRulesReview;

impl Rules for SelfSubjectRulesReview {
    fn validate(&self, _object: &Value, _errors: &mut ErrorList) {}
}

/// Message if a SelfSubjectRulesReview is a bad request.
#[must_use]
pub fn rules_review_fault(object: &Value) -> Option<&'static str> {
    object.str_at(&["spec", "namespace"]).is_empty().then_some("no namespace on request")
}

/// Rules of the three access reviews.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessReview {
    /// SubjectAccessReview: for any user.
    Subject,
    /// SelfSubjectAccessReview: for the requesting user.
    SelfSubject,
    /// LocalSubjectAccessReview: for any user, in one namespace.
    Local,
}

impl Rules for AccessReview {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        let (resource, other) =
            (check::field(spec, "resourceAttributes"), check::field(spec, "nonResourceAttributes"));
        if resource.is_null() == other.is_null() {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(FieldError::invalid(&path, check::format_go(other, &NON_RESOURCE), detail));
        }
        let has_no_subject = check::text(spec, "user").is_empty() && check::list(spec, "groups").is_empty();
        if has_no_subject && *self != AccessReview::SelfSubject {
            let detail = "at least one of user or group must be specified";
            errors.push(FieldError::invalid(&path.child("user"), "", detail));
        }
        let at = path.child("resourceAttributes");
        check_selector(errors, &at, resource, "fieldSelector");
        check_selector(errors, &at, resource, "labelSelector");
        self.check_metadata(errors, check::field(object, "metadata"));
        if *self == AccessReview::Local {
            check_local(errors, &path, object);
        }
    }
}

impl AccessReview {
    fn check_metadata(self, errors: &mut ErrorList, metadata: &Value) {
        let local = self == AccessReview::Local;
        let ignored = |name: &str| name == "managedFields" || (local && name == "namespace");
        let entries = metadata.as_map().into_iter().flat_map(crate::value::Map::iter);
        let is_forbidden = |(name, value): (&str, &Value)| !ignored(name) && !value.is_empty();
        if entries.into_iter().any(is_forbidden) {
            let detail = if local { "must be empty except for namespace" } else { "must be empty" };
            errors.push(FieldError::invalid(&Path::root("metadata"), check::shown(metadata), detail));
        }
    }
}

fn check_local(errors: &mut ErrorList, path: &Path<'_>, object: &Value) {
    let resource = object.at(&["spec", "resourceAttributes"]).unwrap_or(check::ABSENT);
    let namespace = check::text(resource, "namespace");
    if !resource.is_null() && namespace != object.str_at(&["metadata", "namespace"]) {
        let at = path.child("resourceAttributes");
        errors.push(FieldError::invalid(&at.child("namespace"), namespace, "must match metadata.namespace"));
    }
    let other = object.at(&["spec", "nonResourceAttributes"]).unwrap_or(check::ABSENT);
    if !other.is_null() {
        let detail = "disallowed on this kind of request";
        let value = check::format_go(other, &NON_RESOURCE);
        errors.push(FieldError::invalid(&path.child("nonResourceAttributes"), value, detail));
    }
}

fn check_selector(errors: &mut ErrorList, path: &Path<'_>, resource: &Value, name: &str) {
    let (selector, path) = (check::field(resource, name), path.child(name));
    if selector.is_null() {
        return;
    }
    let (raw, requirements) = (check::text(selector, "rawSelector"), check::list(selector, "requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(&path.child("rawSelector"), raw, detail));
    }
    let at = path.child("requirements");
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {path} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&at, detail));
    }
    for (i, one) in requirements.iter().enumerate() {
        check_requirement(errors, &at.index(i), one, name == "labelSelector");
    }
}

/// Validates a requirement. Unknown operators are accepted, for forward compatibility.
fn check_requirement(errors: &mut ErrorList, path: &Path<'_>, requirement: &Value, of_labels: bool) {
    let expression = check::expression(requirement);
    if of_labels {
        let mut faults = ErrorList::new();
        labels::validate_requirement(&mut faults, path, &expression, false);
        let is_operator = |error: &FieldError| error.detail == "not a valid selector operator";
        return errors.extend(faults.into_iter().filter(|error| !is_operator(error)));
    }
    if expression.key.is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
    let values = path.child("values");
    match (expression.operator, expression.values.is_empty()) {
        ("In" | "NotIn", true) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values, detail));
        }
        ("Exists" | "DoesNotExist", false) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values, detail));
        }
        _ => {}
    }
}
