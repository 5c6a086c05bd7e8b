//! Type checker: types of all expressions, overloads of all calls, and the errors of cel-go.
//!
//! The algorithm is that of cel-go with the options of Kubernetes: numbers of different types compare, and once the
//! types are correct, elements of list and map literals must agree. Time is linear in the size of the expression and of its types, which
//! [`TYPE_STEPS_MAX`], [`TYPE_NODES_MAX`] and [`TYPE_DEPTH_MAX`] bound.

mod aggregates;
mod calls;
mod environment;
mod errors;
mod format_string;
mod literals;
mod names;
mod unify;
mod validators;

pub use environment::{Environment, RegexTest};
pub use errors::{CHECK_ERRORS_MAX, CheckError, CheckErrorKind, CheckErrors};
pub use unify::{TYPE_DEPTH_MAX, TYPE_NODES_MAX, TYPE_STEPS_MAX};

use crate::ast::{Ast, ExprId, ExprKind, MacroCall};
use crate::declarations::OverloadDecl;
use crate::literal::Literal;
use crate::types::Type;
use errors::ErrorLog;
use unify::Unifier;

/// Deepest nesting of expressions that the checker accepts.
pub const CHECK_DEPTH_MAX: usize = 1000;

/// Checked expression.
#[derive(Clone, Debug)]
pub struct Checked {
    ast: Ast,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
}

/// Meaning of a name in an expression.
#[derive(Clone, Debug)]
pub enum Reference {
    /// Variable or type. The name begins with a dot if a variable of a comprehension hides it. A selection with this
    /// reference is a variable with dots in its name.
    Variable(Box<str>),
    /// Function. A call with this reference and a receiver has a namespace instead of a receiver if `is_global`.
    Function {
        /// Name with its namespace.
        name: &'static str,
        /// Overloads that accept the types of the arguments; more than one if some are `dyn`.
        overloads: Box<[&'static OverloadDecl]>,
        /// `true` if the call has no receiver.
        is_global: bool,
    },
}

impl Checked {
    /// Returns the AST.
    #[must_use]
    pub fn ast(&self) -> &Ast {
        &self.ast
    }

    /// Returns the AST without the types.
    #[must_use]
    pub fn into_ast(self) -> Ast {
        self.ast
    }

    /// Returns the type of an expression, or `None` if it is not part of the tree, as the names of variables of macros
    /// are not.
    #[must_use]
    pub fn type_of(&self, id: ExprId) -> Option<&Type> {
        self.types.get(id.index())?.as_ref()
    }

    /// Returns the type of the result.
    #[must_use]
    pub fn result_type(&self) -> &Type {
        self.type_of(self.ast.root().id).unwrap_or(&Type::Dyn)
    }

    /// Returns the meaning of a variable, selection or call.
    #[must_use]
    pub fn reference(&self, id: ExprId) -> Option<&Reference> {
        self.references.get(id.index())?.as_ref()
    }

    /// Checks that the result has one of the types, as admission policies do.
    ///
    /// # Errors
    /// The result has another type, and be it `dyn`.
    pub fn require_result_type(&self, allowed: &[Type]) -> Result<(), ResultTypeError> {
        if allowed.contains(self.result_type()) {
            return Ok(());
        }
        Err(ResultTypeError { allowed: allowed.into(), found: self.result_type().clone() })
    }

