//! Evaluation of paths.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::{Filter, JsonPathError, PathStep, Slice, SliceEnd, VISITS_MAX};
use crate::value::Value;

type Values<'v> = Vec<Cow<'v, Value>>;

/// State of one evaluation.
#[derive(Default)]
pub(super) struct Evaluation {
    visits: usize,
}

fn mismatch<T>(message: impl Into<String>) -> Result<T, JsonPathError> {
    Err(JsonPathError::Mismatch(message.into()))
}

impl Evaluation {
    fn visit(&mut self, count: usize) -> Result<(), JsonPathError> {
        self.visits = self.visits.saturating_add(count);
        if self.visits > VISITS_MAX { Err(JsonPathError::Visits) } else { Ok(()) }
    }

    /// Applies the steps of a path, one after the other.
    pub(super) fn steps<'v>(
        &mut self,
        mut values: Values<'v>,
        steps: &[PathStep],
    ) -> Result<Values<'v>, JsonPathError> {
        for step in steps {
            values = self.step(values, step)?;
            self.visit(values.len() + 1)?;
        }
        Ok(values)
    }

    fn step<'v>(&mut self, values: Values<'v>, step: &PathStep) -> Result<Values<'v>, JsonPathError> {
        match step {
            PathStep::Field(name) => Ok(values.iter().filter_map(|value| field(value, name)).collect()),
            PathStep::Slice(slice) => self.slice(&values, *slice),
            PathStep::Filter(filter) => self.filter(&values, filter),
            PathStep::Union(parts) => {
                let mut results = Vec::new();
                for part in parts {
                    results.extend(self.steps(values.clone(), part)?);
                }
                Ok(results)
            }
            PathStep::Wildcard => {
                let mut results = Vec::new();
                for value in &values {
                    let inner = children(value);
                    self.visit(inner.len())?;
                    results.extend(inner);
                }
                Ok(results)
            }
            PathStep::Recursive => {
                let mut results = Vec::new();
                for value in values {
                    self.descend(value, &mut results)?;
                }
                Ok(results)
            }
            PathStep::Literal(value @ Value::Str(_)) => Ok(vec![Cow::Owned(value.clone())]),
            PathStep::Literal(value) => Ok(values.iter().map(|_| Cow::Owned(value.clone())).collect()),
            PathStep::Word(word) => mismatch(format!("unrecognized identifier {word}")),
        }
    }

    fn slice<'v>(&mut self, values: &[Cow<'v, Value>], slice: Slice) -> Result<Values<'v>, JsonPathError> {
        let mut results = Vec::new();
        for value in values.iter().filter(|value| !value.is_null()) {
            let list = items(value)?;
            let len = i64::try_from(list.len()).unwrap_or(i64::MAX);
            let from_end = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
            let start = from_end(slice.start);
            let end = match slice.end {
                SliceEnd::Length => len,
                SliceEnd::At(end) => from_end(end),
                SliceEnd::AfterStart => start.saturating_add(1),
            };
            if start == end {
                return Ok(results);
            }
            for index in [start, end.saturating_sub(1)] {
                if !(0..len).contains(&index) {
                    return mismatch(format!("array index out of bounds: index {index}, length {len}"));
                }
            }
            if start > end {
                return mismatch(format!("starting index {start} is greater than ending index {end}"));
            }
            let step = slice.step.unwrap_or(1);
            let Some(step) = usize::try_from(step).ok().filter(|step| *step > 0) else {
                return mismatch("step must be > 0");
            };
            let (start, end) = (usize::try_from(start), usize::try_from(end));
            let (Ok(start), Ok(end)) = (start, end) else { return mismatch("array index out of bounds") };
            self.visit(end - start)?;
            results.extend((start..end).step_by(step).map(|at| item(value, at)));
        }
        Ok(results)
    }

    fn filter<'v>(
        &mut self,
        values: &[Cow<'v, Value>],
        filter: &Filter,
    ) -> Result<Values<'v>, JsonPathError> {
        let mut results = Vec::new();
        for value in values {
            for at in 0..items(value)?.len() {
                self.visit(1)?;
                let one = item(value, at);
                let lefts = self.steps(vec![one.clone()], &filter.left);
                let Some((operator, right)) = &filter.comparison else {
                    match lefts {
                        Ok(lefts) if !lefts.is_empty() => results.push(one),
                        Err(JsonPathError::Visits) => return Err(JsonPathError::Visits),
                        _ => {}
                    }
                    continue;
                };
                let Some(left) = only(lefts?)? else { continue };
                let Some(right) = only(self.steps(vec![one.clone()], right)?)? else { continue };
                if compare(&left, operator, &right)? {
                    results.push(one);
                }
            }
        }
        Ok(results)
    }

    /// Adds a value and all values inside it that are not empty; numbers and booleans are left out, as upstream.
    fn descend<'v>(&mut self, value: Cow<'v, Value>, results: &mut Values<'v>) -> Result<(), JsonPathError> {
        let mut pending = vec![value];
        while let Some(value) = pending.pop() {
            self.visit(1)?;
            let is_text = value.as_str().is_some_and(|text| !text.is_empty());
            let inner = if is_text { Vec::new() } else { children(&value) };
            if inner.is_empty() && !is_text {
                continue;
            }
            pending.extend(inner.into_iter().rev());
            results.push(value);
        }
        Ok(())
    }
}

