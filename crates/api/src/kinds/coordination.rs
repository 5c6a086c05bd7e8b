//! Kinds of the group `coordination.k8s.io`.

pub mod lease;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "Lease" => Some(&lease::Lease),
        _ => None,
    }
}
