//! Quantities, and the comparisons that they share with semantic versions.

use std::cmp::Ordering;

use setpoint_api::quantity::{Format, Quantity};

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{Opaque, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("add", |call| combine(call, |a, b| *a += b), CostRule::Call),
    Function::new("asApproximateFloat", as_approximate_float, CostRule::Call),
    Function::new("asInteger", as_integer, CostRule::Call),
    Function::new("compareTo", compare_to, CostRule::Call),
    Function::new("isGreaterThan", |call| has_order(call, Ordering::Greater), CostRule::Call),
    Function::new("isInteger", is_integer, CostRule::Call),
    Function::new("isLessThan", |call| has_order(call, Ordering::Less), CostRule::Call),
    Function::new("isQuantity", is_quantity, CostRule::Scan { times: 1 }),
    Function::new("quantity", quantity, CostRule::Scan { times: 1 }),
    Function::new("sign", sign, CostRule::Call),
    Function::new("sub", |call| combine(call, |a, b| *a -= b), CostRule::Call),
];

fn receiver(call: &Call<'_, '_>) -> Result<Quantity, EvalError> {
    match call.opaque(0)? {
        Opaque::Quantity(quantity) => Ok(*quantity),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn quantity<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match Quantity::parse(call.text(0)?) {
        Ok(quantity) => Ok(Value::opaque(Opaque::Quantity(quantity))),
        Err(error) => Err(EvalError::new(error.to_string())),
    }
}

fn is_quantity<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(Quantity::parse(call.text(0)?).is_ok()))
}

fn sign<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Int(receiver(call)?.sign().into()))
}

/// Returns the integer that a quantity equals.
fn integer(quantity: Quantity) -> Option<i64> {
    let value = quantity.value();
    (Quantity::new(value, Format::DecimalSi) == quantity).then_some(value)
}

fn is_integer<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Bool(integer(receiver(call)?).is_some()))
}

fn as_integer<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let error = EvalError::constant("cannot convert value to integer");
    integer(receiver(call)?).map(Value::Int).ok_or(error)
}

fn as_approximate_float<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Double(receiver(call)?.to_f64()))
}

fn combine<'a>(call: &mut Call<'_, 'a>, apply: fn(&mut Quantity, Quantity)) -> Returned<'a> {
    let mut quantity = receiver(call)?;
    let other = match call.arg(1)? {
        Value::Int(number) => Quantity::new(*number, Format::DecimalExponent),
        _ => match call.opaque(1)? {
            Opaque::Quantity(other) => *other,
            _ => return Err(EvalError::NO_SUCH_OVERLOAD),
        },
    };
    apply(&mut quantity, other);
    Ok(Value::opaque(Opaque::Quantity(quantity)))
}

fn order(call: &Call<'_, '_>) -> Result<Ordering, EvalError> {
    match (call.opaque(0)?, call.opaque(1)?) {
        (Opaque::Quantity(a), Opaque::Quantity(b)) => Ok(a.cmp(b)),
        (Opaque::Semver(a), Opaque::Semver(b)) => Ok(a.compare(b)),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn has_order<'a>(call: &mut Call<'_, 'a>, expected: Ordering) -> Returned<'a> {
    Ok(Value::Bool(order(call)? == expected))
}

fn compare_to<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Int(match order(call)? {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}
