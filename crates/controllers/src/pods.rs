//! What controllers have in common that manage pods: whose a pod is, what a new one looks like, which goes first.

use std::cmp::Reverse;

use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Act, Object, Plan, World, Write};

use crate::indexes::{ORPHAN_PODS, PODS_BY_LABEL, labelled};
use crate::owners;
pub use crate::owners::Owner;

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

/// Finds the pods of an owner: those it manages that it still selects, and orphans that it selects. What it manages
/// and selects no longer is released. An owner on its way out neither adopts nor releases.
#[must_use]
pub fn claim<'a>(world: &'a World, owner: &Owner<'a>, selector: &Selector) -> Claimed<'a> {
    let selects = |object: &Object| selector.matches(|name| object.meta().labels.get(name));
    let adopts = |object: &Object| object.view::<Pod>().is_some_and(|pod| !pod.is_finished());
    claim_where(world, owner, selects, adopts)
}

/// The same for an owner that has its own way to tell which pods are its own, and which it adopts.
#[must_use]
pub fn claim_where<'a>(
    world: &'a World,
    owner: &Owner<'a>,
    selects: impl Fn(&Object) -> bool,
    adopts: impl Fn(&Object) -> bool,
) -> Claimed<'a> {
    let (objects, acts) = owners::claim(world, owner, "pods", ORPHAN_PODS, selects, adopts);
    Claimed { pods: objects.into_iter().filter_map(|pod| Some((pod, pod.view()?))).collect(), acts }
}

/// The same for an owner that puts a finalizer on its pods: it is added when one is adopted and taken off when one
/// is released. Such an owner counts ended pods, so it adopts them too.
#[must_use]
pub fn claim_tracked<'a>(
    world: &'a World,
    owner: &Owner<'a>,
    selector: &Selector,
    finalizer: Option<&str>,
) -> Claimed<'a> {
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
        } else if !meta.is_deleted() && claimed.acts.len() < owners::ACTS_MAX {
            claimed.acts.push(release(object, &meta.uid, finalizer));
        }
    }
    if meta.is_deleted() {
        return claimed;
    }
    for object in world.indexed(ORPHAN_PODS, &meta.namespace) {
        let Some(pod) = object.view::<Pod>() else { continue };
        let is_wanted = finalizer.is_some() || !pod.is_finished();
        if !object.meta().is_deleted() && is_wanted && selects(object) {
            claimed.pods.push((object, pod));
            if claimed.acts.len() < owners::ACTS_MAX {
                claimed.acts.push(adopt(object, owner, finalizer));
            }
        }
    }
    claimed
}

/// The pods of a namespace that a selector finds, in the order of their names.
#[must_use]
pub fn selected<'a>(world: &'a World, namespace: &'a str, selector: &Selector) -> Vec<Seen<'a>> {
    let matches = |pod: &&'a Object| selector.matches(|name| pod.meta().labels.get(name));
    let required = |one: &'_ Requirement| match (one.operator(), one.values().len()) {
        (Operator::Equals | Operator::DoubleEquals | Operator::In, 1) => {
            one.values().next().map(|value| labelled(namespace, one.key(), value))
        }
        _ => None,
    };
    let found: Vec<&Object> = match selector.requirements().iter().find_map(required) {
        Some(label) => world.indexed(PODS_BY_LABEL, &label).filter(matches).collect(),
        None => world.in_namespace("pods", namespace).filter(matches).collect(),
    };
    found.into_iter().filter_map(|pod| Some((pod, pod.view()?))).collect()
}

fn adopt(object: &Object, owner: &Owner<'_>, finalizer: Option<&str>) -> Act {
    let mut patch = value!({"metadata": {"ownerReferences": [(owner.reference())]}});
    if let Some(finalizer) = finalizer {
        patch.ensure_map("metadata").insert("finalizers", Value::List(vec![finalizer.into()]));
    }
    Write::merge(object, "", patch).strategic().into()
}

fn release(object: &Object, uid: &str, finalizer: Option<&str>) -> Act {
    let mut patch = value!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": (uid)}]}});
    if let Some(finalizer) = finalizer {
        let name = "$deleteFromPrimitiveList/finalizers";
        patch.ensure_map("metadata").insert(name, Value::List(vec![finalizer.into()]));
    }
    Write::merge(object, "", patch).strategic().into()
}

/// Takes a finalizer off a pod, whatever else has become of it.
#[must_use]
pub fn remove_finalizer(object: &Object, finalizer: &str) -> Act {
    without_finalizer(object, finalizer).at_any_revision().into()
}

/// Takes a finalizer off a pod, if nothing has become of it since it was seen.
#[must_use]
pub fn remove_finalizer_unchanged(object: &Object, finalizer: &str) -> Act {
    without_finalizer(object, finalizer).into()
}

fn without_finalizer(object: &Object, finalizer: &str) -> Write {
    let patch = value!({"metadata": {"$deleteFromPrimitiveList/finalizers": [(finalizer)]}});
    Write::merge(object, "", patch).strategic()
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

/// Has a plan look again when the next of the pods will have been ready for long enough.
pub fn look_again<M>(plan: &mut Plan<M>, pods: &[Seen<'_>], min_ready_seconds: i64, now: Time) {
    for (_, pod) in pods {
        if let Some(at) = pod.available_at(min_ready_seconds).filter(|at| *at > now) {
            plan.look_again_at(at);
        }
    }
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
