//! Synchronization of the cache with the world: takes in the objects that changed since the last world.
//!
//! Start at [`SchedulerCache::sync`]. Every change is also recorded as a cluster event, if it can make a pod
//! schedulable.

use std::collections::BTreeSet;

use setpoint_api::Key;
use setpoint_reconcile::world::TableSnapshot;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_requirements::request::is_resized;
use setpoint_views::node::Node;
use setpoint_views::pod::Pod;
use setpoint_views::resource_claim::ResourceClaim;
use setpoint_views::service::Service;

use super::node_info::{NodeAttributes, NodeInfo};
use super::{NODE_CHANGES_PER_NODE, PodId, PodInfo, SchedulerCache, counter_weights, queue_key};
use crate::plugins::QueueingHint;
use crate::signature::PodSignature;

/// Deleted or unknown nodes that may be remembered, in addition to as many as exist.
pub(super) const ABSENT_NODES_MAX: usize = 1024;

/// Tables of the last world, to find the changes since.
#[derive(Clone, Default)]
pub(super) struct SeenTables {
    nodes: TableSnapshot,
    pods: TableSnapshot,
    namespaces: TableSnapshot,
    storage: [TableSnapshot; 7],
    devices: [TableSnapshot; 4],
    owners: [TableSnapshot; 2],
}

/// Resources whose changes can make a pod with claims schedulable.
const STORAGE: [&str; 7] = [
    "persistentvolumes",
    CLAIMS,
    "storageclasses.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csidrivers.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    ATTACHMENTS,
];
/// Resources whose changes can make a pod with ResourceClaims schedulable.
const DEVICES: [&str; 4] =
    [DEVICE_CLAIMS, DEVICE_CLASSES, "resourceslices.resource.k8s.io", "devicetaintrules.resource.k8s.io"];
/// A change concerns only the pods that use the claim, unless it releases devices.
const DEVICE_CLAIMS: &str = "resourceclaims.resource.k8s.io";
/// A change leaves the inventory of devices as it is.
const DEVICE_CLASSES: &str = "deviceclasses.resource.k8s.io";
/// A change concerns only the pods that use the claim.
const CLAIMS: &str = "persistentvolumeclaims";
/// Only a deletion can make a pod schedulable.
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";
/// Resources that decide the default topology spread of pods.
const OWNERS: [&str; 2] = ["services", "replicationcontrollers"];

impl SchedulerCache {
    /// Takes in the changes since the last world. `is_ours` selects the pods without a node that are to be scheduled.
    pub fn sync(&mut self, world: &WorldReader<'_>, is_ours: impl Fn(&Object, &Pod) -> bool) {
        if self.has_mostly_absent_nodes() {
            *self = SchedulerCache::default();
        }
        self.sync_namespaces(world);
        self.sync_nodes(world);
        let snapshot = std::mem::replace(&mut self.seen.pods, world.table_snapshot("pods"));
        for (was, now) in world.changes_since(&snapshot, "pods") {
            match (was, now) {
                (_, Some(now)) => self.observe_pod(now, &is_ours),
                (Some(was), None) => self.remove_pod(was.key()),
                (None, None) => {}
            }
        }
        self.expire_assumed();
        self.requeue_unconfirmed(world);
        self.sync_storage(world);
        self.sync_devices(world);
        self.sync_owners(world);
        if self.has_unused_counters() {
            self.rebuild_counters();
        }
        if self.changed_nodes.len() > NODE_CHANGES_PER_NODE * self.nodes.len() + 1024 {
            self.invalidate_all_nodes();
        }
        self.evict_results();
    }

    /// `true` if most known nodes do not exist and have no pods. They cost as much as others, so the cache is rebuilt.
    fn has_mostly_absent_nodes(&self) -> bool {
        self.nodes.len() > 2 * self.node_count + ABSENT_NODES_MAX && {
            let is_absent = |node: &&NodeInfo| !node.exists && node.pods.is_empty();
            self.nodes.iter().filter(is_absent).count() > self.nodes.len() / 2
        }
    }

    fn sync_namespaces(&mut self, world: &WorldReader<'_>) {
        let snapshot = std::mem::replace(&mut self.seen.namespaces, world.table_snapshot("namespaces"));
        let mut has_changed = false;
        for (was, now) in world.changes_since(&snapshot, "namespaces") {
            match (was, now) {
                (_, Some(now)) => {
                    let labels = now.meta().labels.clone();
                    let was = self.counters.namespace_labels.insert(now.meta().name.clone(), labels);
                    has_changed |= was.as_ref() != Some(&now.meta().labels);
                }
                (Some(was), None) => {
                    self.counters.namespace_labels.remove(&was.meta().name);
                }
                (None, None) => {}
            }
        }
        if has_changed && self.counters.list.iter().any(|counter| counter.pods.has_namespace_selector()) {
            self.rebuild_counters();
            self.events.kinds |= QueueingHint::ASSIGNED_POD_DELETE | QueueingHint::ASSIGNED_POD_ADD;
        }
    }

