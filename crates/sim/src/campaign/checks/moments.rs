//! Nothing that must hold: what happened to pods, claims and nodes, for the marks.

use std::collections::BTreeMap;

use setpoint_reconcile::Object;
use setpoint_reconcile::views::condition;
use setpoint_reconcile::views::node::Node;
use setpoint_reconcile::views::pod::Pod;

use super::{Check, Scene, is_active, pod};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// See the module.
#[derive(Default)]
pub struct Moments {
    /// Where owners lost a pod to the fate of its node, by their identities.
    lost: BTreeMap<Box<str>, String>,
}

impl Check for Moments {
    fn see(&mut self, change: &Change, _: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        match change.key.resource().as_str() {
            "pods" => self.note_pod(change, marks),
            "nodes" => note_node(change, marks),
            "persistentvolumeclaims" => note_claim(change, marks),
            _ => {}
        }
        Ok(())
    }
}

impl Moments {
    fn note_pod(&mut self, change: &Change, marks: &mut Marks) {
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        let Some(was) = before.and_then(pod) else { return };
        if change.is_deletion() {
            self.note_deletion(change, was, marks);
        }
        let (Some(is), Some(object)) = (after.and_then(pod), after) else {
            marks.note("pod vanished");
            return;
        };
        if was.spec.node_name.is_empty() && !is.spec.node_name.is_empty() {
            self.note_bind(object, was, is, marks);
        }
        if is.is_finished() && !was.is_finished() {
            marks.note(if is.status.phase == "Failed" { "pod failed" } else { "pod succeeded" });
        } else if was.is_ready() && !is.is_ready() && is_active(object) {
            marks.note("pod lost its readiness");
        }
    }

    fn note_deletion(&mut self, change: &Change, was: &Pod, marks: &mut Marks) {
        match &*change.by {
            "taint-eviction-controller" => marks.note("pod was evicted by a taint"),
            "pod-garbage-collector" => marks.note("pod of a removed node was collected"),
            "scheduler" => {
                marks.note("pod made room for another");
                return;
            }
            _ => return,
        }
        if let Some(owner) = change.object().meta().controller() {
            self.lost.insert(owner.uid.clone(), was.spec.node_name.clone());
        }
    }

    fn note_bind(&self, object: &Object, was: &Pod, is: &Pod, marks: &mut Marks) {
        if condition(&was.status.conditions, "PodScheduled").is_some_and(|one| one.reason == "Unschedulable")
        {
            marks.note("pod had no place, and then it had");
        }
        let lost = object.meta().controller().and_then(|owner| self.lost.get(&owner.uid));
        if lost.is_some_and(|node| *node != is.spec.node_name) {
            marks.note("pod was replaced elsewhere");
        }
    }
}

fn note_node(change: &Change, marks: &mut Marks) {
    let readiness = |object: Option<&Object>| {
        let node = object.and_then(|object| object.view::<Node>());
        node.and_then(Node::readiness).unwrap_or_default().to_owned()
    };
    let (was, is) = (readiness(change.before.as_ref()), readiness(change.after.as_ref()));
    match (was.as_str(), is.as_str()) {
        ("True", "Unknown") => marks.note("node was held for lost"),
        ("Unknown", "True") => marks.note("node returned"),
        _ => {}
    }
}

fn note_claim(change: &Change, marks: &mut Marks) {
    let has = |object: Option<&Object>| {
        object.is_some_and(|object| object.meta().annotations.get(SELECTED).is_some())
    };
    if &*change.by == "scheduler" && !has(change.before.as_ref()) && has(change.after.as_ref()) {
        marks.note("claim was bound for its first consumer");
    }
}
