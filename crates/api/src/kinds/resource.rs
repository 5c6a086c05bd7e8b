//! Kinds of the group `resource.k8s.io`: dynamic resource allocation.
//!
//! CEL selectors are checked for their length here; the crate `extensions` compiles them. Fields of features that are
//! off by default are cleared. The permission for administrative access is not checked here.

pub mod allocation;
pub mod claim_spec;
pub mod device;
pub mod device_class;
pub mod device_taint_rule;
pub mod name;
pub mod request_policy;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_slice;
pub mod taint;

use std::collections::BTreeSet;

use super::{Rules, check};
use crate::field_error::{ErrorKind, ErrorList, FieldError, Path};
use crate::value::Value;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "DeviceClass" => &device_class::DeviceClass,
        "DeviceTaintRule" => &device_taint_rule::DeviceTaintRule,
        "ResourceClaim" => &resource_claim::ResourceClaim,
        "ResourceClaimTemplate" => &resource_claim_template::ResourceClaimTemplate,
        "ResourceSlice" => &resource_slice::ResourceSlice,
        _ => return None,
    })
}

/// Errors of an object. Errors of handwritten validation precede those of declarative validation, as upstream.
#[derive(Default)]
struct Report {
    handwritten: ErrorList,
    declarative: ErrorList,
}

impl Report {
    /// Appends the errors in order.
    fn append_to(self, errors: &mut ErrorList) {
        errors.append(self.handwritten);
        errors.append(self.declarative);
    }

    /// Visits the items of a list with at most `max` items.
    fn check_items(
        &mut self,
        path: &Path<'_>,
        list: &[Value],
        max: usize,
        mut visit: impl FnMut(&mut Report, &Path<'_>, &Value),
    ) {
        if list.len() > max {
            return self.declarative.push(FieldError::too_many(path, Some(list.len()), max));
        }
        for (i, one) in list.iter().enumerate() {
            visit(self, &path.index(i), one);
        }
    }

    /// Adds an error for each item with the key of an earlier one.
    fn check_unique<K: Ord>(&mut self, path: &Path<'_>, list: &[Value], key: impl Fn(&Value) -> K) {
        // A list that is too long is not examined.
        let list_path = path.to_string();
        if self
            .declarative
            .iter()
            .any(|error| error.kind == ErrorKind::TooMany && error.field.as_str() == list_path)
        {
            return;
        }
        let mut seen = BTreeSet::new();
        for (i, one) in list.iter().enumerate() {
            if !seen.insert(key(one)) {
                let value = one.as_str().map_or_else(|| check::shown(one), Into::into);
                self.declarative.push(FieldError::duplicate(&path.index(i), value));
            }
        }
    }
}

/// Removes fields of disabled features from the objects of a list.
fn drop_fields(value: &mut Value, path: &[&str], fields: &[&str]) {
    for map in check::maps_mut(value, path) {
        map.retain(|name, _| !fields.contains(&name));
    }
}
