//! Plan of an expression: nodes whose names, constants and functions are resolved.

use std::collections::BTreeSet;

use regex::Regex;

use crate::functions::Function;
use crate::operator::Operator;
use crate::value::{MapKey, Value};

/// Index of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeId(pub(crate) u32);

/// Step of a plan.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value<'static>),
    Attribute(Box<Attribute>),
    And(NodeId, NodeId),
    Or(NodeId, NodeId),
    Unary(Operator, NodeId),
    Binary(Operator, NodeId, NodeId),
    /// `x in [constants]`, which costs nothing.
    Member(NodeId, Box<ConstantSet>),
    Call(Box<CallNode>),
    List(Box<[(NodeId, bool)]>),
    Map(Box<[(NodeId, NodeId, bool)]>),
    Object(Box<ObjectNode>),
    Fold(Box<Fold>),
    /// `accumulator + [element]`, in place.
    Append {
        accumulator: usize,
        element: NodeId,
        list_cost: u64,
    },
    /// `cel.@mapInsert(accumulator, key, value)` or `cel.@mapInsert(accumulator, map)`, in place.
    Insert {
        accumulator: usize,
        key: NodeId,
        value: Option<NodeId>,
    },
    /// Call of a function that does not exist.
    Unknown(Box<str>),
}

/// Variable or value with selections and indexes.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// `true` for `has(a.b)`.
    pub(crate) is_test: bool,
}

/// First part of an attribute.
#[derive(Debug)]
pub(crate) enum Base {
    /// Variable of the caller, by its index.
    Variable(usize),
    /// Variable of a macro, by its slot.
    Local(usize),
    /// Value of another node.
    Relative(NodeId),
    /// `condition ? then : otherwise`.
    Conditional { condition: NodeId, then: NodeId, otherwise: NodeId },
}

/// Selection or index.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: Key,
    pub(crate) is_optional: bool,
    pub(crate) is_test: bool,
}

/// Key of a qualifier.
#[derive(Debug)]
pub(crate) enum Key {
    /// Constant; for a string, with the name of the field that it escapes.
    Constant { key: Value<'static>, unescaped: Option<Box<str>> },
    /// Value of a node.
    Computed(NodeId),
}

/// Call of a function of a library.
#[derive(Debug)]
pub(crate) struct CallNode {
    pub(crate) function: &'static Function,
    pub(crate) args: Box<[NodeId]>,
    /// Constant pattern of `matches`, `find` and `findAll`.
    pub(crate) pattern: Option<Regex>,
}

/// Object literal.
#[derive(Debug)]
pub(crate) struct ObjectNode {
    pub(crate) name: Box<str>,
    pub(crate) fields: Box<[(Box<str>, NodeId, bool)]>,
}

/// Comprehension; variables are slots.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: NodeId,
    /// First slot: the accumulator, then the iteration variables.
    pub(crate) slot: usize,
    pub(crate) has_two_variables: bool,
    pub(crate) init: NodeId,
    pub(crate) condition: NodeId,
    pub(crate) step: NodeId,
    pub(crate) result: NodeId,
}

/// Constants on the right side of `in`.
#[derive(Debug, Default)]
pub(crate) struct ConstantSet {
    pub(crate) keys: BTreeSet<MapKey<'static>>,
    /// Doubles that are no integers.
    pub(crate) doubles: Vec<f64>,
}

impl ConstantSet {
    pub(crate) fn contains(&self, value: &Value<'_>) -> bool {
        match MapKey::of(value) {
            Some(key) => contains_key(&self.keys, &key),
            // Equality of CEL is exact.
            None => {
                matches!(value, Value::Double(number) if self.doubles.iter().any(|known| known == number))
            }
        }
    }
}

fn contains_key<'k>(keys: &BTreeSet<MapKey<'k>>, key: &MapKey<'k>) -> bool {
    keys.contains(key)
}
