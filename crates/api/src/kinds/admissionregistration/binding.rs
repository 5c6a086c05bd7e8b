//! ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding.

use std::collections::BTreeSet;

use super::{default_match, default_scopes, match_resources, reject_static_name, static_name_warning};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::{dns, key};
use crate::value::Value;

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

/// Rules of both binding kinds.
pub struct PolicyBinding {
    /// `true` for MutatingAdmissionPolicyBinding.
    pub mutating: bool,
}

impl Rules for PolicyBinding {
    fn default(&self, object: &mut Value) {
        let resources = object.at_mut(&["spec", "matchResources"]);
        let Some(resources) = resources.filter(|value| !value.is_null()) else { return };
        default_scopes(resources, &["resourceRules"]);
        default_scopes(resources, &["excludeResourceRules"]);
        default_match(resources.make_map());
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let declarative = self.check_spec(errors, check::field(object, "spec"));
        reject_static_name(errors, object);
        errors.append(declarative);
    }

    fn validate_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let declarative = self.check_spec(errors, check::field(new, "spec"));
        errors.append(declarative);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        static_name_warning(new, old).into_iter().collect()
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

impl PolicyBinding {
    /// Validates a spec, and returns the errors of declarative validation, which come last.
    fn check_spec(&self, errors: &mut ErrorList, spec: &Value) -> ErrorList {
        let path = Path::root("spec");
        let mut declarative = ErrorList::new();
        let at = path.child("policyName");
        match check::text(spec, "policyName") {
            "" if self.mutating => errors.push(FieldError::required(&at, "")),
            "" => declarative.push(FieldError::required(&at, "")),
            name => errors.push_invalid(&at, name, dns::subdomain(name)),
        }
        if check::is_set(spec, "paramRef") {
            check_param_ref(errors, &path.child("paramRef"), check::field(spec, "paramRef"));
        }
        let (resources, at) = (check::field(spec, "matchResources"), path.child("matchResources"));
        if !resources.is_null() {
            match_resources::check_resources(errors, &at, resources);
            if self.mutating {
                match_resources::check_mutable(errors, &at, resources);
            }
        }
        if !self.mutating {
            let actions = check::texts(spec, "validationActions");
            check_actions(errors, &mut declarative, &path.child("validationActions"), &actions);
        }
        declarative
    }
}

fn check_actions(errors: &mut ErrorList, declarative: &mut ErrorList, path: &Path<'_>, actions: &[&str]) {
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        check::check_one_of(errors, &path.index(i), action, &ACTIONS);
        if !seen.insert(*action) {
            errors.push(FieldError::duplicate(&path.index(i), BadValue::json_string(action)));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, check::shown_texts(actions), detail));
    }
    if seen.is_empty() {
        declarative.push(FieldError::required(path, ""));
    }
}

fn check_param_ref(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let (name, selector) = (check::text(reference, "name"), check::field(reference, "selector"));
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        errors.push_invalid(&path.child("name"), name, key::path_segment(name));
        if !selector.is_null() {
            errors.push(FieldError::forbidden(&path.child("name"), exclusive));
        }
    }
    if !selector.is_null() {
        check::check_selector(errors, &path.child("selector"), selector, false);
        if !name.is_empty() {
            errors.push(FieldError::forbidden(&path.child("selector"), exclusive));
        }
    }
    if name.is_empty() && selector.is_null() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    let at = path.child("parameterNotFoundAction");
    match check::text(reference, "parameterNotFoundAction") {
        "" => errors.push(FieldError::required(&at, "")),
        action => check::check_one_of(errors, &at, action, &["Deny", "Allow"]),
    }
}