fn field<'v>(value: &Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

fn items(value: &Value) -> Result<&[Value], JsonPathError> {
    match value.as_list() {
        Some(list) => Ok(list),
        None => mismatch("value is not array or slice"),
    }
}

fn item<'v>(value: &Cow<'v, Value>, at: usize) -> Cow<'v, Value> {
    match value {
        Cow::Borrowed(value) => Cow::Borrowed(&value.as_list().unwrap_or_default()[at]),
        Cow::Owned(value) => Cow::Owned(value.as_list().unwrap_or_default()[at].clone()),
    }
}

/// Fields of an object, items of an array, or bytes of a string.
fn children<'v>(value: &Cow<'v, Value>) -> Values<'v> {
    match value {
        Cow::Borrowed(Value::Map(map)) => map.iter().map(|(_, value)| Cow::Borrowed(value)).collect(),
        Cow::Borrowed(Value::List(list)) => list.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Map(map)) => map.iter().map(|(_, value)| Cow::Owned(value.clone())).collect(),
        Cow::Owned(Value::List(list)) => list.iter().map(|value| Cow::Owned(value.clone())).collect(),
        value => {
            let bytes = value.as_str().unwrap_or_default().bytes().take(VISITS_MAX + 1);
            bytes.map(|byte| Cow::Owned(Value::Int(byte.into()))).collect()
        }
    }
}

/// The only value of a side of a comparison; `None` if there is none.
fn only(mut values: Values<'_>) -> Result<Option<Cow<'_, Value>>, JsonPathError> {
    if values.len() > 1 {
        return mismatch("can only compare one element at a time");
    }
    Ok(values.pop())
}

/// Compares scalars of the same type.
fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, JsonPathError> {
    let (order, is_ordered) = match (left, right) {
        (Value::Int(left), Value::Int(right)) => (Some(left.cmp(right)), true),
        (Value::Float(left), Value::Float(right)) => (left.partial_cmp(right), true),
        (Value::Str(left), Value::Str(right)) => (Some(left.as_str().cmp(right.as_str())), true),
        (Value::Bool(left), Value::Bool(right)) => (Some(left.cmp(right)), false),
        _ => return mismatch("incompatible types for comparison"),
    };
    Ok(match operator {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<" | "<=" | ">" | ">=" if !is_ordered => return mismatch("invalid type for comparison"),
        "<" => order == Some(Ordering::Less),
        "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        ">" => order == Some(Ordering::Greater),
        ">=" => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        other => return mismatch(format!("unrecognized filter operator {other}")),
    })
}
