//! Tables of expressions with their results, errors and costs.

mod basics;
mod costs;
mod hostile;
mod json;
mod libraries;

use setpoint_api::Value as Json;

use crate::{Activation, Decl, EvalError, Evaluation, Program, Value, parse};

/// Cost limit of a rule in Kubernetes.
const LIMIT: u64 = 1_000_000;

/// Evaluates an expression without variables.
fn evaluate(source: &str) -> Evaluation<'static> {
    evaluate_with(source, &Activation::new(), LIMIT)
}

fn evaluate_with<'a>(source: &str, activation: &Activation<'a>, limit: u64) -> Evaluation<'a> {
    let ast = parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    match Program::new(&ast) {
        Ok(program) => program.evaluate(activation, limit),
        Err(error) => Evaluation { result: Err(EvalError::new(error.to_string())), cost: 0 },
    }
}

/// Evaluates an expression on `self`.
fn evaluate_self<'a>(source: &str, value: &'a Json, decl: Option<&'a Decl>) -> Evaluation<'a> {
    let mut activation = Activation::new();
    activation.bind("self", Value::from_json(value, decl).unwrap());
    evaluate_with(source, &activation, LIMIT)
}

/// Checks expressions that must be true.
fn assert_true(sources: &[&str]) {
    for source in sources {
        let result = evaluate(source).result;
        assert!(matches!(result, Ok(Value::Bool(true))), "{source}: {result:?}");
    }
}

/// Checks expressions that must fail with a message.
fn assert_errors(cases: &[(&str, &str)]) {
    for (source, message) in cases {
        match evaluate(source).result {
            Err(error) => assert_eq!(error.to_string(), *message, "{source}"),
            Ok(value) => panic!("{source}: {value:?}"),
        }
    }
}
