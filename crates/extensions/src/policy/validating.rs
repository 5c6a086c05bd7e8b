//! Validating policies.

use setpoint_api::Value as Json;
use setpoint_cel::{Type, Value};

use super::conditions::{MatchConditions, MatchOutcome};
use super::environment::{Options, VariableTypes, environment, variable_type};
use super::evaluation::{Evaluated, OUT_OF_BUDGET, OutOfBudget, evaluate};
use super::expression::Expression;
use super::scope::{PolicyInput, Scope, Variable};
use super::{FailurePolicy, RUNTIME_BUDGET, has_params, items};

/// Longest message of a `messageExpression`, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// Longest value of an audit annotation, in bytes.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;

/// Reason of a denial without one.
const DEFAULT_REASON: &str = "Invalid";

/// A compiled ValidatingAdmissionPolicy.
#[derive(Debug)]
pub struct ValidatingPolicy {
    failure_policy: FailurePolicy,
    variables: Vec<Variable>,
    conditions: MatchConditions,
    validations: Vec<Validation>,
    annotations: Vec<(Box<str>, Expression)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: Box<str>,
    message_expression: Option<Expression>,
    reason: Box<str>,
}

/// A validation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Position of the validation; `None` for an error in an audit annotation, which rejects the request whatever the
    /// actions of the binding.
    pub index: Option<usize>,
    /// Message.
    pub message: String,
    /// Reason of the Status; empty after an error.
    pub reason: String,
}

/// Result of a policy for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationOutcome {
    /// Failed validations, in order.
    pub denials: Vec<Denial>,
    /// Audit annotations, without the name of the policy.
    pub annotations: Vec<(String, String)>,
}

/// Compiles the composed variables of a policy, and returns their types.
pub(super) fn compile_variables(spec: &Json, options: Options) -> (Vec<Variable>, VariableTypes) {
    let (mut variables, mut types) = (Vec::new(), VariableTypes::new());
    for variable in items(spec, "variables") {
        let name: Box<str> = variable.str_at(&["name"]).into();
        let environment = environment(options, Some(&types));
        let expression = Expression::compile(variable.str_at(&["expression"]), &environment, &[]);
        types.insert(name.clone(), expression.output.as_ref().map_or(Type::Dyn, variable_type));
        variables.push(Variable { name, expression });
    }
    (variables, types)
}

impl ValidatingPolicy {
    /// Compiles a policy. Errors of the compilation become errors of the evaluation.
    #[must_use]
    pub fn compile(policy: &Json) -> ValidatingPolicy {
        let spec = policy.get("spec").unwrap_or(&Json::Null);
        let options =
            Options { has_params: has_params(spec), has_authorizer: true, has_mutation_types: false };
        let (variables, types) = compile_variables(spec, options);
        let environment = environment(options, Some(&types));
        let without_authorizer =
            super::environment::environment(Options { has_authorizer: false, ..options }, Some(&types));
        let validation = |validation: &Json| {
            let message = validation.str_at(&["messageExpression"]);
            let message = (!message.is_empty())
                .then(|| Expression::compile(message, &without_authorizer, &[Type::String]));
            let reason = validation.str_at(&["reason"]);
            Validation {
                expression: Expression::compile(
                    validation.str_at(&["expression"]),
                    &environment,
                    &[Type::Bool],
                ),
                message: validation.str_at(&["message"]).into(),
                message_expression: message,
                reason: if reason.is_empty() { DEFAULT_REASON } else { reason }.into(),
            }
        };
        let annotation = |annotation: &Json| {
            let source = annotation.str_at(&["valueExpression"]);
            let expression = Expression::compile(source, &environment, &[Type::String, Type::Null]);
            (annotation.str_at(&["key"]).into(), expression)
        };
        ValidatingPolicy {
            failure_policy: FailurePolicy::from_name(spec.str_at(&["failurePolicy"])),
            conditions: MatchConditions::compile(
                items(spec, "matchConditions"),
                options.has_params,
                Some(&types),
            ),
            validations: items(spec, "validations").iter().map(validation).collect(),
            annotations: items(spec, "auditAnnotations").iter().map(annotation).collect(),
            variables,
        }
    }

