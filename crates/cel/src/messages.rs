//! Messages of protobuf that expressions can construct: durations, timestamps and wrappers of scalars.
//!
//! Their values are those of CEL: `google.protobuf.StringValue{value: "a"}` is `"a"`. Unlike in cel-go, the type of a
//! wrapper does not accept null. Structs, lists and values of protobuf cannot be constructed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::eval::EvalError;
use crate::types::{ObjectFields, ObjectType, Type};
use crate::value::{DurationValue, NANOS_PER_SECOND, Timestamp, Value};

/// Message with a value of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Duration,
    Timestamp,
    Bool,
    Bytes,
    Double,
    Float,
    Int32,
    Int64,
    String,
    Uint32,
    Uint64,
}

/// Returns the message with a full name.
pub(crate) fn find_message(name: &str) -> Option<Message> {
    Some(match name.strip_prefix("google.protobuf.")? {
        "Duration" => Message::Duration,
        "Timestamp" => Message::Timestamp,
        "BoolValue" => Message::Bool,
        "BytesValue" => Message::Bytes,
        "DoubleValue" => Message::Double,
        "FloatValue" => Message::Float,
        "Int32Value" => Message::Int32,
        "Int64Value" => Message::Int64,
        "StringValue" => Message::String,
        "UInt32Value" => Message::Uint32,
        "UInt64Value" => Message::Uint64,
        _ => return None,
    })
}

impl Message {
    /// Type of the constructed value.
    pub fn value_type(self) -> Type {
        match self {
            Message::Duration => Type::Duration,
            Message::Timestamp => Type::Timestamp,
            Message::Bool => Type::Bool,
            Message::Bytes => Type::Bytes,
            Message::Double | Message::Float => Type::Double,
            Message::Int32 | Message::Int64 => Type::Int,
            Message::String => Type::String,
            Message::Uint32 | Message::Uint64 => Type::Uint,
        }
    }

    /// Fields of the message.
    pub fn fields(self, name: &str) -> ObjectType {
        let fields = match self {
            Message::Duration | Message::Timestamp => {
                BTreeMap::from([("seconds".into(), Type::Int), ("nanos".into(), Type::Int)])
            }
            wrapper => BTreeMap::from([("value".into(), wrapper.value_type())]),
        };
        ObjectType::Fields(Arc::new(ObjectFields { name: name.into(), fields }))
    }

    /// Returns the value of a message with these fields.
    pub fn build<'a>(
        self,
        name: &str,
        mut fields: BTreeMap<Box<str>, Value<'a>>,
    ) -> Result<Value<'a>, EvalError> {
        let int = |field: &str, value: Option<&Value<'_>>| match value {
            None => Ok(0),
            Some(Value::Int(number)) => Ok(*number),
            Some(other) => Err(wrong_field(name, field, other)),
        };
        if matches!(self, Message::Duration | Message::Timestamp) {
            let seconds = int("seconds", fields.get("seconds"))?;
            let nanos = i32::try_from(int("nanos", fields.get("nanos"))?).map_err(|_| OVERFLOW)?;
            let is_duration = self == Message::Duration;
            return if is_duration { Ok(duration(seconds, nanos)) } else { timestamp(seconds, nanos) };
        }
        let value = fields.remove("value");
        Ok(match (self, value) {
            (Message::Bool, None) => Value::Bool(false),
            (Message::Bytes, None) => Value::Bytes(Arc::from([])),
            (Message::Duration, None) => duration(0, 0),
            (Message::Timestamp, None) => timestamp(0, 0)?,
            (Message::Double | Message::Float, None) => Value::Double(0.0),
            (Message::Int32 | Message::Int64, None) => Value::Int(0),
            (Message::String, None) => Value::string(""),
            (Message::Uint32 | Message::Uint64, None) => Value::Uint(0),
            (Message::Int32, Some(Value::Int(number))) if i32::try_from(number).is_err() => {
                return Err(OVERFLOW);
            }
            (Message::Uint32, Some(Value::Uint(number))) if u32::try_from(number).is_err() => {
                return Err(OVERFLOW);
            }
            #[expect(clippy::cast_possible_truncation, reason = "the field has this precision")]
            (Message::Float, Some(Value::Double(number))) => Value::Double(f64::from(number as f32)),
            (Message::Bool, Some(value @ Value::Bool(_)))
            | (Message::Bytes, Some(value @ Value::Bytes(_)))
            | (Message::Double, Some(value @ Value::Double(_)))
            | (Message::Int32 | Message::Int64, Some(value @ Value::Int(_)))
            | (Message::String, Some(value @ Value::String(_)))
            | (Message::Uint32 | Message::Uint64, Some(value @ Value::Uint(_))) => value,
            (_, Some(other)) => return Err(wrong_field(name, "value", &other)),
        })
    }
}

