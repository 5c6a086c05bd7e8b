//! Lists extension of cel-go: ranges, slices, flattening, sorting and distinct elements.

use std::cmp::Ordering;

use super::{Call, Function, Returned, strings};
use crate::eval::EvalError;
use crate::runtime_cost::{CostRule, Meter};
use crate::value::{Comparison, ListValue, MapKey, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("@sortByAssociatedKeys", sort_by, CostRule::SelfCompare { argument: 1 }),
    Function::new("distinct", distinct, CostRule::SelfCompare { argument: 0 }),
    Function::new("flatten", flatten, CostRule::Flatten),
    Function::new("lists.range", range, CostRule::ListOutput),
    Function::new("reverse", reverse, CostRule::ListOutput),
    Function::new("slice", slice, CostRule::ListOutput),
    Function::new("sort", sort, CostRule::SelfCompare { argument: 0 }),
];

fn range<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let count = call.int(0)?;
    let Ok(length) = usize::try_from(count) else {
        return Err(EvalError::new(format!("lists.range: size must be non-negative, got {count}")));
    };
    call.meter.work(length)?;
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

fn reverse<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let Value::List(list) = call.arg(0)? else { return strings::reverse(call) };
    call.meter.work(list.len())?;
    let reversed: Result<Vec<_>, _> = (0..list.len()).rev().filter_map(|index| list.get(index)).collect();
    Ok(Value::list(reversed?))
}

fn slice<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (list, start, end) = (call.list(0)?, call.int(1)?, call.int(2)?);
    let fault = |reason: String| Err(EvalError::new(format!("cannot slice({start}, {end}), {reason}")));
    let (Ok(first), Ok(last)) = (usize::try_from(start), usize::try_from(end)) else {
        return fault("negative indexes not supported".into());
    };
    if first > last {
        return fault("start index must be less than or equal to end index".into());
    }
    if list.len() < last {
        return fault(format!("list is length {}", list.len()));
    }
    call.meter.work(last - first)?;
    let part: Result<Vec<_>, _> = (first..last).filter_map(|index| list.get(index)).collect();
    Ok(Value::list(part?))
}

fn flatten<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let levels = if call.args.len() > 1 { call.int(1)? } else { 1 };
    if levels < 0 {
        return Err(EvalError::constant("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(call.list(0)?, levels, &mut flat, call.meter)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(
    list: &ListValue<'a>,
    levels: i64,
    flat: &mut Vec<Value<'a>>,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    for element in list.iter() {
        meter.work(1)?;
        match element? {
            Value::List(inner) if levels > 0 => flatten_into(&inner, levels - 1, flat, meter)?,
            element => flat.push(element),
        }
    }
    Ok(())
}

fn distinct<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let list = call.list(0)?;
    let mut keys = std::collections::BTreeSet::new();
    let mut unique: Vec<Value<'a>> = Vec::new();
    let mut others: Vec<usize> = Vec::new();
    let mut comparison = Comparison::new(call.meter);
    'elements: for element in list.iter() {
        let element = element?;
        if let Some(key) = MapKey::of(&element) {
            if keys.insert(key) {
                unique.push(element);
            }
            continue;
        }
        for other in &others {
            if comparison.equal(&unique[*other], &element)? {
                continue 'elements;
            }
        }
        others.push(unique.len());
        unique.push(element);
    }
    call.meter.work(list.len())?;
    Ok(Value::list(unique))
}

fn sort<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let list = call.list(0)?;
    sorted(list, list, call.meter)
}

fn sort_by<'a>(call: &mut Call<'_, 'a>) -> Returned<'a> {
    let (list, keys) = (call.list(0)?, call.list(1)?);
    if list.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and \
             {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    sorted(list, keys, call.meter)
}

fn sorted<'a>(list: &ListValue<'a>, keys: &ListValue<'a>, meter: &mut Meter) -> Returned<'a> {
    meter.work(list.len())?;
    let keys: Result<Vec<Value<'a>>, EvalError> = keys.iter().collect();
    let values: Result<Vec<Value<'a>>, EvalError> = list.iter().collect();
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys?.into_iter().zip(values?).collect();
    if let Some((first, _)) = pairs.first() {
        if !first.is_ordered() {
            return Err(EvalError::constant("list elements must be comparable"));
        }
        let name = first.type_name();
        if pairs.iter().any(|(key, _)| key.type_name() != name) {
            return Err(EvalError::constant("list elements must have the same type"));
        }
    }
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
}
