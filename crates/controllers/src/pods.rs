//! Shared functions of controllers that manage pods: adoption, creation from a template, deletion order.

use std::cmp::Reverse;

use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::{Action, Object, Plan, WorldReader, Write};
use setpoint_views::pod::Pod;

use crate::indexes::{ORPHAN_PODS, PODS_BY_LABEL, label_key};
use crate::owners;
pub use crate::owners::Owner;

/// Pod as object and as view.
pub type PodRef<'a> = (&'a Object, &'a Pod);

/// Pods of an owner, and the adoptions and releases.
#[derive(Default)]
pub struct ClaimedPods<'a> {
    /// Pods that the owner controls, or will control after the actions.
    pub pods: Vec<PodRef<'a>>,
    /// Adoptions and releases.
    pub actions: Vec<Action>,
}

/// Claims the pods of an owner: controlled pods that match the selector, and orphans that match it.
/// Controlled pods that no longer match are released. An owner that is being deleted neither adopts nor
/// releases.
#[must_use]
pub fn claim_pods<'a>(world: &'a WorldReader<'a>, owner: &Owner<'a>, selector: &Selector) -> ClaimedPods<'a> {
    let selects = |object: &Object| selector.matches(|name| object.meta().labels.get(name));
    let adopts = |object: &Object| object.view::<Pod>().is_some_and(|pod| !pod.is_finished());
    claim_pods_where(world, owner, selects, adopts)
}

/// Like [`claim_pods`], with predicates for pods to keep and orphans to adopt.
#[must_use]
pub fn claim_pods_where<'a>(
    world: &'a WorldReader<'a>,
    owner: &Owner<'a>,
    selects: impl Fn(&Object) -> bool,
    adopts: impl Fn(&Object) -> bool,
) -> ClaimedPods<'a> {
    let (objects, actions) = owners::claim_objects(world, owner, "pods", ORPHAN_PODS, selects, adopts);
    ClaimedPods { pods: objects.into_iter().filter_map(|pod| Some((pod, pod.view()?))).collect(), actions }
}

/// Like [`claim_pods`], for an owner with a finalizer on its pods: adoption adds it and release removes it.
/// Such an owner counts finished pods, so it adopts them too.
#[must_use]
pub fn claim_tracked_pods<'a>(
    world: &'a WorldReader<'a>,
    owner: &Owner<'a>,
    selector: &Selector,
    finalizer: Option<&str>,
) -> ClaimedPods<'a> {
    let meta = owner.object.meta();
    let selects = |object: &Object| selector.matches(|name| object.meta().labels.get(name));
    let mut claimed = ClaimedPods::default();
    for object in world.owned(&meta.uid, "pods") {
        let Some(pod) = object.view::<Pod>() else { continue };
        if !object.meta().is_controlled_by(&meta.uid) {
            continue;
        }
        if selects(object) {
            claimed.pods.push((object, pod));
        } else if !meta.is_deleted() && claimed.actions.len() < owners::CLAIM_ACTIONS_MAX {
            claimed.actions.push(release(object, &meta.uid, finalizer));
        }
    }
    if meta.is_deleted() {
        return claimed;
    }
    for object in world.by_index(ORPHAN_PODS, &meta.namespace) {
        let Some(pod) = object.view::<Pod>() else { continue };
        let can_adopt = finalizer.is_some() || !pod.is_finished();
        if !object.meta().is_deleted() && can_adopt && selects(object) {
            claimed.pods.push((object, pod));
            if claimed.actions.len() < owners::CLAIM_ACTIONS_MAX {
                claimed.actions.push(adopt(object, owner, finalizer));
            }
        }
    }
    claimed
}

/// Pods of a namespace that match a selector, sorted by name.
#[must_use]
pub fn select_pods<'a>(
    world: &'a WorldReader<'a>,
    namespace: &'a str,
    selector: &Selector,
) -> Vec<PodRef<'a>> {
    let matches = |pod: &&'a Object| selector.matches(|name| pod.meta().labels.get(name));
    let required = |requirement: &'_ Requirement| match (requirement.operator(), requirement.values().len()) {
        (Operator::Equals | Operator::DoubleEquals | Operator::In, 1) => {
            requirement.values().next().map(|value| label_key(namespace, requirement.key(), value))
        }
        _ => None,
    };
    let found: Vec<&Object> = match selector.requirements().iter().find_map(required) {
        Some(label) => world.by_index(PODS_BY_LABEL, &label).filter(matches).collect(),
        None => world.in_namespace("pods", namespace).filter(matches).collect(),
    };
    found.into_iter().filter_map(|pod| Some((pod, pod.view()?))).collect()
}

