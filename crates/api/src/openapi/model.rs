//! What both dialects of OpenAPI say about paths, before it is said in either.

use std::borrow::Cow;

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A part of the path.
    Path,
    /// After the question mark.
    Query,
}

impl Place {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
        }
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// `string`, `integer` or `boolean`.
    pub(super) ty: &'static str,
    pub(super) description: Cow<'static, str>,
}

/// What a body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// An object with this definition.
    Object(&'static str),
    /// Text.
    Text,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) types: &'static [&'static str],
    pub(super) definition: &'static str,
    pub(super) required: bool,
}

/// A group, a version and a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

/// What one method of a path does.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// The method in lower case.
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) tag: String,
    /// The verb, of operations on objects.
    pub(super) action: Option<&'static str>,
    pub(super) kind: Option<Kind<'static>>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    /// The codes of good answers, which all have the same content.
    pub(super) codes: &'static [u16],
    pub(super) content: Content,
    /// The media types of good answers.
    pub(super) types: &'static [&'static str],
}

/// A path and what can be done there.
#[derive(Clone, Debug)]
pub(super) struct PathItem {
    pub(super) path: String,
    /// Parameters of all operations.
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<Operation>,
}

impl PathItem {
    /// A path with its operations. Parameters that all of them have are said once; all are in the order of
    /// their names.
    pub(super) fn new(path: String, mut operations: Vec<Operation>) -> PathItem {
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

/// What a code means.
pub(super) const fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}