    fn sync_nodes(&mut self, world: &WorldReader<'_>) {
        let snapshot = std::mem::replace(&mut self.seen.nodes, world.table_snapshot("nodes"));
        let (mut has_topology_change, mut has_image_change) = (false, false);
        let before = self.node_count;
        for (was, now) in world.changes_since(&snapshot, "nodes") {
            let Some(name) = was.or(now).map(|object| object.meta().name.clone()) else { continue };
            let at = self.node_number(&name);
            let attributes = now.and_then(|now| Some(NodeAttributes::from_node(now, now.view::<Node>()?)));
            let node = &mut self.nodes[at];
            let exists = attributes.is_some();
            let attributes = attributes.unwrap_or_default();
            if node.exists == exists && node.attributes == attributes {
                continue;
            }
            has_topology_change |= node.exists != exists
                || node.attributes.labels != attributes.labels
                || node.attributes.taints != attributes.taints;
            has_image_change |= node.attributes.images != attributes.images;
            self.events.kinds |=
                if exists { QueueingHint::NODE_ADD_OR_UPDATE } else { QueueingHint::NODE_DELETE };
            self.node_count = self.node_count + usize::from(exists) - usize::from(node.exists);
            (node.exists, node.attributes) = (exists, attributes);
            self.changed_nodes.push(at);
        }
        if has_topology_change {
            self.counters.rebuild_tallies(&self.nodes);
        }
        // The score of an image depends on the share of nodes that have it.
        if has_image_change || (self.node_count != before && !self.nodes_with_image.is_empty()) {
            self.count_images();
            self.invalidate_all_nodes();
        }
    }

    fn count_images(&mut self) {
        self.nodes_with_image.clear();
        for node in self.nodes.iter().filter(|node| node.exists) {
            for (name, _) in &node.attributes.images {
                *self.nodes_with_image.entry(name.clone()).or_insert(0) += 1;
            }
        }
    }

    fn sync_storage(&mut self, world: &WorldReader<'_>) {
        for (at, resource) in STORAGE.iter().enumerate() {
            let snapshot = std::mem::replace(&mut self.seen.storage[at], world.table_snapshot(resource));
            for (was, now) in world.changes_since(&snapshot, resource) {
                match (*resource, was.or(now)) {
                    (CLAIMS, Some(claim)) => {
                        self.events.claims.insert(claim.key().path().into());
                    }
                    (ATTACHMENTS, _) if now.is_some() => {}
                    _ => self.events.kinds |= QueueingHint::STORAGE,
                }
            }
        }
    }

    fn sync_devices(&mut self, world: &WorldReader<'_>) {
        self.devices.begin_plan();
        let is_allocated = |claim: &Object| {
            claim.view::<ResourceClaim>().is_some_and(|claim| claim.status.allocation.is_some())
        };
        for (at, resource) in DEVICES.iter().enumerate() {
            let snapshot = std::mem::replace(&mut self.seen.devices[at], world.table_snapshot(resource));
            for (was, now) in world.changes_since(&snapshot, resource) {
                match (*resource, was.or(now)) {
                    (DEVICE_CLAIMS, Some(claim)) => {
                        if was.is_some_and(is_allocated) && !now.is_some_and(is_allocated) {
                            self.events.kinds |= QueueingHint::DEVICE;
                        }
                        self.events.device_claims.insert(claim.key().path().into());
                    }
                    (DEVICE_CLASSES, _) => self.events.kinds |= QueueingHint::DEVICE,
                    _ => {
                        self.events.kinds |= QueueingHint::DEVICE;
                        self.devices.forget_inventory();
                    }
                }
            }
        }
    }

    /// Drops results of pods whose default topology spread may have changed: those in the namespaces of changed Services
    /// and ReplicationControllers.
    fn sync_owners(&mut self, world: &WorldReader<'_>) {
        let mut namespaces = BTreeSet::new();
        for (at, resource) in OWNERS.iter().enumerate() {
            let snapshot = std::mem::replace(&mut self.seen.owners[at], world.table_snapshot(resource));
            for (was, now) in world.changes_since(&snapshot, resource) {
                let selector =
                    |object: &Object| object.view::<Service>().and_then(|one| one.spec.selector.clone());
                let is_same = was.zip(now).is_some_and(|(was, now)| match *resource {
                    "services" => selector(was) == selector(now),
                    _ => was.meta().generation == now.meta().generation,
                });
                if !is_same && let Some(object) = was.or(now) {
                    namespaces.insert(object.meta().namespace.clone());
                }
            }
        }
        if namespaces.is_empty() {
            return;
        }
        for entry in self.signatures.iter_mut().flatten().filter(|entry| entry.results.is_some()) {
            if namespaces.contains(&entry.signature.namespace) {
                entry.results = None;
            }
        }
    }

    /// Returns the number of a node, which is added if it is new. The node need not exist.
    fn node_number(&mut self, name: &str) -> usize {
        if let Some(at) = self.node_numbers.get(name) {
            return *at;
        }
        self.nodes.push(NodeInfo::new(name));
        let at = self.nodes.len() - 1;
        self.node_numbers.insert(name.into(), at);
        self.counters.set_node_count(self.nodes.len());
        at
    }

