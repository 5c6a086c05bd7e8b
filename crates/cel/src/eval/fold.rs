//! Comprehensions, and the steps that change an accumulator in place.

use std::sync::Arc;

use super::EvalError;
use super::evaluator::{Evaluated, Evaluator, LocalSlot, not_fatal};
use super::node::{Fold, NodeId};
use crate::runtime_cost::{CALL_COST, SELECT_COST};
use crate::value::{ListValue, MapKey, MapValue, Value};

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn fold(&mut self, fold: &'p Fold) -> Evaluated<'a> {
        let range = self.eval(fold.range)?;
        self.locals[fold.slot] = LocalSlot::Pending(fold.init);
        match range {
            Value::List(list) => self.fold_list(fold, &list)?,
            Value::Map(map) => self.fold_map(fold, &map)?,
            other => {
                return Err(EvalError::new(format!("got '{}', expected iterable type", other.type_name())));
            }
        }
        let result = self.eval(fold.result);
        for slot in &mut self.locals[fold.slot..=fold.slot + 2] {
            *slot = LocalSlot::Unset;
        }
        result
    }

    fn fold_list(&mut self, fold: &'p Fold, list: &ListValue<'a>) -> Result<(), EvalError> {
        for (index, element) in list.iter().enumerate() {
            let index = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
            let is_done = if fold.has_two_variables {
                self.step(fold, Ok(index), Some(element))?
            } else {
                self.step(fold, element, None)?
            };
            if is_done {
                break;
            }
        }
        Ok(())
    }

    fn fold_map(&mut self, fold: &'p Fold, map: &MapValue<'a>) -> Result<(), EvalError> {
        self.meter.work(map.len())?;
        for key in map.keys() {
            let value = fold.has_two_variables.then(|| map.find(&key)).flatten();
            let value = fold.has_two_variables.then(|| value.unwrap_or(Ok(Value::Null)));
            if self.step(fold, Ok(key), value)? {
                break;
            }
        }
        Ok(())
    }

    /// Evaluates one step; `true` if the condition ends the loop. An error of the condition does not.
    fn step(
        &mut self,
        fold: &'p Fold,
        first: Evaluated<'a>,
        second: Option<Evaluated<'a>>,
    ) -> Result<bool, EvalError> {
        self.meter.work(1)?;
        self.locals[fold.slot + 1] = LocalSlot::Ready(first);
        if let Some(second) = second {
            self.locals[fold.slot + 2] = LocalSlot::Ready(second);
        }
        if let Ok(Value::Bool(false)) = not_fatal(self.eval(fold.condition))? {
            return Ok(true);
        }
        let value = not_fatal(self.eval(fold.step))?;
        self.locals[fold.slot] = LocalSlot::Ready(value);
        Ok(false)
    }

    /// Takes the accumulator out of its slot, so that it is not shared.
    fn take_accumulator(&mut self, slot: usize) -> Evaluated<'a> {
        if matches!(self.locals[slot], LocalSlot::Pending(_)) {
            return self.local(slot);
        }
        match std::mem::replace(&mut self.locals[slot], LocalSlot::Unset) {
            LocalSlot::Ready(value) => value,
            _ => Err(EvalError::constant("invalid attribute")),
        }
    }

    pub(super) fn append(&mut self, slot: usize, element: NodeId, list_cost: u64) -> Evaluated<'a> {
        let element = not_fatal(self.eval(element))?;
        self.meter.charge(SELECT_COST + list_cost + CALL_COST)?;
        let accumulator = self.take_accumulator(slot)?;
        let element = element?;
        let Value::List(ListValue::Owned(mut values)) = accumulator else {
            return Err(EvalError::NO_SUCH_OVERLOAD);
        };
        self.meter.work(1)?;
        Arc::make_mut(&mut values).push(element);
        Ok(Value::List(ListValue::Owned(values)))
    }

    pub(super) fn insert(&mut self, slot: usize, key: NodeId, value: Option<NodeId>) -> Evaluated<'a> {
        let key = not_fatal(self.eval(key))?;
        let value = match value {
            Some(value) => Some(not_fatal(self.eval(value))?),
            None => None,
        };
        self.meter.charge(SELECT_COST + CALL_COST)?;
        let Value::Map(MapValue::Owned(mut entries)) = self.take_accumulator(slot)? else {
            return Err(EvalError::NO_SUCH_OVERLOAD);
        };
        let map = Arc::make_mut(&mut entries);
        let mut insert = |key: Value<'a>, value: Value<'a>| match MapKey::of(&key) {
            None => Err(EvalError::new(format!("unsupported key type: {}", key.type_name()))),
            Some(known) if map.contains_key(&known) => {
                Err(EvalError::new(format!("insert failed: key {key} already exists")))
            }
            Some(known) => {
                map.insert(known, value);
                Ok(())
            }
        };
        match (key?, value) {
            (key, Some(value)) => {
                self.meter.work(1)?;
                insert(key, value?)?;
            }
            (Value::Map(added), None) => {
                self.meter.work(added.len())?;
                for key in added.keys() {
                    if let Some(value) = added.find(&key) {
                        insert(key, value?)?;
                    }
                }
            }
            _ => return Err(EvalError::NO_SUCH_OVERLOAD),
        }
        Ok(Value::Map(MapValue::Owned(entries)))
    }
}
