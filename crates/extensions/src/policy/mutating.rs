//! Mutating policies.

use setpoint_api::Value as Json;
use setpoint_cel::{ListValue, MapValue, Type, Value};

use super::conditions::{MatchConditions, MatchOutcome};
use super::environment::{Options, environment};
use super::evaluation::{OUT_OF_BUDGET, evaluate};
use super::expression::Expression;
use super::scope::{PolicyInput, Scope, Variable};
use super::validating::compile_variables;
use super::{FailurePolicy, RUNTIME_BUDGET, has_params, items};

/// Type of applied configurations.
const OBJECT: &str = "Object";
/// Type of JSON patch operations.
const JSON_PATCH: &str = "JSONPatch";

/// A compiled MutatingAdmissionPolicy.
#[derive(Debug)]
pub struct MutatingPolicy {
    failure_policy: FailurePolicy,
    variables: Vec<Variable>,
    conditions: MatchConditions,
    mutators: Vec<Mutator>,
    /// `true` if the policy runs again when a later plugin changes the object.
    pub is_reinvoked: bool,
}

/// A mutation of a policy.
#[derive(Debug)]
pub struct Mutator {
    is_patch: bool,
    expression: Expression,
}

/// Result of a mutation, to be applied to the object.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// Configuration to merge by the schema of the kind, without its type.
    Apply(Json),
    /// Operations of a JSON patch.
    Patch(Json),
}

/// Error of a mutation, with upstream's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutationError(pub String);

impl MutatingPolicy {
    /// Compiles a policy. Errors of the compilation become errors of the evaluation.
    #[must_use]
    pub fn compile(policy: &Json) -> MutatingPolicy {
        let spec = policy.get("spec").unwrap_or(&Json::Null);
        let options =
            Options { has_params: has_params(spec), has_authorizer: true, has_mutation_types: false };
        let (variables, types) = compile_variables(spec, options);
        let environment = environment(Options { has_mutation_types: true, ..options }, Some(&types));
        let mutator = |mutation: &Json| {
            let is_patch = mutation.str_at(&["patchType"]) == JSON_PATCH;
            let field = if is_patch { "jsonPatch" } else { "applyConfiguration" };
            let source = mutation.str_at(&[field, "expression"]);
            let expression = Expression::compile(source, &environment, &[result_type(is_patch)]);
            Mutator { is_patch, expression }
        };
        MutatingPolicy {
            failure_policy: FailurePolicy::from_name(spec.str_at(&["failurePolicy"])),
            conditions: MatchConditions::compile(
                items(spec, "matchConditions"),
                options.has_params,
                Some(&types),
            ),
            mutators: items(spec, "mutations").iter().map(mutator).collect(),
            is_reinvoked: spec.str_at(&["reinvocationPolicy"]) == "IfNeeded",
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
        let variables = self.variables.iter().map(|variable| variable.expression.cost_max);
        let mutators = self.mutators.iter().map(|mutator| mutator.expression.cost_max);
        variables.chain(mutators).fold(self.conditions.cost_max(), u64::saturating_add)
    }

    /// Evaluates the match conditions.
    #[must_use]
    pub fn matches(&self, input: &PolicyInput<'_>) -> MatchOutcome {
        self.conditions.matches_with(input, &self.variables, self.failure_policy)
    }

    /// Mutations in order. Each is evaluated with the result of those before.
    #[must_use]
    pub fn mutators(&self) -> &[Mutator] {
        &self.mutators
    }

    /// Evaluates one of the mutations.
    ///
    /// # Errors
    /// If the expression fails.
    pub fn evaluate(&self, mutator: &Mutator, input: &PolicyInput<'_>) -> Result<Mutation, MutationError> {
        if let Err(error) = &mutator.expression.program {
            return Err(MutationError(error.text().to_owned()));
        }
        let mut budget = RUNTIME_BUDGET;
        let scope = Scope::new(*input, true, &self.variables);
        let value = evaluate(&mutator.expression, &scope, &mut budget)
            .map_err(|_| MutationError(OUT_OF_BUDGET.to_owned()))?
            .map_err(MutationError)?;
        if mutator.is_patch { operations(&value) } else { configuration(&value) }
    }
}

/// Type of the result of a mutation.
pub(super) fn result_type(is_patch: bool) -> Type {
    if is_patch { Type::list(Type::named(JSON_PATCH)) } else { Type::named(OBJECT) }
}

fn configuration(value: &Value<'_>) -> Result<Mutation, MutationError> {
    let mut errors = Vec::new();
    check_names(value, OBJECT, &mut errors);
    if !errors.is_empty() {
        return Err(MutationError(format!("type mismatch: {}", errors.join("\n"))));
    }
    value.to_json().map(Mutation::Apply).map_err(|error| MutationError(error.to_string()))
}

fn operations(value: &Value<'_>) -> Result<Mutation, MutationError> {
    let not_an_array = "type mismatch: JSONPatchType.expression should evaluate to array";
    let list = value.as_list().ok_or_else(|| MutationError(not_an_array.to_owned()))?;
    let mut operations = Vec::with_capacity(list.len());
    for item in list.iter() {
        let item = item.map_err(|error| MutationError(error.to_string()))?;
        let Value::Object(operation) = &item else {
            return Err(MutationError(format!(
                "{not_an_array} of JSONPatch, got element of {}",
                item.type_name()
            )));
        };
        let mut errors = Vec::new();
        if let Some(Value::Object(object)) = operation.fields.get("value") {
            // Any path can be set, so the type names the path from its own root.
            let root = object.name.to_string();
            check_names(&Value::Object(object.clone()), &root, &mut errors);
        }
        if !errors.is_empty() {
            return Err(MutationError(format!("type mismatch: {}", errors.join("\n"))));
        }
        operations.push(item.to_json().map_err(|error| {
            MutationError(format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
            ))
        })?);
    }
    Ok(Mutation::Patch(Json::List(operations)))
}

/// Checks that the type of each object names its path from the root.
fn check_names(value: &Value<'_>, path: &str, errors: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if *object.name != *path {
                errors.push(format!(
                    "unexpected type name {:?}, expected {path:?}, which matches field name path from root Object type",
                    object.name
                ));
            }
            for (name, field) in &object.fields {
                check_names(field, &format!("{path}.{name}"), errors);
            }
        }
        // Lists and maps of the object itself contain no constructed objects.
        Value::List(ListValue::Json(..)) | Value::Map(MapValue::Json(..)) => {}
        Value::List(list) => list.iter().flatten().for_each(|item| check_names(&item, path, errors)),
        Value::Map(map) => {
            let values = map.keys().into_iter().filter_map(|key| map.find(&key)?.ok());
            values.for_each(|value| check_names(&value, path, errors));
        }
        Value::Optional(Some(value)) => check_names(value, path, errors),
        _ => {}
    }
}
