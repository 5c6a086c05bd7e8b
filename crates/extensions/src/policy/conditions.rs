//! Match conditions of policies and webhooks.

use setpoint_api::Value as Json;
use setpoint_cel::Type;

use super::environment::{Options, VariableTypes, environment};
use super::evaluation::{OUT_OF_BUDGET, evaluate};
use super::expression::Expression;
use super::scope::{PolicyInput, Scope, Variable};
use super::{FailurePolicy, MATCH_BUDGET};

/// Compiled match conditions.
#[derive(Debug, Default)]
pub struct MatchConditions {
    expressions: Vec<Expression>,
}

/// Result of match conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchOutcome {
    /// All conditions are satisfied.
    Matched,
    /// A condition is not satisfied, or an error is ignored.
    Skipped,
    /// A condition failed, and the failure policy is `Fail`.
    Failed(String),
}

impl MatchConditions {
    /// Compiles the `matchConditions` of a webhook, which has neither parameters nor variables.
    #[must_use]
    pub fn of_webhook(conditions: &[Json]) -> MatchConditions {
        MatchConditions::compile(conditions, false, None)
    }

    pub(super) fn compile(
        conditions: &[Json],
        has_params: bool,
        variables: Option<&VariableTypes>,
    ) -> MatchConditions {
        let options = Options { has_params, has_authorizer: true, has_mutation_types: false };
        let environment = environment(options, variables);
        let compile = |condition: &Json| {
            Expression::compile(condition.str_at(&["expression"]), &environment, &[Type::Bool])
        };
        MatchConditions { expressions: conditions.iter().map(compile).collect() }
    }

    /// `true` if there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Estimated cost of all conditions.
    #[must_use]
    pub fn cost_max(&self) -> u64 {
        self.expressions.iter().map(|expression| expression.cost_max).fold(0, u64::saturating_add)
    }

    /// Evaluates the conditions. `namespaceObject` is null in them.
    #[must_use]
    pub fn matches(&self, input: &PolicyInput<'_>, failure_policy: FailurePolicy) -> MatchOutcome {
        self.matches_with(input, &[], failure_policy)
    }

    pub(super) fn matches_with(
        &self,
        input: &PolicyInput<'_>,
        variables: &[Variable],
        failure_policy: FailurePolicy,
    ) -> MatchOutcome {
        let failed = |text: String| match failure_policy {
            FailurePolicy::Fail => MatchOutcome::Failed(text),
            FailurePolicy::Ignore => MatchOutcome::Skipped,
        };
        let input = PolicyInput { namespace: &Json::Null, ..*input };
        let scope = Scope::new(input, true, variables);
        let (mut budget, mut errors, mut is_unsatisfied) = (MATCH_BUDGET, Vec::new(), false);
        for expression in &self.expressions {
            match evaluate(expression, &scope, &mut budget) {
                Err(_) => return failed(OUT_OF_BUDGET.to_owned()),
                Ok(Err(error)) => errors.push(error),
                Ok(Ok(value)) => is_unsatisfied |= value.as_bool() == Some(false),
            }
        }
        if is_unsatisfied {
            return MatchOutcome::Skipped;
        }
        if errors.is_empty() { MatchOutcome::Matched } else { failed(aggregate(errors)) }
    }
}

/// Joins errors as upstream's aggregate does.
fn aggregate(mut errors: Vec<String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    errors.retain(|error| {
        let is_new = !seen.contains(error);
        if is_new {
            seen.push(error.clone());
        }
        is_new
    });
    if let [only] = &errors[..] {
        return only.clone();
    }
    format!("[{}]", errors.join(", "))
}
