//! Topology counters: pods counted per node and per topology domain, for affinity, anti-affinity and spread.
//!
//! Every pod that is assigned to a node or removed from it updates the counters that it is part of, so a plugin never
//! iterates over pods. Counters, keys and node sets are found by value in maps, and a counter holds memory only for
//! nodes with a nonzero count. Start at [`TopologyCounters`].
//!
//! Example: nodes `a1` and `a2` have the label `zone=a`, node `b1` has `zone=b`, node `c1` has no `zone`. Pods with
//! `app=web`: two on `a1`, one on each of the others.
//!
//! - [`PodCounter`] for `app=web`: `by_node` is a1=2, a2=1, b1=1, c1=1; `total` is 5.
//! - [`TopologyKey`] `zone`: domain 0 is `a`, domain 1 is `b`; the domain of `c1` is [`NO_DOMAIN`].
//! - [`TopologyScope`] of `zone` over all nodes: `nodes_per_domain` is [2, 1], `domain_count` is 2.
//! - [`Tally`] of the counter over that scope: `sums` is [3, 1]; `total` is 4, since `c1` is in no domain.
//!
//! A pod with `app=web` and a spread constraint of `maxSkew: 1` over `zone`: the minimum over the domains is 1 and the
//! pod counts itself, so a domain may hold at most 1 + 1 - 1 = 1 such pod. Zone `b` is feasible, zone `a` is not. Once
//! the pod is on `b1`, `by_node` of b1 is 2 and `sums` is [3, 2].

mod counted_pods;
mod domains;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_reconcile::object::Pairs;

use super::node_info::NodeInfo;
use super::selector_index::{SelectorIndex, SortedLabels};
use super::sparse_counts::SparseCounts;
use crate::signature::{AffinityTerm, PodSignature};
pub use counted_pods::CountedPods;
use counted_pods::is_selected;
use domains::NodeSet;
pub use domains::{NO_DOMAIN, NodeFilter, TopologyKey, TopologyScope};

/// Score weight of a required affinity term of an existing pod for an incoming pod that matches it: the default of
/// `hardPodAffinityWeight`.
pub const HARD_POD_AFFINITY_WEIGHT: i64 = 1;

/// Number of a counter, and position of the tally in it.
pub type TallyId = (usize, usize);

/// Sums of a counter over the domains of a scope.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Number of the [`TopologyScope`].
    pub scope: usize,
    /// Number of the [`TopologyKey`] of the scope.
    pub key: usize,
    /// Counted pods by domain number.
    pub sums: SparseCounts,
    /// Counted pods of all domains together.
    pub total: i64,
}

/// Count of the pods of one set.
#[derive(Clone, Debug)]
pub struct PodCounter {
    /// The set.
    pub pods: Arc<CountedPods>,
    /// Pods by node number, nominated ones included.
    pub by_node: SparseCounts,
    /// Pods on all nodes together.
    pub total: i64,
    /// Pods by node number that are only nominated to the node.
    nominated: BTreeMap<usize, i64>,
    tallies: Vec<Tally>,
    /// Positions in `tallies` by number of the scope.
    tally_by_scope: BTreeMap<usize, usize>,
}

/// All counters, with the topology keys, node sets and scopes that they use.
#[derive(Clone, Debug, Default)]
pub struct TopologyCounters {
    /// Topology keys in use.
    pub keys: Vec<TopologyKey>,
    key_numbers: BTreeMap<Box<str>, usize>,
    /// Label keys that any node has.
    node_label_keys: BTreeSet<Box<str>>,
    node_count: usize,
    node_sets: Vec<NodeSet>,
    node_set_numbers: BTreeMap<Arc<NodeFilter>, usize>,
    /// Scopes in use.
    pub scopes: Vec<TopologyScope>,
    /// Scope numbers by key and node set.
    scope_numbers: BTreeMap<(usize, usize), usize>,
    /// The counters; their positions are their numbers.
    pub list: Vec<PodCounter>,
    counter_numbers: BTreeMap<Arc<CountedPods>, usize>,
    /// Counters of pods that have a term, by the pods that the term selects.
    term_index: SelectorIndex,
    /// Counters of pods by their own labels and namespace.
    set_index: SelectorIndex,
    /// Counters in `term_index`. A new one can concern any pod, so results keep the number that they were built at.
    pub term_counters: usize,
    /// Labels of namespaces by name.
    pub namespace_labels: BTreeMap<Box<str>, Pairs>,
}

/// Counters that a pod of one signature is part of, by number, each with the count that the pod adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterWeights(Vec<(u32, i32)>);

