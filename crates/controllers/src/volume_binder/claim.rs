//! PersistentVolumeClaim side of the binder: binding and provisioning.

use setpoint_api::{Map, Time, Value, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Action, EventRecord, Object, Plan, WorldReader, Write};
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::pod::Pod;
use setpoint_views::storage_class::StorageClass;

use super::matching::{self, VolumeRef, storage};
use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, PRE_RESIZE_CAPACITY, SELECTED_NODE, host_path, record_once,
    sync_migrated_to,
};
use crate::indexes::{PODS_BY_CLAIM, path};
use crate::volume_protection::is_terminated;
use crate::{migrated_plugins, staleness};

/// Annotations with the provisioner of a claim, current and deprecated.
const STORAGE_PROVISIONER: [&str; 2] =
    ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];

/// Sync context of one claim.
pub(super) struct ClaimSync<'a> {
    pub object: &'a Object,
    pub claim: &'a PersistentVolumeClaim,
    pub world: &'a WorldReader<'a>,
    pub directory: &'a str,
    pub now: Time,
}

impl<'a> ClaimSync<'a> {
    pub fn plan(&self, last_event: &str) -> Plan<String> {
        let mut plan = Plan::default();
        let annotation = |name: &&str| self.object.meta().annotations.get(name);
        if let Some(action) = sync_migrated_to(self.object, STORAGE_PROVISIONER.iter().find_map(annotation)) {
            // The next plan starts from this write.
            plan.stage([action]);
            return plan;
        }
        if self.object.meta().annotations.get(BIND_COMPLETED).is_some() {
            self.sync_bound(&mut plan);
        } else if self.claim.spec.volume_name.is_empty() {
            self.sync_unbound(&mut plan, last_event);
        } else {
            self.sync_named(&mut plan, last_event);
        }
        plan
    }

    fn subject(&self) -> InvolvedObject {
        InvolvedObject::new(self.object, "v1", "PersistentVolumeClaim")
    }

