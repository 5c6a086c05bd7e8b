//! Ephemeral volume controller: claims that live as long as their pod.
//!
//! A pod volume may contain a claim template: the claim is created for the pod, owned by it, and collected
//! with it. A claim of that name without this owner is left alone, and reported in an Event.

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::pod::Pod;

use crate::indexes::{PODS_BY_CLAIM, ephemeral_claim_name, path};
use crate::pods::Owner;

/// The ephemeral volume controller.
pub struct EphemeralVolumes;

impl Planner for EphemeralVolumes {
    /// Last Event of a pod, so it is not repeated.
    type Memo = String;

    fn name(&self) -> &'static str {
        "ephemeral-volume-controller"
    }

    fn source(&self) -> &'static str {
        "ephemeral_volume"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::mapped("pods", |pod, _, enqueue| {
                if has_ephemeral_volume(pod) {
                    enqueue(pod.key().clone());
                }
            }),
            Watch::mapped("persistentvolumeclaims", |claim, world, enqueue| {
                let meta = claim.meta();
                for pod in world.by_index(PODS_BY_CLAIM, &path(&meta.namespace, &meta.name)) {
                    enqueue(pod.key().clone());
                }
            }),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        world.all("pods").filter(|pod| has_ephemeral_volume(pod)).map(|pod| pod.key().clone()).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, String>,
        _: Time,
        _: Seed,
    ) -> Plan<String> {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|pod| !pod.meta().is_deleted()) else { return plan };
        let Some(pod) = object.view::<Pod>() else { return plan };
        let subject = InvolvedObject::new(object, "v1", "Pod");
        let meta = object.meta();
        let mut actions = Vec::new();
        for volume in &pod.spec.volumes {
            let Some(source) = &volume.ephemeral else { continue };
            let name = ephemeral_claim_name(&meta.name, &volume.name);
            if let Some(claim) = world.find("persistentvolumeclaims", &meta.namespace, &name) {
                if !claim.meta().is_controlled_by(&meta.uid) {
                    plan.memo = format!(
                        "ephemeral volume {}: PVC {}/{name} was not created for pod {}/{} (pod is not owner)",
                        volume.name, meta.namespace, meta.namespace, meta.name
                    );
                }
                continue;
            }
            let failed = format!("ephemeral volume {}: create PVC {name}: {{error}}", volume.name);
            let owner = Owner { object, api_version: "v1", kind: "Pod" };
            let claim = new_claim(&name, source, &owner);
            let action = Action::from(Write::create("persistentvolumeclaims", &meta.namespace, claim));
            actions.push(action.on_failed(subject.warning("FailedBinding", failed)));
        }
        plan.stage(actions);
        if !plan.memo.is_empty() && plan.memo != seen.memo {
            plan.events.push(subject.warning("FailedBinding", plan.memo.clone()));
        }
        plan
    }
}

/// `true` if a pod has ephemeral volumes.
fn has_ephemeral_volume(pod: &Object) -> bool {
    pod.view::<Pod>().is_some_and(|pod| pod.spec.volumes.iter().any(|volume| volume.ephemeral.is_some()))
}

fn new_claim(name: &str, source: &Value, owner: &Owner<'_>) -> Value {
    let part = |path: &[&str]| source.at(path).cloned().unwrap_or_default();
    value!({
        "metadata": {
            "name": (name),
            "labels": (part(&["volumeClaimTemplate", "metadata", "labels"])),
            "annotations": (part(&["volumeClaimTemplate", "metadata", "annotations"])),
            "ownerReferences": [(owner.reference())],
        },
        "spec": (part(&["volumeClaimTemplate", "spec"])),
    })
}

#[cfg(test)]
mod tests;
