//! Kinds of the group `admissionregistration.k8s.io`: admission webhooks and policies.
//!
//! Expressions are checked for presence only: they are compiled where they are evaluated.

pub mod binding;
pub mod match_resources;
pub mod policy;
pub mod rule;
pub(super) mod url;
pub mod webhook;

use super::{Rules, check};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::{Map, Value};

/// Suffix of names that are reserved for static configuration files.
const STATIC_SUFFIX: &str = ".static.k8s.io";
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "ValidatingWebhookConfiguration" => &webhook::Webhooks { mutating: false },
        "MutatingWebhookConfiguration" => &webhook::Webhooks { mutating: true },
        "ValidatingAdmissionPolicy" => &policy::Policy { mutating: false },
        "MutatingAdmissionPolicy" => &policy::Policy { mutating: true },
        "ValidatingAdmissionPolicyBinding" => &binding::PolicyBinding { mutating: false },
        "MutatingAdmissionPolicyBinding" => &binding::PolicyBinding { mutating: true },
        _ => return None,
    })
}

fn static_suffix_fault() -> String {
    format!(
        "names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based configurations and cannot be managed via the API"
    )
}

/// Rejects a new object with a reserved name.
fn reject_static_name(errors: &mut ErrorList, object: &Value) {
    let name = object.str_at(&["metadata", "name"]);
    if name.ends_with(STATIC_SUFFIX) {
        let path = Path::root("metadata");
        errors.push(FieldError::invalid(&path.child("name"), name, static_suffix_fault()));
    }
}

/// Warns about an object with a reserved name that was created before such names were rejected.
fn static_name_warning(new: &Value, old: Option<&Value>) -> Option<String> {
    let named_so = new.str_at(&["metadata", "name"]).ends_with(STATIC_SUFFIX);
    (old.is_some() && named_so).then(|| format!("metadata.name: {}", static_suffix_fault()))
}

/// Sets the defaults of request matching.
fn default_match(map: &mut Map) {
    check::set_default_with(map, "matchPolicy", || "Equivalent".into());
    check::set_default_with(map, "namespaceSelector", Value::map);
    check::set_default_with(map, "objectSelector", Value::map);
}

/// Sets the default scope of rules.
fn default_scopes(value: &mut Value, rules: &[&str]) {
    for rule in check::maps_mut(value, rules) {
        check::set_default_with(rule, "scope", || "*".into());
    }
}
