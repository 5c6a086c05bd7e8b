//! The kinds of admissionregistration.k8s.io: who else has a say about writes.
//!
//! Expressions are checked for being there, not for being right: they are compiled where they are run.

pub mod binding;
pub mod match_resources;
pub mod policy;
pub mod rule;
mod url;
pub mod webhook;

use super::{Rules, check};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::{Map, Value};

/// Names that end so belong to configuration in files.
const STATIC_SUFFIX: &str = ".static.k8s.io";
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "ValidatingWebhookConfiguration" => &webhook::Webhooks { mutating: false },
        "MutatingWebhookConfiguration" => &webhook::Webhooks { mutating: true },
        "ValidatingAdmissionPolicy" => &policy::Policy { mutating: false },
        "MutatingAdmissionPolicy" => &policy::Policy { mutating: true },
        "ValidatingAdmissionPolicyBinding" => &binding::Binding { mutating: false },
        "MutatingAdmissionPolicyBinding" => &binding::Binding { mutating: true },
        _ => return None,
    })
}

fn static_suffix_fault() -> String {
    format!(
        "names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based configurations and cannot be managed via the API"
    )
}

/// Refuses a new object that is called as one in a file.
fn refuse_static_name(errors: &mut ErrorList, object: &Value) {
    let name = object.str_at(&["metadata", "name"]);
    if name.ends_with(STATIC_SUFFIX) {
        let path = Path::root("metadata");
        errors.push(FieldError::invalid(&path.child("name"), name, static_suffix_fault()));
    }
}

/// Warns about an object that is called as one in a file but was there before such names were refused.
fn static_name_warning(new: &Value, old: Option<&Value>) -> Option<String> {
    let named_so = new.str_at(&["metadata", "name"]).ends_with(STATIC_SUFFIX);
    (old.is_some() && named_so).then(|| format!("metadata.name: {}", static_suffix_fault()))
}

/// Sets what all that matches requests has by default.
fn default_match(map: &mut Map) {
    check::default_to(map, "matchPolicy", || "Equivalent".into());
    check::default_to(map, "namespaceSelector", Value::map);
    check::default_to(map, "objectSelector", Value::map);
}

/// Sets the scope of rules.
fn default_scopes(value: &mut Value, rules: &[&str]) {
    for rule in check::maps_mut(value, rules) {
        check::default_to(rule, "scope", || "*".into());
    }
}
