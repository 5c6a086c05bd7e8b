//! Dialect-independent model of paths and operations.

use std::borrow::Cow;

/// Location of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ParameterLocation {
    /// A path segment.
    Path,
    /// A query parameter.
    Query,
}

impl ParameterLocation {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            ParameterLocation::Path => "path",
            ParameterLocation::Query => "query",
        }
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) location: ParameterLocation,
    /// `string`, `integer` or `boolean`.
    pub(super) ty: &'static str,
    pub(super) description: Cow<'static, str>,
}

/// Content of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// An object with this definition.
    Object(&'a str),
    /// Text.
    Text,
}

/// Request body.
#[derive(Clone, Debug)]
pub(super) struct Body<'a> {
    pub(super) types: &'static [&'static str],
    pub(super) definition: &'a str,
    pub(super) required: bool,
}

/// A group, version and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

/// Operation of one method of a path.
#[derive(Clone, Debug)]
pub(super) struct Operation<'a> {
    /// Method in lower case.
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) tag: String,
    /// Verb, for operations on objects.
    pub(super) action: Option<&'static str>,
    pub(super) kind: Option<Kind<'a>>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body<'a>>,
    /// Status codes of successful responses, which all have the same content.
    pub(super) codes: &'static [u16],
    pub(super) content: Content<'a>,
    /// Media types of successful responses.
    pub(super) types: &'static [&'static str],
}

/// A path and its operations.
#[derive(Clone, Debug)]
pub(super) struct PathItem<'a> {
    pub(super) path: String,
    /// Parameters of all operations.
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<Operation<'a>>,
}

impl<'a> PathItem<'a> {
    /// Creates a path with its operations. Parameters that all of them have move to the path; all are sorted
    /// by name.
    pub(super) fn new(path: String, mut operations: Vec<Operation<'a>>) -> PathItem<'a> {
        operations.sort_by_key(|operation| operation.method);
        let shared: Vec<Parameter> = match operations.split_first() {
            Some((first, others)) => first
                .parameters
                .iter()
                .filter(|parameter| others.iter().all(|other| other.parameters.contains(parameter)))
                .cloned()
                .collect(),
            None => Vec::new(),
        };
        for operation in &mut operations {
            operation.parameters.retain(|parameter| !shared.contains(parameter));
        }
        PathItem { path, parameters: shared, operations }
    }
}

/// Reason phrase of a status code.
pub(super) const fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}
