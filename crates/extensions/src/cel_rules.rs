//! Validation rules of custom resources: `x-kubernetes-validations`.
//!
//! [`RuleTree`] has the compiled rules of a schema and nothing for nodes without rules at or below them. It is
//! compiled once per version of a kind; its programs are shared by all requests. [`validate_definition`] reports the
//! errors that a definition has because of its rules.

mod compile;
mod definition_check;
mod evaluate;

#[cfg(test)]
mod tests;

pub(crate) use compile::RuleTree;
pub use definition_check::validate_definition;
pub(crate) use evaluate::validate;

/// Largest cost of one evaluation of an expression.
const CALL_COST_MAX: u64 = 1_000_000;
/// Largest cost of all evaluations for one object.
pub(crate) const OBJECT_COST_MAX: u64 = 10_000_000;
