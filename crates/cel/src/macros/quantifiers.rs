//! `all`, `exists` and `exists_one`, with one or two variables.

use super::{Expansion, Variables};
use crate::ast::ExprId;
use crate::builder::Built;
use crate::literal::Literal;
use crate::operator::Operator;

impl Expansion<'_> {
    pub(super) fn all(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let (variables, predicate) = self.quantified(args)?;
        let init = self.literal(Literal::Bool(true));
        let accumulator = self.accumulator();
        let condition = self.operation(Operator::NotStrictlyFalse, &[accumulator]);
        let accumulator = self.accumulator();
        let step = self.operation(Operator::And, &[accumulator, predicate]);
        let result = self.accumulator();
        Ok(self.fold(range, variables, [init, condition, step, result]))
    }

    pub(super) fn exists(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let (variables, predicate) = self.quantified(args)?;
        let init = self.literal(Literal::Bool(false));
        let accumulator = self.accumulator();
        let not = self.operation(Operator::Not, &[accumulator]);
        let condition = self.operation(Operator::NotStrictlyFalse, &[not]);
        let accumulator = self.accumulator();
        let step = self.operation(Operator::Or, &[accumulator, predicate]);
        let result = self.accumulator();
        Ok(self.fold(range, variables, [init, condition, step, result]))
    }

    pub(super) fn exists_one(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let (variables, predicate) = self.quantified(args)?;
        let init = self.literal(Literal::Int(0));
        let condition = self.literal(Literal::Bool(true));
        let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
        let count = self.operation(Operator::Add, &[accumulator, one]);
        let step = self.filtered(Some(predicate), count);
        let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
        let result = self.operation(Operator::Equals, &[accumulator, one]);
        Ok(self.fold(range, variables, [init, condition, step, result]))
    }

    /// Returns the variables and the predicate.
    fn quantified(&self, args: &[ExprId]) -> Built<(Variables, ExprId)> {
        match *args {
            [key, value, predicate] => Ok((self.iter_variables(key, value)?, predicate)),
            _ => Ok(((self.iter_variable(args[0], "argument must be a simple name")?, None), args[1])),
        }
    }
}
