//! ResourceClaim controller: creates claims from templates, reserves them for pods, and deallocates unused
//! ones.
//!
//! The key of a pod creates its claims, lists them in `status.resourceClaimStatuses`, and reserves allocated
//! claims for a pod that has a node. The key of a claim removes deleted and finished pods from `reservedFor`;
//! after the last one the claim is deallocated, and a claim that was created for a pod is deleted. Claims of
//! pod groups are not handled.

use std::collections::BTreeMap;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{
    Action, EventRecord, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write,
};
use setpoint_views::pod::{self, Pod};
use setpoint_views::resource_claim::{ConsumerReference, ResourceClaim};

use crate::indexes::{DEVICE_CLAIMS_BY_POD, PODS_BY_DEVICE_CLAIM, PODS_BY_DEVICE_TEMPLATE, path};
use crate::{event_dedup, pods, staleness};

/// Finalizer of an allocated claim.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Annotation of a generated claim: its name in the spec of the pod.
const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
const CLAIM_TEMPLATES: &str = "resourceclaimtemplates.resource.k8s.io";
/// Maximum length of the base of a generated name, so a dash and five characters still fit.
const NAME_BASE_MAX: usize = 57;

/// The ResourceClaim controller.
pub struct ResourceClaimController;

impl Planner for ResourceClaimController {
    /// Events emitted by the last plan of a pod, so they are not repeated.
    type Memo = Vec<EventRecord>;

    fn name(&self) -> &'static str {
        "resource-claim-controller"
    }

    fn source(&self) -> &'static str {
        "resource_claim"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::mapped(Pod::RESOURCE, enqueue_for_pod),
            Watch::mapped(ResourceClaim::RESOURCE, enqueue_for_claim),
            Watch::mapped(CLAIM_TEMPLATES, |template, world, enqueue| {
                let at = path(&template.meta().namespace, &template.meta().name);
                world.by_index(PODS_BY_DEVICE_TEMPLATE, &at).for_each(|pod| enqueue(pod.key().clone()));
            }),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let has_claims = |(_, pod): &(&Object, &Pod)| !pod.spec.resource_claims.is_empty();
        let pods = world.views::<Pod>().filter(has_claims).map(|(object, _)| object);
        pods.chain(world.all(ResourceClaim::RESOURCE)).map(|object| object.key().clone()).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Vec<EventRecord>>,
        now: Time,
        _: Seed,
    ) -> Plan<Vec<EventRecord>> {
        let Some(object) = world.get(key) else { return Plan::default() };
        if let Some(claim) = object.view::<ResourceClaim>() {
            return plan_claim(object, claim, world, now);
        }
        match object.view::<Pod>() {
            Some(pod) if !object.meta().is_deleted() && !is_done(object, pod) => {
                plan_pod(object, pod, world, &seen.memo, now)
            }
            _ => Plan::default(),
        }
    }
}

/// `true` if no container of a pod runs or ever will.
fn is_done(object: &Object, pod: &Pod) -> bool {
    pod.is_finished() || object.meta().is_deleted() && pod.spec.node_name.is_empty()
}

/// Enqueues a pod with claims, and the claims that are reserved or were created for it.
fn enqueue_for_pod(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if object.view::<Pod>().is_some_and(|pod| !pod.spec.resource_claims.is_empty()) {
        enqueue(object.key().clone());
    }
    if world.count(ResourceClaim::RESOURCE) == 0 {
        return;
    }
    let uid = &object.meta().uid;
    let claims = world.by_index(DEVICE_CLAIMS_BY_POD, uid).chain(world.owned(uid, ResourceClaim::RESOURCE));
    claims.for_each(|claim| enqueue(claim.key().clone()));
}

/// Enqueues a claim, the pods that use it, and the pod that it was created for.
fn enqueue_for_claim(claim: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let meta = claim.meta();
    enqueue(claim.key().clone());
    for pod in world.by_index(PODS_BY_DEVICE_CLAIM, &path(&meta.namespace, &meta.name)) {
        enqueue(pod.key().clone());
    }
    owner_pod(claim)
        .and_then(|(name, _)| key_of("pods", &meta.namespace, name))
        .into_iter()
        .for_each(enqueue);
}

/// Name and UID of the pod that a claim was created for.
fn owner_pod(claim: &Object) -> Option<(&str, &str)> {
    let owner =
        claim.meta().controller().filter(|owner| &*owner.api_version == "v1" && &*owner.kind == "Pod")?;
    Some((&owner.name, &owner.uid))
}

