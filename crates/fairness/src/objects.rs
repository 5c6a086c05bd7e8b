//! Compiled configuration objects. What cannot be compiled is left out, as upstream does with broken objects.

pub mod flow_schema;
pub mod priority_level;

use setpoint_api::Value;

/// Reads a number that is 32 bits wide in the API.
fn number(object: &Value, field: &str) -> Option<u32> {
    let number = object.get(field)?.as_i64()?;
    Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX).min(i32::MAX as u32))
}

/// Reads a percentage of at most `max`.
fn percent(object: &Value, field: &str, max: u32) -> Option<u32> {
    number(object, field).map(|percent| percent.min(max))
}

fn text(object: &Value, path: &[&str]) -> Box<str> {
    object.str_at(path).into()
}

fn texts(object: &Value, field: &str) -> Box<[Box<str>]> {
    let list = object.get(field).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(Into::into).collect()
}
