//! Conversion from JSON by declaration, and back to JSON.

use std::sync::Arc;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Map as JsonMap, Value as Json, json};

use super::{DurationValue, ListValue, MapKey, MapValue, TextValue, Timestamp, Value};
use crate::decl::{Decl, DeclKind};
use crate::eval::EvalError;
use crate::types::unescape_identifier;

/// Largest number of values that a conversion to JSON writes. Lists of shared lists can be far larger than the memory
/// that holds them.
const JSON_VALUES_MAX: usize = 1_000_000;
/// Bytes of text that count as one of these values.
const BYTES_PER_JSON_VALUE: usize = 64;

impl<'a> Value<'a> {
    /// Converts JSON by its declaration; without one, by the type of the JSON value.
    ///
    /// # Errors
    /// If the JSON value does not fit the declaration.
    pub fn from_json(value: &'a Json, decl: Option<&'a Decl>) -> Result<Value<'a>, EvalError> {
        Ok(match (value, decl.map(|decl| &decl.kind)) {
            (Json::Null, _) => Value::Null,
            (Json::Raw(_), _) => owned(&json::parse_raw(value)),
            (Json::Bool(truth), None | Some(DeclKind::Dyn | DeclKind::Any | DeclKind::Bool)) => {
                Value::Bool(*truth)
            }
            // An integer of a number field is a double.
            (Json::Int(number), Some(DeclKind::Double)) => Value::Double(*number as f64),
            (Json::Int(number), None | Some(DeclKind::Dyn | DeclKind::Any | DeclKind::Int)) => {
                Value::Int(*number)
            }
            (Json::Float(number), None | Some(DeclKind::Dyn | DeclKind::Any | DeclKind::Double)) => {
                Value::Double(*number)
            }
            (Json::Str(text), None | Some(DeclKind::Dyn | DeclKind::Any | DeclKind::String)) => {
                Value::String(TextValue::Borrowed(text))
            }
            (Json::Str(text), Some(kind)) => from_formatted(text, kind)?,
            (Json::List(items), None | Some(DeclKind::Dyn | DeclKind::Any | DeclKind::List { .. })) => {
                Value::List(ListValue::Json(items, decl))
            }
            (
                Json::Map(map),
                None | Some(DeclKind::Dyn | DeclKind::Any | DeclKind::Map { .. } | DeclKind::Object(_)),
            ) => Value::Map(MapValue::Json(map, decl)),
            (_, Some(kind)) => return Err(mismatch(value, kind)),
        })
    }

    /// Converts the value to JSON: timestamps, durations and bytes become strings.
    ///
    /// # Errors
    /// If a value has no JSON form, or there are more than a million values or 64 MiB of text.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        let mut left = JSON_VALUES_MAX;
        to_json(self, &mut left)
    }
}

fn from_formatted<'a>(text: &str, kind: &DeclKind) -> Result<Value<'a>, EvalError> {
    let (value, name) = match kind {
        DeclKind::Bytes => {
            (decode_base64(text).map(|bytes| Value::Bytes(bytes.into())), "byte formatted string")
        }
        DeclKind::Timestamp => {
            (Timestamp::parse_format(text).map(Value::Timestamp), "date-time formatted string")
        }
        DeclKind::Date => (Timestamp::parse_date(text).map(Value::Timestamp), "date formatted string"),
        DeclKind::Duration => (DurationValue::parse_format(text).map(Value::Duration), "duration"),
        DeclKind::Quantity => (Quantity::parse(text).ok().map(Value::quantity), "quantity"),
        _ => return Err(mismatch(&Json::Str(text.into()), kind)),
    };
    value.ok_or_else(|| EvalError::new(format!("Invalid {name} {text}")))
}

