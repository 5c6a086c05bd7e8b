//! OpenAPI documents, generated from schemas and resources on request.
//!
//! [`v3`] has a document per group version and an index of them; [`v2`] has one document of everything, which
//! [`gnostic`] also encodes as the protobuf that older clients request. [`Dialect`] holds the differences.
//! Only the hashes in the index are cached.

use crate::value::Value;

mod custom;
mod definitions;
pub mod gnostic;
mod model;
mod operations;
mod parameters;
mod special;
pub mod v2;
pub mod v3;

#[cfg(test)]
mod tests;

/// OpenAPI version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// Reference to a definition of a document.
    fn reference(self, definition: &str) -> Value {
        match self {
            Dialect::V2 => format!("#/definitions/{definition}").into(),
            Dialect::V3 => format!("#/components/schemas/{definition}").into(),
        }
    }
}

/// Media types of bodies.
mod media {
    pub(super) const ANY: &[&str] = &["*/*"];
    pub(super) const JSON: &[&str] = &["application/json"];
    pub(super) const KEYS: &[&str] = &["application/jwk-set+json"];
    pub(super) const OBJECT: &[&str] =
        &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
    pub(super) const LOG: &[&str] =
        &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "text/plain"];
    pub(super) const WATCH: &[&str] = &[
        "application/json",
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/yaml",
    ];
    /// Bodies of custom kinds, which have no protobuf form.
    pub(super) const CUSTOM: &[&str] = &["application/json", "application/yaml"];
    /// Patches of custom kinds, which have no merge keys.
    pub(super) const CUSTOM_PATCH: &[&str] =
        &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    pub(super) const PATCH: &[&str] = &[
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
}

/// Definitions that the operations of some paths refer to.
fn referred<'a>(items: &'a [model::PathItem<'a>]) -> impl Iterator<Item = &'a str> {
    items.iter().flat_map(|item| &item.operations).flat_map(|operation| {
        let content = match operation.content {
            model::Content::Object(definition) => Some(definition),
            model::Content::Text => None,
        };
        content.into_iter().chain(operation.body.as_ref().map(|body| body.definition))
    })
}
