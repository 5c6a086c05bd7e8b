//! Compilation of expressions when policies and webhook configurations are written.

use setpoint_api::Value as Json;
use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::structural::PATTERN_STATES_MAX;
use setpoint_cel::{Environment, Type, parse, pattern_states};

use super::environment::{Options, VariableTypes, environment, variable_type};
use super::expression::{CompileError, Expression};
use super::mutating::result_type;
use super::{has_params, items};

/// Longest expression of an audit annotation, in bytes, which the rules of the kind check.
const ANNOTATION_EXPRESSION_BYTES_MAX: usize = 5 * 1024;

/// Maximum number of variables of a policy: each is compiled with the types of all before it.
const VARIABLES_MAX: usize = 5_000;
/// Fields with expressions.
const EXPRESSION_FIELDS: [&str; 3] = ["expression", "messageExpression", "valueExpression"];

/// Compiles the expressions of a policy or webhook configuration, after the validation of its kind. `old` is the object
/// before an update: unchanged match conditions are not compiled again. Other kinds have no expressions.
pub fn validate_policy(kind: &str, new: &Json, old: Option<&Json>, errors: &mut ErrorList) {
    if expression_states(new) > PATTERN_STATES_MAX {
        let detail = "the patterns of the expressions are too large together";
        return errors.push(FieldError::forbidden(&Path::NONE, detail));
    }
    let variables = new.get("spec").map_or(0, |spec| items(spec, "variables").len());
    if variables > VARIABLES_MAX {
        let detail = format!("must have at most {VARIABLES_MAX} items");
        return errors.push(FieldError::forbidden(&Path::root("spec").child("variables"), detail));
    }
    match kind {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => check_policy(kind, new, old, errors),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => check_webhooks(new, old, errors),
        _ => {}
    }
}

/// Estimated states of the patterns of all expressions in a policy or webhook configuration.
fn expression_states(object: &Json) -> u64 {
    let (mut states, mut pending) = (0_u64, vec![object]);
    while let Some(value) = pending.pop() {
        match value {
            Json::Map(map) => {
                for (name, value) in map.iter() {
                    match value {
                        Json::Str(source) if EXPRESSION_FIELDS.contains(&name) => {
                            let own = parse(source).map_or(0, |ast| pattern_states(&ast));
                            states = states.saturating_add(own);
                        }
                        value => pending.push(value),
                    }
                }
            }
            Json::List(list) => pending.extend(list),
            _ => {}
        }
    }
    states
}

fn check_policy(kind: &str, new: &Json, old: Option<&Json>, errors: &mut ErrorList) {
    let null = Json::Null;
    let (spec, path) = (new.get("spec").unwrap_or(&null), Path::root("spec"));
    let old_spec = old.and_then(|old| old.get("spec")).unwrap_or(&null);
    let options = Options { has_params: has_params(spec), has_authorizer: true, has_mutation_types: false };
    if !is_match_unchanged(new, old) {
        let stored = |source: &str| has_stored(old_spec, "matchConditions", "expression", source);
        check_conditions(spec, options, &stored, &path.child("matchConditions"), errors);
    }
    let mut types = VariableTypes::new();
    let variables = items(spec, "variables");
    for (index, variable) in variables.iter().enumerate() {
        let source = variable.str_at(&["expression"]);
        if source.trim().is_empty() {
            continue;
        }
        let is_stored = has_stored(old_spec, "validations", "expression", source);
        let environment = environment_of(options, Some(&types), is_stored);
        let expression = Expression::compile(source, &environment, &[]);
        let at = path.child("variables");
        report(&expression, source, &at.index(index).child("expression"), errors);
        let output = expression.output.as_ref().map_or(Type::Dyn, variable_type);
        types.insert(variable.str_at(&["name"]).into(), output);
    }
    if kind == "MutatingAdmissionPolicy" {
        check_mutations((spec, old_spec), options, &types, &path, errors);
    } else {
        // Without variables upstream does not declare `variables`.
        let types = (!variables.is_empty()).then_some(&types);
        check_validations((spec, old_spec), options, types, &path, errors);
        check_annotations((spec, old_spec), options, types, &path, errors);
    }
}

fn check_validations(
    (spec, old): (&Json, &Json),
    options: Options,
    types: Option<&VariableTypes>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let of_message = Options { has_authorizer: false, ..options };
    let path = path.child("validations");
    for (index, validation) in items(spec, "validations").iter().enumerate() {
        for (field, options, ty) in
            [("expression", options, Type::Bool), ("messageExpression", of_message, Type::String)]
        {
            let source = validation.str_at(&[field]);
            let environment = environment_of(options, types, has_stored(old, "validations", field, source));
            check_source((source, source), &environment, &[ty], &path.index(index).child(field), errors);
        }
    }
}