/// Creates the missing claims of a pod, lists them in its status, and reserves those that are allocated.
fn plan_pod(
    object: &Object,
    pod: &Pod,
    world: &WorldReader<'_>,
    before: &[EventRecord],
    now: Time,
) -> Plan<Vec<EventRecord>> {
    let mut plan = Plan::<Vec<EventRecord>> { memo: before.to_vec(), ..Plan::default() };
    // A claim in the status that is missing here may only be not seen yet; it is not created twice.
    let is_missing = |(name, _): (&str, bool)| {
        world.find(ResourceClaim::RESOURCE, &object.meta().namespace, name).is_none()
    };
    if pod.device_claims().any(is_missing)
        && !staleness::has_observed(world, ResourceClaim::RESOURCE, object, now)
    {
        plan.requeue_at(now.after(staleness::RETRY_DELAY));
        return plan;
    }
    let (mut new_statuses, mut new_claims, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let generated = generated_claims(object, world);
    for (claim, status) in pod.claims_with_status().filter(|(claim, _)| claim.resource_claim_name.is_none()) {
        let Some(template) =
            claim.resource_claim_template_name.as_deref().filter(|_| needs_claim(object, status, world))
        else {
            continue;
        };
        let found = world.find(CLAIM_TEMPLATES, &object.meta().namespace, template);
        match (generated.get(&*claim.name), found) {
            (Some(new_claims), _) => new_statuses.push(value!({
                "name": (claim.name.as_str()),
                "resourceClaimName": (&*new_claims.meta().name),
            })),
            (None, Some(template)) => new_claims.push(create_claim(object, claim, template)),
            (None, None) => {
                let message = format!(
                    "PodResourceClaim {}: resource claim template \"{template}\": \
                     resourceclaimtemplate.resource.k8s.io \"{template}\" not found",
                    claim.name
                );
                failures.push(subject(object).warning("FailedResourceClaimCreation", message));
            }
        }
    }
    if !new_statuses.is_empty() {
        let status = value!({"status": {"resourceClaimStatuses": (new_statuses)}});
        let write = Write::merge(object, "status", status).strategic().at_any_revision();
        plan.stage([Action::from(write)]);
    }
    plan.stage(new_claims);
    if !pod.spec.node_name.is_empty() {
        plan.stage(pod.device_claims().filter_map(|claim| reserve(object, claim, world)));
    }
    plan.events = event_dedup::new_events(&failures, before);
    plan.memo = failures;
    plan
}

fn subject(pod: &Object) -> InvolvedObject {
    InvolvedObject::new(pod, "v1", "Pod")
}

/// `true` if a generated claim of a pod is missing. A claim that was deleted is created again.
fn needs_claim(
    object: &Object,
    status: Option<&pod::PodResourceClaimStatus>,
    world: &WorldReader<'_>,
) -> bool {
    let Some(status) = status else { return true };
    status.resource_claim_name.as_deref().is_some_and(|name| {
        let found = world.find(ResourceClaim::RESOURCE, &object.meta().namespace, name);
        !found.is_some_and(|found| found.meta().is_controlled_by(&object.meta().uid))
    })
}

/// Claims that were created for a pod, by their names in its spec, even if its status does not list them. The
/// first of equal names counts.
fn generated_claims<'a>(object: &Object, world: &'a WorldReader<'a>) -> BTreeMap<&'a str, &'a Object> {
    let uid = &object.meta().uid;
    let mut by_name = BTreeMap::new();
    for new_claims in world.owned(uid, ResourceClaim::RESOURCE) {
        let meta = new_claims.meta();
        if meta.is_controlled_by(uid)
            && !meta.is_deleted()
            && let Some(name) = meta.annotations.get(POD_CLAIM_NAME)
        {
            by_name.entry(name).or_insert(new_claims);
        }
    }
    by_name
}

/// Creates a claim from a template.
fn create_claim(object: &Object, claim: &pod::PodResourceClaim, template: &Object) -> Action {
    let meta = object.meta();
    let template = template.value();
    let part = |path: &[&str]| template.at(path).cloned().unwrap_or_default();
    let mut annotations = part(&["spec", "metadata", "annotations"]);
    annotations.make_map().insert(POD_CLAIM_NAME, claim.name.as_str());
    let claimed = value!({
        "metadata": {
            "generateName": (name_base(&meta.name, &claim.name)),
            "labels": (part(&["spec", "metadata", "labels"])),
            "annotations": (annotations),
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Pod",
                "name": (&*meta.name),
                "uid": (&*meta.uid),
                "controller": true,
            }],
        },
        "spec": (part(&["spec", "spec"])),
    });
    let failed = format!("PodResourceClaim {}: create ResourceClaim : {{error}}", claim.name);
    let action = Action::from(Write::create(ResourceClaim::RESOURCE, &meta.namespace, claimed));
    action.on_failed(subject(object).warning("FailedResourceClaimCreation", failed))
}

