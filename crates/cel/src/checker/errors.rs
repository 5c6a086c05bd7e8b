//! Errors of the checker, with the messages and the form of cel-go.

use std::fmt;

use crate::error::{snippet_at, write_snippet};
use crate::source::Location;
use crate::types::Type;

/// Largest number of errors that are reported for an expression; the others are counted.
pub const CHECK_ERRORS_MAX: usize = 100;

/// Cause of an error. `Display` is the message without its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckErrorKind {
    /// Name that is neither a variable, nor a type, nor a function.
    #[error("undeclared reference to '{0}' (in container '')")]
    UndeclaredReference(Box<str>),
    /// Field that the object does not have.
    #[error("undefined field '{0}'")]
    UndefinedField(Box<str>),
    /// Selection of a field from a type that has none.
    #[error("type '{0}' does not support field selection")]
    NoFieldSelection(Type),
    /// Type without known fields.
    #[error("unexpected failed resolution of '{0}'")]
    UnresolvedType(Box<str>),
    /// Types of the arguments that no overload accepts.
    #[error("found no matching overload for '{function}' applied to '{}'", signature(arguments, *.is_member))]
    NoMatchingOverload {
        /// Name of the function.
        function: Box<str>,
        /// Types of the receiver and the arguments.
        arguments: Box<[Type]>,
        /// `true` if the first argument is a receiver.
        is_member: bool,
    },
    /// Type that differs from the expected one.
    #[error("expected type '{expected}' but found '{found}'")]
    TypeMismatch {
        /// Expected type.
        expected: Type,
        /// Type of the expression.
        found: Type,
    },
    /// Type of a field that differs from the declared one.
    #[error("expected type of field '{field}' is '{}' but provided type is '{found}'", optional_text(.expected.as_ref()))]
    FieldTypeMismatch {
        /// Name of the field.
        field: Box<str>,
        /// Declared type, or `None` for a field of a JSON patch that does not exist.
        expected: Option<Type>,
        /// Type of the value.
        found: Type,
    },
    /// Iteration over a value that is neither a list nor a map.
    #[error("expression of type '{0}' cannot be range of a comprehension (must be list, map, or dynamic)")]
    NotARange(Type),
    /// Message literal whose name denotes a value.
    #[error("'{0}' is not a type")]
    NotAType(Box<str>),
    /// Message literal whose name denotes another type than that of an object.
    #[error("'{0}' is not a message type")]
    NotAMessageType(Box<str>),
    /// `cel.bind` of something other than an identifier.
    #[error("cel.bind() variable names must be simple identifiers")]
    InvalidBinding,
    /// Literal argument that the function rejects.
    #[error("invalid {0} argument")]
    InvalidArgument(&'static str),
    /// Literal format string that does not fit its arguments.
    #[error("{0}")]
    InvalidFormat(Box<str>),
    /// Types are larger, or expressions nested more deeply, than the checker supports.
    #[error("expression exceeds the limits of the type checker")]
    Limit,
}

fn signature(arguments: &[Type], is_member: bool) -> String {
    let mut texts = arguments.iter().map(Type::to_string);
    let receiver = if is_member { texts.next() } else { None };
    let arguments: Vec<String> = texts.collect();
    let receiver = receiver.map(|text| text + ".").unwrap_or_default();
    format!("{receiver}({})", arguments.join(", "))
}

fn optional_text(ty: Option<&Type>) -> String {
    ty.map(Type::to_string).unwrap_or_default()
}

/// Error at a position. `Display` is the form of cel-go: position, message, source line, and a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckError {
    kind: CheckErrorKind,
    location: Location,
    snippet: Option<Box<str>>,
}

impl CheckError {
    /// Returns the cause.
    #[must_use]
    pub fn kind(&self) -> &CheckErrorKind {
        &self.kind
    }

    /// Returns the position.
    #[must_use]
    pub fn location(&self) -> Location {
        self.location
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR: <input>:{}:{}: {}", self.location.line, self.location.column, self.kind)?;
        self.snippet.as_ref().map_or(Ok(()), |snippet| write_snippet(f, snippet, self.location))
    }
}

/// Errors of an expression in the order of their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckErrors {
    errors: Vec<CheckError>,
    omitted: usize,
}

impl std::error::Error for CheckErrors {}

impl CheckErrors {
    /// Returns the errors, at most [`CHECK_ERRORS_MAX`].
    #[must_use]
    pub fn errors(&self) -> &[CheckError] {
        &self.errors
    }
}

impl fmt::Display for CheckErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n" })?;
        }
        if self.omitted > 0 {
            write!(f, "\n{} more errors were truncated", self.omitted)?;
        }
        Ok(())
    }
}

/// Errors under collection.
#[derive(Default)]
pub(super) struct ErrorLog {
    entries: Vec<(u32, CheckErrorKind)>,
    omitted: usize,
}

impl ErrorLog {
    pub(super) fn report(&mut self, offset: u32, kind: CheckErrorKind) {
        if self.entries.len() < CHECK_ERRORS_MAX {
            self.entries.push((offset, kind));
        } else {
            self.omitted += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the errors with their lines, sorted by position.
    pub(super) fn finish(mut self, source: &str) -> CheckErrors {
        self.entries.sort_by_key(|(offset, _)| *offset);
        let errors = self.entries.into_iter().map(|(offset, kind)| CheckError {
            kind,
            location: Location::of(source, offset),
            snippet: snippet_at(source, offset),
        });
        CheckErrors { errors: errors.collect(), omitted: self.omitted }
    }
}
