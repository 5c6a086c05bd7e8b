//! Binding: assigns a pod to a node.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::names::dns;
use crate::value::Value;

/// Rules of Binding.
pub struct Binding;

impl Rules for Binding {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let target = Path::root("target");
        let (kind, name) = (object.str_at(&["target", "kind"]), object.str_at(&["target", "name"]));
        let is_node = matches!(kind, "" | "Node");
        if !is_node {
            errors.push(FieldError::not_supported(&target.child("kind"), kind, &["Node", "<empty>"]));
        }
        if name.is_empty() {
            errors.push(FieldError::required(&target.child("name"), ""));
        } else if is_node {
            errors.push_invalid(&target.child("name"), name, dns::subdomain(name));
        }
    }
}
