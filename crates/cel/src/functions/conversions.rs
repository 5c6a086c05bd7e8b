//! Conversions between types, `size`, `type` and `dyn`.

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{
    DurationValue, Opaque, TextValue, Timestamp, Value, double_to_int, double_to_text, double_to_uint,
    parse_double,
};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("bool", to_bool, CostRule::Call),
    Function::new("bytes", to_bytes, CostRule::Conversion),
    Function::new("double", to_double, CostRule::Call),
    Function::new("duration", to_duration, CostRule::Call),
    Function::new("dyn", to_dyn, CostRule::Call),
    Function::new("int", to_int, CostRule::Call),
    Function::new("size", size, CostRule::Call),
    Function::new("string", to_string, CostRule::Call),
    Function::new("timestamp", to_timestamp, CostRule::Call),
    Function::new("type", type_of, CostRule::Call),
    Function::new("uint", to_uint, CostRule::Call),
];

/// Exponent from which `string` prints doubles with one.
const EXPONENT_FROM: i32 = 6;

fn failed<'a>(value: &Value<'_>, to: &str) -> Returned<'a> {
    Err(EvalError::new(format!("type conversion error from '{}' to '{to}'", value.type_name())))
}

fn to_bool<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Bool(truth) => Ok(Value::Bool(*truth)),
        value @ Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => failed(value, "bool"),
        },
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn to_bytes<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        Value::String(text) => {
            call.meter.allocate(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

// Cel-go converts integers to the nearest double.
fn to_double<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Double(number) => Ok(Value::Double(*number)),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        value @ Value::String(text) => match parse_double(text) {
            Some(number) => Ok(Value::Double(number)),
            None => failed(value, "double"),
        },
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn to_duration<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Duration(duration) => Ok(Value::Duration(*duration)),
        value @ Value::String(text) => match DurationValue::parse(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => failed(value, "google.protobuf.Duration"),
        },
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn to_dyn<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    call.arg(0).cloned()
}

fn to_int<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let overflow = EvalError::constant("integer overflow");
    match call.arg(0)? {
        Value::Int(number) => Ok(Value::Int(*number)),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow),
        Value::Double(number) => double_to_int(*number).map(Value::Int).ok_or(overflow),
        Value::Timestamp(time) => Ok(Value::Int(time.seconds())),
        Value::Duration(duration) => Ok(Value::Int(duration.0)),
        value @ Value::String(text) => match text.parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => failed(value, "int"),
        },
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn to_uint<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let overflow = EvalError::constant("unsigned integer overflow");
    match call.arg(0)? {
        Value::Uint(number) => Ok(Value::Uint(*number)),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow),
        Value::Double(number) => double_to_uint(*number).map(Value::Uint).ok_or(overflow),
        value @ Value::String(text) => match text.parse::<u64>() {
            Ok(number) if !text.starts_with('+') => Ok(Value::Uint(number)),
            _ => failed(value, "uint"),
        },
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn to_string<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(match call.arg(0)? {
        Value::String(text) => Value::String(text.clone()),
        Value::Bool(truth) => Value::string(truth.to_string()),
        Value::Int(number) => Value::string(number.to_string()),
        Value::Uint(number) => Value::string(number.to_string()),
        Value::Double(number) => Value::string(double_to_text(*number, EXPONENT_FROM)),
        Value::Timestamp(time) => Value::string(time.to_text()),
        Value::Duration(duration) => Value::string(duration.to_text()),
        Value::Bytes(bytes) => {
            call.meter.charge(bytes.len() as u64 / 10)?;
            call.meter.allocate(bytes.len())?;
            let text = std::str::from_utf8(bytes)
                .map_err(|_| EvalError::constant("invalid UTF-8 in bytes, cannot convert to string"))?;
            Value::string(text)
        }
        Value::Opaque(opaque) => match &**opaque {
            Opaque::Ip(ip) => Value::string(ip.to_string()),
            Opaque::Cidr(cidr) => Value::string(format!("{}/{}", cidr.ip, cidr.prefix_bits)),
            _ => return Err(EvalError::NO_SUCH_OVERLOAD),
        },
        _ => return Err(EvalError::NO_SUCH_OVERLOAD),
    })
}

fn to_timestamp<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Timestamp(time) => Ok(Value::Timestamp(*time)),
        Value::Int(seconds) => {
            let time = Timestamp::new(*seconds, 0).ok_or(EvalError::constant("timestamp overflow"))?;
            Ok(Value::Timestamp(time))
        }
        value @ Value::String(text) => match Timestamp::parse(text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => failed(value, "google.protobuf.Timestamp"),
        },
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn type_of<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Type(TextValue::Shared(call.arg(0)?.type_name().into())))
}

fn size<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let value = call.arg(0)?;
    if matches!(value, Value::Opaque(_)) {
        return Err(EvalError::NO_SUCH_OVERLOAD);
    }
    let size = call.meter.size(value)?;
    match value.size() {
        Some(_) => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
        None => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}
