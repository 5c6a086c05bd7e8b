//! Shared helpers of validation: accessors for fields, and checks of common parts.
//!
//! Accessors are lenient: absent fields are empty. Maps are iterated in key order, so that the same object
//! always gets the same errors.

use compact_str::CompactString;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::json;
use crate::names::key;
use crate::quantity::Quantity;
use crate::value::{Map, Value};

pub(super) use super::read::{boolean, check_selector, expression, list, number, text, texts};

mod condition;
mod go;

pub(super) use super::core::pod_spec::{check_node_selector, check_tolerations};
pub(super) use condition::check_conditions;
pub(super) use condition::reason_faults;
pub(super) use go::{GoLayout, format_go};

/// Value of an absent field.
pub(super) const ABSENT: &Value = &Value::Null;

/// Message for a changed immutable field.
pub(super) const IMMUTABLE: &str = "field is immutable";

/// A field; null if absent.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(ABSENT)
}

/// `true` if a field is present: a pointer in Go that is not nil.
pub(super) fn is_set(value: &Value, name: &str) -> bool {
    !field(value, name).is_null()
}

/// Entries of a map, sorted by key.
pub(super) fn entries<'a>(value: &'a Value, name: &str) -> Vec<(&'a str, &'a Value)> {
    let mut entries: Vec<_> = field(value, name).as_map().into_iter().flat_map(Map::iter).collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// Entries of a map of strings, sorted by key.
pub(super) fn text_entries<'a>(value: &'a Value, name: &str) -> Vec<(&'a str, &'a str)> {
    entries(value, name).into_iter().map(|(key, value)| (key, value.as_str().unwrap_or_default())).collect()
}

/// Formats a value for an error as JSON.
pub(super) fn shown(value: &Value) -> BadValue {
    BadValue::Json(json::to_text(value).into())
}

/// Formats strings for an error as a JSON array.
pub(super) fn shown_texts(texts: &[&str]) -> BadValue {
    BadValue::json_strings(texts)
}

/// Sets a field of a map if it is absent.
pub(super) fn set_default_with(map: &mut Map, name: &str, make: impl FnOnce() -> Value) {
    if map.get(name).is_none_or(Value::is_null) {
        map.insert(CompactString::from(name), make());
    }
}

/// Sets a field of a map if it is empty.
pub(super) fn set_default_if_empty_with(map: &mut Map, name: &str, make: impl FnOnce() -> Value) {
    if map.get(name).is_none_or(Value::is_empty) {
        map.insert(CompactString::from(name), make());
    }
}

/// Iterates over the objects of a list, for modification.
pub(super) fn maps_mut<'a>(value: &'a mut Value, path: &[&str]) -> impl Iterator<Item = &'a mut Map> {
    let list = value.at_mut(path).and_then(Value::as_list_mut);
    list.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut)
}

/// Adds an error if a value is not in the enumeration. Enumerations are named string types in Go, so the
/// value is shown as JSON.
pub(super) fn check_one_of(errors: &mut ErrorList, path: &Path<'_>, value: &str, supported: &[&str]) {
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, BadValue::json_string(value), supported));
    }
}

/// `true` if a `LabelSelector` is invalid.
pub(super) fn is_invalid_selector(of: &Value) -> bool {
    let mut errors = ErrorList::new();
    check_selector(&mut errors, &Path::NONE, of, false);
    !errors.is_empty()
}

/// Validates a label key.
pub(super) fn check_label_key(errors: &mut ErrorList, path: &Path<'_>, text: &str) {
    errors.push_invalid(path, text, key::label_key(text));
}

/// Validates the name of a CSI driver.
pub(super) fn check_csi_driver_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    errors.push_invalid(path, name, crate::names::dns::subdomain(&name.to_lowercase()));
}

/// Validates that a quantity is not negative.
pub(super) fn check_nonnegative_quantity(errors: &mut ErrorList, path: &Path<'_>, quantity: &Value) {
    let text = quantity.as_str().unwrap_or_default();
    if Quantity::parse(text).is_ok_and(|quantity| quantity.sign() < 0) {
        errors.push(FieldError::invalid(path, text, "must be greater than or equal to 0"));
    }
}

/// Adds an error if an immutable field changed; newer rules show no value.
pub(super) fn check_immutable(errors: &mut ErrorList, path: &Path<'_>, new: &Value, old: &Value) -> bool {
    let changed = !is_equivalent(new, old);
    if changed {
        errors.push(FieldError::invalid(path, BadValue::Null, IMMUTABLE));
    }
    changed
}

/// `true` if two values are equal; an empty list or map equals an absent one.
pub(super) fn is_equivalent(new: &Value, old: &Value) -> bool {
    let blank = |value: &Value| match value {
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        value => value.is_null(),
    };
    new == old || (blank(new) && blank(old))
}

/// Deprecation warning for a node label.
pub(super) fn deprecated_node_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}
