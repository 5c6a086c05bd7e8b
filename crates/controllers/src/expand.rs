//! Volume expansion: grows volumes of claims that request more than their capacity.
//!
//! Volumes of the built-in provisioner are directories without a limit, so growing them only changes the
//! recorded size. First the claim gets the condition `Resizing`, then the volume its new capacity, then the
//! claim. All other volumes are grown by an external resizer, which the claim waits for.

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::{Condition, condition};

use crate::migrated_plugins;
use crate::volume_binder::{PRE_RESIZE_CAPACITY, PROVISIONED_BY, host_path, record_once, storage};

/// Annotation with the resizer of a claim.
const RESIZER_ANNOTATION: &str = "volume.kubernetes.io/storage-resizer";
/// Conditions of a resize. All but the first are set by other components.
const RESIZE_CONDITIONS: [&str; 4] =
    ["Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError"];
const EXTERNAL_EXPANDING: &str = "ExternalExpanding";

/// The volume expansion controller.
pub struct Expander;

impl Planner for Expander {
    /// Last Event of a claim, so it is not repeated.
    type Memo = String;

    fn name(&self) -> &'static str {
        "expand-controller"
    }

    fn source(&self) -> &'static str {
        "volume_expand"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::primary(PersistentVolumeClaim::RESOURCE),
            Watch::mapped(PersistentVolume::RESOURCE, |volume, _, enqueue| {
                let claim_ref =
                    volume.view::<PersistentVolume>().and_then(|volume| volume.spec.claim_ref.as_ref());
                let key = claim_ref.and_then(|claim_ref| {
                    key_of(PersistentVolumeClaim::RESOURCE, &claim_ref.namespace, &claim_ref.name)
                });
                key.into_iter().for_each(enqueue);
            }),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, String>,
        now: Time,
        _: Seed,
    ) -> Plan<String> {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let bound = object.view::<PersistentVolumeClaim>().filter(|claim| claim.status.phase == "Bound");
        let Some(claim) = bound else { return plan };
        let volume = world.view::<PersistentVolume>("", &claim.spec.volume_name);
        let is_bound_to_claim = |volume: &&PersistentVolume| {
            volume.spec.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.uid == *object.meta().uid)
        };
        let Some((seen_volume, volume)) = volume.filter(|(_, volume)| is_bound_to_claim(volume)) else {
            return plan;
        };
        let is_built_in = seen_volume.meta().annotations.get(PROVISIONED_BY) == Some(host_path::PROVISIONER);
        let needs_expansion = storage(&claim.spec.resources.requests) > storage(&claim.status.capacity);
        let is_pending = seen_volume.meta().annotations.get(PRE_RESIZE_CAPACITY).is_some();
        if is_built_in && (needs_expansion || is_resizing(claim)) {
            plan.stages = expand((object, claim), (seen_volume, volume), now);
        } else if !is_built_in && (needs_expansion || is_pending) {
            wait_for_resizer(object, seen_volume, volume, &seen.memo, &mut plan);
        }
        plan
    }
}

/// `true` if the status of a claim has a resize in progress.
fn is_resizing(claim: &PersistentVolumeClaim) -> bool {
    condition(&claim.status.conditions, RESIZE_CONDITIONS[0]).is_some()
        || claim.status.allocated_resource_statuses.get("storage").is_some()
}

/// Grows a volume of the built-in provisioner.
fn expand(
    (object, claim): (&Object, &PersistentVolumeClaim),
    (seen, volume): (&Object, &PersistentVolume),
    now: Time,
) -> Vec<Vec<Action>> {
    let mut plan = Plan::<()>::default();
    let (requests, capacity) = (&claim.spec.resources.requests, &volume.spec.capacity);
    let is_larger = storage(requests) > storage(capacity);
    let size = if is_larger { requests } else { capacity }.get("storage");
    plan.stage(set_resizer(object, host_path::PROVISIONER));
    let status = |status: Value| {
        let patch = value!({"status": (status)});
        Write::merge(object, "status", patch).strategic().at_any_revision()
    };
    let is_reported = is_resizing(claim) && claim.status.allocated_resources.get("storage") == size;
    if !is_reported {
        let existing = condition(&claim.status.conditions, RESIZE_CONDITIONS[0]).cloned();
        let new = existing.unwrap_or_else(|| Condition::new(RESIZE_CONDITIONS[0], "True", "", "", now));
        plan.stage([Action::from(status(value!({
            "conditions": [(value_of(&new))],
            "allocatedResources": {"storage": (size)},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
        })))]);
    }
    if is_larger {
        plan.stage([Action::from(Write::merge(
            seen,
            "",
            value!({"spec": {"capacity": {"storage": (size)}}}),
        ))]);
    }
    let removed = RESIZE_CONDITIONS.iter().map(|kind| value!({"type": (*kind), "$patch": "delete"}));
    let finished = status(value!({
        "conditions": (removed.collect::<Vec<_>>()),
        "capacity": {"storage": (size)},
        "allocatedResourceStatuses": null,
    }));
    let message = format!("ExpandVolume succeeded for volume {}", object.key().path());
    let event =
        InvolvedObject::new(object, "v1", "PersistentVolumeClaim").normal("VolumeResizeSuccessful", message);
    plan.stage([Action::from(finished).on_done(event)]);
    plan.stages
}

/// Waits for the external resizer.
fn wait_for_resizer(
    object: &Object,
    seen: &Object,
    volume: &PersistentVolume,
    last_event: &str,
    plan: &mut Plan<String>,
) {
    let subject = InvolvedObject::new(object, "v1", "PersistentVolumeClaim");
    if volume.spec.csi.is_none()
        && let Some(plugin) = migrated_plugins::find_by_volume(seen)
    {
        let message = format!(
            "CSI migration enabled for {}; waiting for external resizer to expand the pvc",
            plugin.name
        );
        record_once(plan, last_event, subject.normal(EXTERNAL_EXPANDING, message));
        return plan.stage(set_resizer(object, plugin.driver));
    }
    let message = "waiting for an external controller to expand this PVC";
    let event = if volume.spec.csi.is_some() {
        subject.normal(EXTERNAL_EXPANDING, message)
    } else {
        subject.warning(EXTERNAL_EXPANDING, message)
    };
    record_once(plan, last_event, event);
}

/// Sets the resizer annotation of a claim.
fn set_resizer(object: &Object, name: &str) -> Option<Action> {
    let patch = value!({"metadata": {"annotations": {"volume.kubernetes.io/storage-resizer": (name)}}});
    (object.meta().annotations.get(RESIZER_ANNOTATION) != Some(name))
        .then(|| Write::merge(object, "status", patch).into())
}

#[cfg(test)]
mod tests;
