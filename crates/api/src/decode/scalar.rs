//! Decoding of scalars.

use compact_str::CompactString;

use super::path::DecodePath;
use super::{DecodeError, bytes, time};
use crate::json;
use crate::quantity::{QuantityError, stored_text};
use crate::schema::{Shape, TypeRef};
use crate::value::Value;

/// Checks a non-null value against a scalar type, and replaces it by its canonical form.
pub(super) fn decode(value: &mut Value, ty: TypeRef<'_>, path: &DecodePath<'_>) -> Result<(), DecodeError> {
    match (ty.shape(), &mut *value) {
        (Shape::String, Value::Str(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Double, Value::Float(_)) => {
            Ok(())
        }
        (Shape::Double | Shape::Int64, Value::Int(_)) => Ok(()),
        (Shape::Int32, Value::Int(number)) => int32(*number, ty.go_type(), path),
        (Shape::Int32 | Shape::Int64, Value::Float(number)) => {
            Err(path.type_error(float_text(*number), ty.go_type()))
        }
        (Shape::IntOrString, Value::Str(_)) => Ok(()),
        (Shape::IntOrString, Value::Int(number)) => int32(*number, "int32", path),
        (Shape::IntOrString, Value::Float(number)) => Err(path.type_error(float_text(*number), "int32")),
        (Shape::IntOrString, other) => Err(path.type_error(other.type_name().to_owned(), "int32")),
        (Shape::Bytes, Value::Str(text)) => {
            if let Some(changed) = bytes::canonicalize(text)? {
                *text = changed.into();
            }
            Ok(())
        }
        (Shape::Time, Value::Str(text)) => {
            let text = time::seconds(text)?;
            set(value, text)
        }
        (Shape::MicroTime, Value::Str(text)) => {
            let text = time::micros(text)?;
            set(value, text)
        }
        (Shape::Time | Shape::MicroTime, other) => {
            Err(path.type_error(other.type_name().to_owned(), "string"))
        }
        (Shape::Quantity, Value::Str(text)) => {
            let text = quantity(text)?;
            set(value, Some(text))
        }
        (Shape::Quantity, Value::Int(_) | Value::Float(_)) => {
            let text = quantity(&String::from_utf8_lossy(&json::to_vec(value)))?;
            set(value, Some(text))
        }
        (Shape::Quantity, _) => Err(DecodeError::Quantity(QuantityError::Shape)),
        (_, other) => Err(path.type_error(other.type_name().to_owned(), ty.go_type())),
    }
}

/// Replaces the value by a string, or by null for `None`.
fn set(value: &mut Value, text: Option<CompactString>) -> Result<(), DecodeError> {
    *value = text.into();
    Ok(())
}

fn int32(number: i64, go: &str, path: &DecodePath<'_>) -> Result<(), DecodeError> {
    match i32::try_from(number) {
        Ok(_) => Ok(()),
        Err(_) => Err(path.type_error(format!("number {number}"), go)),
    }
}

/// A float as it may have been written, for an error message.
fn float_text(number: f64) -> String {
    let mut text = b"number ".to_vec();
    json::write_float(number, &mut text);
    // An integral float in this range was written with a fraction or an exponent; otherwise it would be an
    // integer.
    if number.fract() == 0.0 && number.abs() < 9.2e18 {
        text.extend_from_slice(b".0");
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Canonical form of a quantity.
fn quantity(text: &str) -> Result<CompactString, DecodeError> {
    stored_text(text).map(|text| text.as_ref().into()).map_err(DecodeError::Quantity)
}
