//! Storage object protection: claims used by pods, volumes bound to claims, and VolumeAttributesClasses in
//! use.
//!
//! A finalizer keeps each of them until its last user is gone. The condition `Unused` of a claim is
//! maintained too.

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::pod::Pod;
use setpoint_views::{Condition, condition};

use crate::indexes::{self, CLAIMS_BY_ATTRIBUTES, PODS_BY_CLAIM, VOLUMES_BY_ATTRIBUTES, path};
use crate::{finalizers, staleness};

/// Finalizer of a claim.
const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// Finalizer of a volume.
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// Finalizer of a VolumeAttributesClass.
const ATTRIBUTES_FINALIZER: &str = "kubernetes.io/vac-protection";
/// Condition of a claim that no pod uses.
const UNUSED: &str = "Unused";

/// Adds the finalizer to a live object, and removes it from a deleted one that is not used. `is_used` is
/// `None` if not all users that existed at the deletion are visible.
fn protect(object: &Object, finalizer: &str, is_used: impl FnOnce() -> Option<bool>) -> Option<Action> {
    if !object.meta().is_deleted() {
        return finalizers::add(object, finalizer);
    }
    (is_used() == Some(false)).then(|| finalizers::remove(object, finalizer)).flatten()
}

/// `true` if the world shows all possible users of an object. If not, the plan is requeued soon.
fn has_observed_users(
    plan: &mut Plan,
    world: &WorldReader<'_>,
    users: &[&str],
    object: &Object,
    now: Time,
) -> bool {
    let has_observed_users = users.iter().all(|users| staleness::has_observed(world, users, object, now));
    if !has_observed_users {
        plan.requeue_at(now.after(staleness::RETRY_DELAY));
    }
    has_observed_users
}

/// PVC protection: keeps claims that pods use.
pub struct ClaimProtection;

impl Planner for ClaimProtection {
    type Memo = ();

    fn name(&self) -> &'static str {
        "pvc-protection-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] =
            [Watch::primary("persistentvolumeclaims"), Watch::mapped("pods", indexes::enqueue_claims)];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(claim) = object.view::<PersistentVolumeClaim>() else { return plan };
        let meta = object.meta();
        let pods = || {
            let pods = world.by_index(PODS_BY_CLAIM, &path(&meta.namespace, &meta.name));
            pods.filter_map(|pod| Some((pod, pod.view::<Pod>()?)))
        };
        if !meta.is_deleted() && claim.status.phase == "Bound" {
            let used = pods().any(|(seen, pod)| !is_terminated(seen, pod) && uses_claim(seen, pod, object));
            plan.stage(sync_unused_condition(object, claim, used, now));
        }
        let needs_claim =
            || pods().any(|(seen, pod)| !pod.spec.node_name.is_empty() && needs_claim(seen, pod, object));
        let is_observed = !meta.is_deleted() || has_observed_users(&mut plan, world, &["pods"], object, now);
        plan.stage(protect(object, CLAIM_FINALIZER, || is_observed.then(needs_claim)));
        plan
    }
}

/// `true` if a pod is finished, or all its containers are.
pub(crate) fn is_terminated(object: &Object, pod: &Pod) -> bool {
    let has_ended = |status: &setpoint_views::pod::ContainerStatus| {
        status.state.terminated.is_some() || status.state.waiting.is_some()
    };
    let mut all = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    pod.is_finished() || (object.meta().is_deleted() && all.all(has_ended))
}

/// `true` if a pod uses a claim. A claim of an ephemeral volume is used by its own pod alone.
pub(crate) fn uses_claim(object: &Object, pod: &Pod, claim: &Object) -> bool {
    refers_to_claim(pod, claim) || has_ephemeral_claim(object, pod, claim)
}

fn refers_to_claim(pod: &Pod, claim: &Object) -> bool {
    let mut sources = pod.spec.volumes.iter().filter_map(|volume| volume.persistent_volume_claim.as_ref());
    sources.any(|source| source.claim_name == *claim.meta().name)
}

fn has_ephemeral_claim(object: &Object, pod: &Pod, claim: &Object) -> bool {
    let mut made = pod.spec.volumes.iter().filter(|volume| volume.ephemeral.is_some());
    let name = |volume: &str| indexes::ephemeral_claim_name(&object.meta().name, volume);
    claim.meta().is_controlled_by(&object.meta().uid)
        && made.any(|volume| name(&volume.name) == *claim.meta().name)
}

/// `true` if a pod on a node keeps a claim. A claim of an ephemeral volume is released once its pod has shut
/// down.
fn needs_claim(object: &Object, pod: &Pod, claim: &Object) -> bool {
    let meta = object.meta();
    let is_shut_down = meta.is_deleted() && meta.deletion_grace_period_seconds == Some(0);
    refers_to_claim(pod, claim) || (!is_shut_down && has_ephemeral_claim(object, pod, claim))
}

/// Updates the condition `Unused`, if it changes.
fn sync_unused_condition(
    object: &Object,
    claim: &PersistentVolumeClaim,
    used: bool,
    now: Time,
) -> Option<Action> {
    let current = condition(&claim.status.conditions, UNUSED);
    let (status, reason, message) = if used {
        ("False", "PodUsingPVC", "A pod is currently referencing this PVC")
    } else {
        ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")
    };
    if current.is_some_and(|current| current.is_true() != used) {
        return None;
    }
    let condition_value = value_of(&Condition::new(UNUSED, status, reason, message, now));
    Some(Write::status(object, value!({"conditions": [(condition_value)]})).strategic().into())
}

/// PV protection: keeps volumes that are bound to claims.
pub struct VolumeProtection;

impl Planner for VolumeProtection {
    type Memo = ();

    fn name(&self) -> &'static str {
        "pv-protection-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("persistentvolumes")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(volume) = object.view::<PersistentVolume>() else { return plan };
        plan.stage(protect(object, VOLUME_FINALIZER, || Some(volume.status.phase == "Bound")));
        plan
    }
}

/// VolumeAttributesClass protection: keeps classes that volumes or claims use.
pub struct AttributesClassProtection;

impl Planner for AttributesClassProtection {
    type Memo = ();

    fn name(&self) -> &'static str {
        "volumeattributesclass-protection-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary("volumeattributesclasses.storage.k8s.io"),
            Watch::mapped("persistentvolumes", |volume, _, enqueue| {
                indexes::volume_attributes_class(volume, &mut |name| enqueue_attributes_class(name, enqueue));
            }),
            Watch::mapped("persistentvolumeclaims", |claim, _, enqueue| {
                indexes::claim_attributes_classes(claim, &mut |name| enqueue_attributes_class(name, enqueue));
            }),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let name = &object.meta().name;
        let is_used = || {
            world.by_index(VOLUMES_BY_ATTRIBUTES, name).next().is_some()
                || world.by_index(CLAIMS_BY_ATTRIBUTES, name).next().is_some()
        };
        let users = ["persistentvolumes", "persistentvolumeclaims"];
        let is_observed =
            !object.meta().is_deleted() || has_observed_users(&mut plan, world, &users, object, now);
        plan.stage(protect(object, ATTRIBUTES_FINALIZER, || is_observed.then(is_used)));
        plan
    }
}

fn enqueue_attributes_class(name: &str, enqueue: &mut dyn FnMut(Key)) {
    if let Some(key) = key_of("volumeattributesclasses.storage.k8s.io", "", name) {
        enqueue(key);
    }
}

#[cfg(test)]
mod tests;
