//! Accessors for fields of an object, helpers for defaulting, and helpers that add errors.
//!
//! Accessors are lenient: a field that is absent or of the wrong type is empty.

use std::borrow::Cow;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::labels::{self, Expression};
use crate::names::Faults;
use crate::quantity::Quantity;
use crate::value::{Map, Value};

/// A field that is present.
pub(crate) fn present<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// A string; empty if absent.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// An optional string.
pub(crate) fn optional_text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// A number; 0 if absent.
pub(crate) fn number(value: &Value, field: &str) -> i64 {
    optional_number(value, field).unwrap_or_default()
}

/// An optional number.
pub(crate) fn optional_number(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

/// A boolean; false if absent.
pub(crate) fn boolean(value: &Value, field: &str) -> bool {
    optional_boolean(value, field).unwrap_or_default()
}

/// An optional boolean.
pub(crate) fn optional_boolean(value: &Value, field: &str) -> Option<bool> {
    value.get(field).and_then(Value::as_bool)
}

/// A list; empty if absent.
pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_list).unwrap_or_default()
}

/// Items of a list, for modification.
pub(crate) fn list_mut<'a>(value: &'a mut Value, field: &str) -> &'a mut [Value] {
    value.get_mut(field).and_then(Value::as_list_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Strings of a list.
pub(crate) fn texts<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    list(value, field).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

/// Entries of a map; none if absent.
pub(crate) fn entries<'a>(
    value: &'a Value,
    field: &str,
) -> impl Iterator<Item = (&'a str, &'a Value)> + Clone + use<'a> {
    value.get(field).and_then(Value::as_map).into_iter().flat_map(|map| map.iter())
}

/// Entries of a map of strings.
pub(crate) fn text_entries<'a>(
    value: &'a Value,
    field: &str,
) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
    entries(value, field).map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

/// Entries of a map of strings, if there is one.
pub(crate) fn map_entries(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = map.and_then(Value::as_map);
    map.into_iter().flat_map(Map::iter).filter_map(|(key, value)| Some((key, value.as_str()?)))
}

/// Value of an annotation.
pub(crate) fn annotation<'a>(meta: &'a Value, key: &str) -> Option<&'a str> {
    meta.get("annotations")?.get(key)?.as_str()
}

/// A quantity. Decoding rejects invalid ones, so anything else is zero.
pub(crate) fn quantity(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_else(|| Quantity::from(0))
}

/// `true` if a quantity has no fraction.
pub(crate) fn is_whole(amount: Quantity) -> bool {
    Quantity::from(amount.value()) == amount
}

/// Formats a list or object for an error message.
pub(crate) fn shown(value: Option<&Value>) -> BadValue {
    value.map_or(BadValue::Null, |value| BadValue::Json(crate::json::to_text(value).into()))
}

/// Adds an `Invalid` error.
pub(crate) fn push_invalid(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: impl Into<BadValue>,
    detail: impl Into<Cow<'static, str>>,
) {
    errors.push(FieldError::invalid(path, value, detail));
}

/// Adds an `Invalid` error for a value of a named string type.
pub(crate) fn push_invalid_enum(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &str,
    detail: impl Into<Cow<'static, str>>,
) {
    errors.push(FieldError::invalid(path, BadValue::json_string(value), detail));
}

/// Adds a `Required` error.
pub(crate) fn push_required(errors: &mut ErrorList, path: &Path<'_>, detail: impl Into<Cow<'static, str>>) {
    errors.push(FieldError::required(path, detail));
}

/// Adds `Required` errors for empty fields of an object.
pub(crate) fn require_texts(errors: &mut ErrorList, path: &Path<'_>, value: &Value, fields: &[&str]) {
    for field in fields {
        if text(value, field).is_empty() {
            push_required(errors, &path.child(field), "");
        }
    }
}

/// Adds a `Forbidden` error.
pub(crate) fn push_forbidden(errors: &mut ErrorList, path: &Path<'_>, detail: impl Into<Cow<'static, str>>) {
    errors.push(FieldError::forbidden(path, detail));
}

