//! Arithmetic, comparison and membership.

use std::cmp::Ordering;
use std::sync::Arc;

use super::EvalError;
use super::evaluator::Evaluated;
use crate::decl::ListDecl;
use crate::operator::Operator;
use crate::runtime_cost::{CALL_COST, Meter, tenths};
use crate::value::{Comparison, DurationValue, ElementSet, ListValue, Value, element_key};

const INT_OVERFLOW: EvalError = EvalError::constant("integer overflow");
const UINT_OVERFLOW: EvalError = EvalError::constant("unsigned integer overflow");
const DURATION_OVERFLOW: EvalError = EvalError::constant("duration overflow");
const TIMESTAMP_OVERFLOW: EvalError = EvalError::constant("timestamp overflow");
const DIVISION_BY_ZERO: EvalError = EvalError::constant("division by zero");
const MODULUS_BY_ZERO: EvalError = EvalError::constant("modulus by zero");

/// Applies a binary operator other than `&&` and `||`, and charges its cost.
pub(super) fn binary<'a>(
    operator: Operator,
    left: &Value<'a>,
    right: &Value<'a>,
    meter: &mut Meter,
) -> Evaluated<'a> {
    match operator {
        Operator::Equals | Operator::NotEquals => {
            let size = meter.size(left)?.min(meter.size(right)?);
            meter.charge(tenths(size))?;
            let is_equal = Comparison::new(meter).equal(left, right)?;
            Ok(Value::Bool(is_equal == (operator == Operator::Equals)))
        }
        Operator::Less | Operator::LessEquals | Operator::Greater | Operator::GreaterEquals => {
            compare(operator, left, right, meter)
        }
        Operator::In => contains(left, right, meter),
        Operator::Add => add(left, right, meter),
        _ => {
            meter.charge(CALL_COST)?;
            arithmetic(operator, left, right)
        }
    }
}

