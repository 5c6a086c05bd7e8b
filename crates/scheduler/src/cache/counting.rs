//! Maintenance of the topology counters: which exist, and which pods count in them.
//!
//! Counters for the terms of a pod are added when the first pod of its signature is assigned to a node, and those that a
//! queued pod needs when it is attempted. Unused ones stay until all are rebuilt, once too many are unused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::selector_index::SelectorIndex;
use super::topology_counters::{CountedPods, CounterWeights, HARD_POD_AFFINITY_WEIGHT, TopologyCounters};
use super::{SchedulerCache, SignatureEntry, SignatureId};
use crate::cost::{COST_MAX, TooCostly};

/// Counters that may exist before they are rebuilt without the unused ones, if more than half are unused.
pub(super) const COUNTERS_MAX: usize = 1024;
/// Integers that counters may hold in memory before they are rebuilt, if more than half are unused.
const CELLS_MAX: usize = 8 << 20;

/// Size of the counters, now and after the last rebuild.
#[derive(Clone, Debug, Default)]
pub(super) struct CounterUsage {
    /// Counters after the last rebuild.
    pub counters_after_rebuild: usize,
    /// Integers in memory after the last rebuild.
    cells_after_rebuild: usize,
    /// Entries in the weights of all signatures.
    weights: usize,
    /// Entries in the weights of all signatures after the last rebuild.
    weights_after_rebuild: usize,
    /// Comparisons of pod sets with signatures, in total.
    pub comparisons: u64,
}

impl SchedulerCache {
    /// Computes which counters the pods of a signature are part of, before the first of them is assigned to a node.
    /// Not needed earlier: the terms of a queued pod concern no other pod.
    pub(super) fn ensure_counter_weights(&mut self, id: SignatureId) {
        let entry = self.signatures[id as usize].as_ref();
        let Some(entry) = entry.filter(|entry| entry.counter_weights.is_none()) else { return };
        let signature = Arc::clone(&entry.signature);
        let terms = &signature.pod_affinity;
        let mut own: BTreeMap<u32, i32> = BTreeMap::new();
        let anti_affinity =
            terms.required_anti_affinity.iter().map(|term| CountedPods::RequiringAntiAffinity(term.clone()));
        let affinity = terms
            .required_affinity
            .iter()
            .map(|term| CountedPods::Preferring(HARD_POD_AFFINITY_WEIGHT, term.clone()));
        let preferred =
            terms.preferred.iter().map(|(weight, term)| CountedPods::Preferring(*weight, term.clone()));
        for pods in anti_affinity.chain(affinity).chain(preferred) {
            let number = u32::try_from(self.counters.find_or_add_term_counter(pods)).unwrap_or(u32::MAX);
            *own.entry(number).or_insert(0) += 1;
        }
        let weights = self.counters.compute_weights(&signature, own);
        self.counter_usage.weights += weights.len();
        if let Some(entry) = self.signatures[id as usize].as_mut() {
            entry.counter_weights = Some(weights);
        }
    }

    /// Returns the counters of sets of pods. New ones are added and count the existing pods, in one pass for all.
    ///
    /// # Errors
    /// If the new sets need too many comparisons with existing signatures. No counter is added then.
    pub fn find_or_add_counters(
        &mut self,
        sets: impl IntoIterator<Item = CountedPods>,
    ) -> Result<Vec<usize>, TooCostly> {
        let sets: Vec<CountedPods> = sets.into_iter().collect();
        let mut index = SelectorIndex::default();
        let is_new = |(_, pods): &(usize, &CountedPods)| self.counters.find(pods).is_none();
        for (number, pods) in sets.iter().enumerate().filter(is_new) {
            pods.add_to_index(&mut index, u32::try_from(number).unwrap_or(u32::MAX));
        }
        let mut steps = 0;
        if !index.is_empty() {
            let counted = self.signatures.iter().flatten().filter(|entry| entry.counter_weights.is_some());
            for entry in counted {
                index.candidates(&entry.signature.namespace, &entry.signature.labels, |number| {
                    steps += sets[number as usize].comparison_steps();
                });
                if steps > COST_MAX {
                    return Err(TooCostly::Pod(steps));
                }
            }
        }
        let from = self.counters.list.len();
        let numbers = sets.into_iter().map(|pods| self.counters.find_or_add_set_counter(pods)).collect();
        if steps > 0 {
            self.backfill_counters(from);
        }
        Ok(numbers)
    }

