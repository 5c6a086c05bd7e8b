//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
//!
//! A policy is compiled once ([`ValidatingPolicy`], [`MutatingPolicy`]) and evaluated for each request that it matches,
//! with a [`PolicyInput`]. Costs, limits and texts are those of upstream. Matching of requests, bindings and parameters
//! are the server's.

mod conditions;
mod environment;
mod evaluation;
mod expression;
mod mutating;
mod scope;
mod type_check;
mod validating;
mod write_checks;

pub use conditions::{MatchConditions, MatchOutcome};
pub use mutating::{MutatingPolicy, Mutation, MutationError, Mutator};
pub use scope::PolicyInput;
pub use type_check::{check_types, definition_schema, definitions_of};
pub use validating::{Denial, ValidatingPolicy, ValidationOutcome};
pub use write_checks::validate_policy;

/// Budget for all validations of a policy, in units of cost.
const RUNTIME_BUDGET: u64 = 10_000_000;
/// Budget for all match conditions of a policy or webhook.
const MATCH_BUDGET: u64 = 2_500_000;
/// Largest cost of one expression.
const EXPRESSION_LIMIT: u64 = 1_000_000;

/// Policy for errors of evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Errors reject the request.
    Fail,
    /// Errors are ignored.
    Ignore,
}

impl FailurePolicy {
    /// Reads `failurePolicy`; the default is `Fail`.
    #[must_use]
    pub fn from_name(name: &str) -> FailurePolicy {
        if name == "Ignore" { FailurePolicy::Ignore } else { FailurePolicy::Fail }
    }
}

/// Items of a list field.
fn items<'a>(value: &'a setpoint_api::Value, field: &str) -> &'a [setpoint_api::Value] {
    value.get(field).and_then(setpoint_api::Value::as_list).unwrap_or_default()
}

/// `true` if the policy declares the kind of its parameters.
fn has_params(spec: &setpoint_api::Value) -> bool {
    spec.get("paramKind").is_some_and(|kind| !kind.is_null())
}

#[cfg(test)]
mod tests;
