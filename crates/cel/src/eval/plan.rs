//! Planner: resolves names, folds constants and compiles patterns.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{Attribute, Base, CallNode, ConstantSet, Fold, Key, Node, NodeId, ObjectNode, Qualifier};
use super::{PLAN_DEPTH_MAX, ProgramError};
use crate::ast::{Ast, Comprehension, Element, Expr, ExprId, ExprKind, MapEntry};
use crate::functions::{self, Call};
use crate::literal::Literal;
use crate::macros::{ACCUMULATOR, MAP_INSERT};
use crate::operator::Operator;
use crate::runtime_cost::{LIST_COST, Meter};
use crate::types::unescape_identifier;
use crate::value::{MapKey, MapValue, TextValue, Value};

/// Variables whose names have a dot.
const QUALIFIED_VARIABLES: [&str; 1] = ["authorizer.requestResource"];

/// Functions that cel-go evaluates when their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// Slots of a comprehension: the accumulator and two iteration variables.
const SLOTS_PER_FOLD: usize = 3;

/// Types whose names are constants.
const TYPES: [&str; 25] = [
    "bool",
    "bytes",
    "double",
    "dyn",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.Decision",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.ResourceCheck",
    "list",
    "map",
    "net.CIDR",
    "net.IP",
    "null_type",
    "optional_type",
    "string",
    "type",
    "uint",
];

/// Result of a step of the planner.
type Planned<T = NodeId> = Result<T, ProgramError>;

/// Planner of one expression.
pub(super) struct Planner<'s> {
    ast: &'s Ast,
    pub(super) nodes: Vec<Node>,
    pub(super) variables: Vec<Box<str>>,
    scopes: Vec<(&'s str, usize)>,
    next_slot: usize,
    pub(super) slots: usize,
    depth: usize,
}

impl<'s> Planner<'s> {
    pub(super) fn new(ast: &'s Ast) -> Self {
        let nodes = Vec::with_capacity(ast.len());
        Self { ast, nodes, variables: Vec::new(), scopes: Vec::new(), next_slot: 0, slots: 0, depth: 0 }
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(u32::try_from(self.nodes.len() - 1).expect("an AST has fewer than 2^32 nodes"))
    }

    fn constant(&mut self, value: Value<'static>) -> NodeId {
        self.push(Node::Constant(value))
    }

    fn as_constant(&self, id: NodeId) -> Option<&Value<'static>> {
        match &self.nodes[id.0 as usize] {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn expr(&self, id: ExprId) -> &'s Expr {
        self.ast.expr(id)
    }

    /// Plans an expression.
    pub(super) fn plan(&mut self, id: ExprId) -> Planned {
        self.depth += 1;
        if self.depth > PLAN_DEPTH_MAX {
            return Err(ProgramError::Depth);
        }
        let planned = match &self.expr(id).kind {
            ExprKind::Literal(literal) => Ok(self.constant(constant_of(literal))),
            ExprKind::Ident(name) => Ok(self.ident(name)),
            ExprKind::Select { operand, field, test_only } => self.select(id, *operand, field, *test_only),
            ExprKind::Operation { operator, operands } => self.operation(*operator, operands),
            ExprKind::Call { function, target, args } => self.call(function, *target, args),
            ExprKind::List(elements) => self.list(elements),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Message { name, fields } => {
                let fields: Planned<Box<[_]>> = fields
                    .iter()
                    .map(|field| Ok((field.name.clone(), self.plan(field.value)?, field.is_optional)))
                    .collect();
                let name = name.trim_start_matches('.').into();
                let node = Node::Object(Box::new(ObjectNode { name, fields: fields? }));
                Ok(self.push(node))
            }
            ExprKind::Comprehension(fold) => self.fold(fold),
        };
        self.depth -= 1;
        planned
    }

    fn slot_of(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rev().find(|(known, _)| *known == name).map(|(_, slot)| *slot)
    }

