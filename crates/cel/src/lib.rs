//! CEL (Common Expression Language) for validation rules and admission policies.
//!
//! [`parse`] turns a source into an [`Ast`]: the grammar of the CEL specification with optional syntax
//! (`a.?b`, `a[?i]`, `[?x]`) and field names in backquotes. Macros are expanded as in cel-go, so that an evaluator
//! knows only comprehensions; the AST keeps the calls that were expanded, and its `Display` prints them.
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
mod error;
mod lexer;
mod literal;
mod macros;
mod operator;
mod parser;
mod source;
mod token;
mod unparse;

pub use ast::{Ast, Comprehension, Element, Expr, ExprId, ExprKind, FieldInit, MacroCall, MapEntry};
pub use builder::{COPIED_NODES_MAX, DEPTH_MAX};
pub use error::{ParseError, ParseErrorKind, SNIPPET_BYTES_MAX};
pub use literal::Literal;
pub use macros::{ACCUMULATOR, MAP_INSERT, UNUSED_VARIABLE};
pub use operator::Operator;
pub use parser::{NESTING_MAX, parse};
pub use source::{Location, Span};
