//! The questions that controllers ask of the world, beside who owns what.

use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Index, Object};

/// Pods that are announced to be disrupted and run on, all under the empty value.
pub const DISRUPTION_TARGETS: &str = "pods to be disrupted";
/// Pods that have ended, all under the empty value.
pub const ENDED_PODS: &str = "pods that ended";
/// Pods that a Job has yet to count, all under the empty value.
pub const JOB_TRACKED_PODS: &str = "pods that a job tracks";
/// Pods that nobody manages, by namespace.
pub const ORPHAN_PODS: &str = "orphan pods";
/// Pods by the node they are bound to.
pub const PODS_BY_NODE: &str = "pods by node";

/// All of them.
#[must_use]
pub fn all() -> Vec<Index> {
    vec![
        Index { name: DISRUPTION_TARGETS, resource: "pods", values: disruption_target },
        Index { name: ENDED_PODS, resource: "pods", values: ended },
        Index { name: JOB_TRACKED_PODS, resource: "pods", values: job_tracked },
        Index { name: ORPHAN_PODS, resource: "pods", values: orphan },
        Index { name: PODS_BY_NODE, resource: "pods", values: node },
    ]
}

fn disruption_target(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.view().is_some_and(|pod| crate::disruption::announced_since(object, pod).is_some()) {
        found("");
    }
}

fn ended(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.view::<Pod>().is_some_and(Pod::is_finished) {
        found("");
    }
}

fn job_tracked(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.meta().has_finalizer(crate::job::TRACKING) {
        found("");
    }
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
