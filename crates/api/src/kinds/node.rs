//! Kinds of the group `node.k8s.io`.

pub mod runtime_class;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "RuntimeClass" => Some(&runtime_class::RuntimeClass),
        _ => None,
    }
}
