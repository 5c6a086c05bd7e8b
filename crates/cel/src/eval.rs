//! Evaluation of expressions within a cost limit.
//!
//! A [`Program`] is an expression whose names, constants, functions and patterns are resolved once. It evaluates with
//! [`Bindings`] of its variables. Errors are values: `&&`, `||`, `all` and `exists` ignore the error of one operand if
//! another determines the result.
//!
//! ```
//! use setpoint_cel::{Activation, Program, Value, parse};
//!
//! let program = Program::new(&parse("self.size() > 1 && self.all(x, x > 0)").unwrap()).unwrap();
//! let mut activation = Activation::new();
//! activation.bind("self", Value::list(vec![Value::Int(1), Value::Int(2)]));
//! let evaluation = program.evaluate(&activation, 1_000);
//! assert_eq!(evaluation.result.unwrap().as_bool(), Some(true));
//! assert!(evaluation.cost < 20);
//! ```

mod attribute;
mod error;
mod evaluator;
mod fold;
mod node;
mod operators;
mod plan;

#[cfg(test)]
mod tests;

use crate::ast::Ast;
use crate::value::Value;

use evaluator::Evaluator;
use node::{Node, NodeId};
use plan::Planner;

pub use error::{EvalError, ProgramError};
pub(crate) use operators::add_scalars;

/// Largest height of a plan, which bounds the stack of an evaluation.
pub const PLAN_DEPTH_MAX: usize = 600;

/// Expression that is ready to evaluate.
#[derive(Debug)]
pub struct Program {
    nodes: Vec<Node>,
    root: NodeId,
    variables: Vec<Box<str>>,
    slots: usize,
}

/// Values of the variables of an expression.
pub trait Bindings<'a> {
    /// Returns the value of a variable; `None` if it is not bound. An evaluation reads each variable at most once.
    fn resolve(&self, name: &str) -> Option<Value<'a>>;
}

/// Variables by name.
#[derive(Clone, Debug, Default)]
pub struct Activation<'a> {
    variables: Vec<(&'a str, Value<'a>)>,
}

/// Result and cost of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// Value or error.
    pub result: Result<Value<'a>, EvalError>,
    /// Cost in the units of cel-go, also if the evaluation failed.
    pub cost: u64,
}

impl Program {
    /// Plans an expression.
    ///
    /// # Errors
    /// If a constant cannot be converted, a constant pattern is invalid, or the expression is nested too deeply.
    pub fn new(ast: &Ast) -> Result<Program, ProgramError> {
        let mut planner = Planner::new(ast);
        let root = planner.plan(ast.root().id)?;
        let Planner { nodes, variables, slots, .. } = planner;
        Ok(Program { nodes, root, variables, slots })
    }

    /// Names of the variables that the expression reads.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|name| &**name)
    }

    /// Evaluates the expression. An evaluation whose cost exceeds `limit` fails with [`EvalError::CostLimit`].
    pub fn evaluate<'a>(&self, bindings: &dyn Bindings<'a>, limit: u64) -> Evaluation<'a> {
        Evaluator::new(self, bindings, limit).run()
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }
}

impl<'a> Activation<'a> {
    /// Returns an activation without variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a variable.
    pub fn bind(&mut self, name: &'a str, value: Value<'a>) {
        self.variables.push((name, value));
    }
}

impl<'a> Bindings<'a> for Activation<'a> {
    fn resolve(&self, name: &str) -> Option<Value<'a>> {
        self.variables.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    }
}
