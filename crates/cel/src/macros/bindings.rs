//! `has`, `cel.bind`, `optMap`, `optFlatMap` and `sortBy`.

use super::{Expansion, SORT_BY_KEYS, SORTED_LIST, UNUSED_VARIABLE};
use crate::ast::{Comprehension, ExprId, ExprKind};
use crate::builder::Built;
use crate::literal::Literal;
use crate::operator::Operator;

impl Expansion<'_> {
    pub(super) fn has(&mut self, args: &[ExprId]) -> Built {
        match self.builder.kind(args[0]) {
            ExprKind::Select { operand, field, .. } => {
                let kind = ExprKind::Select { operand: *operand, field: field.clone(), test_only: true };
                Ok(self.node(kind))
            }
            _ => self.failure(args[0], "invalid argument to has() macro"),
        }
    }

    /// Binds a variable; `None` if its name is not an identifier.
    pub(super) fn bind(&mut self, args: &[ExprId]) -> Option<ExprId> {
        let ExprKind::Ident(name) = self.builder.kind(args[0]) else { return None };
        let name = name.clone();
        Some(self.bound(name, args[1], args[2]))
    }

    /// Binds the list to a variable, and sorts it by its image under the key.
    pub(super) fn sort_by(&mut self, target: ExprId, args: &[ExprId]) -> Built {
        if matches!(
            self.builder.kind(target),
            ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Message { .. }
        ) {
            return self.failure(
                target,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
        }
        let input = self.ident(SORTED_LIST);
        let keys = self.map(input, args)?;
        let input = self.ident(SORTED_LIST);
        let sorted = self.call(SORT_BY_KEYS, Some(input), &[keys]);
        Ok(self.bound(SORTED_LIST.into(), target, sorted))
    }

    pub(super) fn opt_map(&mut self, target: ExprId, args: &[ExprId]) -> Built {
        let name = self.variable(args[0], "optMap() variable name must be a simple identifier")?;
        let value = self.optional_value(target)?;
        let mapped = self.bound(name, value, args[1]);
        let some = self.call("optional.of", None, &[mapped]);
        Ok(self.if_present(target, some))
    }

    pub(super) fn opt_flat_map(&mut self, target: ExprId, args: &[ExprId]) -> Built {
        let name = self.variable(args[0], "optFlatMap() variable name must be a simple identifier")?;
        let value = self.optional_value(target)?;
        let mapped = self.bound(name, value, args[1]);
        Ok(self.if_present(target, mapped))
    }

    /// Adds `target.value()` on a copy of the target.
    fn optional_value(&mut self, target: ExprId) -> Built {
        let copy = self.builder.copy(target)?;
        Ok(self.call("value", Some(copy), &[]))
    }

    /// Adds `target.hasValue() ? value : optional.none()`.
    fn if_present(&mut self, target: ExprId, value: ExprId) -> ExprId {
        let has_value = self.call("hasValue", Some(target), &[]);
        let none = self.call("optional.none", None, &[]);
        self.operation(Operator::Conditional, &[has_value, value, none])
    }

    /// Adds `result` with a variable bound to `value`: a fold over nothing, whose accumulator is the variable.
    fn bound(&mut self, name: Box<str>, value: ExprId, result: ExprId) -> ExprId {
        let iter_range = self.list(&[]);
        let loop_condition = self.literal(Literal::Bool(false));
        let loop_step = self.ident(&name);
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            iter_var: UNUSED_VARIABLE.into(),
            iter_var2: None,
            iter_range,
            accu_var: name,
            accu_init: value,
            loop_condition,
            loop_step,
            result,
        })))
    }
}
