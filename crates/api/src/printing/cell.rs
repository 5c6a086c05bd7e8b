//! Building blocks of cells.

use crate::labels::{Expression, Selector, SelectorError};
use crate::rfc3339;
use crate::time::Time;
use crate::value::Value;

use super::human_duration;

pub(super) fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"])
}

/// Age of the object.
pub(super) fn age(object: &Value, now: Time) -> String {
    since(object.at(&["metadata", "creationTimestamp"]), now)
}

/// Creation timestamp.
pub(super) fn created_at(object: &Value) -> &str {
    or(object.str_at(&["metadata", "creationTimestamp"]), "0001-01-01T00:00:00Z")
}

/// `true` if the object is in deletion.
pub(super) fn is_deleted(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations", key])?.as_str()
}

/// Parses a timestamp, if there is one.
pub(super) fn time(value: Option<&Value>) -> Option<Time> {
    let time = rfc3339::parse(value?.as_str()?).ok()?;
    Some(time).filter(|time| *time != rfc3339::UNSET)
}

/// Time since a timestamp.
pub(super) fn since(value: Option<&Value>, now: Time) -> String {
    time(value).map_or_else(|| "<unknown>".to_owned(), |time| human_duration(time, now))
}

/// A string, or `other` if it is empty.
pub(super) fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// String at a path, or `other` if it is absent; an empty string is kept.
pub(super) fn text_or<'a>(object: &'a Value, path: &[&str], other: &'a str) -> &'a str {
    object.at(path).and_then(Value::as_str).unwrap_or(other)
}

/// Integer at a path; 0 if absent.
pub(super) fn int(object: &Value, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or(0)
}

/// Boolean at a path; false if absent.
pub(super) fn bool_at(object: &Value, path: &[&str]) -> bool {
    object.at(path).and_then(Value::as_bool).unwrap_or(false)
}

/// Items of the list at a path.
pub(super) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_list).unwrap_or_default()
}

/// Number of items or fields at a path.
pub(super) fn count(object: &Value, path: &[&str]) -> i64 {
    let count = match object.at(path) {
        Some(Value::List(list)) => list.len(),
        Some(Value::Map(map)) => map.len(),
        _ => 0,
    };
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Strings of a list, joined.
pub(super) fn joined(object: &Value, path: &[&str], by: &str) -> String {
    list(object, path).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(by)
}

/// An integer or string, or `other` if absent.
pub(super) fn int_or_text(object: &Value, path: &[&str], other: &str) -> String {
    match object.at(path) {
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Str(text)) => text.to_string(),
        _ => other.to_owned(),
    }
}

/// Quantity at a path; zero if absent.
pub(super) fn quantity(object: &Value, path: &[&str]) -> String {
    int_or_text(object, path, "0")
}

/// Condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"]).iter().find(|condition| condition.str_at(&["type"]) == kind)
}

/// `true` if the condition of a type is true.
pub(super) fn has_condition(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// Names and images of the containers of a pod spec.
pub(super) fn containers(spec: Option<&Value>) -> (String, String) {
    let containers = spec.map_or(&[][..], |spec| list(spec, &["containers"]));
    let all = |field: &str| containers.iter().map(|one| one.str_at(&[field])).collect::<Vec<_>>().join(",");
    (all("name"), all("image"))
}

/// Labels as in `a=1,b=2`, sorted.
pub(super) fn labels(labels: Option<&Value>) -> String {
    let Some(Value::Map(map)) = labels else { return "<none>".to_owned() };
    let mut pairs: Vec<String> =
        map.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.sort_unstable();
    or(&pairs.join(","), "<none>").to_owned()
}

/// Converts a label selector.
pub(super) fn selector(selector: Option<&Value>) -> Result<Selector, SelectorError> {
    let Some(selector @ Value::Map(_)) = selector else { return Ok(Selector::Nothing) };
    let labels = selector.get("matchLabels").and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|map| map.iter());
    let expressions = list(selector, &["matchExpressions"]).iter().map(|expression| Expression {
        key: expression.str_at(&["key"]),
        operator: expression.str_at(&["operator"]),
        values: list(expression, &["values"]).iter().filter_map(Value::as_str).collect(),
    });
    Selector::from_parts(labels.map(|(key, value)| (key, value.as_str().unwrap_or_default())), expressions)
}

/// Formats a label selector.
pub(super) fn selector_text(of: Option<&Value>) -> String {
    match selector(of) {
        Ok(selector) => or(&selector.to_string(), "<none>").to_owned(),
        Err(_) => "<error>".to_owned(),
    }
}

/// The first `max` strings, and the number of the others; `<unset>` if there are none.
pub(super) fn first_of<'a>(texts: impl Iterator<Item = &'a str>, max: usize) -> String {
    let texts: Vec<&str> = texts.collect();
    match texts.len().checked_sub(max) {
        Some(more @ 1..) => format!("{} + {more} more...", texts[..max].join(",")),
        _ => or(&texts.join(","), "<unset>").to_owned(),
    }
}

/// Addresses of a load balancer, deduplicated and sorted.
pub(super) fn load_balancer(object: &Value) -> Vec<&str> {
    let ingress = list(object, &["status", "loadBalancer", "ingress"]).iter();
    let mut addresses: Vec<&str> = ingress
        .map(|one| or(one.str_at(&["ip"]), one.str_at(&["hostname"])))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}
