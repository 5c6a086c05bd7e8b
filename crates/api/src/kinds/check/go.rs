//! Values as messages show them whose Go type has no names for JSON: every field under its Go name, absent ones as
//! what Go has in their place.

use super::field;
use crate::field_error::BadValue;
use crate::json;
use crate::value::Value;

/// How a value is laid out in Go.
pub(crate) enum Go {
    /// A text; empty where it is absent.
    Text,
    /// A number; 0 where it is absent.
    Number,
    /// A truth value; false where it is absent.
    Truth,
    /// What reads the same in JSON, and `null` where it is absent: lists and maps of plain values, pointers.
    Plain,
    /// A struct: the Go name, the JSON name and the layout of each field, in Go's order.
    Struct(&'static [(&'static str, &'static str, Go)]),
    /// A pointer to a struct.
    Pointer(&'static Go),
    /// A list of structs.
    List(&'static Go),
}

/// A value as messages show it.
pub(crate) fn shown_go(value: &Value, layout: &Go) -> BadValue {
    let mut out = String::new();
    print(&mut out, value, layout);
    BadValue::Json(out.into())
}

fn print(out: &mut String, value: &Value, layout: &Go) {
    match (layout, value) {
        (Go::Text, Value::Null) => out.push_str("\"\""),
        (Go::Number, Value::Null) => out.push('0'),
        (Go::Truth, Value::Null) => out.push_str("false"),
        (Go::Text | Go::Number | Go::Truth | Go::Plain, value) => out.push_str(&json::to_text(value)),
        (Go::Struct(fields), value) => {
            for (i, (go, name, layout)) in fields.iter().enumerate() {
                out.push(if i == 0 { '{' } else { ',' });
                out.push('"');
                out.push_str(go);
                out.push_str("\":");
                print(out, field(value, name), layout);
            }
            out.push('}');
        }
        (Go::Pointer(_) | Go::List(_), Value::Null) => out.push_str("null"),
        (Go::Pointer(layout), value) => print(out, value, layout),
        (Go::List(layout), value) => {
            out.push('[');
            for (i, one) in value.as_list().unwrap_or_default().iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                print(out, one, layout);
            }
            out.push(']');
        }
    }
}
