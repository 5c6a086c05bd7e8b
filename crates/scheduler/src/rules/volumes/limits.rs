//! How many volumes of a driver a node can have: those that its pods use, those that are attached to it, and those
//! that are still to be made for claims count alike.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_reconcile::World;
use setpoint_reconcile::views::csi_driver::CsiDriver;
use setpoint_reconcile::views::csi_node::CsiNode;
use setpoint_reconcile::views::persistent_volume::PersistentVolume;
use setpoint_reconcile::views::persistent_volume_claim::PersistentVolumeClaim;
use setpoint_reconcile::views::storage_class::StorageClass;
use setpoint_reconcile::views::volume_attachment::VolumeAttachment;

use super::super::{Helps, Rejection};
use crate::cache::Cache;
use crate::cache::node::Node;
use crate::shape::Shape;

/// What the drivers of a pod's volumes have to do with nodes.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The drivers, and of each whether pods with its volumes must not be where it is not.
    drivers: BTreeMap<Box<str>, bool>,
    /// The volumes of these drivers that are attached to nodes, by node.
    attached: BTreeMap<Box<str>, Vec<Attached>>,
}

/// A volume that is attached to a node.
#[derive(Clone, Debug)]
struct Attached {
    driver: Box<str>,
    handle: Box<str>,
}

/// What a volume is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Handle<'a> {
    /// The name that its driver gave it.
    Made(&'a str),
    /// The claim that it is to be made for, with its namespace.
    Wanted(&'a str, &'a str),
}

impl Limits {
    /// What a pod of a shape has to do with drivers.
    pub fn of(shape: &Shape, world: &World) -> Limits {
        let mut limits = Limits::default();
        for (driver, _) in volumes(shape, world) {
            let spec = world.view::<CsiDriver>("", driver).map(|(_, driver)| &driver.spec);
            let must = spec.and_then(|spec| spec.prevent_pod_scheduling_if_missing) == Some(true);
            limits.drivers.insert(driver.into(), must);
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
                attached.push(Attached { driver, handle });
            }
        }
        limits
    }

    /// Whether the node can have the volumes of a pod of a shape.
    ///
    /// # Errors
    /// If not, and why.
    pub fn filter(&self, shape: &Shape, node: &Node, cache: &Cache, world: &World) -> Result<(), Rejection> {
        if self.drivers.is_empty() {
            return Ok(());
        }
        let helps = Helps::PODS | Helps::VOLUMES | Helps::NODES;
        let found = world.view::<CsiNode>("", &node.name);
        let there = found.map(|(_, node)| node.spec.drivers.as_slice()).unwrap_or_default();
        let mut must = self.drivers.iter().filter(|(_, must)| **must).map(|(driver, _)| driver);
        if let Some(driver) = must.find(|driver| !there.iter().any(|one| *one.name == ***driver)) {
            let why = format!("{driver} CSI driver is not installed on the node");
            return Err(Rejection::by_pods(why, helps));
        }
        for driver in there.iter().filter(|driver| self.drivers.contains_key(driver.name.as_str())) {
            let most = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
            if most.is_some_and(|most| self.exceed(most, &driver.name, shape, node, cache, world)) {
                return Err(Rejection::by_pods("node(s) exceed max volume count", helps));
            }
        }
        Ok(())
    }

    /// Whether the volumes of a driver would be more than so many.
    fn exceed(
        &self,
        most: i64,
        driver: &str,
        shape: &Shape,
        node: &Node,
        cache: &Cache,
        world: &World,
    ) -> bool {
        let shapes = node.pods.iter().filter_map(|id| cache.shape_of(*id));
        let mut all: BTreeSet<Handle<'_>> = shapes.flat_map(|shape| handles(shape, driver, world)).collect();
        let new: Vec<Handle<'_>> = handles(shape, driver, world).filter(|one| !all.contains(one)).collect();
        if new.is_empty() {
            return false;
        }
        all.extend(new);
        let attached = self.attached.get(&node.name).into_iter().flatten();
        let attached = attached.filter(|one| *one.driver == *driver);
        all.extend(attached.map(|one| Handle::Made(&one.handle)));
        i64::try_from(all.len()).unwrap_or(i64::MAX) > most
    }
}

/// The volumes of drivers that a pod of a shape uses, with their drivers.
fn volumes<'a>(shape: &'a Shape, world: &'a World) -> impl Iterator<Item = (&'a str, Handle<'a>)> {
    shape.claims.iter().filter_map(|claim| volume(&shape.namespace, &claim.name, world))
}

fn handles<'a>(shape: &'a Shape, driver: &'a str, world: &'a World) -> impl Iterator<Item = Handle<'a>> {
    volumes(shape, world).filter(move |(of, _)| *of == driver).map(|(_, handle)| handle)
}

fn volume<'a>(namespace: &'a str, name: &'a str, world: &'a World) -> Option<(&'a str, Handle<'a>)> {
    let (object, claim) = world.view::<PersistentVolumeClaim>(namespace, name)?;
    if let Some((_, volume)) = world.view::<PersistentVolume>("", &claim.spec.volume_name) {
        let csi = volume.spec.csi.as_ref().filter(|csi| !csi.volume_handle.is_empty())?;
        return Some((csi.driver.as_str(), Handle::Made(&csi.volume_handle)));
    }
    let (_, class) = world.view::<StorageClass>("", claim.class(object))?;
    Some((class.provisioner.as_str(), Handle::Wanted(namespace, name)))
}
