//! Walk over the nodes of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{CallNode, Node, NodeId, ObjectNode};
use super::{Bindings, EvalError, Evaluation, Program};
use crate::functions::{Call, PatternCache};
use crate::messages::find_message;
use crate::operator::Operator;
use crate::runtime_cost::{CALL_COST, LIST_COST, MAP_COST, Meter, OBJECT_COST};
use crate::value::{MapKey, MapValue, ObjectValue, Value};

/// Result of a node.
pub(super) type Evaluated<'a> = Result<Value<'a>, EvalError>;

/// Variable of a macro.
pub(super) enum LocalSlot<'a> {
    Unset,
    /// Accumulator whose initial value was not needed yet.
    Pending(NodeId),
    Ready(Evaluated<'a>),
}

/// State of one evaluation.
pub(super) struct Evaluator<'p, 'a> {
    pub(super) program: &'p Program,
    bindings: &'p dyn Bindings<'a>,
    variables: Vec<Option<Value<'a>>>,
    pub(super) locals: Vec<LocalSlot<'a>>,
    pub(super) meter: Meter,
    cache: PatternCache,
}

impl<'p, 'a> Evaluator<'p, 'a> {
    pub(super) fn new(program: &'p Program, bindings: &'p dyn Bindings<'a>, limit: u64) -> Self {
        let mut locals = Vec::new();
        locals.resize_with(program.slots, || LocalSlot::Unset);
        let variables = vec![None; program.variables.len()];
        Self { program, bindings, variables, locals, meter: Meter::new(limit), cache: None }
    }

