//! List functions of Kubernetes, and `indexOf`, `lastIndexOf` and `reverse` of strings and lists.

use std::cmp::Ordering;

use super::{Call, Function, Returned, strings};
use crate::eval::{EvalError, add_scalars};
use crate::runtime_cost::CostRule;
use crate::value::{Comparison, DurationValue, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("includes", includes, CostRule::Traversal),
    Function::new("indexOf", index_of, CostRule::Traversal),
    Function::new("isSorted", is_sorted, CostRule::Traversal),
    Function::new("lastIndexOf", last_index_of, CostRule::Traversal),
    Function::new("max", max, CostRule::Traversal),
    Function::new("min", min, CostRule::Traversal),
    Function::new("sum", sum, CostRule::Traversal),
];

fn is_sorted<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let mut previous: Option<Value<'a>> = None;
    for element in call.list(0)?.iter() {
        let element = element?;
        if !element.is_ordered() {
            return Err(EvalError::NO_SUCH_OVERLOAD);
        }
        if let Some(previous) = &previous
            && previous.compare(&element) == Ok(Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(element);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let mut total: Option<Value<'a>> = None;
    for element in call.list(0)?.iter() {
        let element = element?;
        let zero = match &element {
            Value::Int(_) => Value::Int(0),
            Value::Uint(_) => Value::Uint(0),
            Value::Double(_) => Value::Double(0.0),
            Value::Duration(_) => Value::Duration(DurationValue(0)),
            _ => return Err(EvalError::NO_SUCH_OVERLOAD),
        };
        total = Some(add_scalars(&total.unwrap_or(zero), &element)?);
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn min<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    extreme(call, "min", Ordering::Greater)
}

fn max<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    extreme(call, "max", Ordering::Less)
}

/// Returns the first element that no later one replaces; an element replaces one that compares as `replaced`.
fn extreme<'a>(call: &mut Call<'_, 'a>, name: &str, replaced: Ordering) -> Returned<'a> {
    let mut best: Option<Value<'a>> = None;
    for element in call.list(0)?.iter() {
        let element = element?;
        if !element.is_ordered() {
            return Err(EvalError::NO_SUCH_OVERLOAD);
        }
        if best.as_ref().is_none_or(|best| best.compare(&element) == Ok(replaced)) {
            best = Some(element);
        }
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

fn index_of<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let Value::List(list) = call.arg(0)? else { return strings::index_of(call) };
    let item = call.arg(1)?;
    let mut comparison = Comparison::new(call.meter);
    for index in 0..list.len() {
        if let Some(element) = list.get(index)
            && comparison.equal(&element?, item)?
        {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

fn last_index_of<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let Value::List(list) = call.arg(0)? else { return strings::last_index_of(call) };
    let item = call.arg(1)?;
    let mut comparison = Comparison::new(call.meter);
    for index in (0..list.len()).rev() {
        if let Some(element) = list.get(index)
            && comparison.equal(&element?, item)?
        {
            return Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
        }
    }
    Ok(Value::Int(-1))
}

/// `true` if the list has the element, or a value that is no list equals it.
fn includes<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (target, item) = (call.arg(0)?, call.arg(1)?);
    let mut comparison = Comparison::new(call.meter);
    let Value::List(list) = target else { return Ok(Value::Bool(comparison.equal(target, item)?)) };
    for element in list.iter() {
        if comparison.equal(&element?, item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
