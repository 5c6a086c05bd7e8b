//! Go's `%v`, `%#v` and `%T` of dynamic values, for messages of upstream that contain them.
//!
//! A value prints as the `interface{}` tree that Go's JSON decoder builds from it, with sorted map keys.

use std::fmt;

use crate::json;
use crate::quote::Quoted;
use crate::value::{Map, Value};

/// Displays a value as Go's `%v`: `map[a:1 b:[x y]]`.
pub(crate) struct GoValue<'a>(pub(crate) &'a Value);

/// Displays a value as Go's `%#v`: `map[string]interface {}{"a":1}`.
pub(crate) struct GoLiteral<'a>(pub(crate) &'a Value);

/// Go type of a value, as `%T` prints it.
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) | Value::Raw(_) => "map[string]interface {}",
    }
}

impl fmt::Display for GoValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Str(text) => f.write_str(text),
            Value::List(list) => {
                f.write_str("[")?;
                for (at, item) in list.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { " " } else { "" }, GoValue(item))?;
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                f.write_str("map[")?;
                for (at, (key, value)) in sorted(map).into_iter().enumerate() {
                    write!(f, "{}{key}:{}", if at > 0 { " " } else { "" }, GoValue(value))?;
                }
                f.write_str("]")
            }
            scalar => f.write_str(&json::to_text(scalar)),
        }
    }
}

impl fmt::Display for GoLiteral<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("interface {}(nil)"),
            Value::Str(text) => write!(f, "{}", Quoted(text)),
            Value::List(list) => {
                f.write_str("[]interface {}{")?;
                for (at, item) in list.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { ", " } else { "" }, GoLiteral(item))?;
                }
                f.write_str("}")
            }
            Value::Map(map) => {
                f.write_str("map[string]interface {}{")?;
                for (at, (key, value)) in sorted(map).into_iter().enumerate() {
                    write!(f, "{}{}:{}", if at > 0 { ", " } else { "" }, Quoted(key), GoLiteral(value))?;
                }
                f.write_str("}")
            }
            scalar => f.write_str(&json::to_text(scalar)),
        }
    }
}

fn sorted(map: &Map) -> Vec<(&str, &Value)> {
    let mut entries: Vec<(&str, &Value)> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}
