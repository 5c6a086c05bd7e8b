//! IPAddress: an allocated address of the Service network. The name of the object is the address.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::{NameRule, dns, key};
use crate::value::Value;

/// Rules of IPAddress.
pub struct IpAddress;

impl Rules for IpAddress {
    fn name_rule(&self) -> NameRule {
        NameRule::Ip
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let path = path.child("parentRef");
        let Some(parent) = object.at(&["spec", "parentRef"]).filter(|parent| !parent.is_null()) else {
            return errors.push(FieldError::required(&path, ""));
        };
        // Errors of declarative validation come last.
        let mut declarative = ErrorList::new();
        let group = check::text(parent, "group");
        if !group.is_empty() {
            errors.push_invalid(&path.child("group"), group, dns::subdomain(group));
        }
        for name in ["resource", "name"] {
            match check::text(parent, name) {
                "" => declarative.push(FieldError::required(&path.child(name), "")),
                text => errors.push_invalid(&path.child(name), text, key::path_segment(text)),
            }
        }
        let namespace = check::text(parent, "namespace");
        errors.push_invalid(&path.child("namespace"), namespace, key::path_segment(namespace));
        errors.append(declarative);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let parent = |object: &Value| object.at(&["spec", "parentRef"]).cloned().unwrap_or_default();
        let path = Path::root("spec");
        check::check_immutable(errors, &path.child("parentRef"), &parent(new), &parent(old));
    }
}