/// Base of a generated name. If it is too long, both parts are cut in proportion.
fn name_base(pod: &str, claim: &str) -> String {
    let whole = format!("{pod}-{claim}-");
    if whole.len() <= NAME_BASE_MAX {
        return whole;
    }
    let cut = |text: &str| text[..text.len() * NAME_BASE_MAX / whole.len()].to_owned();
    format!("{}-{}", cut(pod), cut(claim))
}

/// Reserves an allocated claim for a pod that uses it.
fn reserve(object: &Object, (name, is_generated): (&str, bool), world: &WorldReader<'_>) -> Option<Action> {
    let meta = object.meta();
    let (claim, view) = world.view::<ResourceClaim>(&meta.namespace, name)?;
    let is_owned = !is_generated || claim.meta().is_controlled_by(&meta.uid);
    // A claim that is being deleted gets no new consumers.
    let can_reserve = view.status.allocation.is_some() && !claim.meta().is_deleted();
    if !is_owned || !can_reserve || view.is_reserved_for(&meta.uid) {
        return None;
    }
    let mut consumers = view.status.reserved_for.clone();
    consumers.push(ConsumerReference {
        api_group: String::new(),
        resource: "pods".to_owned(),
        name: meta.name.to_string(),
        uid: meta.uid.to_string(),
    });
    Some(Write::status(claim, value!({"reservedFor": (value_of(&consumers))})).into())
}

/// Removes pods that no longer use a claim; after the last one, deallocates the claim and removes its
/// finalizer.
fn plan_claim(
    object: &Object,
    claim: &ResourceClaim,
    world: &WorldReader<'_>,
    now: Time,
) -> Plan<Vec<EventRecord>> {
    let mut plan = Plan::<Vec<EventRecord>>::default();
    let reserved = &claim.status.reserved_for;
    let refers_to_pods = !reserved.is_empty() || owner_pod(object).is_some();
    if refers_to_pods && !staleness::has_observed(world, "pods", object, now) {
        plan.requeue_at(now.after(staleness::RETRY_DELAY));
        return plan;
    }
    let remaining: Vec<&ConsumerReference> =
        reserved.iter().filter(|consumer| is_still_used_by(object, consumer, world)).collect();
    let (is_unreserved, is_allocated) = (remaining.is_empty(), claim.status.allocation.is_some());
    let has_finalizer = object.meta().has_finalizer(FINALIZER);
    let has_released = remaining.len() < reserved.len();
    // A claim may be allocated before it is reserved, so it is deallocated only when the last consumer goes,
    // or the claim.
    let deallocates = has_finalizer && is_unreserved && (has_released || object.meta().is_deleted());
    if has_released || deallocates && is_allocated {
        let consumers = (!is_unreserved).then(|| value_of(&remaining));
        let mut status = value!({"reservedFor": (consumers)});
        if deallocates {
            status.make_map().insert("allocation", Value::Null);
        }
        plan.stage([Action::from(Write::status(object, status))]);
    }
    if deallocates {
        plan.stage([pods::remove_finalizer(object, FINALIZER)]);
    }
    if is_unreserved && !object.meta().is_deleted() && is_owner_done(object, world) {
        plan.stage([Action::from(Write::delete(object))]);
    }
    plan
}

/// `true` if a consumer still uses a claim. Consumers other than pods always do.
fn is_still_used_by(claim: &Object, consumer: &ConsumerReference, world: &WorldReader<'_>) -> bool {
    if !consumer.is_pod() {
        return true;
    }
    let pod = world.view::<Pod>(&claim.meta().namespace, &consumer.name);
    pod.is_some_and(|(object, pod)| *object.meta().uid == *consumer.uid && !is_done(object, pod))
}

/// `true` if the pod that a claim was created for is finished. If the pod is gone, the garbage collector
/// deletes the claim.
fn is_owner_done(claim: &Object, world: &WorldReader<'_>) -> bool {
    owner_pod(claim).is_some_and(|(name, uid)| {
        let pod = world.view::<Pod>(&claim.meta().namespace, name);
        pod.is_some_and(|(object, pod)| *object.meta().uid != *uid || is_done(object, pod))
    })
}

#[cfg(test)]
mod tests;
