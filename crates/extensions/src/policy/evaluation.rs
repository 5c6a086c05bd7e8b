//! Evaluation of expressions within a budget.

use setpoint_cel::Value;

use super::EXPRESSION_LIMIT;
use super::expression::Expression;
use super::scope::Scope;

/// Text of the error if the budget is exhausted.
pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfBudget;

/// Value of an expression, or the text of its error.
pub(super) type Evaluated<'e> = Result<Value<'e>, String>;

/// Evaluates an expression and reduces the budget.
pub(super) fn evaluate<'e>(
    expression: &Expression,
    scope: &'e Scope<'e>,
    budget: &mut u64,
) -> Result<Evaluated<'e>, OutOfBudget> {
    let program = match &expression.program {
        Ok(program) => program,
        Err(error) => return Ok(Err(format!("compilation error: {}", error.text()))),
    };
    let evaluation = program.evaluate(scope.bindings(), EXPRESSION_LIMIT);
    let cost = evaluation.cost.saturating_add(scope.take_cost());
    *budget = budget.checked_sub(cost).ok_or(OutOfBudget)?;
    Ok(evaluation
        .result
        .map_err(|error| format!("expression '{}' resulted in error: {error}", expression.source)))
}