fn check_annotations(
    (spec, old): (&Json, &Json),
    options: Options,
    types: Option<&VariableTypes>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let path = path.child("auditAnnotations");
    for (index, annotation) in items(spec, "auditAnnotations").iter().enumerate() {
        let source = annotation.str_at(&["valueExpression"]);
        if source.trim().len() <= ANNOTATION_EXPRESSION_BYTES_MAX {
            let at = path.index(index);
            let at = at.child("valueExpression");
            let is_stored = has_stored(old, "auditAnnotations", "valueExpression", source);
            let environment = environment_of(options, types, is_stored);
            check_source((source.trim(), source), &environment, &[Type::String, Type::Null], &at, errors);
        }
    }
}

fn check_mutations(
    (spec, old): (&Json, &Json),
    options: Options,
    types: &VariableTypes,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let options = Options { has_mutation_types: true, ..options };
    let path = path.child("mutations");
    for (index, mutation) in items(spec, "mutations").iter().enumerate() {
        let (field, is_patch) = match mutation.str_at(&["patchType"]) {
            "JSONPatch" => ("jsonPatch", true),
            "ApplyConfiguration" => ("applyConfiguration", false),
            _ => continue,
        };
        let source = mutation.str_at(&[field, "expression"]);
        // Upstream looks up both sorts of mutations among the apply configurations.
        let is_stored = items(old, "mutations").iter().any(|mutation| {
            mutation.at(&["applyConfiguration", "expression"]).and_then(Json::as_str) == Some(source)
        });
        let environment = environment_of(options, Some(types), is_stored);
        let source = source.trim();
        let at = path.index(index);
        let at = at.child(field);
        check_source(
            (source, source),
            &environment,
            &[result_type(is_patch)],
            &at.child("expression"),
            errors,
        );
    }
}

fn check_conditions(
    object: &Json,
    options: Options,
    is_stored: &dyn Fn(&str) -> bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, condition) in items(object, "matchConditions").iter().enumerate() {
        let source = condition.str_at(&["expression"]).trim();
        let environment = environment_of(options, None, is_stored(source));
        check_source(
            (source, source),
            &environment,
            &[Type::Bool],
            &path.index(index).child("expression"),
            errors,
        );
    }
}

fn check_webhooks(new: &Json, old: Option<&Json>, errors: &mut ErrorList) {
    let options = Options { has_authorizer: true, ..Options::default() };
    let path = Path::root("webhooks");
    let conditions = |object: &Json| -> Vec<Option<Json>> {
        items(object, "webhooks").iter().map(|webhook| webhook.get("matchConditions").cloned()).collect()
    };
    if old.is_some_and(|old| conditions(old) == conditions(new)) {
        return;
    }
    let is_stored = |source: &str| {
        let old = old.map(|old| items(old, "webhooks")).unwrap_or_default();
        old.iter().any(|webhook| has_stored(webhook, "matchConditions", "expression", source))
    };
    for (index, webhook) in items(new, "webhooks").iter().enumerate() {
        let at = path.index(index);
        check_conditions(webhook, options, &is_stored, &at.child("matchConditions"), errors);
    }
}

/// `true` if an item of a list of the old object has this source.
fn has_stored(old: &Json, list: &str, field: &str, source: &str) -> bool {
    items(old, list).iter().any(|item| item.str_at(&[field]) == source)
}

/// Returns the environment of an expression; new ones may not use the newest functions.
fn environment_of(options: Options, variables: Option<&VariableTypes>, is_stored: bool) -> Environment {
    let environment = environment(options, variables);
    if is_stored { environment } else { environment.with_compatible_functions() }
}

/// `true` if an update changes nothing that match conditions depend on.
fn is_match_unchanged(new: &Json, old: Option<&Json>) -> bool {
    let Some(old) = old else { return false };
    let is_same = |field: &str| new.at(&["spec", field]) == old.at(&["spec", field]);
    is_same("matchConditions") && is_same("paramKind")
}

/// Compiles a source, if it is not empty; errors show the second text.
fn check_source(
    (source, shown): (&str, &str),
    environment: &Environment,
    types: &[Type],
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if !source.trim().is_empty() {
        report(&Expression::compile(source, environment, types), shown, path, errors);
    }
}

fn report(expression: &Expression, shown: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match &expression.program {
        Ok(_) => {}
        Err(CompileError::Invalid(text)) => errors.push(FieldError::invalid(path, shown, text.clone())),
        Err(CompileError::Internal(text)) => errors.push(FieldError::internal(path, text.clone())),
    }
}
