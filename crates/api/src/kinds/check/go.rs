//! Formatting of values whose Go type has no JSON tags, for error messages: every field with its Go name, absent ones
//! with their zero value.

use super::field;
use crate::field_error::BadValue;
use crate::json;
use crate::value::Value;

/// Go layout of a value.
pub(crate) enum GoLayout {
    /// A string; empty if absent.
    Text,
    /// A number; 0 if absent.
    Number,
    /// A boolean; false if absent.
    Bool,
    /// A value with the same form in JSON, and `null` if absent: lists and maps of plain values, pointers.
    Plain,
    /// A struct: Go name, JSON name and layout of each field, in Go's order.
    Struct(&'static [(&'static str, &'static str, GoLayout)]),
    /// A pointer to a struct.
    Pointer(&'static GoLayout),
    /// A list of structs.
    List(&'static GoLayout),
}

/// Formats a value for a message.
pub(crate) fn format_go(value: &Value, layout: &GoLayout) -> BadValue {
    let mut out = String::new();
    print(&mut out, value, layout);
    BadValue::Json(out.into())
}

fn print(out: &mut String, value: &Value, layout: &GoLayout) {
    match (layout, value) {
        (GoLayout::Text, Value::Null) => out.push_str("\"\""),
        (GoLayout::Number, Value::Null) => out.push('0'),
        (GoLayout::Bool, Value::Null) => out.push_str("false"),
        (GoLayout::Text | GoLayout::Number | GoLayout::Bool | GoLayout::Plain, value) => {
            out.push_str(&json::to_text(value))
        }
        (GoLayout::Struct(fields), value) => {
            for (i, (go, name, layout)) in fields.iter().enumerate() {
                out.push(if i == 0 { '{' } else { ',' });
                out.push('"');
                out.push_str(go);
                out.push_str("\":");
                print(out, field(value, name), layout);
            }
            out.push('}');
        }
        (GoLayout::Pointer(_) | GoLayout::List(_), Value::Null) => out.push_str("null"),
        (GoLayout::Pointer(layout), value) => print(out, value, layout),
        (GoLayout::List(layout), value) => {
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
