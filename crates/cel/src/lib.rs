//! CEL (Common Expression Language) for validation rules, admission policies and device selectors.
//!
//! [`parse`] turns a source into an [`Ast`]: the grammar of the CEL specification with optional syntax
//! (`a.?b`, `a[?i]`, `[?x]`) and field names in backquotes. Macros are expanded as in cel-go, so that an evaluator
//! knows only comprehensions; the AST keeps the calls that were expanded, and its `Display` prints them.
//!
//! [`check`] gives every expression a type, and reports errors in the form of cel-go; [`estimate()`] bounds the cost of
//! an evaluation. Both know the functions that Kubernetes 1.37 enables.
//!
//! The time of a parse is linear in the length of the source, which the caller bounds. [`NESTING_MAX`],
//! [`DEPTH_MAX`] and [`COPIED_NODES_MAX`] bound the stack of the parser, the height of the AST and the growth by
//! macros.
//!
//! ```
//! let ast = setpoint_cel::parse("self.replicas >= 1 && self.names.all(n, n != '')").unwrap();
//! assert_eq!(ast.to_string(), r#"self.replicas >= 1 && self.names.all(n, n != "")"#);
//! ```

mod ast;
mod builder;
mod checker;
mod decl;
mod declarations;
mod error;
mod estimate;
mod eval;
mod functions;
mod lexer;
mod literal;
mod macros;
mod messages;
mod operator;
mod parser;
mod patterns;
mod runtime_cost;
mod source;
mod token;
mod types;
mod unparse;
mod value;

pub use ast::{Ast, Comprehension, Element, Expr, ExprId, ExprKind, FieldInit, MacroCall, MapEntry};
pub use builder::{COPIED_NODES_MAX, DEPTH_MAX};
pub use checker::{
    CHECK_DEPTH_MAX, CHECK_ERRORS_MAX, CheckError, CheckErrorKind, CheckErrors, Checked, Environment,
    Reference, RegexTest, ResultTypeError, TYPE_DEPTH_MAX, TYPE_NODES_MAX, TYPE_STEPS_MAX, check,
};
pub use decl::{Decl, DeclKind, FieldDecl, ListDecl, ObjectDecl};
pub use declarations::{FunctionDecl, OverloadDecl, find_function};
pub use error::{ParseError, ParseErrorKind, SNIPPET_BYTES_MAX};
pub use estimate::{CostEstimate, estimate};
pub use eval::{Activation, Bindings, EvalError, Evaluation, PLAN_DEPTH_MAX, Program, ProgramError};
pub use functions::authz::{
    AuthorizationCheck, AuthorizationDecision, Authorizer, AuthorizerRef, CheckTarget, ResourceCheck,
};
pub use functions::regex::is_valid_pattern;
pub use literal::Literal;
pub use macros::{ACCUMULATOR, MAP_INSERT, SORT_BY_KEYS, UNUSED_VARIABLE};
pub use operator::Operator;
pub use parser::{NESTING_MAX, parse};
pub use patterns::pattern_states;
pub use source::{Location, Span};
pub use types::{
    ObjectFields, ObjectType, TYPE_TEXT_BYTES_MAX, Type, TypeParam, assign_type_names, escape_identifier,
    find_declared_field, unescape_identifier,
};
pub use value::{
    DurationValue, LazyObject, ListValue, MapKey, MapValue, NamedFormat, ObjectValue, Opaque,
    SemanticVersion, TextValue, Timestamp, Url, Value,
};