impl CounterWeights {
    /// Entries of the counters numbered `from` and up.
    fn starting_at(&self, from: usize) -> &[(u32, i32)] {
        &self.0[self.0.partition_point(|(number, _)| (*number as usize) < from)..]
    }

    /// Number of counters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// `true` if a counter numbered `from` or up is among them.
    #[must_use]
    pub fn reaches(&self, from: usize) -> bool {
        self.0.last().is_some_and(|(number, _)| *number as usize >= from)
    }
}

impl TopologyCounters {
    /// Returns the counters that pods of a signature are part of: those of its own terms, given as `own`, and those of
    /// the sets that contain it.
    #[must_use]
    pub fn compute_weights(
        &self,
        signature: &PodSignature,
        own: impl IntoIterator<Item = (u32, i32)>,
    ) -> CounterWeights {
        let labels = SortedLabels::new(&signature.labels);
        let mut list: Vec<(u32, i32)> = own.into_iter().collect();
        self.set_index.candidates(&signature.namespace, &signature.labels, |number| {
            if self.list[number as usize].pods.contains(signature, &labels, &self.namespace_labels) {
                list.push((number, 1));
            }
        });
        list.sort_unstable();
        CounterWeights(list)
    }

    /// Returns an index of the counters numbered `from` and up.
    #[must_use]
    pub fn index_counters_from(&self, from: usize) -> SelectorIndex {
        let mut index = SelectorIndex::default();
        for (number, counter) in self.list.iter().enumerate().skip(from) {
            counter.pods.add_to_index(&mut index, u32::try_from(number).unwrap_or(u32::MAX));
        }
        index
    }

    /// Adds the new counters of `index` that contain the signature to its weights. Returns the number of comparisons.
    pub fn extend_weights(
        &self,
        weights: &mut CounterWeights,
        signature: &PodSignature,
        index: &SelectorIndex,
    ) -> u64 {
        let labels = SortedLabels::new(&signature.labels);
        let (before, mut comparisons) = (weights.0.len(), 0);
        index.candidates(&signature.namespace, &signature.labels, |number| {
            comparisons += 1;
            if self.list[number as usize].pods.contains(signature, &labels, &self.namespace_labels) {
                weights.0.push((number, 1));
            }
        });
        weights.0[before..].sort_unstable();
        comparisons
    }

    /// Returns the counters of existing pods with a term that selects pods of the signature: required anti-affinity
    /// terms if `is_required`, scored terms otherwise.
    pub fn matching_term_counters(&self, signature: &PodSignature, is_required: bool) -> Vec<usize> {
        let labels = SortedLabels::new(&signature.labels);
        let mut found = Vec::new();
        self.term_index.candidates(&signature.namespace, &signature.labels, |number| {
            let term = match &*self.list[number as usize].pods {
                CountedPods::RequiringAntiAffinity(term) if is_required => term,
                CountedPods::Preferring(_, term) if !is_required => term,
                _ => return,
            };
            if is_selected(&term.pods, signature, &labels, &self.namespace_labels) {
                found.push(number as usize);
            }
        });
        found.sort_unstable();
        found
    }

    /// `true` if every term selects pods of the signature.
    #[must_use]
    pub fn matches_all_terms(&self, signature: &PodSignature, terms: &[AffinityTerm]) -> bool {
        let labels = SortedLabels::new(&signature.labels);
        terms.iter().all(|term| is_selected(&term.pods, signature, &labels, &self.namespace_labels))
    }

    /// Returns the counters of a pod in which one more pod can make a node feasible for another pod: those of
    /// affinity and spread, not those of anti-affinity.
    pub fn add_sensitive_counters(
        &self,
        weights: &CounterWeights,
        is_terminating: bool,
    ) -> impl Iterator<Item = usize> {
        let is_sensitive = move |at: &usize| match *self.list[*at].pods {
            CountedPods::Matching(_) => true,
            CountedPods::Selected { .. } => !is_terminating,
            CountedPods::RequiringAntiAffinity(_) | CountedPods::Preferring(..) => false,
        };
        weights.0.iter().map(|(number, _)| *number as usize).filter(is_sensitive)
    }

    /// Adds a pod on a node (`times` 1) or removes it (`times` -1), in the counters numbered `from` and up.
    pub fn count(
        &mut self,
        weights: &CounterWeights,
        is_terminating: bool,
        node: usize,
        times: i64,
        from: usize,
    ) {
        for (number, weight) in weights.starting_at(from) {
            let counter = &mut self.list[*number as usize];
            if is_terminating && matches!(*counter.pods, CountedPods::Selected { .. }) {
                continue;
            }
            let change = i64::from(*weight) * times;
            counter.by_node.add(node, change, self.node_count);
            counter.total += change;
            for tally in &mut counter.tallies {
                let scope = &self.scopes[tally.scope];
                let domain = self.keys[tally.key].domain(node);
                if domain != NO_DOMAIN && self.node_sets[scope.node_set].contains(node) {
                    tally.total += change;
                    tally.sums.add(domain as usize, change, scope.nodes_per_domain.len());
                }
            }
        }
    }

