//! Expressions about claims and users.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use setpoint_api::{Map, Value as Json};
use setpoint_cel::{
    Activation, Ast, Decl, DeclKind, Environment, FieldDecl, ListDecl, ObjectDecl, Program, Type, Value,
    check, escape_identifier, is_valid_pattern, parse, unescape_identifier,
};

/// Cost of an evaluation.
const COST_MAX: u64 = 1_000_000;
const STRING: Decl = Decl::new(DeclKind::String);

static CLAIMS: LazyLock<Decl> = LazyLock::new(|| map(Decl::new(DeclKind::Dyn)));
static USER: LazyLock<Decl> = LazyLock::new(user);

fn list(item: Decl) -> Decl {
    Decl::new(DeclKind::List { item: Arc::new(item), list_type: ListDecl::Atomic })
}

fn map(value: Decl) -> Decl {
    Decl::new(DeclKind::Map { value: Arc::new(value), key_size_max: 0 })
}

fn user() -> Decl {
    let fields =
        [("username", STRING), ("uid", STRING), ("groups", list(STRING)), ("extra", map(list(STRING)))];
    let fields: BTreeMap<Box<str>, FieldDecl> = fields
        .into_iter()
        .map(|(name, decl)| (name.into(), FieldDecl { decl, is_required: false }))
        .collect();
    Decl::new(DeclKind::Object(Arc::new(ObjectDecl { name: "kubernetes.UserInfo".into(), fields })))
}

/// Variable of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// `claims`.
    Claims,
    /// `user`.
    User,
}

impl Variable {
    const fn name(self) -> &'static str {
        match self {
            Variable::Claims => "claims",
            Variable::User => "user",
        }
    }

    fn decl(self) -> &'static Decl {
        match self {
            Variable::Claims => &CLAIMS,
            Variable::User => &USER,
        }
    }
}

/// Compiled expression.
#[derive(Debug)]
pub(super) struct Expression {
    /// Source, for messages.
    pub source: String,
    program: Program,
    ast: Ast,
    variable: Variable,
}

impl Expression {
    /// Compiles an expression; `is_condition` if it must be a boolean.
    ///
    /// # Errors
    /// The text of the fault.
    pub fn compile(source: &str, variable: Variable, is_condition: bool) -> Result<Expression, String> {
        let failed = |why: String| format!("compilation failed: {why}");
        let environment = Environment::new()
            .with_regex_test(is_valid_pattern)
            .with_variable(variable.name(), variable.decl());
        let ast = parse(source).map_err(|error| failed(error.to_string()))?;
        let checked = check(&environment, ast).map_err(|errors| failed(errors.to_string()))?;
        if is_condition && checked.result_type() != &Type::Bool {
            return Err("must evaluate to bool".to_owned());
        }
        let program = Program::new(checked.ast());
        let program = program.map_err(|error| format!("program instantiation failed: {error}"))?;
        Ok(Expression { source: source.to_owned(), program, ast: checked.into_ast(), variable })
    }

    /// `true` if the expression reads a claim by its name.
    pub fn uses_claim(&self, claim: &str) -> bool {
        self.ast.selects_field(Variable::Claims.name(), claim)
    }

    /// Evaluates the expression with the value of its variable.
    ///
    /// # Errors
    /// The text of the fault.
    pub fn evaluate<'v>(&self, value: &'v Json) -> Result<Value<'v>, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("expression '{}' resulted in error: {error}", self.source)
        };
        let mut activation = Activation::new();
        let bound = Value::from_json(value, Some(self.variable.decl())).map_err(|error| failed(&error))?;
        activation.bind(self.variable.name(), bound);
        self.program.evaluate(&activation, COST_MAX).result.map_err(|error| failed(&error))
    }
}

/// Claims as expressions see them: numbers are doubles, and names that are no identifiers can be escaped.
pub(super) fn visible_claims(claims: &Json) -> Json {
    match claims {
        #[expect(clippy::cast_precision_loss, reason = "Go decodes numbers of any JSON as doubles")]
        Json::Int(number) => Json::Float(*number as f64),
        Json::List(items) => Json::List(items.iter().map(visible_claims).collect()),
        Json::Map(fields) => Json::Map(visible_fields(fields)),
        other => other.clone(),
    }
}

/// Fields with their escaped names. A name that is itself an escaped one hides nothing: it only stands for the name
/// that it escapes.
fn visible_fields(fields: &Map) -> Map {
    let mut visible = Map::new();
    for (name, value) in fields.iter() {
        if unescape_identifier(name).is_none_or(|unescaped| unescaped == name) {
            visible.insert(name, visible_claims(value));
        }
    }
    for (name, value) in fields.iter() {
        if let Some(escaped) = escape_identifier(name)
            && escaped != name
            && unescape_identifier(&escaped).is_some_and(|unescaped| unescaped == name)
        {
            visible.insert(&*escaped, visible_claims(value));
        }
    }
    visible
}