/// Error of a number that its field cannot hold.
const OVERFLOW: EvalError = EvalError::constant("integer overflow");

fn wrong_field(name: &str, field: &str, value: &Value<'_>) -> EvalError {
    let found = value.type_name();
    EvalError::new(format!("field type conversion error for {name}.{field} value type: {found}"))
}

/// A duration beyond the range is the nearest one within, as in Go.
fn duration<'a>(seconds: i64, nanos: i32) -> Value<'a> {
    let nanos = seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(nanos.into());
    Value::Duration(DurationValue(nanos))
}

fn timestamp<'a>(seconds: i64, nanos: i32) -> Result<Value<'a>, EvalError> {
    let nanos = i64::from(nanos);
    let seconds = seconds.checked_add(nanos.div_euclid(NANOS_PER_SECOND)).ok_or(OVERFLOW)?;
    let nanos = u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).map_err(|_| OVERFLOW)?;
    Timestamp::new(seconds, nanos).map(Value::Timestamp).ok_or(EvalError::constant("timestamp overflow"))
}

#[cfg(test)]
mod tests {
    use crate::{Activation, Environment, Program, check, parse};

    fn evaluate(source: &str) -> Result<String, String> {
        let checked =
            check(&Environment::new(), parse(source).unwrap()).map_err(|errors| errors.to_string())?;
        let program = Program::new(checked.ast()).map_err(|error| error.to_string())?;
        let result = program.evaluate(&Activation::new(), 1_000_000).result;
        result.map(|value| format!("{value:?}")).map_err(|error| error.to_string())
    }

    #[test]
    fn messages_have_the_values_of_cel() {
        for source in [
            "google.protobuf.Duration{seconds: 90, nanos: 500000000} == duration('90.5s')",
            "google.protobuf.Duration{} == duration('0s')",
            "google.protobuf.Timestamp{seconds: 1, nanos: -1} < timestamp('1970-01-01T00:00:01Z')",
            "google.protobuf.StringValue{value: 'a'} == 'a' && google.protobuf.StringValue{} == ''",
            ".google.protobuf.Int32Value{value: 5} + 1 == 6",
            "google.protobuf.UInt64Value{value: 5u} == 5u",
            "google.protobuf.BoolValue{value: true} && !google.protobuf.BoolValue{}",
            "google.protobuf.DoubleValue{value: 0.1} == 0.1 && google.protobuf.FloatValue{value: 0.1} != 0.1",
            "google.protobuf.BytesValue{value: b'x'} == b'x'",
        ] {
            assert_eq!(evaluate(source), Ok("Bool(true)".to_owned()), "{source}");
        }
    }

    #[test]
    fn fields_of_messages_are_checked() {
        for (source, message) in [
            ("google.protobuf.Duration{hours: 1} == duration('1h')", "undefined field 'hours'"),
            (
                "google.protobuf.StringValue{value: 1} == 'a'",
                "expected type of field 'value' is 'string' but provided type is 'int'",
            ),
            ("google.protobuf.Struct{} == {}", "undeclared reference to 'google.protobuf.Struct'"),
            ("google.protobuf.Int32Value{value: 2147483648} == 0", "integer overflow"),
            (
                "google.protobuf.StringValue{value: dyn(1)} == 'a'",
                "field type conversion error for google.protobuf.StringValue.value value type: int",
            ),
        ] {
            let error = evaluate(source).unwrap_err();
            assert!(error.contains(message), "{source}: {error}");
        }
    }
}