    fn ident(&mut self, name: &str) -> NodeId {
        if let Some(slot) = self.slot_of(name) {
            return self.attribute(Base::Local(slot));
        }
        let name = name.trim_start_matches('.');
        match TYPES.binary_search(&name) {
            Ok(index) => self.constant(Value::Type(TextValue::Borrowed(TYPES[index]))),
            Err(_) => self.variable(name),
        }
    }

    fn variable(&mut self, name: &str) -> NodeId {
        let index = self.variables.iter().position(|known| **known == *name).unwrap_or_else(|| {
            self.variables.push(name.into());
            self.variables.len() - 1
        });
        self.attribute(Base::Variable(index))
    }

    fn attribute(&mut self, base: Base) -> NodeId {
        self.push(Node::Attribute(Box::new(Attribute { base, qualifiers: Vec::new(), is_test: false })))
    }

    /// Returns the dotted name of a chain of selections that does not begin with a variable of a macro.
    fn qualified_name(&self, id: ExprId) -> Option<String> {
        match &self.expr(id).kind {
            ExprKind::Ident(name) if self.slot_of(name).is_none() => {
                Some(name.trim_start_matches('.').to_owned())
            }
            ExprKind::Select { operand, field, test_only: false } => {
                // No dotted name has more than a few parts.
                let prefix = self.qualified_name(*operand).filter(|prefix| prefix.len() < 64)?;
                Some(format!("{prefix}.{field}"))
            }
            _ => None,
        }
    }

    fn select(&mut self, id: ExprId, operand: ExprId, field: &str, is_test: bool) -> Planned {
        if !is_test && let Some(name) = self.qualified_name(id) {
            if let Ok(index) = TYPES.binary_search(&name.as_str()) {
                return Ok(self.constant(Value::Type(TextValue::Borrowed(TYPES[index]))));
            }
            if QUALIFIED_VARIABLES.contains(&name.as_str()) {
                return Ok(self.variable(&name));
            }
        }
        let operand = self.plan(operand)?;
        let key = constant_key(Value::string(field));
        Ok(self.qualify(operand, Qualifier { key, is_optional: false, is_test }))
    }

    /// Adds a qualifier to an attribute, or to the value of any other node.
    fn qualify(&mut self, operand: NodeId, qualifier: Qualifier) -> NodeId {
        let is_attribute = matches!(
            &self.nodes[operand.0 as usize],
            Node::Attribute(attribute) if !attribute.is_test
        );
        let id = if is_attribute { operand } else { self.attribute(Base::Relative(operand)) };
        if let Node::Attribute(attribute) = &mut self.nodes[id.0 as usize] {
            attribute.is_test = qualifier.is_test;
            attribute.qualifiers.push(qualifier);
        }
        id
    }

    fn operation(&mut self, operator: Operator, operands: &[ExprId]) -> Planned {
        let planned: Planned<Vec<NodeId>> = operands.iter().map(|operand| self.plan(*operand)).collect();
        let node = match (operator, &*planned?) {
            (Operator::Conditional, &[condition, then, otherwise]) => {
                return Ok(self.attribute(Base::Conditional { condition, then, otherwise }));
            }
            (Operator::Index | Operator::OptionalIndex | Operator::OptionalSelect, &[operand, index]) => {
                let key = match self.as_constant(index) {
                    Some(constant) => constant_key(constant.clone()),
                    None => Key::Computed(index),
                };
                let is_optional = operator != Operator::Index;
                return Ok(self.qualify(operand, Qualifier { key, is_optional, is_test: false }));
            }
            (Operator::In, &[element, list]) => match self.constant_set(list) {
                Some(set) if set.keys.is_empty() && set.doubles.is_empty() => {
                    Node::Constant(Value::Bool(false))
                }
                Some(set) => Node::Member(element, Box::new(set)),
                None => Node::Binary(operator, element, list),
            },
            (Operator::And, &[left, right]) => Node::And(left, right),
            (Operator::Or, &[left, right]) => Node::Or(left, right),
            (_, &[operand]) => Node::Unary(operator, operand),
            (_, &[left, right]) => Node::Binary(operator, left, right),
            _ => Node::Unknown(operator.function().into()),
        };
        Ok(self.push(node))
    }

