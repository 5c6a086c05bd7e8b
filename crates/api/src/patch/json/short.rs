//! Operations of a short JSON patch, applied to the value itself with one walk each.

use std::borrow::Cow;

use super::{
    COPY_BYTES_MAX, COPY_DESTINATION, JsonOperation, JsonPatchError, MOVE_DESTINATION, check_depth,
    parse_index, unescape,
};
use crate::json;
use crate::value::Value;

/// Applies the operations in order; stops at the first that fails.
pub(super) fn apply(mut object: Value, operations: &[Value]) -> Result<Value, JsonPatchError> {
    let mut copied = 0;
    for (at, operation) in operations.iter().enumerate() {
        let operation = JsonOperation { at, fields: operation.as_map() };
        match operation.text("op").unwrap_or("unknown") {
            "add" => add(&mut object, &operation)?,
            "remove" => drop(remove("remove", &mut object, operation.required("path")?)?),
            "replace" => replace(&mut object, &operation)?,
            "move" => {
                let (from, path) = (operation.required("from")?, operation.required("path")?);
                let value = remove("move", &mut object, from)?;
                check_depth(path, depth(&value))?;
                place(MOVE_DESTINATION, &mut object, path, value)?;
            }
            "copy" => copy(&mut object, &operation, &mut copied)?,
            "test" => test(&mut object, &operation)?,
            kind => return Err(JsonPatchError::Kind(kind.to_owned())),
        }
    }
    Ok(object)
}

fn add(object: &mut Value, operation: &JsonOperation<'_>) -> Result<(), JsonPatchError> {
    let (path, value) = (operation.required("path")?, operation.value().clone());
    check_depth(path, depth(&value))?;
    place("add", object, path, value)
}

fn replace(object: &mut Value, operation: &JsonOperation<'_>) -> Result<(), JsonPatchError> {
    let (path, value) = (operation.required("path")?, operation.value().clone());
    check_depth(path, depth(&value))?;
    if path.is_empty() {
        return match value {
            Value::Map(_) | Value::List(_) => {
                *object = value;
                Ok(())
            }
            _ => Err(JsonPatchError::Root),
        };
    }
    match find("replace", object, path)? {
        (Value::List(list), key) => {
            let at = parse_index(&key, list.len())?;
            list[at] = value;
        }
        (parent, key) => drop(parent.make_map().insert(&*key, value)),
    }
    Ok(())
}

fn copy(object: &mut Value, operation: &JsonOperation<'_>, copied: &mut usize) -> Result<(), JsonPatchError> {
    let (from, path) = (operation.required("from")?, operation.required("path")?);
    let value = get("copy", object, from)?.clone();
    *copied += json::to_vec(&value).len();
    if *copied > COPY_BYTES_MAX {
        return Err(JsonPatchError::CopySize(*copied));
    }
    check_depth(path, depth(&value))?;
    place(COPY_DESTINATION, object, path, value)
}

fn test(object: &mut Value, operation: &JsonOperation<'_>) -> Result<(), JsonPatchError> {
    let path = operation.required("path")?;
    let found = if path.is_empty() { &*object } else { get("test", object, path)? };
    if found == operation.value() { Ok(()) } else { Err(JsonPatchError::Test(path.to_owned())) }
}

/// Value at a path; null for an absent field.
fn get<'v>(kind: &'static str, object: &'v mut Value, path: &str) -> Result<&'v Value, JsonPatchError> {
    match find(kind, object, path)? {
        (Value::List(list), key) => {
            let at = parse_index(&key, list.len())?;
            Ok(&list[at])
        }
        (parent, key) => Ok(parent.get(&key).unwrap_or(&Value::Null)),
    }
}

/// Adds a value: sets a field, or inserts a list item.
fn place(kind: &'static str, object: &mut Value, path: &str, value: Value) -> Result<(), JsonPatchError> {
    match find(kind, object, path)? {
        (Value::List(list), key) if key == "-" => list.push(value),
        (Value::List(list), key) => {
            let at = parse_index(&key, list.len() + 1)?;
            list.insert(at, value);
        }
        (parent, key) => drop(parent.make_map().insert(&*key, value)),
    }
    Ok(())
}

fn remove(kind: &'static str, object: &mut Value, path: &str) -> Result<Value, JsonPatchError> {
    match find(kind, object, path)? {
        (Value::List(list), key) => {
            let at = parse_index(&key, list.len())?;
            Ok(list.remove(at))
        }
        (parent, key) => parent
            .make_map()
            .remove(&key)
            .ok_or_else(|| JsonPatchError::MissingKey { kind, path: path.to_owned() }),
    }
}

/// Parent container of a path, and the last segment.
fn find<'v, 'p>(
    kind: &'static str,
    object: &'v mut Value,
    path: &'p str,
) -> Result<(&'v mut Value, Cow<'p, str>), JsonPatchError> {
    let missing = || JsonPatchError::Missing { kind, path: path.to_owned() };
    let mut parts = path.split('/').skip(1).map(unescape).peekable();
    let mut value = object;
    loop {
        let part = parts.next().ok_or_else(missing)?;
        if parts.peek().is_none() {
            return Ok((value, part));
        }
        let next = match value {
            Value::Map(map) => map.get_mut(&part),
            Value::List(list) => match parse_index(&part, list.len()) {
                Ok(at) => list.get_mut(at),
                Err(_) => None,
            },
            _ => None,
        };
        value = next.filter(|value| matches!(value, Value::Map(_) | Value::List(_))).ok_or_else(missing)?;
    }
}

/// Levels of nested lists and objects, including its own.
fn depth(value: &Value) -> usize {
    match value {
        Value::Map(map) => 1 + map.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        Value::List(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
