//! What controllers have in common that manage pods: whose a pod is, what a new one looks like, which goes first.

use std::cmp::Reverse;

use setpoint_api::labels::Selector;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Act, Object, World, Write};

use crate::indexes::ORPHAN_PODS;

/// A pod with what is known of it.
pub type Seen<'a> = (&'a Object, &'a Pod);

/// The pods of an owner, and what must be written to make them so.
#[derive(Default)]
pub struct Claimed<'a> {
    /// The pods that are the owner's now, or will be when the acts are done.
    pub pods: Vec<Seen<'a>>,
    /// Adoptions and releases.
    pub acts: Vec<Act>,
}

/// An owner of pods.
pub struct Owner<'a> {
    /// It.
    pub object: &'a Object,
    /// Group and version of its kind.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
}

impl Owner<'_> {
    /// How it is named in what it manages.
    #[must_use]
    pub fn reference(&self) -> Value {
        let meta = self.object.meta();
        value!({
            "apiVersion": (self.api_version),
            "kind": (self.kind),
            "name": (&*meta.name),
            "uid": (&*meta.uid),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    /// It as the subject of notes.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject::of(self.object, self.api_version, self.kind)
    }
}

/// Finds the pods of an owner: those it manages that it still selects, and orphans that it selects. What it manages
/// and selects no longer is released. An owner on its way out neither adopts nor releases.
#[must_use]
pub fn claim<'a>(world: &'a World, owner: &Owner<'a>, selector: &Selector) -> Claimed<'a> {
    let meta = owner.object.meta();
    let selects = |object: &Object| selector.matches(|name| object.meta().labels.get(name));
    let mut claimed = Claimed::default();
    for object in world.owned(&meta.uid, "pods") {
        let Some(pod) = object.view::<Pod>() else { continue };
        if !object.meta().is_controlled_by(&meta.uid) {
            continue;
        }
        if selects(object) {
            claimed.pods.push((object, pod));
        } else if !meta.is_deleted() {
            claimed.acts.push(release(object, &meta.uid));
        }
    }
    if meta.is_deleted() {
        return claimed;
    }
    for object in world.indexed(ORPHAN_PODS, &meta.namespace) {
        let Some(pod) = object.view::<Pod>() else { continue };
        if !object.meta().is_deleted() && !pod.is_finished() && selects(object) {
            claimed.pods.push((object, pod));
            claimed.acts.push(adopt(object, owner));
        }
    }
    claimed
}

fn adopt(object: &Object, owner: &Owner<'_>) -> Act {
    let patch = value!({"metadata": {"ownerReferences": [(owner.reference())]}});
    Write::merge(object, "", patch).strategic().into()
}

fn release(object: &Object, uid: &str) -> Act {
    let patch = value!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": (uid)}]}});
    Write::merge(object, "", patch).strategic().into()
}

/// A new pod of a template, under a name that starts as its owner's.
#[must_use]
pub fn from_template(template: &Value, owner: &Owner<'_>) -> Value {
    let part = |name: &str| template.at(&["metadata", name]).cloned().unwrap_or_default();
    value!({
        "metadata": {
            "generateName": (prefix(&owner.object.meta().name)),
            "labels": (part("labels")),
            "annotations": (part("annotations")),
            "finalizers": (part("finalizers")),
            "ownerReferences": [(owner.reference())],
        },
        "spec": (template.get("spec").cloned().unwrap_or_default()),
    })
}

/// How the names of an owner's pods begin: with a dash behind it, if that can begin a name.
fn prefix(name: &str) -> String {
    /// The longest name that a generated one may begin with.
    const PREFIX_MAX: usize = 253;
    if name.len() < PREFIX_MAX { format!("{name}-") } else { name.to_owned() }
}

/// Makes a pod, and says so.
#[must_use]
pub fn create(pod: Value, owner: &Owner<'_>) -> Act {
    let subject = owner.subject();
    Act::from(Write::create("pods", &owner.object.meta().namespace, pod))
        .on_done(subject.normal("SuccessfulCreate", "Created pod: {name}"))
        .on_failed(subject.warning("FailedCreate", "Error creating: {error}"))
}

/// Deletes a pod, and says so.
#[must_use]
pub fn delete(pod: &Object, owner: &Owner<'_>) -> Act {
    let subject = owner.subject();
    Act::from(Write::delete(pod))
        .on_done(subject.normal("SuccessfulDelete", format!("Deleted pod: {}", pod.meta().name)))
        .on_failed(subject.warning("FailedDelete", "Error deleting: {error}"))
}

/// Whether a pod runs, or is going to.
#[must_use]
pub fn is_active((object, pod): &Seen<'_>) -> bool {
    !pod.is_finished() && !object.meta().is_deleted()
}

/// By what pods are ordered when some must go: those whose loss costs least come first. `crowding` is how many pods
/// of the same sort are on the pod's node.
#[must_use]
pub fn deletion_order<'a>((object, pod): &Seen<'a>, crowding: usize) -> impl Ord + use<'a> {
    let phase = match pod.status.phase.as_str() {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let ready = pod.is_ready();
    // Times are compared by magnitude, because many pods are made in the same moment.
    let ready_since = pod.ready_since().map_or(Reverse(Time(i64::MAX)), Reverse);
    (
        !pod.spec.node_name.is_empty(),
        phase,
        ready,
        deletion_cost(object),
        Reverse(crowding),
        if ready { ready_since } else { Reverse(Time::EPOCH) },
        Reverse(pod.restarts()),
        Reverse(object.meta().created()),
        object.meta().name.clone(),
    )
}

/// What people say the loss of a pod costs.
fn deletion_cost(object: &Object) -> i64 {
    let said = object.meta().annotations.get("controller.kubernetes.io/pod-deletion-cost");
    said.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0).into()
}
