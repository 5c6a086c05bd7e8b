//! NodeVolumeLimits plugin: the number of volumes of a CSI driver on a node must not exceed the limit in its CSINode.
//!
//! Counted are volumes that pods on the node use, volumes that are attached to it, and volumes that are still to be
//! provisioned for claims of its pods.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_reconcile::WorldReader;
use setpoint_views::csi_driver::CsiDriver;
use setpoint_views::csi_node::CsiNode;
use setpoint_views::persistent_volume::PersistentVolume;
use setpoint_views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_views::storage_class::StorageClass;
use setpoint_views::volume_attachment::VolumeAttachment;

use super::super::{QueueingHint, Rejection};
use crate::cache::SchedulerCache;
use crate::cache::node_info::NodeInfo;
use crate::signature::PodSignature;

/// CSI drivers of a pod's volumes, and the volumes that they have attached.
#[derive(Clone, Debug, Default)]
pub struct VolumeLimits {
    /// Drivers by name; `true` if a node without the driver is rejected (`preventPodSchedulingIfMissing`).
    drivers: BTreeMap<Box<str>, bool>,
    /// Attached volumes of these drivers by node name.
    attached: BTreeMap<Box<str>, Vec<AttachedVolume>>,
}

/// Volume that is attached to a node.
#[derive(Clone, Debug)]
struct AttachedVolume {
    driver: Box<str>,
    handle: Box<str>,
}

/// Identity of a volume within a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VolumeId<'a> {
    /// `volumeHandle` of an existing volume.
    Handle(&'a str),
    /// Namespace and name of a claim whose volume is not provisioned yet.
    Unprovisioned(&'a str, &'a str),
}

impl VolumeLimits {
    /// Reads the drivers of a pod's volumes and their attachments.
    pub fn new(signature: &PodSignature, world: &WorldReader<'_>) -> VolumeLimits {
        let mut limits = VolumeLimits::default();
        for (driver, _) in volumes(signature, world) {
            let spec = world.view::<CsiDriver>("", driver).map(|(_, driver)| &driver.spec);
            let is_required = spec.and_then(|spec| spec.prevent_pod_scheduling_if_missing) == Some(true);
            limits.drivers.insert(driver.into(), is_required);
        }
        if limits.drivers.is_empty() {
            return limits;
        }
        for (_, attachment) in world.views::<VolumeAttachment>() {
            let spec = &attachment.spec;
            let volume = spec.source.persistent_volume_name.as_deref().unwrap_or_default();
            let volume = || world.view::<PersistentVolume>("", volume)?.1.spec.csi.as_ref();
            if limits.drivers.contains_key(spec.attacher.as_str())
                && let Some(csi) = volume()
            {
                let attached = limits.attached.entry(spec.node_name.as_str().into()).or_default();
                let (driver, handle) = (spec.attacher.as_str().into(), csi.volume_handle.as_str().into());
                attached.push(AttachedVolume { driver, handle });
            }
        }
        limits
    }

    /// Filters nodes that lack a required driver or would exceed the limit of one.
    ///
    /// # Errors
    /// Rejects the node.
    pub fn filter(
        &self,
        signature: &PodSignature,
        node: &NodeInfo,
        cache: &SchedulerCache,
        world: &WorldReader<'_>,
    ) -> Result<(), Rejection> {
        if self.drivers.is_empty() {
            return Ok(());
        }
        let hint =
            QueueingHint::ASSIGNED_POD_DELETE | QueueingHint::STORAGE | QueueingHint::NODE_ADD_OR_UPDATE;
        let found = world.view::<CsiNode>("", &node.name);
        let installed = found.map(|(_, node)| node.spec.drivers.as_slice()).unwrap_or_default();
        let mut required = self.drivers.iter().filter(|(_, required)| **required).map(|(driver, _)| driver);
        if let Some(driver) = required.find(|driver| !installed.iter().any(|one| *one.name == ***driver)) {
            let reason = format!("{driver} CSI driver is not installed on the node");
            return Err(Rejection::resolvable(reason, hint));
        }
        for driver in installed.iter().filter(|driver| self.drivers.contains_key(driver.name.as_str())) {
            let limit = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
            if limit.is_some_and(|limit| self.is_exceeded(limit, &driver.name, signature, node, cache, world))
            {
                return Err(Rejection::resolvable("node(s) exceed max volume count", hint));
            }
        }
        Ok(())
    }

    /// `true` if the pod adds volumes of a driver to the node and the total is above `limit`.
    fn is_exceeded(
        &self,
        limit: i64,
        driver: &str,
        signature: &PodSignature,
        node: &NodeInfo,
        cache: &SchedulerCache,
        world: &WorldReader<'_>,
    ) -> bool {
        let existing = node.pods.iter().filter_map(|id| cache.signature_of(*id));
        let mut all: BTreeSet<VolumeId<'_>> =
            existing.flat_map(|signature| volumes_of_driver(signature, driver, world)).collect();
        let new: Vec<VolumeId<'_>> =
            volumes_of_driver(signature, driver, world).filter(|one| !all.contains(one)).collect();
        if new.is_empty() {
            return false;
        }
        all.extend(new);
        let attached = self.attached.get(&node.name).into_iter().flatten();
        let attached = attached.filter(|one| *one.driver == *driver);
        all.extend(attached.map(|one| VolumeId::Handle(&one.handle)));
        i64::try_from(all.len()).unwrap_or(i64::MAX) > limit
    }
}

/// CSI volumes of a pod, each with its driver.
fn volumes<'a>(
    signature: &'a PodSignature,
    world: &'a WorldReader<'a>,
) -> impl Iterator<Item = (&'a str, VolumeId<'a>)> {
    signature.claims.iter().filter_map(|claim| volume_of_claim(&signature.namespace, &claim.name, world))
}

fn volumes_of_driver<'a>(
    signature: &'a PodSignature,
    driver: &'a str,
    world: &'a WorldReader<'a>,
) -> impl Iterator<Item = VolumeId<'a>> {
    volumes(signature, world).filter(move |(of, _)| *of == driver).map(|(_, id)| id)
}

fn volume_of_claim<'a>(
    namespace: &'a str,
    name: &'a str,
    world: &'a WorldReader<'a>,
) -> Option<(&'a str, VolumeId<'a>)> {
    let (object, claim) = world.view::<PersistentVolumeClaim>(namespace, name)?;
    if let Some((_, volume)) = world.view::<PersistentVolume>("", &claim.spec.volume_name) {
        let csi = volume.spec.csi.as_ref().filter(|csi| !csi.volume_handle.is_empty())?;
        return Some((csi.driver.as_str(), VolumeId::Handle(&csi.volume_handle)));
    }
    let (_, class) = world.view::<StorageClass>("", claim.class(object))?;
    Some((class.provisioner.as_str(), VolumeId::Unprovisioned(namespace, name)))
}