    /// Returns the elements of a constant list of scalars.
    fn constant_set(&self, list: NodeId) -> Option<ConstantSet> {
        let mut set = ConstantSet::default();
        for element in self.as_constant(list)?.as_list()?.iter() {
            match element.ok()? {
                Value::Double(number) if MapKey::of(&Value::Double(number)).is_none() => {
                    set.doubles.push(number)
                }
                element => {
                    set.keys.insert(MapKey::of(&element)?);
                }
            }
        }
        Some(set)
    }

    fn call(&mut self, function: &str, target: Option<ExprId>, args: &[ExprId]) -> Planned {
        let qualified = target.and_then(|target| self.qualified_name(target));
        let qualified = qualified.map(|prefix| format!("{prefix}.{function}"));
        let (known, target) = match qualified.and_then(|name| functions::find(&name)) {
            Some(known) => (Some(known), None),
            None => (functions::find(function.trim_start_matches('.')), target),
        };
        let args: Planned<Box<[NodeId]>> =
            target.iter().chain(args).map(|argument| self.plan(*argument)).collect();
        let (Some(function), args) = (known, args?) else {
            return Ok(self.push(Node::Unknown(function.into())));
        };
        if CONVERSIONS.contains(&function.name)
            && let [argument] = *args
            && let Some(constant) = self.as_constant(argument)
        {
            let mut meter = Meter::new(u64::MAX);
            let mut call = Call {
                args: std::slice::from_ref(constant),
                meter: &mut meter,
                pattern: None,
                cache: &mut None,
            };
            let value = (function.implementation)(&mut call).map_err(ProgramError::Constant)?;
            return Ok(self.constant(value));
        }
        let pattern = match args.get(1).and_then(|pattern| self.as_constant(*pattern)) {
            Some(Value::String(pattern)) if function.has_pattern => {
                Some(functions::regex::compile(pattern).map_err(ProgramError::Pattern)?)
            }
            _ => None,
        };
        Ok(self.push(Node::Call(Box::new(CallNode { function, args, pattern }))))
    }

    fn list(&mut self, elements: &[Element]) -> Planned {
        let elements: Planned<Box<[_]>> =
            elements.iter().map(|element| Ok((self.plan(element.value)?, element.is_optional))).collect();
        let elements = elements?;
        let constants: Option<Vec<_>> = elements
            .iter()
            .map(|(id, is_optional)| self.as_constant(*id).filter(|_| !is_optional).cloned())
            .collect();
        Ok(match constants {
            Some(constants) => self.constant(Value::list(constants)),
            None => self.push(Node::List(elements)),
        })
    }

    fn map(&mut self, entries: &[MapEntry]) -> Planned {
        let entries: Planned<Box<[_]>> = entries
            .iter()
            .map(|entry| Ok((self.plan(entry.key)?, self.plan(entry.value)?, entry.is_optional)))
            .collect();
        let entries = entries?;
        let constants: Option<BTreeMap<_, _>> = entries
            .iter()
            .map(|(key, value, is_optional)| {
                let key = MapKey::of(self.as_constant(*key)?)?;
                Some((key, self.as_constant(*value).filter(|_| !is_optional)?.clone()))
            })
            .collect();
        Ok(match constants {
            Some(constants) => self.constant(Value::Map(MapValue::Owned(Arc::new(constants)))),
            None => self.push(Node::Map(entries)),
        })
    }