fn adopt(object: &Object, owner: &Owner<'_>, finalizer: Option<&str>) -> Action {
    let mut patch = value!({"metadata": {"ownerReferences": [(owner.reference())]}});
    if let Some(finalizer) = finalizer {
        patch.ensure_map("metadata").insert("finalizers", Value::List(vec![finalizer.into()]));
    }
    Write::merge(object, "", patch).strategic().into()
}

fn release(object: &Object, uid: &str, finalizer: Option<&str>) -> Action {
    let mut patch = value!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": (uid)}]}});
    if let Some(finalizer) = finalizer {
        let name = "$deleteFromPrimitiveList/finalizers";
        patch.ensure_map("metadata").insert(name, Value::List(vec![finalizer.into()]));
    }
    Write::merge(object, "", patch).strategic().into()
}

/// Removes a finalizer of a pod, at any version of the pod.
#[must_use]
pub fn remove_finalizer(object: &Object, finalizer: &str) -> Action {
    remove_finalizer_write(object, finalizer).at_any_revision().into()
}

/// Removes a finalizer of a pod, if the pod has not changed since it was seen.
#[must_use]
pub fn remove_finalizer_unchanged(object: &Object, finalizer: &str) -> Action {
    remove_finalizer_write(object, finalizer).into()
}

fn remove_finalizer_write(object: &Object, finalizer: &str) -> Write {
    let patch = value!({"metadata": {"$deleteFromPrimitiveList/finalizers": [(finalizer)]}});
    Write::merge(object, "", patch).strategic()
}

/// Pod from a template, with a generated name.
#[must_use]
pub fn from_template(template: &Value, owner: &Owner<'_>) -> Value {
    let part = |name: &str| template.at(&["metadata", name]).cloned().unwrap_or_default();
    value!({
        "metadata": {
            "generateName": (generate_name(&owner.object.meta().name)),
            "labels": (part("labels")),
            "annotations": (part("annotations")),
            "finalizers": (part("finalizers")),
            "ownerReferences": [(owner.reference())],
        },
        "spec": (template.get("spec").cloned().unwrap_or_default()),
    })
}

/// Prefix of generated pod names: the owner's name with a dash, if that is valid.
fn generate_name(name: &str) -> String {
    /// Maximum length of a prefix.
    const PREFIX_MAX: usize = 253;
    if name.len() < PREFIX_MAX { format!("{name}-") } else { name.to_owned() }
}

/// Creates a pod, with an Event.
#[must_use]
pub fn create(pod: Value, owner: &Owner<'_>) -> Action {
    let subject = owner.subject();
    Action::from(Write::create("pods", &owner.object.meta().namespace, pod))
        .on_done(subject.normal("SuccessfulCreate", "Created pod: {name}"))
        .on_failed(subject.warning("FailedCreate", "Error creating: {error}"))
}

/// Deletes a pod, with an Event.
#[must_use]
pub fn delete(pod: &Object, owner: &Owner<'_>) -> Action {
    let subject = owner.subject();
    Action::from(Write::delete(pod))
        .on_done(subject.normal("SuccessfulDelete", format!("Deleted pod: {}", pod.meta().name)))
        .on_failed(subject.warning("FailedDelete", "Error deleting: {error}"))
}

/// `true` if a pod is neither finished nor being deleted.
#[must_use]
pub fn is_active((object, pod): &PodRef<'_>) -> bool {
    !pod.is_finished() && !object.meta().is_deleted()
}

/// Requeues the plan for when the next pod reaches `minReadySeconds`.
pub fn requeue_when_available<M>(plan: &mut Plan<M>, pods: &[PodRef<'_>], min_ready_seconds: i64, now: Time) {
    for (_, pod) in pods {
        if let Some(at) = pod.available_at(min_ready_seconds).filter(|at| *at > now) {
            plan.requeue_at(at);
        }
    }
}

/// Sort key of surplus pods: the pod whose deletion costs least comes first. `related_on_node` is the number
/// of related pods on the pod's node.
#[must_use]
pub fn deletion_order<'a>((object, pod): &PodRef<'a>, related_on_node: usize) -> impl Ord + use<'a> {
    let phase = match pod.status.phase.as_str() {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let ready = pod.is_ready();
    // Durations are compared by magnitude, because many pods are created at the same time.
    let ready_since = pod.ready_since().map_or(Reverse(Time(i64::MAX)), Reverse);
    (
        !pod.spec.node_name.is_empty(),
        phase,
        ready,
        deletion_cost(object),
        Reverse(related_on_node),
        if ready { ready_since } else { Reverse(Time::EPOCH) },
        Reverse(pod.max_container_restarts()),
        Reverse(object.meta().created()),
        object.meta().name.clone(),
    )
}

/// Value of the annotation `pod-deletion-cost`.
fn deletion_cost(object: &Object) -> i64 {
    let cost = object.meta().annotations.get("controller.kubernetes.io/pod-deletion-cost");
    cost.and_then(|text| text.parse::<i32>().ok()).unwrap_or(0).into()
}
