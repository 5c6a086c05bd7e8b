//! Type check of ValidatingAdmissionPolicies against the schemas of the kinds that they match.
//!
//! Expressions are compiled with dynamic objects when a policy is written; a type check finds the fields that a kind
//! does not have, and operands of wrong types. Its warnings are shown in the status and have no other effect.

use setpoint_api::custom::CustomDefinition;
use setpoint_api::{Value as Json, value};
use setpoint_cel::{Decl, Environment, Type, check, parse};

use super::environment::{Options, VariableTypes, environment, variable_type};
use super::items;
use crate::decl::kinds::{declare_built_in, declare_custom};

/// Maximum number of expressions times kinds that are checked; the others are not.
const CHECKS_MAX: usize = 20_000;
/// Bytes of warnings after which no more are added, so that the status remains small.
const WARNINGS_BYTES_MAX: usize = 128 * 1024;

/// Kind whose objects a policy matches, and its declared type.
struct KindDecl {
    /// Kind in warnings, as in `apps/v1, Kind=Deployment`.
    text: String,
    decl: Decl,
}

/// Answers a question about the types of a policy.
///
/// The question has the `variables` and `validations` of the policy, and the `kinds` that it matches and the kind of its
/// `params` as `{"group", "version", "kind", "definition"}`, where `definition` is the name of the
/// CustomResourceDefinition of a custom kind. `schema_of` returns the `openAPIV3Schema` of a definition and version. The
/// answer has the `expressionWarnings` of the status. Kinds without a schema are skipped.
#[must_use]
pub fn check_types(question: &Json, schema_of: &dyn Fn(&str, &str) -> Option<Json>) -> Json {
    let declare = |kind: &Json| {
        let of = |field: &str| kind.str_at(&[field]);
        let (group, version, name) = (of("group"), of("version"), of("kind"));
        let decl = match of("definition") {
            "" => declare_built_in(group, version, name)?,
            definition => declare_custom(name, &schema_of(definition, version)?)?,
        };
        Some(KindDecl { text: format!("{group}/{version}, Kind={name}"), decl })
    };
    let params = question.get("params").filter(|params| !params.is_null());
    let params = params.map(|params| declare(params).map_or(Type::Dyn, |params| Type::from(&params.decl)));
    let mut expressions = expressions(question);
    let mut checks = CHECKS_MAX;
    for kind in items(question, "kinds").iter().filter_map(declare) {
        let environment = environment_of(question, &kind.decl, params.as_ref());
        for expression in &mut expressions {
            if checks == 0 {
                break;
            }
            checks -= 1;
            if let Err(error) = result_type(expression.source, &environment) {
                expression.warnings.push(format!("{}: {error}\n", kind.text));
            }
        }
    }
    let mut bytes = 0;
    let warnings = expressions.into_iter().filter(|expression| !expression.warnings.is_empty());
    let warnings = warnings.map(|expression| (expression.field, expression.warnings.join("\n")));
    let warnings = warnings.take_while(|(_, warning)| {
        let fits = bytes < WARNINGS_BYTES_MAX;
        bytes += warning.len();
        fits
    });
    let warnings = warnings.map(|(field, warning)| value!({"fieldRef": (field), "warning": (warning)}));
    value!({"expressionWarnings": (Json::List(warnings.collect()))})
}

/// Returns the names of the definitions whose schemas the answer to a question depends on.
pub fn definitions_of(question: &Json) -> impl Iterator<Item = &str> {
    let kinds = items(question, "kinds").iter().chain(question.get("params"));
    kinds.map(|kind| kind.str_at(&["definition"])).filter(|name| !name.is_empty())
}

/// Returns the `openAPIV3Schema` of a version of a CustomResourceDefinition.
#[must_use]
pub fn definition_schema(definition: &Json, version: &str) -> Option<Json> {
    CustomDefinition::read(definition)?.version(version)?.schema(definition).cloned()
}

/// An expression of a validation, and the warnings about it.
struct CheckedExpression<'a> {
    field: String,
    source: &'a str,
    warnings: Vec<String>,
}

fn expressions(question: &Json) -> Vec<CheckedExpression<'_>> {
    let validations = items(question, "validations").iter().enumerate();
    let of = |(index, validation): (usize, &'_ Json)| {
        ["expression", "messageExpression"].map(|field| (index, field, validation.str_at(&[field]).len()))
    };
    let fields = validations.flat_map(of);
    let present = fields.filter(|(_, field, len)| *field == "expression" || *len > 0);
    let checked = present.map(|(index, field, _)| CheckedExpression {
        field: format!("spec.validations[{index}].{field}"),
        source: items(question, "validations")[index].str_at(&[field]),
        warnings: Vec::new(),
    });
    checked.collect()
}

/// Returns the environment of the expressions for objects of a kind. Unlike in an evaluation,
/// `authorizer.requestResource` is not declared.
fn environment_of(question: &Json, object: &Decl, params: Option<&Type>) -> Environment {
    let options = Options { has_params: params.is_some(), ..Options::default() };
    let object = Type::from(object);
    let with_types = |variables: &VariableTypes| {
        let environment = environment(options, Some(variables))
            .with_variable("object", object.clone())
            .with_variable("oldObject", object.clone())
            .with_variable("authorizer", Type::named("kubernetes.authorization.Authorizer"));
        match params {
            Some(params) => environment.with_variable("params", params.clone()),
            None => environment,
        }
    };
    let mut variables = VariableTypes::new();
    for variable in items(question, "variables") {
        let result = result_type(variable.str_at(&["expression"]), &with_types(&variables));
        let ty = result.as_ref().map_or(Type::Dyn, variable_type);
        variables.insert(variable.str_at(&["name"]).into(), ty);
    }
    with_types(&variables)
}

/// Returns the type of an expression, or the errors in it.
fn result_type(source: &str, environment: &Environment) -> Result<Type, String> {
    let ast = parse(source).map_err(|error| error.to_string())?;
    let checked = check(environment, ast).map_err(|errors| errors.to_string())?;
    Ok(checked.result_type().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_a_hostile_policy_are_bounded() {
        let source = format!("object.nothing == '{}'", "x".repeat(1000));
        let validations = (0..1000).map(|_| value!({"expression": (source.as_str())}));
        let question = value!({
            "kinds": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
            "validations": (Json::List(validations.collect())),
        });
        let answer = check_types(&question, &|_, _| None);
        let warnings = items(&answer, "expressionWarnings");
        assert!(!warnings.is_empty());
        let bytes: usize = warnings.iter().map(|warning| warning.str_at(&["warning"]).len()).sum();
        assert!(bytes < WARNINGS_BYTES_MAX + 4096, "{bytes}");
    }
}
