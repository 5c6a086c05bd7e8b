//! Kinds of the group `apiextensions.k8s.io`: CustomResourceDefinition.
//!
//! Upstream validates the internal version of the kind, whose field paths appear in messages: parts that are equal in
//! all versions move to the top of the spec (`spec.validation.openAPIV3Schema`), see `internal.rs`. Rules of
//! `x-kubernetes-validations` are compiled where they are evaluated: [`schema_walk::for_each_root`] and
//! [`schema_walk::for_each_rule_site`] visit them.

pub mod condition;
mod conversion;
pub mod definition;
pub mod field_path;
mod internal;
mod names;
mod ratchet;
mod schema;
mod schema_lists;
pub mod schema_walk;
mod spec;
mod structural_checks;
#[cfg(test)]
mod tests;
mod version;
mod warnings;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "CustomResourceDefinition" => Some(&definition::CustomResourceDefinition),
        _ => None,
    }
}