    fn fold(&mut self, fold: &'s Comprehension) -> Planned {
        let range = self.plan(fold.iter_range)?;
        let slot = self.next_slot;
        // The slots of the initial value come after those of the fold, because it is evaluated within the fold.
        self.next_slot += SLOTS_PER_FOLD;
        self.slots = self.slots.max(self.next_slot);
        let init = self.plan(fold.accu_init)?;
        let scope = self.scopes.len();
        self.scopes.push((&fold.accu_var, slot));
        self.scopes.push((&fold.iter_var, slot + 1));
        if let Some(second) = &fold.iter_var2 {
            self.scopes.push((second, slot + 2));
        }
        let condition = self.plan(fold.loop_condition)?;
        let step = match self.in_place(fold, slot)? {
            Some(step) => step,
            None => self.plan(fold.loop_step)?,
        };
        self.scopes.truncate(scope + 1);
        let result = self.plan(fold.result)?;
        self.scopes.truncate(scope);
        self.next_slot = slot;
        let has_two_variables = fold.iter_var2.is_some();
        let fold = Fold { range, slot, has_two_variables, init, condition, step, result };
        Ok(self.push(Node::Fold(Box::new(fold))))
    }

    /// Plans the step of a fold that appends to the accumulator, or does so if a filter holds.
    fn in_place(&mut self, fold: &'s Comprehension, slot: usize) -> Planned<Option<NodeId>> {
        if *fold.accu_var != *ACCUMULATOR {
            return Ok(None);
        }
        if let ExprKind::Operation { operator: Operator::Conditional, operands } =
            &self.expr(fold.loop_step).kind
            && let [condition, then, otherwise] = **operands
            && self.is_append(then)
            && self.is_accumulator(otherwise)
        {
            let condition = self.plan(condition)?;
            let Some(then) = self.append(then, slot)? else { return Ok(None) };
            let otherwise = self.plan(otherwise)?;
            return Ok(Some(self.attribute(Base::Conditional { condition, then, otherwise })));
        }
        self.append(fold.loop_step, slot)
    }

    fn is_accumulator(&self, id: ExprId) -> bool {
        matches!(&self.expr(id).kind, ExprKind::Ident(name) if **name == *ACCUMULATOR)
    }

    fn is_append(&self, id: ExprId) -> bool {
        match &self.expr(id).kind {
            ExprKind::Operation { operator: Operator::Add, operands } => match **operands {
                [accumulator, list] => {
                    self.is_accumulator(accumulator) && self.single_element(list).is_some()
                }
                _ => false,
            },
            ExprKind::Call { function, target: None, args } => {
                **function == *MAP_INSERT
                    && matches!(args.len(), 2 | 3)
                    && args.first().is_some_and(|first| self.is_accumulator(*first))
            }
            _ => false,
        }
    }

    fn single_element(&self, id: ExprId) -> Option<ExprId> {
        match &self.expr(id).kind {
            ExprKind::List(elements) => match **elements {
                [Element { value, is_optional: false }] => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    fn append(&mut self, id: ExprId, accumulator: usize) -> Planned<Option<NodeId>> {
        if !self.is_append(id) {
            return Ok(None);
        }
        let node = match &self.expr(id).kind {
            ExprKind::Operation { operands, .. } => {
                let Some(element) = self.single_element(operands[1]) else { return Ok(None) };
                let element = self.plan(element)?;
                let list_cost = if self.as_constant(element).is_some() { 0 } else { LIST_COST };
                Node::Append { accumulator, element, list_cost }
            }
            ExprKind::Call { args, .. } => {
                let key = self.plan(args[1])?;
                let value = args.get(2).map(|value| self.plan(*value)).transpose()?;
                Node::Insert { accumulator, key, value }
            }
            _ => return Ok(None),
        };
        Ok(Some(self.push(node)))
    }
}

fn constant_key(key: Value<'static>) -> Key {
    let unescaped = key.as_str().and_then(unescape_identifier).map(Into::into);
    Key::Constant { key, unescaped }
}

fn constant_of(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(truth) => Value::Bool(*truth),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::string(&**text),
        Literal::Bytes(bytes) => Value::Bytes((&**bytes).into()),
    }
}
