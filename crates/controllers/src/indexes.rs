//! The questions that controllers ask of the world, beside who owns what.

use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Index, Object};

/// Pods that nobody manages, by namespace.
pub const ORPHAN_PODS: &str = "orphan pods";
/// Pods by the node they are bound to.
pub const PODS_BY_NODE: &str = "pods by node";

/// All of them.
#[must_use]
pub fn all() -> Vec<Index> {
    vec![
        Index { name: ORPHAN_PODS, resource: "pods", values: orphan },
        Index { name: PODS_BY_NODE, resource: "pods", values: node },
    ]
}

fn orphan(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.meta().controller().is_none() {
        found(&object.meta().namespace);
    }
}

fn node(object: &Object, found: &mut dyn FnMut(&str)) {
    if let Some(pod) = object.view::<Pod>()
        && !pod.spec.node_name.is_empty()
    {
        found(&pod.spec.node_name);
    }
}