    /// Marks a pod that is counted on a node as only nominated (`times` 1) or clears the mark (`times` -1), in the
    /// counters numbered `from` and up.
    pub fn count_nominated(
        &mut self,
        weights: &CounterWeights,
        is_terminating: bool,
        node: usize,
        times: i64,
        from: usize,
    ) {
        for (number, weight) in weights.starting_at(from) {
            let counter = &mut self.list[*number as usize];
            if is_terminating && matches!(*counter.pods, CountedPods::Selected { .. }) {
                continue;
            }
            let count = counter.nominated.entry(node).or_insert(0);
            *count += i64::from(*weight) * times;
            if *count == 0 {
                counter.nominated.remove(&node);
            }
        }
    }

    /// Sums of a tally without nominated pods; `None` if the counter has none.
    #[must_use]
    pub fn sums_without_nominated(&self, (counter, tally): TallyId) -> Option<SparseCounts> {
        let counter = &self.list[counter];
        if counter.nominated.is_empty() {
            return None;
        }
        let tally = &counter.tallies[tally];
        let mut sums = tally.sums.clone();
        for (domain, count) in self.nominated_by_domain(counter, tally) {
            sums.add(domain, -count, self.scopes[tally.scope].nodes_per_domain.len());
        }
        Some(sums)
    }