    /// Counts the existing pods in the new counters, those numbered `from` and up.
    fn backfill_counters(&mut self, from: usize) {
        let index = self.counters.index_counters_from(from);
        let mut has_pods = false;
        for entry in self.signatures.iter_mut().flatten() {
            if let Some(weights) = &mut entry.counter_weights {
                let before = weights.len();
                self.counter_usage.comparisons +=
                    self.counters.extend_weights(weights, &entry.signature, &index);
                self.counter_usage.weights += weights.len() - before;
                has_pods |= weights.reaches(from);
            }
        }
        if has_pods {
            self.count_assigned_pods(from);
        }
    }

    /// Counts every pod with a node in the counters numbered `from` and up.
    fn count_assigned_pods(&mut self, from: usize) {
        for info in self.pods.iter().flatten() {
            let found = info.node.zip(counter_weights(&self.signatures, info.signature));
            if let Some((node, weights)) = found.filter(|(_, weights)| weights.reaches(from)) {
                self.counters.count(weights, info.is_terminating, node, 1, from);
                if info.is_nominated {
                    self.counters.count_nominated(weights, info.is_terminating, node, 1, from);
                }
            }
        }
    }

    /// `true` if so many counters are unused that a rebuild pays. Counters that queued pods need count as used: they
    /// would be added again, over all pods, at the next attempt.
    pub(super) fn has_unused_counters(&self) -> bool {
        let count = self.counters.list.len();
        let is_large = count.max(self.counters.scopes.len()) > COUNTERS_MAX;
        let usage = &self.counter_usage;
        if self.has_too_many_weights()
            || is_large && self.counters.memory_cells() > CELLS_MAX.max(2 * usage.cells_after_rebuild)
        {
            return true;
        }
        count > COUNTERS_MAX.max(2 * usage.counters_after_rebuild)
            && count > 2 * (usage.counters_after_rebuild + self.count_required_counters())
    }

    fn has_too_many_weights(&self) -> bool {
        self.counter_usage.weights > CELLS_MAX.max(2 * self.counter_usage.weights_after_rebuild)
    }

    /// Rebuilds the counters if the weights take too much memory. Invalidates all results: none may be in use.
    pub fn shrink_counters(&mut self) {
        if self.has_too_many_weights() {
            self.rebuild_counters();
        }
    }

    /// Upper bound of the counters that pods in the queue need.
    fn count_required_counters(&self) -> usize {
        let signatures: BTreeSet<SignatureId> =
            self.queue.values().filter_map(|id| Some(self.pod(*id)?.signature)).collect();
        let entries = signatures.iter().filter_map(|id| self.signatures[*id as usize].as_ref());
        entries.map(|entry| entry.signature.spread.len() + entry.signature.pod_affinity.len()).sum()
    }

    /// Drops all counters and results, and counts assigned pods in the counters of their own terms.
    pub(super) fn rebuild_counters(&mut self) {
        let namespace_labels = std::mem::take(&mut self.counters.namespace_labels);
        self.counters = TopologyCounters::default();
        self.counters.namespace_labels = namespace_labels;
        self.counters.rebuild_tallies(&self.nodes);
        for entry in self.signatures.iter_mut().flatten() {
            (entry.results, entry.counter_weights) = (None, None);
        }
        self.counter_usage.weights = 0;
        let assigned: BTreeSet<SignatureId> = self
            .pods
            .iter()
            .flatten()
            .filter(|info| info.node.is_some())
            .map(|info| info.signature)
            .collect();
        for id in assigned {
            self.ensure_counter_weights(id);
        }
        self.count_assigned_pods(0);
        let usage = &mut self.counter_usage;
        usage.counters_after_rebuild = self.counters.list.len();
        usage.cells_after_rebuild = self.counters.memory_cells();
        usage.weights_after_rebuild = usage.weights;
        self.events.forget_counter_numbers();
    }

    /// Comparisons of pod sets with signatures so far.
    pub fn comparisons(&self) -> u64 {
        self.counter_usage.comparisons
    }
}

/// Counters that pods of a signature are part of.
pub(super) fn counter_weights(
    signatures: &[Option<SignatureEntry>],
    id: SignatureId,
) -> Option<&CounterWeights> {
    signatures[id as usize].as_ref()?.counter_weights.as_ref()
}
