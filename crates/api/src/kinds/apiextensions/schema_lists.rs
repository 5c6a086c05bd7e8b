//! Validation of list and map types in schemas: `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and
//! `x-kubernetes-map-type`.

use std::collections::BTreeSet;

use super::ratchet::SchemaStrictness;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::json;
use crate::kinds::check;
use crate::value::Value;

const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const ATOMIC_ITEMS: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";

/// Extension with a string; `None` if absent.
fn extension<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    check::field(schema, name).as_str()
}

/// Schema of all items.
fn items(schema: &Value) -> Option<&Value> {
    Some(check::field(schema, "items")).filter(|items| items.as_map().is_some())
}

/// Validates list and map types.
pub(super) fn check_list_and_map_types(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    strictness: SchemaStrictness,
) {
    if let Some(map_type) = extension(schema, MAP_TYPE) {
        require_type(errors, path, schema, "object", MAP_TYPE);
        let supported = ["atomic", "granular"];
        if !supported.contains(&map_type) {
            errors.push(FieldError::not_supported(&path.child(MAP_TYPE), map_type, &supported));
        }
    }
    let list_type = extension(schema, LIST_TYPE);
    if let Some(list_type) = list_type {
        if require_type(errors, path, schema, "array", LIST_TYPE) && strictness.atomic_sets {
            check_set_items(errors, path, schema);
        }
        let supported = ["atomic", "set", "map"];
        if !supported.contains(&list_type) {
            errors.push(FieldError::not_supported(&path.child(LIST_TYPE), list_type, &supported));
        }
    }
    if !check::list(schema, MAP_KEYS).is_empty() {
        let (path, detail) =
            (path.child(LIST_TYPE), "must be map if x-kubernetes-list-map-keys is non-empty");
        match list_type {
            None => errors.push(FieldError::required(&path, detail)),
            Some("map") => {}
            Some(other) => errors.push(FieldError::invalid(&path, other, detail)),
        }
    }
    if list_type == Some("map") {
        check_list_map(errors, path, schema);
    }
    if strictness.map_keys {
        check_keys(errors, path, schema);
    }
}

/// Adds an error if a schema with an extension has another type.
fn require_type(
    errors: &mut ErrorList,
    path: &Path<'_>,
    schema: &Value,
    wanted: &str,
    extension: &str,
) -> bool {
    let (kind, path) = (check::text(schema, "type"), path.child("type"));
    if kind == wanted {
        return true;
    }
    let detail = format!("must be {wanted} if {extension} is specified");
    if kind.is_empty() {
        errors.push(FieldError::required(&path, detail));
    } else {
        errors.push(FieldError::invalid(&path, kind, detail));
    }
    false
}

/// Extension of the items of a set that makes them not atomic.
fn non_atomic_item(schema: &Value) -> Option<&'static str> {
    let items = items(schema).filter(|_| extension(schema, LIST_TYPE) == Some("set"))?;
    match check::text(items, "type") {
        "array" => extension(items, LIST_TYPE).filter(|kind| *kind != "atomic").map(|_| LIST_TYPE),
        "object" => (extension(items, MAP_TYPE) != Some("atomic")).then_some(MAP_TYPE),
        _ => None,
    }
}

/// `true` if the schema is a set whose items are not atomic.
pub(super) fn is_non_atomic_set(schema: &Value) -> bool {
    non_atomic_item(schema).is_some()
}

fn check_set_items(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let Some(name) = non_atomic_item(schema) else { return };
    // As upstream, the list type is shown for both extensions.
    let shown = items(schema).and_then(|items| extension(items, LIST_TYPE));
    let shown = shown.map_or(BadValue::Null, BadValue::json_string);
    let path = path.child("items");
    errors.push(FieldError::invalid(&path.child(name), shown, ATOMIC_ITEMS));
}

/// Validates a list whose items are identified by keys.
fn check_list_map(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let keys = check::texts(schema, MAP_KEYS);
    let (keys_path, items_path) = (path.child(MAP_KEYS), path.child("items"));
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, detail));
    }
    let items = match check::field(schema, "items") {
        Value::Null => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            return errors.push(FieldError::required(&items_path, detail));
        }
        Value::List(schemas) => {
            let schemas = json::to_text(&Value::List(schemas.clone()));
            let shown = BadValue::Json(format!("{{\"Schema\":null,\"JSONSchemas\":{schemas}}}").into());
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.push(FieldError::invalid(&items_path, shown, detail));
        }
        items => items,
    };
    let kind = check::text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.push(FieldError::invalid(&items_path.child("type"), kind, detail));
    }
    let properties = items_path.child("properties");
    let mut seen = BTreeSet::new();
    for key in &keys {
        if errors.is_full() {
            return;
        }
        match check::field(items, "properties").get(key) {
            Some(property) if matches!(check::text(property, "type"), "array" | "object") => {
                let path = properties.key(key);
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&path.child("type"), kind, detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, check::shown_texts(&keys), detail));
            }
        }
        if !seen.insert(*key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&keys_path, check::shown_texts(&keys), detail));
        }
    }
}

/// Validates that items of sets and maps, and the keys of maps, are always present.
fn check_keys(errors: &mut ErrorList, path: &Path<'_>, schema: &Value) {
    let Some(items) = items(schema) else { return };
    let Some(list_type @ ("set" | "map")) = extension(schema, LIST_TYPE) else { return };
    let path = path.child("items");
    if check::boolean(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&path.child("nullable"), detail));
    }
    if list_type == "set" {
        return;
    }
    let required: BTreeSet<&str> = check::texts(items, "required").into_iter().collect();
    let properties = path.child("properties");
    for key in check::texts(schema, MAP_KEYS) {
        let Some(property) = check::field(items, "properties").get(key) else { continue };
        let path = properties.key(key);
        if !required.contains(&key) && !check::is_set(property, "default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&path.child("default"), detail));
        }
        if check::boolean(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&path.child("nullable"), detail));
        }
    }
}

/// `true` if items or keys of a set or map may be missing.
pub(super) fn has_invalid_keys(schema: &Value) -> bool {
    let mut errors = ErrorList::new();
    check_keys(&mut errors, &Path::NONE, schema);
    !errors.is_empty()
}