    /// Policy for errors.
    #[must_use]
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// Estimated cost of one evaluation of the policy.
    #[must_use]
    pub fn cost_max(&self) -> u64 {
        let variables = self.variables.iter().map(|variable| &variable.expression);
        let of = |validation: &'_ Validation| {
            let message = validation.message_expression.as_ref().map_or(0, |message| message.cost_max);
            validation.expression.cost_max.saturating_add(message)
        };
        let validations = self.validations.iter().map(of);
        let annotations = self.annotations.iter().map(|(_, annotation)| annotation.cost_max);
        let costs = variables.map(|variable| variable.cost_max).chain(validations).chain(annotations);
        costs.fold(self.conditions.cost_max(), u64::saturating_add)
    }

    /// Evaluates the policy for a request.
    #[must_use]
    pub fn validate(&self, input: &PolicyInput<'_>) -> ValidationOutcome {
        if !self.conditions.is_empty() {
            match self.conditions.matches_with(input, &self.variables, self.failure_policy) {
                MatchOutcome::Matched => {}
                MatchOutcome::Skipped => return ValidationOutcome::default(),
                MatchOutcome::Failed(message) => return self.failed(message),
            }
        }
        let mut budget = RUNTIME_BUDGET;
        let scope = Scope::new(*input, true, &self.variables);
        let results: Result<Vec<_>, OutOfBudget> = self
            .validations
            .iter()
            .map(|validation| evaluate(&validation.expression, &scope, &mut budget))
            .collect();
        let Ok(results) = results else { return self.failed(OUT_OF_BUDGET.to_owned()) };
        let results: Vec<Result<bool, String>> =
            results.into_iter().map(|result| result.map(|value| value.as_bool() == Some(true))).collect();
        let messages = self.messages(input, budget);
        let mut outcome = ValidationOutcome::default();
        for (index, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            let error = match (result, &messages) {
                (Err(error), _) => error,
                (Ok(_), Err(_)) => format!("failed messageExpression: {OUT_OF_BUDGET}"),
                (Ok(true), _) => continue,
                (Ok(false), Ok(messages)) => {
                    let message = messages.get(index).cloned().flatten();
                    let message = message.unwrap_or_else(|| validation.default_message());
                    let reason = validation.reason.to_string();
                    outcome.denials.push(Denial { index: Some(index), message, reason });
                    continue;
                }
            };
            if self.failure_policy == FailurePolicy::Fail {
                outcome.denials.push(Denial { index: Some(index), message: error, reason: String::new() });
            }
        }
        self.annotate(input, &mut outcome);
        outcome
    }

    /// Denies the request because of an error, unless errors are ignored.
    fn failed(&self, message: String) -> ValidationOutcome {
        let denial = Denial { index: Some(0), message, reason: String::new() };
        let denials = if self.failure_policy == FailurePolicy::Fail { vec![denial] } else { Vec::new() };
        ValidationOutcome { denials, annotations: Vec::new() }
    }

    /// Evaluates the message expressions. Messages that are empty, too long, or have several lines are dropped.
    fn messages(&self, input: &PolicyInput<'_>, mut budget: u64) -> Result<Vec<Option<String>>, OutOfBudget> {
        let scope = Scope::new(*input, false, &self.variables);
        let message = |validation: &Validation| {
            let Some(expression) = &validation.message_expression else { return Ok(None) };
            let value = evaluate(expression, &scope, &mut budget)?.ok();
            let text = value.as_ref().and_then(Value::as_str).map(str::trim).unwrap_or_default();
            let is_usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
            Ok(is_usable.then(|| text.to_owned()))
        };
        self.validations.iter().map(message).collect()
    }

    /// Evaluates the audit annotations.
    fn annotate(&self, input: &PolicyInput<'_>, outcome: &mut ValidationOutcome) {
        let mut budget = RUNTIME_BUDGET;
        // Expressions may name the authorizer here, but upstream does not bind it.
        let scope = Scope::new(*input, false, &self.variables);
        for (key, expression) in &self.annotations {
            let Ok(result) = evaluate(expression, &scope, &mut budget) else {
                *outcome = self.failed(OUT_OF_BUDGET.to_owned());
                return;
            };
            match annotation_value(expression, result) {
                Ok(Some(value)) => outcome.annotations.push((key.to_string(), value)),
                Ok(None) => {}
                Err((_, true)) if self.failure_policy == FailurePolicy::Ignore => {}
                Err((message, _)) => {
                    outcome.denials.push(Denial { index: None, message, reason: String::new() });
                }
            }
        }
    }
}

impl Validation {
    fn default_message(&self) -> String {
        match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.source.trim()),
            message => message.to_owned(),
        }
    }
}

/// Returns the value of an audit annotation; or an error, and `true` if the failure policy can ignore it.
fn annotation_value(
    expression: &Expression,
    result: Evaluated<'_>,
) -> Result<Option<String>, (String, bool)> {
    match result {
        Err(error) => Err((error, true)),
        Ok(Value::Null) => Ok(None),
        Ok(Value::String(text)) => {
            let text = text.trim();
            let end =
                (0..=ANNOTATION_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
            Ok((!text.is_empty()).then(|| text[..end.unwrap_or(0)].to_owned()))
        }
        Ok(other) => Err((
            format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or \
                 null.",
                expression.source,
                other.type_name()
            ),
            false,
        )),
    }
}
