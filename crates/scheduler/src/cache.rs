//! Scheduler cache: nodes, pods and topology counters, kept up to date with the world change by change.
//!
//! Everything here can be rebuilt from a [`World`](setpoint_reconcile::World): losing it costs time only.
//! [`SchedulerCache::sync`] takes in the changes since the last world. A pod that a plan places is assumed on its node
//! at once, and removed again if the next world does not show it there.
//!
//! - `sync`: changes of the world. `counting`: which counters exist, and which pods count in them.
//! - [`topology_counters`], [`sparse_counts`], [`selector_index`]: the counters. [`node_info`]: a node.
//! - `cluster_events`: which unschedulable pods are requeued. [`unconfirmed`]: writes that the world does not show yet.

mod claim_users;
mod cluster_events;
mod counting;
pub mod node_info;
pub mod selector_index;
pub mod sparse_counts;
mod sync;
pub mod topology_counters;
pub mod unconfirmed;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Key, Time};
use setpoint_reconcile::{Failure, Object};

use crate::cost::SchedulingCost;
use crate::devices::DeviceCache;
use crate::filter_score_cache::FilterScoreCache;
use crate::plugins::volumes::node_terms::VolumeAffinityCache;
use crate::queue_state::QueueState;
use crate::signature::PodSignature;
use claim_users::ClaimUsers;
use cluster_events::ClusterEvents;
use counting::{CounterUsage, counter_weights};
use node_info::NodeInfo;
use sync::SeenTables;
use topology_counters::{CounterWeights, TopologyCounters};
use unconfirmed::UnconfirmedWrite;

/// Index of a pod in [`SchedulerCache::pods`]. Reused after the pod is removed.
pub type PodId = u32;
/// Index of a signature in [`SchedulerCache::signatures`]. Reused after its last pod is removed.
pub type SignatureId = u32;
/// Sort key of a pod in the queue: highest priority first, then oldest.
pub type QueueKey = (Reverse<i64>, Time, Key);
/// Point in the history of node changes: see [`SchedulerCache::nodes_changed_since`].
pub type CacheVersion = (u64, usize);

/// Node changes that are remembered per node, before all results are recomputed instead.
const NODE_CHANGES_PER_NODE: usize = 4;
/// Signatures whose filter and score results are kept.
const RESULTS_MAX: usize = 256;

/// A pod that has a node or waits for one.
#[derive(Clone)]
pub struct PodInfo {
    /// The pod as last seen in the world.
    pub object: Object,
    /// Its signature.
    pub signature: SignatureId,
    /// Node that it is bound, assumed or nominated to.
    pub node: Option<usize>,
    /// `true` if the world shows it bound to its node.
    pub is_bound: bool,
    /// `true` if it is only nominated to `node`.
    pub is_nominated: bool,
    /// `true` if it has a deletion timestamp.
    pub is_terminating: bool,
    /// `true` if a plan preempted it and the world does not show the deletion yet.
    pub is_victim: bool,
    /// State after its last attempt; `None` before the first one and once it is bound.
    pub queue_state: Option<QueueState>,
}

/// A signature with the results for its pods.
#[derive(Clone)]
pub struct SignatureEntry {
    /// The signature.
    pub signature: Arc<PodSignature>,
    /// Pods that have it.
    pub pod_count: usize,
    /// Cost of scheduling one of them.
    pub cost: SchedulingCost,
    /// Cost of the last search for devices.
    pub device_cost: u64,
    /// Counters that its pods are part of; `None` until the first of them is assigned to a node.
    counter_weights: Option<CounterWeights>,
    /// Filter and score results, if they are kept.
    pub results: Option<Box<FilterScoreCache>>,
}

/// The scheduler cache, which is also the memo of the planner.
#[derive(Clone, Default)]
pub struct SchedulerCache {
    /// Nodes by number. A deleted node keeps its number.
    pub nodes: Vec<NodeInfo>,
    /// Nodes that exist.
    pub node_count: usize,
    /// Numbers of nodes by name.
    pub node_numbers: BTreeMap<Box<str>, usize>,
    /// Pods by [`PodId`].
    pub pods: Vec<Option<PodInfo>>,
    free_pods: Vec<PodId>,
    pod_ids: BTreeMap<Key, PodId>,
    /// Pods without a node, in scheduling order.
    pub queue: BTreeMap<QueueKey, PodId>,
    /// Signatures by [`SignatureId`].
    pub signatures: Vec<Option<SignatureEntry>>,
    free_signatures: Vec<SignatureId>,
    signature_ids: BTreeMap<Arc<PodSignature>, SignatureId>,
    /// Topology counters.
    pub counters: TopologyCounters,
    counter_usage: CounterUsage,
    /// Users of PersistentVolumeClaims.
    pub claim_users: ClaimUsers,
    /// Nodes that have each image.
    pub nodes_with_image: BTreeMap<Box<str>, usize>,
    /// Numbers of the nodes that changed in this epoch, in order.
    changed_nodes: Vec<usize>,
    /// Incremented when every node may have changed.
    epoch: u64,
    /// Pods that the last plan assumed on a node or nominated to one.
    pub assumed: Vec<PodId>,
    /// Bindings of the last plan, in the order in which they were sent.
    pub sent_bindings: Vec<(PodId, Object)>,
    /// Failed write that the last plan was given.
    pub last_failure: Option<Failure>,
    /// Victims of the last plan, each with its preemptor.
    pub victims: Vec<(PodId, PodId)>,
    /// Pods in the queue that are nominated to a node.
    pub nominated_count: usize,
    /// Writes of the last plan that the world has to show.
    pub unconfirmed: Vec<UnconfirmedWrite>,
    /// Results built since the last eviction.
    pub results_built: usize,
    /// Scheduling attempts so far: the clock of the least recently used eviction.
    pub attempts: u64,
    /// Nodes that were scored one by one so far, for pods whose scores depend on other pods or nodes.
    pub scored_nodes: u64,
    events: ClusterEvents,
    /// Consecutive plans that deferred costly pods.
    pub deferred_plans: u32,
    /// Time of the current plan.
    pub now: Time,
    /// Devices, and those that this plan allocates.
    pub devices: DeviceCache,
    /// Parsed node affinity of volumes, kept for one plan.
    pub volume_affinity: VolumeAffinityCache,
    seen: SeenTables,
}

