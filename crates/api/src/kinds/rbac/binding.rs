//! RoleBinding and ClusterRoleBinding.

use super::GROUP;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::check::{self, GoLayout};
use crate::names::{NameRule, dns, key};
use crate::value::Value;

const ROLE_REF: GoLayout = GoLayout::Struct(&[
    ("APIGroup", "apiGroup", GoLayout::Text),
    ("Kind", "kind", GoLayout::Text),
    ("Name", "name", GoLayout::Text),
]);

/// Rules of RoleBinding and, if not namespaced, of ClusterRoleBinding.
pub struct RoleBinding {
    /// `true` for RoleBinding.
    pub namespaced: bool,
}

impl Rules for RoleBinding {
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn default(&self, object: &mut Value) {
        if let Some(role) = object.get_mut("roleRef").and_then(Value::as_map_mut) {
            check::set_default_if_empty_with(role, "apiGroup", || GROUP.into());
        }
        for subject in check::maps_mut(object, &["subjects"]) {
            if matches!(subject.get_str("kind"), Some("User" | "Group")) {
                check::set_default_if_empty_with(subject, "apiGroup", || GROUP.into());
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        // Errors of declarative validation come last.
        let mut declarative = ErrorList::new();
        let path = Path::root("subjects");
        let role_name_error = self.check_role_ref(errors, check::field(object, "roleRef"));
        for (i, one) in check::list(object, "subjects").iter().enumerate() {
            check_subject(errors, &mut declarative, &path.index(i), one, self.namespaced);
        }
        errors.append(declarative);
        errors.extend(role_name_error);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (new, old) = (check::field(new, "roleRef"), check::field(old, "roleRef"));
        if new != old {
            let value = check::format_go(new, &ROLE_REF);
            errors.push(FieldError::invalid(&Path::root("roleRef"), value, check::IMMUTABLE));
        }
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

impl RoleBinding {
    /// Validates the role reference. The error for a missing name is returned, because it comes last.
    fn check_role_ref(&self, errors: &mut ErrorList, role: &Value) -> Option<FieldError> {
        let path = Path::root("roleRef");
        let group = check::text(role, "apiGroup");
        if group != GROUP {
            errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[GROUP]));
        }
        let supported: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = check::text(role, "kind");
        if !supported.contains(&kind) {
            errors.push(FieldError::not_supported(&path.child("kind"), kind, supported));
        }
        let name = check::text(role, "name");
        errors.push_invalid(&path.child("name"), name, key::path_segment(name));
        name.is_empty().then(|| FieldError::required(&path.child("name"), "").into())
    }
}

fn check_subject(
    errors: &mut ErrorList,
    declarative: &mut ErrorList,
    path: &Path<'_>,
    subject: &Value,
    namespaced: bool,
) {
    let (name, group) = (check::text(subject, "name"), check::text(subject, "apiGroup"));
    if name.is_empty() {
        declarative.push(FieldError::required(&path.child("name"), ""));
    }
    match check::text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.push_invalid(&path.child("name"), name, dns::subdomain(name));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if !namespaced && check::text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(&path.child("apiGroup"), group, &[GROUP]));
            }
        }
        other => {
            let supported = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(&path.child("kind"), other, &supported));
        }
    }
}
