//! Sets extension of cel-go.

use super::{Call, Function, Returned};
use crate::eval::EvalError;
use crate::runtime_cost::CostRule;
use crate::value::{Comparison, ElementSet, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("sets.contains", contains, CostRule::Sets { times: 1 }),
    Function::new("sets.equivalent", equivalent, CostRule::Sets { times: 2 }),
    Function::new("sets.intersects", intersects, CostRule::Sets { times: 1 }),
];

fn contains<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (list, elements) = (call.list(0)?, call.list(1)?);
    Ok(Value::Bool(Comparison::new(call.meter).contains_all(list, elements)?))
}

fn equivalent<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (a, b) = (call.list(0)?, call.list(1)?);
    let mut comparison = Comparison::new(call.meter);
    Ok(Value::Bool(comparison.contains_all(a, b)? && comparison.contains_all(b, a)?))
}

fn intersects<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (a, b) = (call.list(0)?, call.list(1)?);
    let set = ElementSet::of(b, call.meter)?;
    let mut comparison = Comparison::new(call.meter);
    for element in a.iter() {
        let element: Result<Value<'a>, EvalError> = element;
        if set.contains(&element?, &mut comparison)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