    fn observe_pod(&mut self, object: &Object, is_ours: &impl Fn(&Object, &Pod) -> bool) {
        let Some(pod) = object.view::<Pod>().filter(|pod| !pod.is_finished()) else {
            return self.remove_pod(object.key());
        };
        let is_bound = !pod.spec.node_name.is_empty();
        if !is_bound && !is_ours(object, pod) {
            return self.remove_pod(object.key());
        }
        let known = self.pod_ids.get(object.key()).copied();
        let node = is_bound.then(|| self.node_number(&pod.spec.node_name));
        if let Some(id) = known.filter(|id| self.is_same_placement(*id, object, node)) {
            // The generation covers the spec. Labels are compared, and so are the two parts of the status that are in
            // the signature: resources of a pod that is resized, and names of generated ResourceClaims.
            let is_unchanged = self.pod(id).is_some_and(|info| {
                let was = info.object.meta();
                was.generation > 0
                    && was.generation == object.meta().generation
                    && was.labels == object.meta().labels
                    && pod.spec.resource_claims.is_empty()
                    && !is_resized(pod)
                    && info.object.view::<Pod>().is_some_and(|was| !is_resized(was))
            });
            let has_same_signature =
                || self.signature_of(id).is_some_and(|known| **known == PodSignature::new(object, pod));
            if is_unchanged || has_same_signature() {
                self.refresh_pod(id, object, is_bound);
                return;
            }
        }
        let signature = PodSignature::new(object, pod);
        if known.is_some() {
            self.remove_pod(object.key());
        }
        self.add_pod(object, signature, node);
    }

    /// `true` if the object is the same pod as before, still where the cache has it.
    fn is_same_placement(&self, id: PodId, object: &Object, node: Option<usize>) -> bool {
        self.pod(id).is_some_and(|info| {
            info.object.meta().uid == object.meta().uid
                && info.is_terminating == object.meta().is_deleted()
                && (info.node == node || (node.is_none() && !info.is_bound))
        })
    }

    fn refresh_pod(&mut self, id: PodId, object: &Object, is_bound: bool) {
        let priority = self.signature_of(id).map_or(0, |signature| signature.priority);
        let Some(info) = self.pods[id as usize].as_mut() else { return };
        let is_newly_bound = is_bound && !info.is_bound;
        let key = queue_key(&info.object, priority);
        info.is_bound = is_bound;
        info.object = object.clone();
        if is_newly_bound {
            info.queue_state = None;
            self.queue.remove(&key);
            self.clear_nomination(id);
        }
    }

    /// Counts a nominated pod as a bound one.
    fn clear_nomination(&mut self, id: PodId) {
        let Some(info) = self.pods[id as usize].as_mut().filter(|info| info.is_nominated) else { return };
        info.is_nominated = false;
        if let (Some(node), Some(weights)) = (info.node, counter_weights(&self.signatures, info.signature)) {
            self.counters.count_nominated(weights, info.is_terminating, node, -1, 0);
        }
    }

    fn add_pod(&mut self, object: &Object, signature: PodSignature, node: Option<usize>) {
        let key = queue_key(object, signature.priority);
        let info = PodInfo {
            object: object.clone(),
            signature: self.intern_signature(signature),
            node: None,
            is_bound: node.is_some(),
            is_nominated: false,
            is_terminating: object.meta().is_deleted(),
            is_victim: false,
            queue_state: None,
        };
        let id = match self.free_pods.pop() {
            Some(id) => {
                self.pods[id as usize] = Some(info);
                id
            }
            None => {
                self.pods.push(Some(info));
                u32::try_from(self.pods.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.pod_ids.insert(object.key().clone(), id);
        match node {
            Some(node) => {
                self.assign(id, node);
                self.record_assigned_pod_add(id);
            }
            None => {
                self.queue.insert(key, id);
            }
        }
    }

    fn remove_pod(&mut self, key: &Key) {
        let Some(id) = self.pod_ids.remove(key) else { return };
        if self.pods[id as usize].as_ref().is_some_and(|info| info.node.is_some()) {
            self.unassign(id);
            self.events.kinds |= QueueingHint::ASSIGNED_POD_DELETE;
        }
        let Some(info) = self.pods[id as usize].take() else { return };
        self.free_pods.push(id);
        if let Some(entry) = self.signatures[info.signature as usize].as_mut() {
            self.queue.remove(&queue_key(&info.object, entry.signature.priority));
            entry.pod_count -= 1;
            if entry.pod_count == 0 {
                self.signature_ids.remove(&entry.signature);
                self.signatures[info.signature as usize] = None;
                self.free_signatures.push(info.signature);
            }
        }
    }

    /// Removes assumed pods from nodes where the world does not show them.
    fn expire_assumed(&mut self) {
        for id in std::mem::take(&mut self.assumed) {
            if self.pods[id as usize].as_ref().is_some_and(|info| !info.is_bound) {
                self.unassign(id);
            }
        }
    }
}
