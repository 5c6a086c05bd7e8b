//! ConfigMap: non-confidential data.

use std::collections::BTreeSet;

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::kinds::core::secret::decoded_len;
use crate::names::key::config_key;
use crate::value::{Map, Value};

/// Maximum bytes of all keys and values.
const DATA_BYTES_MAX: usize = 1 << 20;

/// Rules of ConfigMap.
pub struct ConfigMap;

impl Rules for ConfigMap {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (data, binary) = (entries(object, "data"), entries(object, "binaryData"));
        let (data_path, binary_path) = (Path::root("data"), Path::root("binaryData"));
        let binary_keys: BTreeSet<&str> = binary.into_iter().flat_map(Map::keys).collect();
        let mut bytes = 0;
        for (key, value) in data.into_iter().flat_map(Map::iter) {
            let path = data_path.key(key);
            errors.push_invalid(&path, key, config_key(key));
            if binary_keys.contains(key) {
                errors.push(FieldError::invalid(&path, key, "duplicate of key present in binaryData"));
            }
            bytes += value.as_str().map_or(0, str::len);
        }
        for (key, value) in binary.into_iter().flat_map(Map::iter) {
            errors.push_invalid(&binary_path.key(key), key, config_key(key));
            bytes += value.as_str().map_or(0, decoded_len);
        }
        // As upstream, this error has an empty path.
        if bytes > DATA_BYTES_MAX {
            errors.push(FieldError::too_long(&Path::NONE.key(""), DATA_BYTES_MAX));
        }
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
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

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_transition(new, old, errors);
        self.validate(new, errors);
    }
}

fn entries<'a>(object: &'a Value, field: &str) -> Option<&'a Map> {
    object.get(field).and_then(Value::as_map).filter(|map| !map.is_empty())
}
