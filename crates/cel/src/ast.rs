//! Abstract syntax tree: an arena of expressions, whose ids are indexes.

mod shape;

use std::collections::BTreeMap;

use crate::literal::Literal;
use crate::operator::Operator;
use crate::source::{Location, Span};

/// Identity of an expression within its AST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExprId(pub(crate) u32);

impl ExprId {
    /// Returns the index, less than [`Ast::len`], for tables beside the AST.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Node of an AST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// Identity.
    pub id: ExprId,
    /// Place in the source.
    pub span: Span,
    /// Kind and operands.
    pub kind: ExprKind,
}

/// Kind of an expression with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// Constant.
    Literal(Literal),
    /// Variable. An absolute name begins with a dot.
    Ident(Box<str>),
    /// Field of a message or key of a map: `a.b`, or `has(a.b)` if `test_only`.
    Select {
        /// Message or map.
        operand: ExprId,
        /// Field name, without backquotes.
        field: Box<str>,
        /// `true` for a presence test.
        test_only: bool,
    },
    /// Operation with syntax of its own.
    Operation {
        /// Operator.
        operator: Operator,
        /// Operands in the order of the source.
        operands: Box<[ExprId]>,
    },
    /// Function call: `f(a)` or `target.f(a)`.
    Call {
        /// Function name. An absolute name begins with a dot.
        function: Box<str>,
        /// Receiver.
        target: Option<ExprId>,
        /// Arguments.
        args: Box<[ExprId]>,
    },
    /// List literal.
    List(Box<[Element]>),
    /// Map literal.
    Map(Box<[MapEntry]>),
    /// Message literal.
    Message {
        /// Type name. An absolute name begins with a dot.
        name: Box<str>,
        /// Initialized fields.
        fields: Box<[FieldInit]>,
    },
    /// Fold over a list or map.
    Comprehension(Box<Comprehension>),
}

/// Element of a list literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Value.
    pub value: ExprId,
    /// `true` for `?value`: absent if the value is `optional.none()`.
    pub is_optional: bool,
}

/// Entry of a map literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// Key.
    pub key: ExprId,
    /// Value.
    pub value: ExprId,
    /// `true` for `?key: value`: absent if the value is `optional.none()`.
    pub is_optional: bool,
}

/// Field of a message literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldInit {
    /// Field name, without backquotes.
    pub name: Box<str>,
    /// Value.
    pub value: ExprId,
    /// `true` for `?name: value`: unset if the value is `optional.none()`.
    pub is_optional: bool,
}

/// Fold: sets the accumulator to `accu_init`; then, for each element of `iter_range` while `loop_condition` holds,
/// to `loop_step`; and returns `result`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comprehension {
    /// Element of a list or key of a map; with `iter_var2`, index of a list or key of a map.
    pub iter_var: Box<str>,
    /// Element of a list or value of a map.
    pub iter_var2: Option<Box<str>>,
    /// List or map.
    pub iter_range: ExprId,
    /// Name of the accumulator.
    pub accu_var: Box<str>,
    /// First value of the accumulator.
    pub accu_init: ExprId,
    /// Condition for the next step.
    pub loop_condition: ExprId,
    /// Next value of the accumulator.
    pub loop_step: ExprId,
    /// Value of the comprehension.
    pub result: ExprId,
}

/// Macro call before its expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroCall {
    /// Name of the macro.
    pub function: Box<str>,
    /// Receiver.
    pub target: Option<ExprId>,
    /// Arguments.
    pub args: Box<[ExprId]>,
}

/// Parsed expression. Two are equal if their trees are, whatever their ids, spans and sources.
///
/// Arguments of macros that no expansion uses, such as the names of variables, have ids but no parent.
#[derive(Clone, Debug)]
pub struct Ast {
    pub(crate) source: Box<str>,
    pub(crate) nodes: Vec<Expr>,
    pub(crate) macro_calls: BTreeMap<ExprId, MacroCall>,
    pub(crate) root: ExprId,
}

impl Ast {
    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the number of ids.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an AST has a root, so it is never empty")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the root.
    #[must_use]
    pub fn root(&self) -> &Expr {
        self.expr(self.root)
    }

    /// Returns an expression.
    ///
    /// # Panics
    /// If the id is of another AST and out of range.
    #[must_use]
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.nodes[id.index()]
    }

    /// Returns the line and column of an expression.
    #[must_use]
    pub fn location(&self, id: ExprId) -> Location {
        Location::of(&self.source, self.expr(id).span.start)
    }

    /// `true` if the expression selects a field of a variable: `variable.field`, `variable.?field` or
    /// `has(variable.field)`.
    #[must_use]
    pub fn selects_field(&self, variable: &str, field: &str) -> bool {
        let is_variable =
            |id: ExprId| matches!(&self.expr(id).kind, ExprKind::Ident(name) if **name == *variable);
        let is_field = |id: ExprId| matches!(&self.expr(id).kind, ExprKind::Literal(Literal::String(text)) if **text == *field);
        let mut rest = vec![self.root];
        while let Some(id) = rest.pop() {
            let kind = &self.expr(id).kind;
            let is_found = match kind {
                ExprKind::Select { operand, field: selected, .. } => {
                    is_variable(*operand) && **selected == *field
                }
                ExprKind::Operation { operator: Operator::OptionalSelect, operands } => {
                    matches!(operands[..], [operand, selected] if is_variable(operand) && is_field(selected))
                }
                _ => false,
            };
            if is_found {
                return true;
            }
            kind.for_each_child(|child| rest.push(child));
        }
        false
    }

    /// Returns the macro call that expanded to an expression.
    #[must_use]
    pub fn macro_call(&self, id: ExprId) -> Option<&MacroCall> {
        self.macro_calls.get(&id)
    }
}
