//! Kinds of the group `scheduling.k8s.io`.

pub mod priority_class;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "PriorityClass" => Some(&priority_class::PriorityClass),
        _ => None,
    }
}