impl SchedulerCache {
    /// Returns the id of a signature, which is added if it is new, and counts one more pod for it.
    fn intern_signature(&mut self, signature: PodSignature) -> SignatureId {
        if let Some(id) = self.signature_ids.get(&signature)
            && let Some(entry) = self.signatures[*id as usize].as_mut()
        {
            entry.pod_count += 1;
            return *id;
        }
        let signature = Arc::new(signature);
        let entry = SignatureEntry {
            signature: Arc::clone(&signature),
            pod_count: 1,
            cost: SchedulingCost::new(&signature),
            device_cost: 0,
            counter_weights: None,
            results: None,
        };
        let id = match self.free_signatures.pop() {
            Some(id) => {
                self.signatures[id as usize] = Some(entry);
                id
            }
            None => {
                self.signatures.push(Some(entry));
                u32::try_from(self.signatures.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.signature_ids.insert(signature, id);
        id
    }

    /// Assigns a pod to a node.
    pub fn assign(&mut self, id: PodId, node: usize) {
        self.apply_assignment(id, node, 1);
        self.changed_nodes.push(node);
    }

    /// Reserves resources for a pod on the node that it is nominated to.
    pub fn nominate(&mut self, id: PodId, node: usize) {
        if let Some(info) = self.pods[id as usize].as_mut() {
            info.is_nominated = true;
        }
        self.assign(id, node);
    }

    /// Removes a pod from its node.
    pub fn unassign(&mut self, id: PodId) {
        if let Some(node) = self.pods[id as usize].as_ref().and_then(|info| info.node) {
            self.apply_assignment(id, node, -1);
            self.changed_nodes.push(node);
        }
        if let Some(info) = self.pods[id as usize].as_mut() {
            info.is_nominated = false;
        }
    }

    /// Assigns a pod to a node (`times` 1) or removes it (`times` -1) without invalidating results: for dry runs, which
    /// restore the former state.
    pub fn apply_assignment(&mut self, id: PodId, node: usize, times: i64) {
        let Some(signature) = self.pods[id as usize].as_ref().map(|info| info.signature) else { return };
        self.ensure_counter_weights(signature);
        let Some(info) = self.pods[id as usize].as_mut() else { return };
        let Some(entry) = self.signatures[info.signature as usize].as_ref() else { return };
        info.node = (times > 0).then_some(node);
        self.claim_users.count(&entry.signature, times);
        if let Some(weights) = &entry.counter_weights {
            self.counters.count(weights, info.is_terminating, node, times, 0);
            if info.is_nominated {
                self.counters.count_nominated(weights, info.is_terminating, node, times, 0);
            }
        }
        match times {
            1 => self.nodes[node].add_pod(id, &entry.signature),
            _ => self.nodes[node].remove_pod(id, &entry.signature),
        }
    }

    /// Returns a pod.
    #[must_use]
    pub fn pod(&self, id: PodId) -> Option<&PodInfo> {
        self.pods.get(id as usize)?.as_ref()
    }

    /// Returns the id of a pod.
    #[cfg(test)]
    pub fn pod_id(&self, key: &Key) -> Option<PodId> {
        self.pod_ids.get(key).copied()
    }

    /// Returns the signature of a pod.
    #[must_use]
    pub fn signature_of(&self, id: PodId) -> Option<&Arc<PodSignature>> {
        let info = self.pod(id)?;
        self.signatures[info.signature as usize].as_ref().map(|entry| &entry.signature)
    }

    /// Returns the current version. Results built now are valid until a node changes.
    #[must_use]
    pub fn version(&self) -> CacheVersion {
        (self.epoch, self.changed_nodes.len())
    }

    /// Returns the nodes that changed since a version; `None` if every node may have.
    #[must_use]
    pub fn nodes_changed_since(&self, (epoch, at): CacheVersion) -> Option<&[usize]> {
        (epoch == self.epoch).then(|| &self.changed_nodes[at..])
    }

    fn invalidate_all_nodes(&mut self) {
        self.epoch += 1;
        self.changed_nodes.clear();
    }

    /// Bounds the number of kept results: evicts the least recently used half.
    fn evict_results(&mut self) {
        if self.results_built <= RESULTS_MAX / 2 {
            return;
        }
        self.results_built = 0;
        let mut used: Vec<u64> = self
            .signatures
            .iter()
            .flatten()
            .filter_map(|entry| Some(entry.results.as_ref()?.last_used))
            .collect();
        if used.len() <= RESULTS_MAX / 2 {
            return;
        }
        let middle = used.len() / 2;
        let median = *used.select_nth_unstable(middle).1;
        for entry in self.signatures.iter_mut().flatten() {
            if entry.results.as_ref().is_some_and(|results| results.last_used <= median) {
                entry.results = None;
            }
        }
    }
}

fn queue_key(object: &Object, priority: i64) -> QueueKey {
    (Reverse(priority), object.meta().created(), object.key().clone())
}

#[cfg(test)]
mod tests;