    fn volume(&self, name: &str) -> Option<VolumeRef<'a>> {
        self.world.view::<PersistentVolume>("", name)
    }

    /// Plans a claim that was bound: it keeps its volume, or has lost it.
    fn sync_bound(&self, plan: &mut Plan<String>) {
        let volume = self.volume(&self.claim.spec.volume_name);
        let lost = match volume {
            _ if self.claim.spec.volume_name.is_empty() => (
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ),
            None => ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
            Some((_, view)) => match &view.spec.claim_ref {
                Some(of) if of.uid != *self.object.meta().uid => (
                    "ClaimMisbound",
                    "Two claims are bound to the same volume, this one is bound incorrectly",
                ),
                _ => return volume.map(|volume| self.bind(plan, volume)).unwrap_or_default(),
            },
        };
        if !staleness::has_observed(self.world, "persistentvolumes", self.object, self.now) {
            plan.requeue_at(self.now.after(staleness::RETRY_DELAY));
        } else if self.claim.status.phase != "Lost" {
            let action = self.unbound_status("Lost").map(|write| {
                let (reason, message) = lost;
                Action::from(write).on_done(self.subject().warning(reason, message))
            });
            plan.stage(action);
        }
    }

    /// Plans a claim that names a volume: it gets that one or none.
    fn sync_named(&self, plan: &mut Plan<String>, last_event: &str) {
        let waits = |plan: &mut Plan<String>, event: Option<EventRecord>| {
            plan.stage(self.unbound_status("Pending").map(Action::from));
            if let Some(event) = event {
                record_once(plan, last_event, event);
            }
        };
        let Some(volume) = self.volume(&self.claim.spec.volume_name) else { return waits(plan, None) };
        let name = &volume.0.meta().name;
        if volume.1.spec.claim_ref.is_some() && !volume.1.is_for(self.object) {
            let message = format!("volume \"{name}\" already bound to a different claim.");
            return waits(plan, Some(self.subject().warning("FailedBinding", message)));
        }
        let mismatch = matching::find_mismatch((self.object, self.claim), volume);
        match mismatch.filter(|_| volume.1.spec.claim_ref.is_none()) {
            Some(reason) => {
                let message = format!("Cannot bind to requested volume \"{name}\": {reason}");
                waits(plan, Some(self.subject().warning("VolumeMismatch", message)));
            }
            None => self.bind(plan, volume),
        }
    }

    /// Plans a claim without a volume name: it gets the best volume, or one is provisioned.
    fn sync_unbound(&self, plan: &mut Plan<String>, last_event: &str) {
        let name = self.claim.class(self.object);
        let class = self.world.view::<StorageClass>("", name);
        let waits = class.is_some_and(|(_, class)| class.is_wait_for_first_consumer());
        if let Some(volume) = matching::find_best((self.object, self.claim), waits, self.world) {
            return self.bind(plan, volume);
        }
        if let Some(default) = self.default_class() {
            let patch = value!({"spec": {"storageClassName": (default)}});
            return plan.stage([Action::from(Write::merge(self.object, "", patch))]);
        }
        plan.stage(self.unbound_status("Pending").map(Action::from));
        let selected = self.object.meta().annotations.get(SELECTED_NODE);
        if waits && selected.is_none() {
            return record_once(plan, last_event, self.waiting_event());
        }
        if name.is_empty() {
            let message = "no persistent volumes available for this claim and no storage class is set";
            return record_once(plan, last_event, self.subject().normal("FailedBinding", message));
        }
        match class {
            Some((class, view)) => self.provision(plan, last_event, class, view),
            None => {
                let message = format!("storageclass.storage.k8s.io \"{name}\" not found");
                record_once(plan, last_event, self.subject().warning("ProvisioningFailed", message));
            }
        }
    }

    /// Default class: the newest of those with the annotation.
    fn default_class(&self) -> Option<&'a str> {
        if self.claim.has_class(self.object) {
            return None;
        }
        let classes =
            self.world.all("storageclasses.storage.k8s.io").filter(|class| StorageClass::is_default(class));
        let newest = |class: &&Object| (class.meta().created(), std::cmp::Reverse(class.meta().name.clone()));
        classes.max_by_key(newest).map(|class| &*class.meta().name)
    }

    /// Event of a claim that waits for its first consumer.
    fn waiting_event(&self) -> EventRecord {
        let meta = self.object.meta();
        let pods = self.world.by_index(PODS_BY_CLAIM, &path(&meta.namespace, &meta.name));
        let waiting = pods.filter(|pod| {
            pod.view::<Pod>().is_some_and(|view| !is_terminated(pod, view) && view.spec.node_name.is_empty())
        });
        let names: Vec<&str> = waiting.map(|pod| &*pod.meta().name).collect();
        let message = match names.as_slice() {
            [] => {
                let message = "waiting for first consumer to be created before binding";
                return self.subject().normal("WaitForFirstConsumer", message);
            }
            [name] => format!("waiting for pod {name} to be scheduled"),
            names => format!("waiting for pods {} to be scheduled", names.join(",")),
        };
        self.subject().normal("WaitForPodScheduled", message)
    }

    /// Provisions a volume, or waits for the external provisioner.
    fn provision(&self, plan: &mut Plan<String>, last_event: &str, class: &Object, view: &StorageClass) {
        let provisioner = &*view.provisioner;
        let failed = |message: String| self.subject().warning("ProvisioningFailed", message);
        let driver = migrated_plugins::find_by_name(provisioner).map(|plugin| plugin.driver);
        if provisioner != host_path::PROVISIONER {
            if driver.is_none() && provisioner.starts_with("kubernetes.io/") {
                return record_once(
                    plan,
                    last_event,
                    failed(format!("no volume plugin matched name: {provisioner}")),
                );
            }
            let driver = driver.unwrap_or(provisioner);
            plan.stage(self.set_provisioner(driver));
            let message = format!(
                "Waiting for a volume to be created either by the external provisioner '{driver}' or manually by \
                 the system administrator. If volume creation is delayed, please verify that the provisioner is \
                 running and correctly registered."
            );
            return record_once(plan, last_event, self.subject().normal("ExternalProvisioning", message));
        }
        if self.claim.spec.data_source.is_some() {
            let message = format!(
                "plugin \"{provisioner}\" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
            );
            return record_once(plan, last_event, failed(message));
        }
        if !view.mount_options.is_empty() {
            let message = format!(
                "Mount options are not supported by the provisioner but StorageClass \"{}\" has mount options {}",
                class.meta().name,
                setpoint_api::json::to_text(&Value::List(view.mount_options.clone())),
            );
            return record_once(plan, last_event, failed(message));
        }
        let node = self.object.meta().annotations.get(SELECTED_NODE);
        let found = node.and_then(|node| self.world.find("nodes", "", node));
        if let Some(name) = node.filter(|_| found.is_none()) {
            return record_once(
                plan,
                last_event,
                failed(format!("Failed to get target node: node \"{name}\" not found")),
            );
        }
        let name = host_path::volume_name(self.object);
        // A deleted claim needs no volume; an existing volume of that name that does not fit is left alone.
        if self.object.meta().is_deleted() || self.volume(&name).is_some() {
            return;
        }
        plan.stage(self.set_provisioner(provisioner));
        let volume = host_path::volume(self.object, self.claim, view, found, self.directory);
        let meta = self.object.meta();
        let failure = format!(
            "Error creating provisioned PV object for claim {}/{}: {{error}}. Deleting the volume.",
            meta.namespace, meta.name
        );
        let done = format!("Successfully provisioned volume {name} using {provisioner}");
        let action = Action::from(Write::create("persistentvolumes", "", volume))
            .on_done(self.subject().normal("ProvisioningSucceeded", done))
            .on_failed(failed(failure));
        plan.stage([action]);
    }

    /// Sets the provisioner annotation of the claim.
    fn set_provisioner(&self, name: &str) -> Option<Action> {
        let current = self.object.meta().annotations.get(STORAGE_PROVISIONER[0]);
        let patch = value!({"metadata": {"annotations": {
            "volume.kubernetes.io/storage-provisioner": (name),
            "volume.beta.kubernetes.io/storage-provisioner": (name),
        }}});
        (current != Some(name)).then(|| Write::merge(self.object, "", patch).into())
    }

    /// Binds a volume and the claim: sets the claim reference, then the volume name, then the status.
    fn bind(&self, plan: &mut Plan<String>, (object, volume): VolumeRef<'_>) {
        let meta = self.object.meta();
        let is_named = volume.spec.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.uid == *meta.uid);
        if !volume.is_for(self.object) || !is_named {
            plan.stage([Action::from(self.set_claim_ref(object, volume))]);
        }
        // Only a volume that is seen as bound is protected, so this comes before the claim relies on it.
        if volume.status.phase != "Bound" {
            let status = value!({"phase": "Bound", "message": null});
            plan.stage([Action::from(Write::status(object, status).at_any_revision())]);
        }
        let mut annotations = Map::new();
        let mut patch = Map::new();
        if self.claim.spec.volume_name != *object.meta().name {
            patch.insert("spec", value!({"volumeName": (&*object.meta().name)}));
            annotations.insert(BOUND_BY_CONTROLLER, "yes");
        }
        if meta.annotations.get(BIND_COMPLETED).is_none() {
            annotations.insert(BIND_COMPLETED, "yes");
        }
        let named = annotations.is_empty();
        if !named {
            patch.insert("metadata", value!({"annotations": (annotations)}));
            plan.stage([Action::from(Write::merge(self.object, "", Value::Map(patch)))]);
        }
        let status = self.bound_status(object, volume);
        // This plan has just written the claim, so the seen revision is outdated.
        plan.stage(status.map(|write| Action::from(if named { write } else { write.at_any_revision() })));
    }

    fn set_claim_ref(&self, object: &Object, volume: &PersistentVolume) -> Write {
        let meta = self.object.meta();
        let reference = value!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": (&*meta.namespace),
            "name": (&*meta.name),
            "uid": (&*meta.uid),
            "resourceVersion": (self.object.revision().to_string()),
        });
        let mut patch = value!({"spec": {"claimRef": (reference)}});
        if !volume.is_for(self.object) {
            let annotations = value!({"pv.kubernetes.io/bound-by-controller": "yes"});
            patch.make_map().insert("metadata", value!({"annotations": (annotations)}));
        }
        Write::merge(object, "", patch)
    }

    fn bound_status(&self, object: &Object, volume: &PersistentVolume) -> Option<Write> {
        let current = &self.claim.status;
        let mut status = Map::new();
        if current.access_modes != volume.spec.access_modes {
            let modes: Vec<&str> = volume.spec.access_modes.iter().map(String::as_str).collect();
            status.insert("accessModes", modes);
        }
        if current.phase != "Bound" {
            status.insert("phase", "Bound");
            // Later growth is reported by the resizer.
            let before = object.meta().annotations.get(PRE_RESIZE_CAPACITY);
            let has = storage(&current.capacity);
            match before.or(volume.spec.capacity.get("storage")) {
                Some(text) if before.is_some() || has != storage(&volume.spec.capacity) => {
                    status.insert("capacity", value!({"storage": (text)}));
                }
                _ => {}
            }
            let attributes = &volume.spec.volume_attributes_class_name;
            if current.current_volume_attributes_class_name != *attributes {
                status.insert("currentVolumeAttributesClassName", attributes.as_deref());
            }
        }
        (!status.is_empty()).then(|| Write::status(self.object, Value::Map(status)))
    }

    /// Status of a claim without a volume, if it changes.
    fn unbound_status(&self, phase: &str) -> Option<Write> {
        let current = &self.claim.status;
        let same = current.phase == phase
            && current.access_modes.is_empty()
            && current.capacity.is_empty()
            && current.current_volume_attributes_class_name.is_none();
        let status = value!({
            "phase": (phase),
            "accessModes": null,
            "capacity": null,
            "currentVolumeAttributesClassName": null,
        });
        (!same).then(|| Write::status(self.object, status))
    }
}
