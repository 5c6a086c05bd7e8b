//! Parse errors, with the messages of cel-go.

use std::fmt;

use crate::source::{Location, line_at};

/// Largest number of errors of a source that are reported.
pub const PARSE_ERRORS_MAX: usize = 100;

/// Longest source line that an error shows, in bytes.
pub const SNIPPET_BYTES_MAX: usize = 16_384;

/// Cause of a parse error. `Display` is the message without its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseErrorKind {
    /// Characters that begin no token.
    #[error("Syntax error: token recognition error at: '{0}'")]
    InvalidToken(String),
    /// Token that the grammar does not allow here.
    #[error("Syntax error: mismatched input '{found}' expecting {expected}")]
    MismatchedInput {
        /// Text of the token.
        found: String,
        /// Tokens that the grammar allows.
        expected: &'static str,
    },
    /// Token that the grammar does not allow here, although it allows the next one.
    #[error("Syntax error: extraneous input '{found}' expecting {expected}")]
    ExtraneousInput {
        /// Text of the token.
        found: String,
        /// Tokens that the grammar allows.
        expected: &'static str,
    },
    /// Token that is absent: a closing one at the end of the source, or a colon before an expression.
    #[error("Syntax error: missing {expected} at '{found}'")]
    MissingInput {
        /// The token.
        expected: &'static str,
        /// Text of the token in its place.
        found: String,
    },
    /// Dot that no field name follows.
    #[error("Syntax error: no viable alternative at input '{0}'")]
    NoViableAlternative(String),
    /// Optional selection without a field name.
    #[error("unsupported ident kind")]
    UnsupportedIdent,
    /// Reserved word in place of a variable or function.
    #[error("reserved identifier: {0}")]
    ReservedIdentifier(String),
    /// Number out of range.
    #[error("invalid {0} literal")]
    InvalidNumber(&'static str),
    /// Escape sequence without a value.
    #[error("{0}")]
    InvalidEscape(&'static str),
    /// Invalid argument of a macro.
    #[error("{0}")]
    Macro(String),
    /// Expressions are nested more deeply than [`crate::NESTING_MAX`].
    #[error("expression recursion limit exceeded: {}", crate::NESTING_MAX)]
    NestingLimit,
    /// Operators and selections are chained more deeply than [`crate::DEPTH_MAX`].
    #[error("max recursion depth exceeded")]
    DepthLimit,
    /// Macros copy more than [`crate::COPIED_NODES_MAX`] nodes.
    #[error("macro expansion limit exceeded: {}", crate::COPIED_NODES_MAX)]
    CopyLimit,
    /// Source whose offsets exceed 32 bits.
    #[error("expression size exceeds limit")]
    SizeLimit,
}

impl ParseErrorKind {
    /// `true` if cel-go reports the error without a position.
    fn has_no_location(&self) -> bool {
        matches!(self, Self::NestingLimit | Self::DepthLimit | Self::SizeLimit)
    }
}

/// Errors of a source, in its order.
///
/// `Display` is the form of cel-go: for each error the position, message, source line, and a caret below the position.
/// Limits have no position and show `-1:0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    first: LocatedError,
    more: Vec<LocatedError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LocatedError {
    kind: ParseErrorKind,
    location: Option<Location>,
    snippet: Option<Box<str>>,
}

impl LocatedError {
    fn new(failure: Failure, source: &str) -> LocatedError {
        if failure.kind.has_no_location() {
            return LocatedError { kind: failure.kind, location: None, snippet: None };
        }
        LocatedError {
            location: Some(Location::of(source, failure.offset)),
            snippet: snippet_at(source, failure.offset),
            kind: failure.kind,
        }
    }
}

impl std::error::Error for ParseError {}

impl ParseError {
    /// Returns the errors, which are in the order of the source.
    pub(crate) fn new(first: Failure, more: Vec<Failure>, source: &str) -> Self {
        let more = more.into_iter().map(|failure| LocatedError::new(failure, source)).collect();
        Self { first: LocatedError::new(first, source), more }
    }

    /// Returns the cause of the first error.
    #[must_use]
    pub fn kind(&self) -> &ParseErrorKind {
        &self.first.kind
    }

    /// Returns the position of the first error, or `None` for one that concerns the source as a whole.
    #[must_use]
    pub fn location(&self) -> Option<Location> {
        self.first.location
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.more.iter().try_for_each(|error| write!(f, "\n{error}"))
    }
}

impl fmt::Display for LocatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(location) = self.location else {
            return write!(f, "ERROR: <input>:-1:0: {}", self.kind);
        };
        write!(f, "ERROR: <input>:{}:{}: {}", location.line, location.column, self.kind)?;
        self.snippet.as_ref().map_or(Ok(()), |snippet| write_snippet(f, snippet, location))
    }
}

/// Returns the line of an error as it is shown, or `None` if it is too long.
pub(crate) fn snippet_at(source: &str, offset: u32) -> Option<Box<str>> {
    let line = line_at(source, offset);
    (line.len() <= SNIPPET_BYTES_MAX).then(|| line.replace('\t', " ").into())
}

/// Writes a source line, and a caret below its position.
pub(crate) fn write_snippet(f: &mut fmt::Formatter<'_>, snippet: &str, location: Location) -> fmt::Result {
    write!(f, "\n | {snippet}\n | ")?;
    // Wide dots and carets keep the columns of characters outside of ASCII, as cel-go does.
    let mut characters = snippet.chars();
    for character in characters.by_ref().take(location.column - 1) {
        f.write_str(if character.is_ascii() { "." } else { "\u{ff0e}" })?;
    }
    f.write_str(if characters.next().is_none_or(|next| next.is_ascii()) { "^" } else { "\u{ff3e}" })
}

/// Error at a byte offset, before the source line is attached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) offset: u32,
    pub(crate) kind: ParseErrorKind,
}

impl Failure {
    pub(crate) fn new(offset: u32, kind: ParseErrorKind) -> Self {
        Self { offset, kind }
    }
}
