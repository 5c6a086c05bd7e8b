//! Embedded resources: their metadata is decoded as `ObjectMeta`, and validated.

use super::schema::Schema;
use crate::decode::{StrictError, decode};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::json;
use crate::metadata;
use crate::names::dns;
use crate::schema::{Struct, builtin};
use crate::value::{Map, Value};

/// Checks `apiVersion` and `kind` of embedded resources, decodes their `metadata`, and returns the paths of its
/// unknown fields, sorted. With `is_root`, the value itself is a resource too.
///
/// # Errors
/// For the first field of the wrong type. With `drop_invalid`, such fields are removed instead.
pub fn coerce_embedded(
    value: &mut Value,
    schema: &Schema,
    is_root: bool,
    drop_invalid: bool,
) -> Result<Vec<String>, FieldError> {
    let mut coercer = Coercer { drop_invalid, unknown: Vec::new() };
    coercer.coerce(value, schema, is_root, &Path::NONE)?;
    coercer.unknown.sort_unstable();
    Ok(coercer.unknown)
}

struct Coercer {
    drop_invalid: bool,
    unknown: Vec<String>,
}

impl Coercer {
    fn coerce(
        &mut self,
        value: &mut Value,
        schema: &Schema,
        is_root: bool,
        path: &Path<'_>,
    ) -> Result<(), FieldError> {
        match value {
            Value::Map(map) => {
                if is_root || schema.embedded_resource {
                    self.coerce_meta(map, path)?;
                }
                for (key, value) in map.iter_mut() {
                    match schema.property(key) {
                        Some(property) => self.coerce(value, property, false, &path.child(key))?,
                        None => {
                            if let Some(schema) = schema.additional.schema() {
                                self.coerce(value, schema, false, &path.key(key))?;
                            }
                        }
                    }
                }
            }
            Value::List(list) => {
                let Some(items) = &schema.items else { return Ok(()) };
                for (at, item) in list.iter_mut().enumerate() {
                    self.coerce(item, items, false, &path.index(at))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn coerce_meta(&mut self, map: &mut Map, path: &Path<'_>) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            let Some(value) = map.get(name).filter(|value| value.as_str().is_none()) else { continue };
            if !self.drop_invalid {
                return Err(
                    FieldError::invalid(&path.child(name), bad_value(value), "must be a string").into()
                );
            }
            map.remove(name);
        }
        let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
        match decode(metadata.clone(), object_meta(), &[]) {
            Ok(decoded) => {
                let path = path.child("metadata");
                self.unknown.extend(decoded.strict.iter().map(|error| match error {
                    StrictError::Unknown { path: field } | StrictError::Duplicate { path: field } => {
                        format!("{path}.{field}")
                    }
                }));
                *metadata = without_null_times(decoded.value);
            }
            Err(error) if !self.drop_invalid => {
                let path = path.child("metadata");
                return Err(FieldError::invalid(&path, bad_value(metadata), error.to_string()).into());
            }
            Err(_) => drop_invalid_metadata(metadata),
        }
        Ok(())
    }
}

/// Schema of `ObjectMeta`.
fn object_meta() -> Struct<'static> {
    builtin().meta("ObjectMeta").expect("the built-in schemas have ObjectMeta")
}

fn without_null_times(mut metadata: Value) -> Value {
    if let Some(map) = metadata.as_map_mut()
        && map.get("creationTimestamp").is_some_and(Value::is_null)
    {
        map.remove("creationTimestamp");
    }
    metadata
}

/// Decodes metadata field by field and drops those of the wrong type. Anything but an object stays, as upstream.
pub(super) fn drop_invalid_metadata(metadata: &mut Value) {
    let Some(map) = metadata.as_map_mut() else { return };
    map.retain(|key, value| {
        let mut single = Map::new();
        single.insert(key, value.clone());
        decode(Value::Map(single), object_meta(), &[]).is_ok()
    });
    if let Ok(decoded) = decode(metadata.clone(), object_meta(), &[]) {
        *metadata = without_null_times(decoded.value);
    }
}

/// Validates `apiVersion`, `kind` and `metadata` of embedded resources.
pub fn validate_embedded(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut ErrorList) {
    validate_resources(value, schema, false, path, errors);
}

/// Validates embedded resources. With `is_root`, the value itself is a resource too.
pub(super) fn validate_resources(
    value: &Value,
    schema: &Schema,
    is_root: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if errors.is_full() {
        return;
    }
    match value {
        Value::Map(map) => {
            if is_root || schema.embedded_resource {
                validate_resource(value, map, path, errors);
            }
            for (key, value) in map.iter() {
                match schema.property(key) {
                    Some(property) => validate_embedded(value, property, &path.child(key), errors),
                    None => {
                        if let Some(schema) = schema.additional.schema() {
                            validate_embedded(value, schema, &path.key(key), errors);
                        }
                    }
                }
            }
        }
        Value::List(list) => {
            let Some(items) = &schema.items else { return };
            for (at, item) in list.iter().enumerate() {
                validate_embedded(item, items, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(value: &Value, map: &Map, path: &Path<'_>, errors: &mut ErrorList) {
    for name in ["apiVersion", "kind"] {
        let path = path.child(name);
        match map.get(name) {
            None => errors.push(FieldError::required(&path, "")),
            Some(Value::Str(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&path, "", "must not be empty"));
            }
            Some(Value::Str(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(&path, text.as_str(), detail));
                }
            }
            Some(Value::Str(text)) => {
                let faults: Vec<_> = dns::label_1035(&text.to_lowercase()).into_iter().collect();
                if !faults.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", faults.join(","));
                    errors.push(FieldError::invalid(&path, text.as_str(), detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(&path, bad_value(other), "must be a string")),
        }
    }
    let Some(sent) = map.get("metadata") else { return };
    let path = path.child("metadata");
    match decode(sent.clone(), object_meta(), &[]) {
        Err(error) => errors.push(FieldError::invalid(&path, bad_value(sent), error.to_string())),
        Ok(_) => metadata::validate::embedded(errors, &path, value),
    }
}

/// Returns a value as error messages show it.
#[must_use]
pub fn bad_value(value: &Value) -> BadValue {
    match value {
        Value::Null => BadValue::Null,
        Value::Bool(truth) => BadValue::Bool(*truth),
        Value::Int(int) => BadValue::Int(*int),
        Value::Float(float) => BadValue::Float(*float),
        Value::Str(text) => BadValue::from(text.as_str()),
        Value::List(_) | Value::Map(_) | Value::Raw(_) => BadValue::Json(sorted_json(value).into()),
    }
}

/// JSON with sorted fields, as Go encodes maps.
pub(super) fn sorted_json(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_fields();
    json::to_text(&value)
}
