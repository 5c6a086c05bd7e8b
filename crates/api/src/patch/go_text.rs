//! Values as Go prints them: `map[a:1 b:[x y]]`. Messages about strategic merge patches show them so.

use std::fmt;

use crate::json;
use crate::value::Value;

/// Prints a value as Go's `%v` prints what its decoder made of it, with the keys of objects in order.
pub(super) struct GoText<'a>(pub(super) &'a Value);

impl fmt::Display for GoText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(number) => {
                let mut text = Vec::new();
                json::write_float(*number, &mut text);
                f.write_str(&String::from_utf8_lossy(&text))
            }
            Value::Str(text) | Value::Raw(text) => f.write_str(text),
            Value::List(list) => {
                f.write_str("[")?;
                for (at, item) in list.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { " " } else { "" }, GoText(item))?;
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                let mut entries: Vec<(&str, &Value)> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                f.write_str("map[")?;
                for (at, (key, item)) in entries.into_iter().enumerate() {
                    write!(f, "{}{key}:{}", if at > 0 { " " } else { "" }, GoText(item))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The name of the Go type that a value is decoded to.
pub(super) const fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) | Value::Raw(_) => "map[string]interface {}",
    }
}
