//! Cluster events that can make unschedulable pods schedulable.
//!
//! [`SchedulerCache::requeue_by_hints`] moves a pod out of the unschedulable queue only if an event matches the
//! [`QueueingHint`] of its last attempt: a futile attempt costs time and emits a `FailedScheduling` Event. An exact
//! hint, an event that concerns the pod in particular, also lets the pod skip its backoff if no other pod is due.

use std::collections::BTreeSet;

use super::{PodId, PodInfo, SchedulerCache};
use crate::plugins::QueueingHint;
use crate::queue_state::QueueState;

/// Events since unschedulable pods were last requeued.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterEvents {
    /// Kinds that are not recorded in more detail below.
    pub kinds: QueueingHint,
    /// PersistentVolumeClaims that changed, as `namespace/name`.
    pub claims: BTreeSet<Box<str>>,
    /// ResourceClaims that changed, as `namespace/name`.
    pub device_claims: BTreeSet<Box<str>>,
    /// Counters of affinity and spread in which a newly assigned pod counts.
    pod_add_counters: BTreeSet<usize>,
    /// `true` if any pod was assigned to a node.
    has_pod_add: bool,
}

impl ClusterEvents {
    fn is_empty(&self) -> bool {
        self.kinds == QueueingHint::NONE
            && self.claims.is_empty()
            && self.device_claims.is_empty()
            && !self.has_pod_add
    }

    /// Replaces counter numbers, which are about to become invalid, by the coarser event kind.
    pub fn forget_counter_numbers(&mut self) {
        if !self.pod_add_counters.is_empty() {
            self.pod_add_counters.clear();
            self.kinds |= QueueingHint::ASSIGNED_POD_ADD;
        }
    }
}

impl SchedulerCache {
    /// Records that a pod was assigned to a node: this can satisfy affinity and spread constraints of other pods.
    pub fn record_assigned_pod_add(&mut self, id: PodId) {
        let Some(info) = self.pods[id as usize].as_ref() else { return };
        self.events.has_pod_add = true;
        if let Some(weights) = super::counter_weights(&self.signatures, info.signature) {
            let counters = self.counters.add_sensitive_counters(weights, info.is_terminating);
            self.events.pod_add_counters.extend(counters);
        }
    }

    /// Requeues unschedulable pods whose hints match the events since the last call.
    pub fn requeue_by_hints(&mut self) {
        let events = std::mem::take(&mut self.events);
        if events.is_empty() {
            return;
        }
        for id in self.queue.values() {
            let Some(info) = self.pods[*id as usize].as_ref() else { continue };
            let Some(state) = info.queue_state else { continue };
            let is_exact = self.is_exact_hint(info, state, &events);
            let is_match =
                is_exact || state.hint.intersects(events.kinds) || self.may_be_counted(info, state, &events);
            if let Some(state) = self.pods[*id as usize].as_mut().and_then(|info| info.queue_state.as_mut()) {
                state.has_exact_hint |= is_exact;
                state.is_requeued |= is_match;
            }
        }
    }

    /// `true` if an event concerns this pod in particular.
    fn is_exact_hint(&self, info: &PodInfo, state: QueueState, events: &ClusterEvents) -> bool {
        let exact_kinds =
            [QueueingHint::NODE_ADD_OR_UPDATE, QueueingHint::NODE_DELETE, QueueingHint::ASSIGNED_POD_DELETE];
        if exact_kinds.into_iter().any(|kind| events.kinds.intersects(kind) && state.hint.intersects(kind)) {
            return true;
        }
        let Some(entry) = self.signatures[info.signature as usize].as_ref() else { return true };
        if state.hint.intersects(QueueingHint::STORAGE) && !events.claims.is_empty() {
            let namespace = &entry.signature.namespace;
            let has_changed = |name: &str| events.claims.contains(format!("{namespace}/{name}").as_str());
            if entry.signature.claims.iter().any(|claim| has_changed(&claim.name)) {
                return true;
            }
        }
        if let Some(refs) = &entry.signature.resource_claims
            && state.hint.intersects(QueueingHint::DEVICE)
        {
            let namespace = &entry.signature.namespace;
            let mut names = refs.claims.iter().filter_map(|(name, _)| name.as_ref());
            if names.any(|name| events.device_claims.contains(format!("{namespace}/{name}").as_str())) {
                return true;
            }
        }
        if !state.hint.intersects(QueueingHint::ASSIGNED_POD_ADD) {
            return false;
        }
        let mut counters = entry.results.iter().flat_map(|results| results.topology.add_sensitive_counters());
        counters.any(|counter| events.pod_add_counters.contains(&counter))
    }

    /// `true` if a pod was assigned and the counters that this pod depends on are unknown, since its results were
    /// evicted. Not an exact hint: an attempt builds counters, and if there are too many they are evicted again.
    fn may_be_counted(&self, info: &PodInfo, state: QueueState, events: &ClusterEvents) -> bool {
        let is_unknown =
            || self.signatures[info.signature as usize].as_ref().is_none_or(|entry| entry.results.is_none());
        events.has_pod_add && state.hint.intersects(QueueingHint::ASSIGNED_POD_ADD) && is_unknown()
    }
}