    /// Nominated pods of a tally by domain. A domain can occur more than once.
    fn nominated_by_domain<'a>(
        &'a self,
        counter: &'a PodCounter,
        tally: &'a Tally,
    ) -> impl Iterator<Item = (usize, i64)> + 'a {
        let scope = &self.scopes[tally.scope];
        counter.nominated.iter().filter_map(move |(node, count)| {
            let domain = self.keys[tally.key].domain(*node);
            let is_in_scope = domain != NO_DOMAIN && self.node_sets[scope.node_set].contains(*node);
            is_in_scope.then_some((domain as usize, *count))
        })
    }

    /// Pods of a tally over all domains, with or without nominated ones.
    #[must_use]
    pub fn total(&self, (counter, tally): TallyId, without_nominated: bool) -> i64 {
        let counter = &self.list[counter];
        let tally = &counter.tallies[tally];
        let nominated: i64 = if without_nominated {
            self.nominated_by_domain(counter, tally).map(|(_, count)| count).sum()
        } else {
            0
        };
        tally.total - nominated
    }

    /// Returns the number of a topology key, which is added if it is new.
    pub fn find_or_add_key(&mut self, name: &str, nodes: &[NodeInfo]) -> usize {
        if let Some(at) = self.key_numbers.get(name) {
            return *at;
        }
        let mut key = TopologyKey::new(name);
        key.assign_domains(nodes, &self.node_label_keys);
        self.key_numbers.insert(name.into(), self.keys.len());
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// Returns the number of the set of nodes that pass a filter, which is added if it is new.
    pub fn find_or_add_node_set(&mut self, filter: NodeFilter, nodes: &[NodeInfo]) -> usize {
        if let Some(at) = self.node_set_numbers.get(&filter) {
            return *at;
        }
        let filter = Arc::new(filter);
        self.node_sets.push(NodeSet::new(Arc::clone(&filter), nodes));
        self.node_set_numbers.insert(filter, self.node_sets.len() - 1);
        self.node_sets.len() - 1
    }

    fn find_or_add_scope(&mut self, key: usize, node_set: usize) -> usize {
        if let Some(at) = self.scope_numbers.get(&(key, node_set)) {
            return *at;
        }
        let mut scope = TopologyScope::new(key, node_set);
        scope.fill(&self.keys[key], &self.node_sets[node_set]);
        self.scope_numbers.insert((key, node_set), self.scopes.len());
        self.scopes.push(scope);
        self.scopes.len() - 1
    }

    /// Returns the counter of the pods that have a term, which is added if it is new.
    ///
    /// It is added for the first signature that has the term, before any pod of that signature is assigned to a node,
    /// so a new counter is correct at 0.
    pub fn find_or_add_term_counter(&mut self, pods: CountedPods) -> usize {
        if let Some(at) = self.counter_numbers.get(&pods) {
            return *at;
        }
        self.term_counters += 1;
        let at = self.add(pods);
        self.list[at].pods.add_to_index(&mut self.term_index, u32::try_from(at).unwrap_or(u32::MAX));
        at
    }

    /// Returns the counter of a set of pods, which is added if it is new. The caller counts existing pods in it.
    pub fn find_or_add_set_counter(&mut self, pods: CountedPods) -> usize {
        if let Some(at) = self.counter_numbers.get(&pods) {
            return *at;
        }
        let at = self.add(pods);
        self.list[at].pods.add_to_index(&mut self.set_index, u32::try_from(at).unwrap_or(u32::MAX));
        at
    }

    /// Returns the counter of a set of pods, if there is one.
    #[must_use]
    pub fn find(&self, pods: &CountedPods) -> Option<usize> {
        self.counter_numbers.get(pods).copied()
    }

    fn add(&mut self, pods: CountedPods) -> usize {
        let pods = Arc::new(pods);
        self.counter_numbers.insert(Arc::clone(&pods), self.list.len());
        self.list.push(PodCounter {
            pods,
            by_node: SparseCounts::default(),
            total: 0,
            nominated: BTreeMap::new(),
            tallies: Vec::new(),
            tally_by_scope: BTreeMap::new(),
        });
        self.list.len() - 1
    }

    /// Returns the tally of a counter by a topology key over a node set, which is added if it is new.
    pub fn find_or_add_tally(&mut self, counter: usize, key: usize, node_set: usize) -> TallyId {
        let scope = self.find_or_add_scope(key, node_set);
        if let Some(at) = self.list[counter].tally_by_scope.get(&scope) {
            return (counter, *at);
        }
        let mut tally = Tally { scope, key, sums: SparseCounts::default(), total: 0 };
        self.sum_tally(&mut tally, &self.list[counter].by_node);
        let counted = &mut self.list[counter];
        counted.tally_by_scope.insert(scope, counted.tallies.len());
        counted.tallies.push(tally);
        (counter, counted.tallies.len() - 1)
    }

    /// Returns a tally.
    #[must_use]
    pub fn tally(&self, (counter, tally): TallyId) -> &Tally {
        &self.list[counter].tallies[tally]
    }

    /// Sets the number of nodes after one was added without labels: such a node is in no domain.
    pub fn set_node_count(&mut self, nodes: usize) {
        self.node_count = nodes;
    }

    /// Recomputes domains, node sets, scopes and tallies, after labels or taints of nodes changed.
    pub fn rebuild_tallies(&mut self, nodes: &[NodeInfo]) {
        self.node_count = nodes.len();
        self.node_label_keys.clear();
        let existing = nodes.iter().filter(|node| node.exists);
        for (name, _) in existing.flat_map(|node| node.attributes.labels.iter()) {
            if !self.node_label_keys.contains(name) {
                self.node_label_keys.insert(name.into());
            }
        }
        for key in &mut self.keys {
            key.assign_domains(nodes, &self.node_label_keys);
        }
        for set in &mut self.node_sets {
            set.fill(nodes);
        }
        for scope in &mut self.scopes {
            scope.fill(&self.keys[scope.key], &self.node_sets[scope.node_set]);
        }
        for at in 0..self.list.len() {
            let mut tallies = std::mem::take(&mut self.list[at].tallies);
            for tally in &mut tallies {
                self.sum_tally(tally, &self.list[at].by_node);
            }
            self.list[at].tallies = tallies;
        }
    }

    fn sum_tally(&self, tally: &mut Tally, by_node: &SparseCounts) {
        let scope = &self.scopes[tally.scope];
        (tally.sums, tally.total) = (SparseCounts::default(), 0);
        for (node, count) in by_node.nonzero() {
            let domain = self.keys[tally.key].domain(node);
            if domain != NO_DOMAIN && self.node_sets[scope.node_set].contains(node) {
                tally.sums.add(domain as usize, count, scope.nodes_per_domain.len());
                tally.total += count;
            }
        }
    }

    /// Integers in memory: an estimate of the size of all counters.
    #[must_use]
    pub fn memory_cells(&self) -> usize {
        let scopes = self.scopes.iter().map(|scope| scope.nodes_per_domain.len());
        let sets = self.node_sets.iter().map(|set| set.len() / 8);
        let tallies = |counter: &PodCounter| -> usize {
            counter.tallies.iter().map(|tally| 8 + tally.sums.memory_cells()).sum()
        };
        let counters = self.list.iter().map(|counter| counter.by_node.memory_cells() + tallies(counter));
        scopes.chain(sets).chain(counters).sum()
    }
}
