//! Coverage marks for pods, claims and nodes. Checks nothing.

use std::collections::BTreeMap;

use setpoint_reconcile::Object;
use setpoint_views::condition;
use setpoint_views::node::Node;
use setpoint_views::pod::Pod;

use super::{Check, CommitContext, is_active, pod};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// Recorder of marks.
#[derive(Default)]
pub struct CoverageEvents {
    /// Node on which an owner last lost a pod through the fault of the node, by UID of the owner.
    lost: BTreeMap<Box<str>, String>,
}

impl Check for CoverageEvents {
    fn check_change(
        &mut self,
        change: &CommitChange,
        _: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        match change.key.resource().as_str() {
            "pods" => self.record_pod(change, marks),
            "nodes" => record_node(change, marks),
            "persistentvolumeclaims" => record_claim(change, marks),
            _ => {}
        }
        Ok(())
    }
}

impl CoverageEvents {
    fn record_pod(&mut self, change: &CommitChange, marks: &mut CoverageMarks) {
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        let Some(was) = before.and_then(pod) else { return };
        if change.is_deletion() {
            self.record_deletion(change, was, marks);
        }
        let (Some(is), Some(object)) = (after.and_then(pod), after) else {
            marks.record("pod was removed");
            return;
        };
        if was.spec.node_name.is_empty() && !is.spec.node_name.is_empty() {
            self.record_bind(object, was, is, marks);
        }
        if is.is_finished() && !was.is_finished() {
            marks.record(if is.status.phase == "Failed" { "pod failed" } else { "pod succeeded" });
        } else if was.is_ready() && !is.is_ready() && is_active(object) {
            marks.record("pod lost its readiness");
        }
    }

    fn record_deletion(&mut self, change: &CommitChange, was: &Pod, marks: &mut CoverageMarks) {
        match &*change.by {
            "taint-eviction-controller" => marks.record("pod was evicted by a taint"),
            "pod-garbage-collector" => marks.record("pod of a removed node was collected"),
            "scheduler" => {
                marks.record("pod was preempted");
                return;
            }
            _ => return,
        }
        if let Some(owner) = change.object().meta().controller() {
            self.lost.insert(owner.uid.clone(), was.spec.node_name.clone());
        }
    }

    fn record_bind(&self, object: &Object, was: &Pod, is: &Pod, marks: &mut CoverageMarks) {
        if condition(&was.status.conditions, "PodScheduled")
            .is_some_and(|condition| condition.reason == "Unschedulable")
        {
            marks.record("unschedulable pod was bound");
        }
        let lost = object.meta().controller().and_then(|owner| self.lost.get(&owner.uid));
        if lost.is_some_and(|node| *node != is.spec.node_name) {
            marks.record("pod was replaced on another node");
        }
    }
}

fn record_node(change: &CommitChange, marks: &mut CoverageMarks) {
    let readiness = |object: Option<&Object>| {
        let node = object.and_then(|object| object.view::<Node>());
        node.and_then(Node::readiness).unwrap_or_default().to_owned()
    };
    let (was, is) = (readiness(change.before.as_ref()), readiness(change.after.as_ref()));
    match (was.as_str(), is.as_str()) {
        ("True", "Unknown") => marks.record("node became unreachable"),
        ("Unknown", "True") => marks.record("node returned"),
        _ => {}
    }
}

fn record_claim(change: &CommitChange, marks: &mut CoverageMarks) {
    let has = |object: Option<&Object>| {
        object.is_some_and(|object| object.meta().annotations.get(SELECTED).is_some())
    };
    if &*change.by == "scheduler" && !has(change.before.as_ref()) && has(change.after.as_ref()) {
        marks.record("claim was bound for its first consumer");
    }
}