/// Applies `-` to one operand.
pub(super) fn negate(operand: Value<'_>) -> Evaluated<'_> {
    match operand {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or(INT_OVERFLOW),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(duration) => {
            let negated = duration.0.checked_neg().ok_or(DURATION_OVERFLOW)?;
            Ok(Value::Duration(DurationValue(negated)))
        }
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn compare<'a>(operator: Operator, left: &Value<'_>, right: &Value<'_>, meter: &mut Meter) -> Evaluated<'a> {
    let cost = match (left, right) {
        (Value::String(_), Value::String(_)) | (Value::Bytes(_), Value::Bytes(_)) => {
            tenths(meter.size(left)?.min(meter.size(right)?))
        }
        _ => CALL_COST,
    };
    meter.charge(cost)?;
    let order = left.compare(right)?;
    Ok(Value::Bool(match operator {
        Operator::Less => order == Ordering::Less,
        Operator::LessEquals => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn contains<'a>(element: &Value<'a>, container: &Value<'a>, meter: &mut Meter) -> Evaluated<'a> {
    match container {
        Value::List(list) => {
            meter.charge(u64::try_from(list.len()).unwrap_or(u64::MAX))?;
            let mut comparison = Comparison::new(meter);
            for other in list.iter() {
                if comparison.equal(&other?, element)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        Value::Map(map) => {
            meter.charge(CALL_COST)?;
            Ok(Value::Bool(map.contains(element)?))
        }
        _ => {
            meter.charge(CALL_COST)?;
            Err(EvalError::NO_SUCH_OVERLOAD)
        }
    }
}

fn add<'a>(left: &Value<'a>, right: &Value<'a>, meter: &mut Meter) -> Evaluated<'a> {
    match (left, right) {
        (Value::String(a), Value::String(b)) => {
            charge_both(meter, left, right)?;
            meter.allocate(a.len() + b.len())?;
            Ok(Value::string([&**a, &**b].concat()))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            charge_both(meter, left, right)?;
            meter.allocate(a.len() + b.len())?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) => {
            meter.charge(CALL_COST)?;
            concatenate(a, b, meter)
        }
        _ => {
            meter.charge(CALL_COST)?;
            arithmetic(Operator::Add, left, right)
        }
    }
}

fn charge_both(meter: &mut Meter, left: &Value<'_>, right: &Value<'_>) -> Result<(), EvalError> {
    let size = meter.size(left)?.saturating_add(meter.size(right)?);
    meter.charge(tenths(size))
}

/// Concatenates lists. Sets form their union, and lists with keys are merged: elements of `b` replace those of `a`.
fn concatenate<'a>(a: &ListValue<'a>, b: &ListValue<'a>, meter: &mut Meter) -> Evaluated<'a> {
    meter.work(a.len().saturating_add(b.len()))?;
    let mut values = match a {
        ListValue::Owned(values) | ListValue::Sum(values, _) => values.to_vec(),
        ListValue::Json(..) => a.iter().collect::<Result<_, _>>()?,
    };
    match a.identity() {
        ListDecl::Atomic => {
            for value in b.iter() {
                values.push(value?);
            }
        }
        ListDecl::Set => {
            let set = ElementSet::of(a, meter)?;
            let mut comparison = Comparison::new(meter);
            let mut added: Vec<Value<'a>> = Vec::new();
            for value in b.iter() {
                let value = value?;
                let mut is_known = set.contains(&value, &mut comparison)?;
                for known in &added {
                    is_known = is_known || comparison.equal(known, &value)?;
                }
                if !is_known {
                    added.push(value);
                }
            }
            values.append(&mut added);
        }
        ListDecl::Map(keys) => {
            let mut positions = std::collections::BTreeMap::new();
            for (position, value) in values.iter().enumerate() {
                positions.insert(element_key(value, keys), position);
            }
            for value in b.iter() {
                let value = value?;
                let next = values.len();
                match *positions.entry(element_key(&value, keys)).or_insert(next) {
                    position if position < next => values[position] = value,
                    _ => values.push(value),
                }
            }
        }
    }
    let values = Arc::new(values);
    Ok(Value::List(match a.identity() {
        ListDecl::Atomic => ListValue::Owned(values),
        identity => ListValue::Sum(values, identity),
    }))
}

fn arithmetic<'a>(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> Evaluated<'a> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => int(operator, *a, *b).map(Value::Int),
        (Value::Uint(a), Value::Uint(b)) => uint(operator, *a, *b).map(Value::Uint),
        (Value::Double(a), Value::Double(b)) => double(operator, *a, *b).map(Value::Double),
        _ => time(operator, left, right),
    }
}

fn int(operator: Operator, a: i64, b: i64) -> Result<i64, EvalError> {
    match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide if b == 0 => return Err(DIVISION_BY_ZERO),
        Operator::Divide => a.checked_div(b),
        Operator::Modulo if b == 0 => return Err(MODULUS_BY_ZERO),
        Operator::Modulo => a.checked_rem(b),
        _ => return Err(EvalError::NO_SUCH_OVERLOAD),
    }
    .ok_or(INT_OVERFLOW)
}

fn uint(operator: Operator, a: u64, b: u64) -> Result<u64, EvalError> {
    match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide if b == 0 => return Err(DIVISION_BY_ZERO),
        Operator::Divide => a.checked_div(b),
        Operator::Modulo if b == 0 => return Err(MODULUS_BY_ZERO),
        Operator::Modulo => a.checked_rem(b),
        _ => return Err(EvalError::NO_SUCH_OVERLOAD),
    }
    .ok_or(UINT_OVERFLOW)
}

fn double(operator: Operator, a: f64, b: f64) -> Result<f64, EvalError> {
    match operator {
        Operator::Add => Ok(a + b),
        Operator::Subtract => Ok(a - b),
        Operator::Multiply => Ok(a * b),
        Operator::Divide => Ok(a / b),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn time<'a>(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> Evaluated<'a> {
    let duration = |nanos: Option<i64>| {
        nanos.map(|nanos| Value::Duration(DurationValue(nanos))).ok_or(DURATION_OVERFLOW)
    };
    match (operator, left, right) {
        (Operator::Add, Value::Duration(a), Value::Duration(b)) => duration(a.0.checked_add(b.0)),
        (Operator::Subtract, Value::Duration(a), Value::Duration(b)) => duration(a.0.checked_sub(b.0)),
        (Operator::Add, Value::Timestamp(time), Value::Duration(added))
        | (Operator::Add, Value::Duration(added), Value::Timestamp(time)) => {
            time.plus(*added).map(Value::Timestamp).ok_or(TIMESTAMP_OVERFLOW)
        }
        (Operator::Subtract, Value::Timestamp(time), Value::Duration(subtracted)) => {
            time.minus(*subtracted).map(Value::Timestamp).ok_or(TIMESTAMP_OVERFLOW)
        }
        (Operator::Subtract, Value::Timestamp(a), Value::Timestamp(b)) => {
            a.since(*b).map(Value::Duration).ok_or(DURATION_OVERFLOW)
        }
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

/// Adds two values for `sum` of a list.
pub(crate) fn add_scalars<'a>(left: &Value<'_>, right: &Value<'_>) -> Evaluated<'a> {
    arithmetic(Operator::Add, left, right)
}
