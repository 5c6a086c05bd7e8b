//! Filling in texts that were left out.

use crate::value::{Map, Value};

/// Sets a text that is absent or empty.
pub(super) fn fill(map: &mut Map, field: &str, value: &str) {
    if map.get(field).is_none_or(Value::is_empty) {
        map.insert(field, value);
    }
}

/// Sets a text that is absent, and leaves an empty one to validation.
pub(super) fn fill_absent(map: &mut Map, field: &str, value: &str) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field, value);
    }
}
