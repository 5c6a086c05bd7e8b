//! Texts of values in error messages.

use std::fmt;

use super::{MapKey, Value, double_to_text};

/// Exponent from which Go's `%v` prints doubles with one.
const EXPONENT_FROM: i32 = 6;

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Uint(number) => write!(f, "{number}"),
            Value::Double(number) => f.write_str(&double_to_text(*number, EXPONENT_FROM)),
            Value::String(text) | Value::Type(text) => f.write_str(text),
            Value::Timestamp(time) => f.write_str(&time.to_text()),
            Value::Duration(duration) => f.write_str(&duration.to_text()),
            // Aggregates can be far larger than an error message should be.
            other => f.write_str(other.type_name()),
        }
    }
}

impl fmt::Display for MapKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}