fn mismatch(value: &Json, kind: &DeclKind) -> EvalError {
    let expected = match kind {
        DeclKind::List { .. } => {
            return EvalError::constant(
                "invalid data, expected an array for the provided schema with type=array",
            );
        }
        DeclKind::Map { .. } | DeclKind::Object(_) => {
            return EvalError::constant(
                "invalid data, expected a map for the provided schema with type=object",
            );
        }
        DeclKind::Bool => "bool",
        DeclKind::Int => "int",
        DeclKind::Double => "float",
        _ => "string",
    };
    EvalError::new(format!("invalid data, expected {expected}, got {}", value.type_name()))
}

/// Converts JSON that does not outlive the call.
fn owned<'a>(value: &Json) -> Value<'a> {
    match value {
        Json::Null | Json::Raw(_) => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Int(number) => Value::Int(*number),
        Json::Float(number) => Value::Double(*number),
        Json::Str(text) => Value::string(text.as_str()),
        Json::List(items) => Value::list(items.iter().map(owned).collect()),
        Json::Map(map) => {
            let entries = map
                .iter()
                .map(|(name, value)| (MapKey::String(TextValue::Shared(name.into())), owned(value)));
            Value::Map(MapValue::Owned(Arc::new(entries.collect())))
        }
    }
}

fn to_json(value: &Value<'_>, left: &mut usize) -> Result<Json, EvalError> {
    let bytes = match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    *left = left.checked_sub(1 + bytes / BYTES_PER_JSON_VALUE).ok_or(EvalError::CostLimit)?;
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => Json::Int(*number),
        // JSON numbers beyond 64 bits are floats.
        Value::Uint(number) => i64::try_from(*number).map_or(Json::Float(*number as f64), Json::Int),
        Value::Double(number) => Json::Float(*number),
        Value::String(text) => Json::Str((&**text).into()),
        Value::Bytes(bytes) => Json::Str(encode_base64(bytes).into()),
        Value::List(list) => {
            let items: Result<_, _> = list.iter().map(|item| to_json(&item?, left)).collect();
            Json::List(items?)
        }
        Value::Map(map) => {
            let mut out = JsonMap::with_capacity(map.len());
            for key in map.keys() {
                let Value::String(name) = &key else {
                    return Err(EvalError::new(format!(
                        "map key {key} is of type {}, not string",
                        key.type_name()
                    )));
                };
                if let Some(value) = map.find(&key) {
                    let name = if map.has_escaped_names() { unescape_identifier(name) } else { None };
                    let name = name.as_deref().unwrap_or_else(|| key.as_str().unwrap_or_default());
                    out.insert(name, to_json(&value?, left)?);
                }
            }
            Json::Map(out)
        }
        Value::Object(object) => {
            let mut out = JsonMap::with_capacity(object.fields.len());
            for (name, value) in &object.fields {
                out.insert(&**name, to_json(value, left)?);
            }
            Json::Map(out)
        }
        Value::Timestamp(time) => Json::Str(time.to_text().into()),
        Value::Duration(duration) => Json::Str(duration.to_text().into()),
        Value::Optional(Some(value)) => to_json(value, left)?,
        Value::Optional(None) => Json::Null,
        Value::Type(_) | Value::Opaque(_) | Value::Lazy(_) => {
            return Err(EvalError::new(format!("type {} has no JSON form", value.type_name())));
        }
    })
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit > group.len() { '=' } else { char::from(BASE64[index as usize]) });
        }
    }
    text
}

/// Decodes padded base64; `None` for any other character or wrong padding.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text[..text.len() - padding].chunks(4) {
        let mut bits: u32 = 0;
        for digit in group {
            let index = BASE64.iter().position(|known| known == digit)?;
            bits = bits << 6 | u32::try_from(index).ok()?;
        }
        let [_, first, second, third] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend_from_slice(&[first, second, third][..group.len() - 1]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_decodes_what_it_encodes() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\xff\x00\x10\x80"] {
            assert_eq!(decode_base64(&encode_base64(bytes)).as_deref(), Some(bytes));
        }
        for text in ["a", "a===", "a*==", "YWI"] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }
}
