//! Variables, selections, indexes and conditionals.

use super::EvalError;
use super::evaluator::{Evaluated, Evaluator, LocalSlot, not_fatal};
use super::node::{Attribute, Base, Key, Node, NodeId, Qualifier};
use crate::runtime_cost::SELECT_COST;
use crate::value::{ListValue, Value};

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn attribute(&mut self, attribute: &'p Attribute) -> Evaluated<'a> {
        let value = not_fatal(self.resolve(attribute))?;
        // A conditional costs what its parts cost, and Kubernetes makes presence tests free.
        if !attribute.is_test && !matches!(attribute.base, Base::Conditional { .. }) {
            self.meter.charge(SELECT_COST)?;
        }
        value
    }

    /// Evaluates a branch or an index. As in cel-go, the variable at the start of an attribute costs nothing there.
    fn branch(&mut self, id: NodeId) -> Evaluated<'a> {
        match self.program.node(id) {
            Node::Attribute(attribute) => self.resolve(attribute),
            _ => self.eval(id),
        }
    }

    fn resolve(&mut self, attribute: &'p Attribute) -> Evaluated<'a> {
        let base = match &attribute.base {
            Base::Variable(index) => self.variable(*index)?,
            Base::Local(slot) => self.local(*slot)?,
            Base::Relative(node) => self.eval(*node)?,
            Base::Conditional { condition, then, otherwise } => match self.eval(*condition)? {
                Value::Bool(true) => self.branch(*then)?,
                Value::Bool(false) => self.branch(*otherwise)?,
                _ => return Err(EvalError::NO_SUCH_OVERLOAD),
            },
        };
        if attribute.qualifiers.is_empty() {
            return Ok(base);
        }
        let value = self.qualify(base, &attribute.qualifiers)?;
        Ok(match value {
            Value::Optional(value) if attribute.is_test => Value::Bool(value.is_some()),
            value => value,
        })
    }

    /// Returns a variable of a macro; computes the initial value of an accumulator when it is first read.
    pub(super) fn local(&mut self, slot: usize) -> Evaluated<'a> {
        if let LocalSlot::Pending(init) = self.locals[slot] {
            let value = not_fatal(self.eval(init))?;
            self.locals[slot] = LocalSlot::Ready(value);
        }
        match &self.locals[slot] {
            LocalSlot::Ready(value) => value.clone(),
            _ => Err(EvalError::constant("invalid attribute")),
        }
    }

    fn qualify(&mut self, base: Value<'a>, qualifiers: &'p [Qualifier]) -> Evaluated<'a> {
        let (mut object, mut is_optional) = match base {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => ((*value).clone(), true),
            value => (value, false),
        };
        for qualifier in qualifiers {
            is_optional |= qualifier.is_optional;
            let found = not_fatal(self.find(&object, qualifier))?;
            // An absent optional field costs nothing.
            if !is_optional || qualifier.is_test || matches!(found, Ok(Found::Value(_))) {
                self.meter.charge(SELECT_COST)?;
            }
            object = match (found?, qualifier.is_test) {
                (Found::Value(_), true) if is_optional => Value::Null,
                (Found::Absent(_), _) if is_optional => return Ok(Value::Optional(None)),
                (found, true) => Value::Bool(matches!(found, Found::Value(_))),
                (Found::Value(value), false) => value,
                (Found::Absent(error), false) => return Err(error),
            };
        }
        Ok(if is_optional { Value::optional(Some(object)) } else { object })
    }

    fn find(&mut self, object: &Value<'a>, qualifier: &'p Qualifier) -> Result<Found<'a>, EvalError> {
        match &qualifier.key {
            Key::Constant { key, unescaped } => find(object, key, Some(unescaped.as_deref())),
            Key::Computed(node) => {
                let key = self.branch(*node)?;
                find(object, &key, None)
            }
        }
    }
}

/// Result of a selection.
enum Found<'a> {
    Value(Value<'a>),
    /// Absent, with the error if the field is not optional.
    Absent(EvalError),
}

/// Selects a field, key or element. `unescaped` is the field name of a constant key, if it is known.
fn find<'a>(
    object: &Value<'a>,
    key: &Value<'_>,
    unescaped: Option<Option<&str>>,
) -> Result<Found<'a>, EvalError> {
    let found = match (object, key, unescaped) {
        (Value::Map(map), Value::String(name), Some(unescaped)) => {
            if map.has_escaped_names() {
                unescaped.and_then(|name| map.field(name))
            } else {
                map.field(name)
            }
        }
        (Value::Map(map), _, _) => map.find(key),
        (Value::List(list), _, _) => return element(list, key),
        (Value::Lazy(object), Value::String(name), _) => object.field(name),
        (Value::Object(object), Value::String(name), _) => match object.fields.get(&**name) {
            Some(value) => Some(Ok(value.clone())),
            None => return Ok(Found::Absent(EvalError::new(format!("no such field '{name}'")))),
        },
        _ => None,
    };
    match found {
        Some(value) => value.map(Found::Value),
        None => Ok(Found::Absent(EvalError::new(format!("no such key: {key}")))),
    }
}

/// Returns an element of a list by an index, which may be a double without a fraction.
fn element<'a>(list: &ListValue<'a>, key: &Value<'_>) -> Result<Found<'a>, EvalError> {
    let index = match key {
        Value::Int(index) => usize::try_from(*index).ok(),
        Value::Uint(index) => usize::try_from(*index).ok(),
        Value::Double(number) => match crate::value::MapKey::of(&Value::Double(*number)) {
            Some(crate::value::MapKey::Int(index)) => usize::try_from(index).ok(),
            _ => return Err(EvalError::new(format!("unsupported index value {key} in list"))),
        },
        _ => return Err(EvalError::new(format!("unsupported index type '{}' in list", key.type_name()))),
    };
    match index.and_then(|index| list.get(index)) {
        Some(value) => value.map(Found::Value),
        None => Ok(Found::Absent(EvalError::new(format!("index out of bounds: {key}")))),
    }
}