/// Adds an error for an unsupported enum value; the supported ones are listed in the given order.
pub(crate) fn check_supported(errors: &mut ErrorList, path: &Path<'_>, value: &str, supported: &[&str]) {
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, BadValue::json_string(value), supported));
    }
}

/// Adds an error for a missing or unsupported enum value.
pub(crate) fn check_required_enum(errors: &mut ErrorList, path: &Path<'_>, value: &str, supported: &[&str]) {
    if value.is_empty() {
        push_required(errors, path, "")
    } else {
        check_supported(errors, path, value, supported)
    }
}

/// Adds the faults of a number.
pub(crate) fn push_number_faults(errors: &mut ErrorList, path: &Path<'_>, number: i64, faults: Faults) {
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, number, fault)));
}

/// Adds an error for a negative number.
pub(crate) fn check_nonnegative(errors: &mut ErrorList, path: &Path<'_>, number: i64) {
    if number < 0 {
        push_invalid(errors, path, number, "must be greater than or equal to 0");
    }
}

/// Adds an error for a number that is not positive.
pub(crate) fn check_positive(errors: &mut ErrorList, path: &Path<'_>, number: i64) {
    if number <= 0 {
        push_invalid(errors, path, number, "must be greater than zero");
    }
}

/// Adds an error for an invalid user or group ID.
pub(crate) fn check_unix_id(errors: &mut ErrorList, path: &Path<'_>, value: &Value, field: &str) {
    if let Some(id) = optional_number(value, field) {
        push_number_faults(errors, &path.child(field), id, crate::names::key::unix_id(id));
    }
}

/// `matchLabels` of a `LabelSelector`.
pub fn match_labels(selector: &Value) -> impl Iterator<Item = (&str, &str)> {
    text_entries(selector, "matchLabels")
}

/// `matchExpressions` of a `LabelSelector`.
#[must_use]
pub fn expressions(selector: &Value) -> Vec<Expression<'_>> {
    list(selector, "matchExpressions").iter().map(expression).collect()
}

/// One match expression of a `LabelSelector`.
pub(crate) fn expression(of: &Value) -> Expression<'_> {
    Expression { key: text(of, "key"), operator: text(of, "operator"), values: texts(of, "values") }
}

/// Adds the errors of a `LabelSelector`. `lenient` accepts values that are not valid label values.
pub(crate) fn check_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value, lenient: bool) {
    labels::validate(errors, path, match_labels(selector), &expressions(selector), lenient);
}

/// Adds the errors of a `LabelSelector`, if there is one.
pub(crate) fn check_optional_selector(errors: &mut ErrorList, path: &Path<'_>, of: Option<&Value>) {
    if let Some(of) = of {
        check_selector(errors, path, of, false);
    }
}

/// Sets a field if it is absent; an empty one is left to validation.
pub(crate) fn set_default(map: &mut Map, field: &str, value: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field, value.into());
    }
}

/// Sets a string if it is absent or empty.
pub(crate) fn set_default_if_empty(map: &mut Map, field: &str, value: &str) {
    if map.get(field).is_none_or(Value::is_empty) {
        map.insert(field, value);
    }
}

/// `true` if two values are equal; quantities compare by amount, independent of their spelling.
pub(crate) fn is_equivalent(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, one)| {
                    b.get(key).is_some_and(|other| {
                        if has_amounts(key) {
                            has_equal_amounts(one, other)
                        } else {
                            is_equivalent(one, other)
                        }
                    })
                })
        }
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equivalent(a, b))
        }
        _ => a == b,
    }
}

fn has_amounts(key: &str) -> bool {
    matches!(key, "limits" | "requests" | "overhead" | "sizeLimit" | "divisor")
}

fn has_equal_amounts(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, one)| b.get(key).is_some_and(|other| has_equal_amounts(one, other)))
        }
        (Value::Str(_), Value::Str(_)) => a == b || quantity(a) == quantity(b),
        _ => a == b,
    }
}
