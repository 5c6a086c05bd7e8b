//! ConfigMap: data that is not secret.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::names::key::config_key;
use crate::value::{Map, Value};

/// The most bytes of keys and values together.
const DATA_BYTES_MAX: usize = 1 << 20;

/// The rules of ConfigMap.
pub struct ConfigMap;

impl Rules for ConfigMap {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (data, binary) = (entries(object, "data"), entries(object, "binaryData"));
        let (data_path, binary_path) = (Path::root("data"), Path::root("binaryData"));
        let mut bytes = 0;
        for (key, value) in data.into_iter().flat_map(Map::iter) {
            let path = data_path.key(key);
            for fault in config_key(key) {
                errors.push(FieldError::invalid(&path, key, fault));
            }
            if binary.is_some_and(|binary| binary.contains(key)) {
                errors.push(FieldError::invalid(&path, key, "duplicate of key present in binaryData"));
            }
            bytes += value.as_str().map_or(0, str::len);
        }
        for (key, value) in binary.into_iter().flat_map(Map::iter) {
            for fault in config_key(key) {
                errors.push(FieldError::invalid(&binary_path.key(key), key, fault));
            }
            bytes += value.as_str().map_or(0, decoded_bytes);
        }
        if bytes > DATA_BYTES_MAX {
            errors.push(FieldError::too_long(&Path::NONE, DATA_BYTES_MAX));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if old.get("immutable").and_then(Value::as_bool) != Some(true) {
            return;
        }
        let still = new.get("immutable").and_then(Value::as_bool) == Some(true);
        if !still {
            let message = "field is immutable when `immutable` is set";
            errors.push(FieldError::forbidden(&Path::root("immutable"), message));
        }
        for field in ["data", "binaryData"] {
            if entries(new, field) != entries(old, field) {
                let message = "field is immutable when `immutable` is set";
                errors.push(FieldError::forbidden(&Path::root(field), message));
            }
        }
    }
}

/// How many bytes base64 stands for.
fn decoded_bytes(text: &str) -> usize {
    text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count()
}

fn entries<'a>(object: &'a Value, field: &str) -> Option<&'a Map> {
    object.get(field).and_then(Value::as_map).filter(|map| !map.is_empty())
}
