//! JSON merge patch, RFC 7386, with one deviation of upstream: nulls are also removed from objects inside
//! lists of the patch.

use std::convert::Infallible;

use super::overlay::{FieldAction, overlay};
use crate::json;
use crate::value::{Map, Value};

/// Applies a patch; `None` if it is neither an object nor a list.
pub(super) fn apply(mut object: Value, patch: &Value) -> Option<Value> {
    match (object.as_map_mut(), patch) {
        (Some(map), Value::Map(patch)) => merge(map, patch),
        (None, Value::Map(_)) | (_, Value::List(_)) => return Some(pruned(patch)),
        _ => return None,
    }
    Some(object)
}

fn merge(map: &mut Map, patch: &Map) {
    let Ok(()) = overlay(map, patch.iter(), |_, old, value| -> Result<FieldAction, Infallible> {
        Ok(match (old, value) {
            (_, Value::Null) => FieldAction::Remove,
            (Some(Value::Map(inner)), Value::Map(patch)) => {
                merge(inner, patch);
                FieldAction::Keep
            }
            (_, value) => FieldAction::Set(pruned(value)),
        })
    });
}

/// Returns a copy without null fields, at any depth. Nulls in lists stay.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let fields = map.iter().filter(|(_, value)| !value.is_null());
            Value::Map(fields.map(|(key, value)| (key, pruned(value))).collect())
        }
        Value::List(list) => Value::List(list.iter().map(pruned).collect()),
        other => other.clone(),
    }
}

/// Result as upstream shows it: objects that the patch touched have sorted keys.
pub(super) fn shown(patched: &Value, patch: &Value) -> String {
    let mut shown = patched.clone();
    sort_touched(&mut shown, patch);
    json::to_text(&shown)
}

fn sort_touched(value: &mut Value, patch: &Value) {
    let (Value::Map(map), Value::Map(patch)) = (value, patch) else { return };
    for (key, value) in map.iter_mut() {
        if let Some(patch) = patch.get(key) {
            sort_touched(value, patch);
        }
    }
    map.sort();
}
