//! JSONPath in the dialect of kubectl: the paths of printer columns, of the scale subresource and of selectable
//! fields.
//!
//! Supported are fields (`.a`, `['a']`, with `\` before a dot that is part of the name), indexes and slices (`[0]`,
//! `[-1]`, `[0:2]`, `[*]`), unions (`[0,2]`), wildcards (`.*`), recursive descent (`..a`), filters
//! (`[?(@.type=="Ready")]`) and literals. `range` and `end` are not. Results equal those of upstream's
//! `client-go/util/jsonpath` for missing keys that are allowed; fields of an object are visited in its own order.
//!
//! Filters and unions nest at most [`NESTING_MAX`] deep, and an evaluation visits at most [`VISITS_MAX`] values, so
//! that no path is expensive.

mod evaluate;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use thiserror::Error;

use crate::value::Value;

/// Maximum nesting of filters and unions.
pub const NESTING_MAX: usize = 16;

/// Maximum number of values that an evaluation visits.
pub const VISITS_MAX: usize = 1 << 16;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<PathStep>,
}

/// Reason for which a path is not valid, or does not fit the value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JsonPathError {
    /// The path is malformed.
    #[error("{0}")]
    Syntax(String),
    /// The value has other types than the path requires, or too few items.
    #[error("{0}")]
    Mismatch(String),
    /// The path nests deeper than [`NESTING_MAX`].
    #[error("path nests deeper than {NESTING_MAX} levels")]
    Nesting,
    /// The evaluation visits more values than [`VISITS_MAX`].
    #[error("path visits more than {VISITS_MAX} values")]
    Visits,
}

#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    Field(String),
    Slice(Slice),
    Filter(Box<Filter>),
    Union(Vec<Vec<PathStep>>),
    Wildcard,
    Recursive,
    Literal(Value),
    /// A word that is no literal. It fails when it is evaluated, as upstream.
    Word(String),
}

/// Bounds of a slice; an index is a slice of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    start: i64,
    end: SliceEnd,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceEnd {
    Length,
    At(i64),
    /// The item after the start.
    AfterStart,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<PathStep>,
    /// Operator and right side; `None` tests for existence.
    comparison: Option<(String, Vec<PathStep>)>,
}

impl JsonPath {
    /// Parses a path without braces, as in `.spec.replicas`.
    ///
    /// # Errors
    /// If the path is malformed or nests too deep.
    pub fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
        Ok(JsonPath { steps: parse::parse(text, 0)? })
    }

    /// Returns all values at the path; missing fields have none.
    ///
    /// # Errors
    /// If the value has other types than the path requires, or an index is out of range.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<Cow<'v, Value>>, JsonPathError> {
        evaluate::Evaluation::default().steps(vec![Cow::Borrowed(value)], &self.steps)
    }

    /// Returns the first value at the path; `None` if there is none or the path does not fit the value.
    #[must_use]
    pub fn first<'v>(&self, value: &'v Value) -> Option<Cow<'v, Value>> {
        self.find(value).ok()?.into_iter().next()
    }
}

/// Returns the names of the fields in a path that consists of fields only, as in `.spec.replicas`.
///
/// Upstream splits the paths of the scale subresource and of selectable fields at dots, without escapes.
pub fn field_names(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('.').split('.').filter(|name| !name.is_empty())
}
