//! Errors of evaluation and planning, with the texts of cel-go.

use std::borrow::Cow;

/// Error of an evaluation. `Display` is the message of cel-go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The cost exceeds the limit. No operator absorbs this error.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// Any other error, which `&&`, `||` and macros can absorb.
    #[error("{0}")]
    Message(Cow<'static, str>),
}

impl EvalError {
    pub(crate) const NO_SUCH_OVERLOAD: EvalError = EvalError::constant("no such overload");

    pub(crate) fn new(message: String) -> EvalError {
        EvalError::Message(message.into())
    }

    pub(crate) const fn constant(message: &'static str) -> EvalError {
        EvalError::Message(Cow::Borrowed(message))
    }
}

/// Error in the preparation of an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A conversion of a constant fails.
    #[error("{0}")]
    Constant(EvalError),
    /// A pattern is not a regular expression.
    #[error("{0}")]
    Pattern(EvalError),
    /// The expression is nested more deeply than [`super::PLAN_DEPTH_MAX`].
    #[error("expression recursion limit exceeded: {}", super::PLAN_DEPTH_MAX)]
    Depth,
}
