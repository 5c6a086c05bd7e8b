//! Optional values.

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("first", first, CostRule::Call),
    Function::new("hasValue", has_value, CostRule::Call),
    Function::new("last", last, CostRule::Call),
    Function::new("optional.none", none, CostRule::Call),
    Function::new("optional.of", of, CostRule::Call),
    Function::new("optional.ofNonZeroValue", of_non_zero_value, CostRule::Call),
    Function::new("optional.unwrap", unwrap, CostRule::Call),
    Function::new("or", or, CostRule::Call),
    Function::new("orValue", or_value, CostRule::Call),
    Function::new("unwrapOpt", unwrap, CostRule::Call),
    Function::new("value", value, CostRule::Call),
];

fn of<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::optional(Some(call.arg(0)?.clone())))
}

fn of_non_zero_value<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let value = call.arg(0)?;
    Ok(Value::optional((!value.is_zero()).then(|| value.clone())))
}

fn none<'a>(_: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::Optional(None))
}

fn has_value<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Optional(value) => Ok(Value::Bool(value.is_some())),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn value<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => Err(EvalError::constant("optional.none() dereference")),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn or<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match (call.arg(0)?, call.arg(1)?) {
        (Value::Optional(None), other @ Value::Optional(_)) => Ok(other.clone()),
        (value @ Value::Optional(Some(_)), Value::Optional(_)) => Ok(value.clone()),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn or_value<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    match call.arg(0)? {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => call.arg(1).cloned(),
        _ => Err(EvalError::NO_SUCH_OVERLOAD),
    }
}

fn first<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    Ok(Value::optional(call.list(0)?.get(0).transpose()?))
}

fn last<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let list = call.list(0)?;
    let element = list.len().checked_sub(1).and_then(|index| list.get(index));
    Ok(Value::optional(element.transpose()?))
}

fn unwrap<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let list = call.list(0)?;
    call.meter.work(list.len())?;
    let mut values = Vec::new();
    for element in list.iter() {
        match element? {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            _ => return Err(EvalError::NO_SUCH_OVERLOAD),
        }
    }
    Ok(Value::list(values))
}
