//! Type errors of a patched object in upstream's words for strategic merge patches.
//!
//! Upstream converts the result of a strategic merge patch from an unstructured tree, which has other
//! messages than JSON decoding. This runs only after decoding has failed.

use crate::schema::{Shape, Struct, TypeRef};
use crate::value::Value;

/// First value of a wrong type, in schema order; `None` if only the content of a string is wrong, for which
/// decoding has the message.
pub(super) fn mismatch(value: &Value, schema: Struct<'_>) -> Option<String> {
    let Value::Map(map) = value else {
        return Some(format!("cannot restore struct from: {}", kind(value)));
    };
    schema.fields().find_map(|field| wrong(map.get(field.name())?, field.ty()))
}

fn wrong(value: &Value, ty: TypeRef<'_>) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match (ty.shape(), value) {
        (Shape::Struct(schema), _) => mismatch(value, schema),
        (Shape::Map(item_type), Value::Map(map)) => map.iter().find_map(|(_, value)| wrong(value, item_type)),
        (Shape::Map(_), _) => Some(format!("cannot restore map from {}", kind(value))),
        (Shape::List(item_type), Value::List(list)) => list.iter().find_map(|value| wrong(value, item_type)),
        (Shape::List(_), _) => Some(format!("cannot restore slice from {}", kind(value))),
        (Shape::Bytes, Value::Str(_)) => None,
        (Shape::Bytes, _) => Some(format!("cannot restore slice from {}", kind(value))),
        (Shape::String, _) => scalar(value, "string", matches!(value, Value::Str(_)), ty),
        (Shape::Bool, _) => scalar(value, "bool", matches!(value, Value::Bool(_)), ty),
        (Shape::Int32, _) => scalar(value, "int32", is_integer(value), ty),
        (Shape::Int64, _) => scalar(value, "int64", is_integer(value), ty),
        (Shape::Double, _) => scalar(value, "float64", matches!(value, Value::Int(_) | Value::Float(_)), ty),
        _ => None,
    }
}

fn is_integer(value: &Value) -> bool {
    match value {
        Value::Int(_) => true,
        Value::Float(number) => number.trunc() == *number,
        _ => false,
    }
}

fn scalar(value: &Value, wanted: &str, fits: bool, ty: TypeRef<'_>) -> Option<String> {
    if fits {
        return None;
    }
    // Go could convert these two types, if JSON allowed it, and has a message for that.
    let convertible = match value {
        Value::Int(_) => wanted != "bool",
        Value::Float(_) => !matches!(wanted, "bool" | "string"),
        _ => false,
    };
    Some(if convertible {
        format!("cannot convert {} to {}", kind(value), ty.go_type())
    } else {
        format!("unrecognized type: {wanted}")
    })
}

/// Go kind of a value.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) | Value::Raw(_) => "map",
    }
}
