//! Kinds of the group `discovery.k8s.io`.

pub mod endpoint_slice;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "EndpointSlice" => Some(&endpoint_slice::EndpointSlice),
        _ => None,
    }
}