    pub(super) fn run(mut self) -> Evaluation<'a> {
        let result = self.eval(self.program.root);
        Evaluation { result, cost: self.meter.cost() }
    }

    pub(super) fn eval(&mut self, id: NodeId) -> Evaluated<'a> {
        match self.program.node(id) {
            Node::Constant(value) => Ok(value.clone()),
            Node::Attribute(attribute) => self.attribute(attribute),
            Node::And(left, right) => self.logical(*left, *right, false),
            Node::Or(left, right) => self.logical(*left, *right, true),
            Node::Unary(operator, operand) => self.unary(*operator, *operand),
            Node::Binary(operator, left, right) => self.binary(*operator, *left, *right),
            Node::Member(element, set) => Ok(Value::Bool(set.contains(&self.eval(*element)?))),
            Node::Call(call) => self.call(call),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Object(object) => self.object(object),
            Node::Fold(fold) => self.fold(fold),
            Node::Append { accumulator, element, list_cost } => {
                self.append(*accumulator, *element, *list_cost)
            }
            Node::Insert { accumulator, key, value } => self.insert(*accumulator, *key, *value),
            Node::Unknown(function) => Err(EvalError::new(format!("no such overload: {function}"))),
        }
    }

    /// Returns a variable of the caller, which is resolved once.
    pub(super) fn variable(&mut self, index: usize) -> Evaluated<'a> {
        if let Some(value) = &self.variables[index] {
            return Ok(value.clone());
        }
        let name = &*self.program.variables[index];
        match self.bindings.resolve(name) {
            Some(value) => {
                self.variables[index] = Some(value.clone());
                Ok(value)
            }
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// Evaluates `&&`, or `||` if `decisive` is true. The decisive value of either side wins over errors.
    fn logical(&mut self, left: NodeId, right: NodeId, decisive: bool) -> Evaluated<'a> {
        let left = truth(self.eval(left))?;
        if left == Ok(decisive) {
            return Ok(Value::Bool(decisive));
        }
        let right = truth(self.eval(right))?;
        if right == Ok(decisive) {
            return Ok(Value::Bool(decisive));
        }
        left.and(right).map(Value::Bool)
    }

    fn unary(&mut self, operator: Operator, operand: NodeId) -> Evaluated<'a> {
        let operand = not_fatal(self.eval(operand))?;
        self.meter.charge(CALL_COST)?;
        match operator {
            Operator::NotStrictlyFalse => Ok(Value::Bool(!matches!(operand, Ok(Value::Bool(false))))),
            Operator::Not => match operand? {
                Value::Bool(truth) => Ok(Value::Bool(!truth)),
                _ => Err(EvalError::NO_SUCH_OVERLOAD),
            },
            _ => super::operators::negate(operand?),
        }
    }

    /// Evaluates both operands, also if the first fails, as cel-go does.
    fn binary(&mut self, operator: Operator, left: NodeId, right: NodeId) -> Evaluated<'a> {
        let left = not_fatal(self.eval(left))?;
        let right = not_fatal(self.eval(right))?;
        match (left, right) {
            (Ok(left), Ok(right)) => super::operators::binary(operator, &left, &right, &mut self.meter),
            (Err(error), _) | (_, Err(error)) => {
                self.meter.charge(CALL_COST)?;
                Err(error)
            }
        }
    }

    fn call(&mut self, call: &'p CallNode) -> Evaluated<'a> {
        // Most functions have one or two arguments.
        match *call.args {
            [] => self.apply(call, &[]),
            [argument] => {
                let argument = self.eval(argument)?;
                self.apply(call, &[argument])
            }
            [first, second] => {
                let first = self.eval(first)?;
                let second = self.eval(second)?;
                self.apply(call, &[first, second])
            }
            _ => {
                let args: Result<Vec<_>, _> = call.args.iter().map(|argument| self.eval(*argument)).collect();
                self.apply(call, &args?)
            }
        }
    }

    fn apply(&mut self, call: &'p CallNode, args: &[Value<'a>]) -> Evaluated<'a> {
        let function = call.function;
        // The cost is charged before the work where the arguments determine it.
        if !function.cost.needs_result() {
            function.cost.charge(&mut self.meter, args, None)?;
        }
        let pattern = call.pattern.as_ref();
        let mut scope = Call { args, meter: &mut self.meter, pattern, cache: &mut self.cache };
        let result = not_fatal((function.implementation)(&mut scope))?;
        if function.cost.needs_result() {
            function.cost.charge(&mut self.meter, args, result.as_ref().ok())?;
        }
        result.map_err(|error| function.describe(error, args))
    }

    fn list(&mut self, elements: &[(NodeId, bool)]) -> Evaluated<'a> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, is_optional) in elements {
            let value = self.eval(*element)?;
            if !is_optional {
                values.push(value);
                continue;
            }
            match value {
                Value::Optional(None) => {}
                Value::Optional(Some(value)) => values.push((*value).clone()),
                value => {
                    let message = "cannot initialize optional list element from non-optional value";
                    return Err(EvalError::new(format!("{message} {value}")));
                }
            }
        }
        self.meter.work(values.len())?;
        self.meter.charge(LIST_COST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &[(NodeId, NodeId, bool)]) -> Evaluated<'a> {
        let mut map = BTreeMap::new();
        for (key, value, is_optional) in entries {
            let key = self.eval(*key)?;
            let value = self.eval(*value)?;
            let Some(known) = MapKey::of(&key) else {
                return Err(EvalError::new(format!("unsupported key type: {}", key.type_name())));
            };
            match unwrap_entry(value, *is_optional, &key)? {
                Some(value) => map.insert(known, value),
                None => map.remove(&known),
            };
        }
        self.meter.work(map.len())?;
        self.meter.charge(MAP_COST)?;
        Ok(Value::Map(MapValue::Owned(Arc::new(map))))
    }

    fn object(&mut self, object: &ObjectNode) -> Evaluated<'a> {
        let mut fields = BTreeMap::new();
        for (name, value, is_optional) in &object.fields {
            let value = self.eval(*value)?;
            match unwrap_entry(value, *is_optional, name)? {
                Some(value) => fields.insert(name.clone(), value),
                None => fields.remove(name),
            };
        }
        self.meter.work(fields.len())?;
        self.meter.charge(OBJECT_COST)?;
        match find_message(&object.name) {
            Some(message) => message.build(&object.name, fields),
            None => Ok(Value::Object(Arc::new(ObjectValue { name: object.name.clone(), fields }))),
        }
    }
}

/// Returns the value of an entry; `None` for an optional entry without a value.
fn unwrap_entry<'a>(
    value: Value<'a>,
    is_optional: bool,
    key: &dyn std::fmt::Display,
) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        value if !is_optional => Ok(Some(value)),
        Value::Optional(value) => Ok(value.map(|value| (*value).clone())),
        value => Err(EvalError::new(format!(
            "cannot initialize optional entry '{key}' from non-optional value {value}"
        ))),
    }
}

/// Separates the error that no operator absorbs.
pub(super) fn not_fatal<T>(result: Result<T, EvalError>) -> Result<Result<T, EvalError>, EvalError> {
    match result {
        Err(EvalError::CostLimit) => Err(EvalError::CostLimit),
        result => Ok(result),
    }
}

/// Converts an operand of `&&` or `||`.
fn truth(operand: Evaluated<'_>) -> Result<Result<bool, EvalError>, EvalError> {
    not_fatal(operand.and_then(|value| value.as_bool().ok_or(EvalError::NO_SUCH_OVERLOAD)))
}
