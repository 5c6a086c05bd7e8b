//! Compiled expressions.

use setpoint_cel::{Environment, Program, Type, check, estimate, parse};

/// Error of a compilation, with upstream's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CompileError {
    /// The expression is wrong.
    Invalid(String),
    /// The expression cannot be planned.
    Internal(String),
}

impl CompileError {
    pub(super) fn text(&self) -> &str {
        match self {
            CompileError::Invalid(text) | CompileError::Internal(text) => text,
        }
    }
}

/// An expression and its program.
#[derive(Debug)]
pub(super) struct Expression {
    /// Source, for messages.
    pub source: Box<str>,
    /// Program, or the error of the compilation.
    pub program: Result<Program, CompileError>,
    /// Type of the result; `None` if the compilation failed.
    pub output: Option<Type>,
    /// Estimated cost; values whose size has no bound count as unbounded.
    pub cost_max: u64,
}

impl Expression {
    /// Compiles an expression whose result has one of the types; any type if there are none.
    pub(super) fn compile(source: &str, environment: &Environment, types: &[Type]) -> Expression {
        let compiled = compile(source, environment, types);
        let (program, output, cost_max) = match compiled {
            Ok((program, output, cost_max)) => (Ok(program), Some(output), cost_max),
            Err(error) => (Err(error), None, 0),
        };
        Expression { source: source.into(), program, output, cost_max }
    }
}

fn compile(
    source: &str,
    environment: &Environment,
    types: &[Type],
) -> Result<(Program, Type, u64), CompileError> {
    let failed = |text: String| CompileError::Invalid(format!("compilation failed: {text}"));
    let ast = parse(source).map_err(|error| failed(error.to_string()))?;
    let checked = check(environment, ast).map_err(|errors| failed(errors.to_string()))?;
    if !types.is_empty() {
        checked.require_result_type(types).map_err(|error| CompileError::Invalid(error.to_string()))?;
    }
    let output = checked.result_type().clone();
    let program = Program::new(checked.ast())
        .map_err(|error| CompileError::Internal(format!("program instantiation failed: {error}")))?;
    Ok((program, output, estimate(&checked, None).max))
}