    /// `true` if the expression refers to a variable.
    #[must_use]
    pub fn uses_variable(&self, name: &str) -> bool {
        let is_name = |reference: &Option<Reference>| matches!(reference, Some(Reference::Variable(used)) if used.trim_start_matches('.') == name);
        self.references.iter().any(is_name)
    }
}

/// Result of a type that the use of the expression does not allow. `Display` is the message of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must evaluate to {} but got {}", alternatives(.allowed), .found.runtime_text())]
pub struct ResultTypeError {
    allowed: Box<[Type]>,
    found: Type,
}

fn alternatives(types: &[Type]) -> String {
    match types {
        [only] => only.runtime_text(),
        _ => format!("one of [{}]", types.iter().map(Type::runtime_text).collect::<Vec<_>>().join(" ")),
    }
}

/// Checks an expression.
///
/// # Errors
/// All errors of the types; if there are none, those of literal arguments.
pub fn check(environment: &Environment, ast: Ast) -> Result<Checked, CheckErrors> {
    let mut checker = Checker::new(environment, &ast);
    let root = ast.root().id;
    checker.check(root);
    let mut types = std::mem::take(&mut checker.types);
    for ty in types.iter_mut().flatten() {
        *ty = checker.unifier.substitute(ty, true);
    }
    if checker.unifier.is_exhausted() {
        // Other errors are consequences: nothing is assignable beyond the limits.
        checker.errors = ErrorLog::default();
        checker.report(root, CheckErrorKind::Limit);
    }
    let (references, mut errors) = (checker.references, checker.errors);
    if errors.is_empty() {
        validators::validate(environment, &ast, &types, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors.finish(ast.source()));
    }
    Ok(Checked { ast, types, references })
}

/// Check under way.
struct Checker<'a> {
    environment: &'a Environment,
    ast: &'a Ast,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    /// Variables of comprehensions; the last with a name hides the others.
    locals: Vec<(&'a str, Type)>,
    unifier: Unifier,
    errors: ErrorLog,
    depth: usize,
}

impl<'a> Checker<'a> {
    fn new(environment: &'a Environment, ast: &'a Ast) -> Self {
        Self {
            environment,
            ast,
            types: vec![None; ast.len()],
            references: vec![None; ast.len()],
            locals: Vec::new(),
            unifier: Unifier::default(),
            errors: ErrorLog::default(),
            depth: 0,
        }
    }

    fn report(&mut self, id: ExprId, kind: CheckErrorKind) {
        self.errors.report(self.ast.expr(id).span.start, kind);
    }

    fn mismatch(&mut self, id: ExprId, expected: Type, found: Type) {
        self.report(id, CheckErrorKind::TypeMismatch { expected, found });
    }

    /// Returns the type of an expression that has been checked.
    fn type_of(&self, id: ExprId) -> Type {
        self.types[id.index()].clone().unwrap_or(Type::Error)
    }

    fn set_reference(&mut self, id: ExprId, reference: Reference) {
        self.references[id.index()] = Some(reference);
    }

    fn is_assignable(&mut self, left: &Type, right: &Type) -> bool {
        self.unifier.is_assignable(std::slice::from_ref(left), std::slice::from_ref(right))
    }

    /// Returns the call that is an expansion of `cel.bind` if the environment lacks the macro: to cel-go, it is a call of
    /// a function, which does not exist.
    fn disabled_macro(&self, id: ExprId) -> Option<&'a MacroCall> {
        self.ast.macro_call(id).filter(|call| *call.function == *"bind" && !self.environment.has_bindings())
    }

    /// Checks an expression and records its type.
    fn check(&mut self, id: ExprId) {
        let ty = if self.depth < CHECK_DEPTH_MAX {
            self.depth += 1;
            let ty = self.infer(id);
            self.depth -= 1;
            ty
        } else {
            self.report(id, CheckErrorKind::Limit);
            Type::Error
        };
        self.types[id.index()] = Some(ty);
    }

    fn infer(&mut self, id: ExprId) -> Type {
        match &self.ast.expr(id).kind {
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => self.infer_identifier(id, name),
            ExprKind::Select { operand, field, test_only } => {
                self.infer_selection(id, *operand, field, *test_only)
            }
            ExprKind::Operation { operator, operands } => self.infer_operation(id, *operator, operands),
            ExprKind::Call { function, target, args } => self.infer_call(id, function, *target, args),
            ExprKind::List(elements) => self.infer_list(elements),
            ExprKind::Map(entries) => self.infer_map(entries),
            ExprKind::Message { name, fields } => self.infer_message(id, name, fields),
            ExprKind::Comprehension(fold) => match self.disabled_macro(id) {
                Some(call) => self.infer_call(id, &call.function, call.target, &call.args),
                None => self.infer_comprehension(fold),
            },
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
