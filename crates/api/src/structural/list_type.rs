//! Uniqueness of the items of lists with `x-kubernetes-list-type` `set` or `map`.

use std::collections::BTreeMap;

use super::coerce::{bad_value, sorted_json};
use super::schema::Schema;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::json;
use crate::schema::ListType;
use crate::value::{Map, Value};

/// Validates that sets have unique items, and map lists unique keys.
pub fn validate_lists(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut ErrorList) {
    if errors.is_full() {
        return;
    }
    match value {
        Value::Map(map) => {
            if let Some(schema) = schema.additional.schema() {
                map.iter().for_each(|(key, value)| validate_lists(value, schema, &path.key(key), errors));
            }
            for (key, value) in map.iter() {
                if let Some(property) = schema.property(key) {
                    validate_lists(value, property, &path.child(key), errors);
                }
            }
        }
        Value::List(list) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    for at in repeated(list.iter().map(set_key)) {
                        errors.push(FieldError::duplicate(&path.index(at), bad_value(&list[at])));
                    }
                }
                Some(ListType::Map) => validate_map_list(list, schema, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(items) = &schema.items {
                for (at, item) in list.iter().enumerate() {
                    validate_lists(item, items, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

/// Validates lists in an update: an object that had duplicates may keep having some.
pub fn validate_lists_update(
    new: &Value,
    old: &Value,
    schema: &Schema,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut found = ErrorList::new();
    validate_lists(new, schema, path, &mut found);
    if found.is_empty() {
        return;
    }
    let mut before = ErrorList::new();
    validate_lists(old, schema, path, &mut before);
    if before.is_empty() {
        errors.append(found);
    }
}

/// Comparable form of an item of a set. Numbers of different types differ, as in Go.
pub(super) fn set_key(value: &Value) -> String {
    match value {
        Value::Str(text) => format!("s{text}"),
        Value::Int(int) => format!("i{int}"),
        Value::Float(float) => format!("f{:?}", float + 0.0),
        Value::Bool(_) | Value::Null => json::to_text(value),
        Value::List(_) | Value::Map(_) | Value::Raw(_) => sorted_json(value),
    }
}

/// Positions of the second occurrence of each repeated key.
fn repeated(keys: impl ExactSizeIterator<Item = String>) -> Vec<usize> {
    if keys.len() <= 1 {
        return Vec::new();
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, key) in keys.enumerate() {
        let times = seen.entry(key).or_default();
        *times += 1;
        if *times == 2 {
            found.push(at);
        }
    }
    found
}

/// `true` if two items of a list are equal.
pub(super) fn has_repeated(list: &[Value]) -> bool {
    !repeated(list.iter().map(set_key)).is_empty()
}

fn validate_map_list(list: &[Value], schema: &Schema, path: &Path<'_>, errors: &mut ErrorList) {
    for (at, item) in list.iter().enumerate() {
        if !matches!(item, Value::Map(_) | Value::Null) {
            let detail = "must be an object for an array of list-type map";
            errors.push(FieldError::invalid(&path.index(at), bad_value(item), detail));
            return;
        }
    }
    let keys_of = |item: &Value| -> Value {
        let mut keys = Map::new();
        for name in &schema.list_keys {
            if let Some(value) = item.get(name) {
                keys.insert(name.as_str(), value.clone());
            }
        }
        Value::Map(keys)
    };
    // Go distinguishes integers and floats in a single key, and only there.
    let text = |item: &Value| match &*schema.list_keys {
        [name] => item.get(name).map_or_else(String::new, set_key),
        _ => sorted_json(&keys_of(item)),
    };
    for at in repeated(list.iter().map(text)) {
        errors.push(FieldError::duplicate(&path.index(at), bad_value(&keys_of(&list[at]))));
    }
}
