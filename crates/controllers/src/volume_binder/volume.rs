//! PersistentVolume side of the binder: binding, release, reclaim policy.

use setpoint_api::{Time, Value, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Action, Object, Plan, WorldReader, Write};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;

use super::matching::is_same_mode;
use super::{BOUND_BY_CONTROLLER, MIGRATED_TO, PROVISIONED_BY, host_path, record_once, sync_migrated_to};
use crate::indexes::{PODS_BY_CLAIM, path};
use crate::volume_protection::is_terminated;
use crate::{finalizers, staleness};

/// Finalizer that keeps a volume of the built-in provisioner until its storage is deleted.
pub(super) const FINALIZER: &str = "kubernetes.io/pv-controller";

/// Sync context of one volume.
pub(super) struct VolumeSync<'a> {
    pub object: &'a Object,
    pub volume: &'a PersistentVolume,
    pub world: &'a WorldReader<'a>,
    pub directory: &'a str,
    pub now: Time,
}

/// Deletion of a released volume.
enum VolumeDeleter {
    /// The built-in provisioner deletes it.
    BuiltIn,
    /// An external provisioner deletes it.
    External,
    /// No provisioner can delete it.
    None(String),
}

impl VolumeSync<'_> {
    pub fn plan(&self, last_event: &str) -> Plan<String> {
        let mut plan = Plan::default();
        if let Some(action) = sync_migrated_to(self.object, self.annotation(PROVISIONED_BY)) {
            // The next plan starts from this write.
            plan.stage([action]);
            return plan;
        }
        plan.stage(self.sync_finalizer());
        let Some(claim_ref) =
            self.volume.spec.claim_ref.as_ref().filter(|claim_ref| !claim_ref.uid.is_empty())
        else {
            plan.stage(self.set_phase("Available"));
            return plan;
        };
        let claim = self.world.view::<PersistentVolumeClaim>(&claim_ref.namespace, &claim_ref.name);
        match claim.filter(|(object, _)| *object.meta().uid == *claim_ref.uid) {
            None if !staleness::has_observed(self.world, "persistentvolumeclaims", self.object, self.now) => {
                plan.requeue_at(self.now.after(staleness::RETRY_DELAY));
            }
            None => self.release(&mut plan, last_event),
            Some((object, claim)) if claim.spec.volume_name.is_empty() => {
                if !is_same_mode(claim, self.volume) {
                    self.record_mismatch(object, &mut plan, last_event);
                }
            }
            Some((_, claim)) if claim.spec.volume_name == *self.object.meta().name => {
                plan.stage(self.set_phase("Bound"));
            }
            // The claim is bound to another volume. A volume that was provisioned for it is deleted; any
            // other becomes available.
            Some(_) if self.is_provisioned() && self.is_reclaimed_by_deletion() => {
                self.release(&mut plan, last_event)
            }
            Some(_) => plan.stage([self.unbind()]),
        }
        plan
    }

    fn subject(&self) -> InvolvedObject {
        InvolvedObject::new(self.object, "v1", "PersistentVolume")
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.object.meta().annotations.get(name)
    }

    fn is_provisioned(&self) -> bool {
        self.annotation(PROVISIONED_BY).is_some()
    }

    fn is_reclaimed_by_deletion(&self) -> bool {
        self.volume.spec.persistent_volume_reclaim_policy == "Delete"
    }

    fn set_phase(&self, phase: &str) -> Option<Action> {
        let status = value!({"phase": (phase), "message": null});
        (self.volume.status.phase != phase)
            .then(|| Write::status(self.object, status).at_any_revision().into())
    }

    /// Adds the finalizer to a volume of the built-in provisioner with the policy `Delete`, and removes it
    /// otherwise.
    fn sync_finalizer(&self) -> Option<Action> {
        let meta = self.object.meta();
        if self.annotation(PROVISIONED_BY) != Some(host_path::PROVISIONER) {
            return None;
        }
        let unused = meta.is_deleted() && self.volume.spec.claim_ref.is_none();
        match self.is_reclaimed_by_deletion() && !unused {
            true if meta.is_deleted() => None,
            true => finalizers::add(self.object, FINALIZER),
            false => finalizers::remove(self.object, FINALIZER),
        }
    }

    /// Emits Events on the volume and the claim that they do not fit.
    fn record_mismatch(&self, claim: &Object, plan: &mut Plan<String>, last_event: &str) {
        let about_volume = format!(
            "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{}\" due to incompatible volumeMode.",
            claim.meta().name
        );
        let about_claim = format!(
            "Cannot bind PersistentVolume \"{}\" to requested PersistentVolumeClaim due to incompatible volumeMode.",
            self.object.meta().name
        );
        record_once(plan, last_event, self.subject().warning("VolumeMismatch", about_volume));
        if !plan.events.is_empty() {
            let claim = InvolvedObject::new(claim, "v1", "PersistentVolumeClaim");
            plan.events.push(claim.warning("VolumeMismatch", about_claim));
        }
    }

    /// Releases a volume whose claim is gone.
    fn release(&self, plan: &mut Plan<String>, last_event: &str) {
        if !matches!(self.volume.status.phase.as_str(), "Released" | "Failed") {
            // The next plan starts from this write.
            return plan.stage(self.set_phase("Released"));
        }
        match self.volume.spec.persistent_volume_reclaim_policy.as_str() {
            _ if self.annotation(MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) => {}
            "Retain" => {}
            "Recycle" => self.recycle(plan, last_event),
            "Delete" => match self.deleter() {
                VolumeDeleter::BuiltIn => {
                    plan.stage(finalizers::remove(self.object, FINALIZER));
                    let delete =
                        (!self.object.meta().is_deleted()).then(|| Write::delete(self.object).into());
                    plan.stage(delete);
                }
                VolumeDeleter::External => {}
                VolumeDeleter::None(reason) => self.fail(plan, "VolumeFailedDelete", &reason),
            },
            _ => {
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                self.fail(plan, "VolumeUnknownReclaimPolicy", message);
            }
        }
    }

    /// Recycling is not supported: the volume fails once no pod uses it.
    fn recycle(&self, plan: &mut Plan<String>, last_event: &str) {
        let Some(of) = &self.volume.spec.claim_ref else { return };
        let at = path(&of.namespace, &of.name);
        let is_used = |pod: &&Object| pod.view().is_some_and(|view| !is_terminated(pod, view));
        let users: Vec<&str> =
            self.world.by_index(PODS_BY_CLAIM, &at).filter(is_used).map(|pod| pod.key().path()).collect();
        let is_claimed = self.world.find("persistentvolumeclaims", &of.namespace, &of.name).is_some();
        if users.is_empty() || is_claimed {
            return self.fail(plan, "VolumeFailedRecycle", "No recycler plugin found for the volume!");
        }
        let message = format!("Volume is used by pods: {}", users.join(","));
        record_once(plan, last_event, self.subject().normal("VolumeFailedRecycle", message));
    }

    fn fail(&self, plan: &mut Plan<String>, reason: &'static str, message: &str) {
        if self.volume.status.phase != "Failed" {
            let status = value!({"phase": "Failed", "message": (message)});
            let action = Action::from(Write::status(self.object, status));
            plan.stage([action.on_done(self.subject().warning(reason, message))]);
        }
    }

    /// Determines the provisioner that deletes the volume.
    fn deleter(&self) -> VolumeDeleter {
        let name = &self.object.meta().name;
        if let Some(provisioner) =
            self.annotation(PROVISIONED_BY).filter(|provisioner| !provisioner.is_empty())
        {
            return match provisioner {
                host_path::PROVISIONER => VolumeDeleter::BuiltIn,
                _ if provisioner.starts_with("kubernetes.io/") => {
                    VolumeDeleter::None(format!("no volume plugin matched name: {provisioner}"))
                }
                _ => VolumeDeleter::External,
            };
        }
        if self.volume.spec.csi.is_some() || self.annotation(MIGRATED_TO).is_some() {
            return VolumeDeleter::External;
        }
        match &self.volume.spec.host_path {
            Some(source) if host_path::is_below(source.str_at(&["path"]), self.directory) => {
                VolumeDeleter::BuiltIn
            }
            Some(source) => VolumeDeleter::None(format!(
                "host_path deleter only supports {}/.+ but received provided {}",
                self.directory,
                source.str_at(&["path"])
            )),
            None => VolumeDeleter::None(format!(
                "error getting deleter volume plugin for volume \"{name}\": no deletable volume plugin matched"
            )),
        }
    }

    /// Removes the claim reference if the binder set it, else only its UID, because a user reserved the
    /// volume for the claim.
    fn unbind(&self) -> Action {
        let patch = if self.annotation(BOUND_BY_CONTROLLER).is_some() {
            let annotations = value!({"pv.kubernetes.io/bound-by-controller": null});
            value!({"metadata": {"annotations": (annotations)}, "spec": {"claimRef": null}})
        } else {
            value!({"spec": {"claimRef": {"uid": null, "resourceVersion": (Value::Null)}}})
        };
        Write::merge(self.object, "", patch).into()
    }
}
