//! CEL match conditions of webhooks, over the SubjectAccessReview that would be sent.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use setpoint_api::Value;
use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_cel::{
    Activation, Decl, DeclKind, Environment, FieldDecl, ListDecl, ObjectDecl, Program, Type, check,
    is_valid_pattern, parse,
};

use crate::Attributes;
use crate::review::spec;

/// Largest number of conditions of a webhook.
pub const CONDITIONS_MAX: usize = 64;
/// Largest cost of one condition, upstream's limit of one expression.
const COST_MAX: u64 = 1_000_000;
/// Name of the variable.
const REQUEST: &str = "request";

static ENVIRONMENT: LazyLock<Environment> =
    LazyLock::new(|| Environment::new().with_regex_test(is_valid_pattern).with_variable(REQUEST, &request()));

/// A compiled condition.
#[derive(Debug)]
struct Condition {
    source: Box<str>,
    program: Program,
}

/// Compiled match conditions; without any, every request matches.
#[derive(Debug, Default)]
pub struct MatchConditions(Vec<Condition>);

impl MatchConditions {
    /// `true` if there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the conditions: `true` if all are satisfied, `false` if one is not, even if others fail.
    ///
    /// # Errors
    /// The texts of the errors, if no condition is unsatisfied.
    pub fn matches(&self, attributes: &Attributes<'_>) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        let input = input(attributes);
        let mut errors = Vec::new();
        for Condition { source, program } in &self.0 {
            let mut activation = Activation::new();
            let value = setpoint_cel::Value::from_json(&input, None);
            activation.bind(REQUEST, value.unwrap_or(setpoint_cel::Value::Null));
            match program.evaluate(&activation, COST_MAX).result {
                Ok(setpoint_cel::Value::Bool(true)) => {}
                Ok(setpoint_cel::Value::Bool(false)) => return Ok(false),
                Ok(other) => errors.push(format!(
                    "cel evaluation error: expression '{source}' eval result type should be bool but got {}",
                    other.type_name()
                )),
                Err(error) => errors
                    .push(format!("cel evaluation error: expression '{source}' resulted in error: {error}")),
            }
        }
        match &errors[..] {
            [] => Ok(true),
            [only] => Err(only.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        }
    }
}

/// Compiles the conditions of the authorizer at `path`.
pub(super) fn compile(sources: &[&str], path: &Path<'_>, errors: &mut ErrorList) -> MatchConditions {
    let list = path.child("matchConditions");
    if sources.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(&list, Some(sources.len()), CONDITIONS_MAX));
        return MatchConditions::default();
    }
    let (mut seen, mut conditions) = (BTreeSet::new(), Vec::new());
    for (index, source) in sources.iter().enumerate() {
        let at = list.index(index);
        let at = at.child("expression");
        if source.trim().is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !seen.insert(*source) {
            errors.push(FieldError::duplicate(&at, *source));
        } else {
            match compile_one(source) {
                Ok(program) => conditions.push(Condition { source: (*source).into(), program }),
                Err(why) => errors.push(FieldError::invalid(&at, *source, why)),
            }
        }
    }
    MatchConditions(conditions)
}

fn compile_one(source: &str) -> Result<Program, String> {
    let ast = parse(source).map_err(|error| format!("compilation failed: {error}"))?;
    let checked = check(&ENVIRONMENT, ast).map_err(|errors| format!("compilation failed: {errors}"))?;
    checked.require_result_type(&[Type::Bool]).map_err(|error| error.to_string())?;
    Program::new(checked.ast()).map_err(|error| format!("program instantiation failed: {error}"))
}

/// Returns the variable `request`: the spec of the review, with empty fields that the review omits.
fn input(attributes: &Attributes<'_>) -> Value {
    let mut input = spec(attributes);
    let map = input.make_map();
    for field in ["user", "uid"] {
        map.ensure(field, || Value::from(""));
    }
    map.ensure("groups", || Value::List(Vec::new()));
    map.ensure_map("extra");
    if let Some(resource) = map.get_mut("resourceAttributes") {
        let resource = resource.make_map();
        for field in ["namespace", "verb", "group", "version", "resource", "subresource", "name"] {
            resource.ensure(field, || Value::from(""));
        }
    }
    if let Some(path) = map.get_mut("nonResourceAttributes") {
        let path = path.make_map();
        ["path", "verb"].into_iter().for_each(|field| drop(path.ensure(field, || Value::from(""))));
    }
    input
}

fn object(name: &str, fields: &[(&str, Decl)]) -> Decl {
    let fields = fields
        .iter()
        .map(|(name, decl)| (Box::from(*name), FieldDecl { decl: decl.clone(), is_required: false }));
    Decl::new(DeclKind::Object(Arc::new(ObjectDecl { name: name.into(), fields: fields.collect() })))
}

const STRING: Decl = Decl::new(DeclKind::String);

fn list(item: Decl) -> Decl {
    Decl::new(DeclKind::List { item: Arc::new(item), list_type: ListDecl::Atomic })
}

/// Declaration of the variable, as upstream declares it.
fn request() -> Decl {
    let requirement = object(
        "kubernetes.SelectorRequirement",
        &[("key", STRING), ("operator", STRING), ("values", list(STRING))],
    );
    let selector =
        |name| object(name, &[("rawSelector", STRING), ("requirements", list(requirement.clone()))]);
    let resource = object(
        "kubernetes.ResourceAttributes",
        &[
            ("namespace", STRING),
            ("verb", STRING),
            ("group", STRING),
            ("version", STRING),
            ("resource", STRING),
            ("subresource", STRING),
            ("name", STRING),
            ("fieldSelector", selector("kubernetes.FieldSelectorAttributes")),
            ("labelSelector", selector("kubernetes.LabelSelectorAttributes")),
        ],
    );
    let path = object("kubernetes.NonResourceAttributes", &[("path", STRING), ("verb", STRING)]);
    let extra = Decl::new(DeclKind::Map { value: Arc::new(list(STRING)), key_size_max: 0 });
    object(
        "kubernetes.SubjectAccessReviewSpec",
        &[
            ("resourceAttributes", resource),
            ("nonResourceAttributes", path),
            ("user", STRING),
            ("groups", list(STRING)),
            ("extra", extra),
            ("uid", STRING),
        ],
    )
}
