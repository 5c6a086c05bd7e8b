//! The kinds of coordination.k8s.io.

pub mod lease;

use super::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "Lease" => Some(&lease::Lease),
        _ => None,
    }
}
