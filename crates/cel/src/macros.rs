//! Macros: calls that the parser replaces by comprehensions, with the expansions and errors of cel-go.

mod bindings;
mod quantifiers;
mod transforms;

use crate::ast::{Comprehension, ExprId, ExprKind, MacroCall};
use crate::builder::{Builder, Built};
use crate::error::{Failure, ParseErrorKind};
use crate::literal::Literal;
use crate::operator::Operator;
use crate::source::Span;

/// Accumulator variable of the expansions. No source can name it.
pub const ACCUMULATOR: &str = "@result";

/// Iteration variable of expansions that bind a variable and iterate over nothing.
pub const UNUSED_VARIABLE: &str = "#unused";

/// Function that sorts a list by the order of a list of keys.
pub const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";

/// Variable that holds the list under `sortBy`.
const SORTED_LIST: &str = "@__sortBy_input__";

/// Function that inserts a key and value, or the entries of a map, into the accumulator.
pub const MAP_INSERT: &str = "cel.@mapInsert";

/// Earlier name of the accumulator, which cel-go still rejects as an iteration variable.
const OLD_ACCUMULATOR: &str = "__result__";

/// Expands a call if it is one of a macro; otherwise returns `None`.
pub(crate) fn expand(builder: &mut Builder, span: Span, call: &MacroCall) -> Built<Option<ExprId>> {
    let mut expansion = Expansion { builder, span };
    let args = &*call.args;
    let expanded = match (call.target, &*call.function, args.len()) {
        (None, "has", 1) => expansion.has(args)?,
        (Some(range), "all", 2 | 3) => expansion.all(range, args)?,
        (Some(range), "exists", 2 | 3) => expansion.exists(range, args)?,
        (Some(range), "exists_one" | "existsOne", 2 | 3) => expansion.exists_one(range, args)?,
        (Some(range), "map", 2 | 3) => expansion.map(range, args)?,
        (Some(range), "filter", 2) => expansion.filter(range, args)?,
        (Some(range), "transformList", 3 | 4) => expansion.transform_list(range, args)?,
        (Some(range), "transformMap", 3 | 4) => expansion.transform_map(range, args)?,
        (Some(range), "transformMapEntry", 3 | 4) => expansion.transform_map_entry(range, args)?,
        (Some(target), "sortBy", 2) => expansion.sort_by(target, args)?,
        (Some(target), "bind", 3) if expansion.is_ident(target, "cel") => match expansion.bind(args) {
            Some(bound) => bound,
            // The checker rejects the call: by the name of the variable, or because the macro is not enabled.
            None => return Ok(None),
        },
        (Some(target), "optMap", 2) => expansion.opt_map(target, args)?,
        (Some(target), "optFlatMap", 2) => expansion.opt_flat_map(target, args)?,
        _ => return Ok(None),
    };
    builder.record_macro(expanded, call.clone()).map(Some)
}

/// One expansion; its nodes have the span of the call.
struct Expansion<'a> {
    builder: &'a mut Builder,
    span: Span,
}

/// Iteration variables of a macro: one, or index and value.
type Variables = (Box<str>, Option<Box<str>>);

impl Expansion<'_> {
    fn failure<T>(&self, argument: ExprId, message: impl Into<String>) -> Built<T> {
        Err(Failure::new(self.builder.span(argument).start, ParseErrorKind::Macro(message.into())))
    }

    fn is_ident(&self, id: ExprId, name: &str) -> bool {
        matches!(self.builder.kind(id), ExprKind::Ident(ident) if **ident == *name)
    }

    /// Returns the name of an argument that must be a variable.
    fn variable(&self, argument: ExprId, message: &str) -> Built<Box<str>> {
        match self.builder.kind(argument) {
            ExprKind::Ident(name) => Ok(name.clone()),
            _ => self.failure(argument, message),
        }
    }

    /// Returns the iteration variable of a macro with one variable.
    fn iter_variable(&self, argument: ExprId, message: &str) -> Built<Box<str>> {
        let name = self.variable(argument, message)?;
        if *name == *ACCUMULATOR || *name == *OLD_ACCUMULATOR {
            return self.failure(argument, "iteration variable overwrites accumulator variable");
        }
        Ok(name)
    }

    /// Returns the iteration variables of a macro with two.
    fn iter_variables(&self, first: ExprId, second: ExprId) -> Built<Variables> {
        const MESSAGE: &str = "argument must be a simple name";
        let (key, value) = (self.variable(first, MESSAGE)?, self.variable(second, MESSAGE)?);
        if key == value {
            return self.failure(second, format!("duplicate variable name: {key}"));
        }
        self.iter_variable(first, MESSAGE)?;
        self.iter_variable(second, MESSAGE)?;
        Ok((key, Some(value)))
    }

    fn node(&mut self, kind: ExprKind) -> ExprId {
        self.builder.expand(self.span, kind)
    }

    fn literal(&mut self, literal: Literal) -> ExprId {
        self.node(ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> ExprId {
        self.node(ExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> ExprId {
        self.ident(ACCUMULATOR)
    }

    fn list(&mut self, elements: &[ExprId]) -> ExprId {
        self.node(Builder::list_of(elements))
    }

    fn operation(&mut self, operator: Operator, operands: &[ExprId]) -> ExprId {
        self.node(ExprKind::Operation { operator, operands: operands.into() })
    }

    fn call(&mut self, function: &str, target: Option<ExprId>, args: &[ExprId]) -> ExprId {
        self.node(ExprKind::Call { function: function.into(), target, args: args.into() })
    }

    /// Adds `accumulator + [element]`.
    fn append(&mut self, element: ExprId) -> ExprId {
        let accumulator = self.accumulator();
        let list = self.list(&[element]);
        self.operation(Operator::Add, &[accumulator, list])
    }

    /// Adds `filter ? step : accumulator`, or the step itself without a filter.
    fn filtered(&mut self, filter: Option<ExprId>, step: ExprId) -> ExprId {
        let Some(filter) = filter else { return step };
        let accumulator = self.accumulator();
        self.operation(Operator::Conditional, &[filter, step, accumulator])
    }

    /// Adds a fold over every element, whose result is the accumulator.
    fn fold_all(&mut self, range: ExprId, variables: Variables, init: ExprId, step: ExprId) -> ExprId {
        let condition = self.literal(Literal::Bool(true));
        let result = self.accumulator();
        self.fold(range, variables, [init, condition, step, result])
    }

    /// Adds a fold; the parts are init, condition, step and result.
    fn fold(&mut self, iter_range: ExprId, variables: Variables, parts: [ExprId; 4]) -> ExprId {
        let [accu_init, loop_condition, loop_step, result] = parts;
        let (iter_var, iter_var2) = variables;
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            iter_var,
            iter_var2,
            iter_range,
            accu_var: ACCUMULATOR.into(),
            accu_init,
            loop_condition,
            loop_step,
            result,
        })))
    }
}
