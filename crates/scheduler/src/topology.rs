//! Topology constraints: domains that affinity, anti-affinity and spread of pods allow, evaluated on the counters.
//!
//! A pod can have thousands of terms, and thousands of terms of other pods can match it. Domains that anti-affinity
//! blocks are therefore merged by topology key, so that a node is tested once per key and not once per term.
//! [`TopologyConstraints::snapshot`] is for testing many nodes, [`TopologyConstraints::violation`] for one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cache::sparse_counts::SparseCounts;
use crate::cache::topology_counters::{NO_DOMAIN, TallyId, TopologyCounters, TopologyKey};
use crate::plugins::{Rejection, inter_pod_affinity, pod_topology_spread};

/// Tallies up to which blocked domains are not merged by key.
const UNMERGED_MAX: usize = 8;

/// Required constraints of the pods of a signature.
#[derive(Clone, Debug, Default)]
pub struct TopologyConstraints {
    /// Hard spread constraints.
    pub spread: Vec<HardSpread>,
    /// Required affinity.
    pub affinity: Option<RequiredAffinity>,
    /// Required anti-affinity: a domain must not hold any of these pods.
    pub anti_affinity: Vec<TallyId>,
    /// Required anti-affinity of existing pods: a domain must not hold any of those pods.
    pub existing_anti_affinity: Vec<TallyId>,
}

/// Hard spread constraint: with the pod, a domain must not exceed the minimum over all domains by more than `max_skew`.
#[derive(Clone, Debug)]
pub struct HardSpread {
    /// Selected pods by domain.
    pub tally: TallyId,
    /// `maxSkew`.
    pub max_skew: i64,
    /// `minDomains`: with fewer eligible domains the minimum is taken as 0.
    pub min_domains: i64,
    /// 1 if the pod matches its own selector, otherwise 0.
    pub self_match: i64,
}

/// Required pod affinity: the domain must hold a matching pod, unless no domain does and the pod matches its own terms.
#[derive(Clone, Debug)]
pub struct RequiredAffinity {
    /// Matching pods by domain, one tally per topology key.
    pub tallies: Vec<TallyId>,
    /// `true` if the pod matches all of its own terms.
    pub matches_itself: bool,
}

/// Constraint that a node violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyViolation {
    /// A hard spread constraint.
    Spread {
        /// `true` if the node does not have the topology key.
        is_key_missing: bool,
    },
    /// Required affinity.
    Affinity,
    /// Required anti-affinity.
    AntiAffinity,
    /// Required anti-affinity of an existing pod.
    ExistingAntiAffinity,
}

impl TopologyViolation {
    /// Returns the rejection of the plugin.
    #[must_use]
    pub fn rejection(self) -> Rejection {
        match self {
            TopologyViolation::Spread { is_key_missing } => pod_topology_spread::rejection(is_key_missing),
            other => inter_pod_affinity::rejection(other),
        }
    }
}

/// Range of counts that a domain may have.
struct DomainBound<'a> {
    key: &'a TopologyKey,
    sums: Cow<'a, SparseCounts>,
    min: i64,
    max: i64,
    is_spread: bool,
    /// The same bound without nominated pods, if there are any. A domain must satisfy both.
    without_nominated: Option<Box<DomainBound<'a>>>,
}

impl DomainBound<'_> {
    #[inline]
    fn allows(&self, node: usize) -> bool {
        match self.key.domain(node) {
            NO_DOMAIN => false,
            domain => {
                let sum = self.sums.get(domain as usize);
                self.min <= sum
                    && sum <= self.max
                    && self.without_nominated.as_ref().is_none_or(|bound| bound.allows(node))
            }
        }
    }

    fn violation(&self, node: usize) -> TopologyViolation {
        if self.is_spread {
            TopologyViolation::Spread { is_key_missing: self.key.domain(node) == NO_DOMAIN }
        } else {
            TopologyViolation::Affinity
        }
    }
}

/// Domains that hold a pod of any of some tallies.
enum BlockedDomains<'a> {
    /// Each tally with its key.
    Unmerged(Vec<(&'a TopologyKey, &'a SparseCounts)>),
    /// Each key with the union of its tallies, by domain.
    Merged(Vec<(&'a TopologyKey, Vec<bool>)>),
}

impl<'a> BlockedDomains<'a> {
    fn new(tallies: &[TallyId], counters: &'a TopologyCounters) -> BlockedDomains<'a> {
        let nonzero = || tallies.iter().map(|id| counters.tally(*id)).filter(|tally| tally.total != 0);
        if nonzero().nth(UNMERGED_MAX).is_none() {
            let all = nonzero().map(|tally| (&counters.keys[tally.key], &tally.sums));
            return BlockedDomains::Unmerged(all.collect());
        }
        let mut by_key: BTreeMap<usize, Vec<bool>> = BTreeMap::new();
        for tally in nonzero() {
            let count = counters.keys[tally.key].domain_count();
            let blocked = by_key.entry(tally.key).or_insert_with(|| vec![false; count]);
            tally.sums.nonzero().for_each(|(domain, _)| blocked[domain] = true);
        }
        BlockedDomains::Merged(
            by_key.into_iter().map(|(key, blocked)| (&counters.keys[key], blocked)).collect(),
        )
    }

    #[inline]
    fn allows(&self, node: usize) -> bool {
        match self {
            BlockedDomains::Unmerged(all) => all.iter().all(|(key, sums)| match key.domain(node) {
                NO_DOMAIN => true,
                domain => sums.get(domain as usize) <= 0,
            }),
            BlockedDomains::Merged(all) => all.iter().all(|(key, blocked)| match key.domain(node) {
                NO_DOMAIN => true,
                domain => !blocked[domain as usize],
            }),
        }
    }
}

/// Constraints with the counts at one moment.
pub struct TopologySnapshot<'a> {
    bounds: Vec<DomainBound<'a>>,
    anti_affinity: BlockedDomains<'a>,
    existing_anti_affinity: BlockedDomains<'a>,
}

impl TopologySnapshot<'_> {
    /// `true` if a node satisfies all constraints.
    #[inline]
    #[must_use]
    pub fn allows(&self, node: usize) -> bool {
        self.bounds.iter().all(|bound| bound.allows(node))
            && self.anti_affinity.allows(node)
            && self.existing_anti_affinity.allows(node)
    }

    /// Returns the first constraint that a node violates.
    #[must_use]
    pub fn violation(&self, node: usize) -> Option<TopologyViolation> {
        if let Some(bound) = self.bounds.iter().find(|bound| !bound.allows(node)) {
            return Some(bound.violation(node));
        }
        let blocked = [
            (&self.anti_affinity, TopologyViolation::AntiAffinity),
            (&self.existing_anti_affinity, TopologyViolation::ExistingAntiAffinity),
        ];
        blocked.into_iter().find(|(blocked, _)| !blocked.allows(node)).map(|(_, violation)| violation)
    }
}

impl TopologyConstraints {
    /// `true` if there is no constraint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of tallies that a node is tested against.
    #[must_use]
    pub fn len(&self) -> usize {
        let affinity = self.affinity.as_ref().map_or(0, |affinity| affinity.tallies.len());
        self.spread.len() + affinity + self.anti_affinity.len() + self.existing_anti_affinity.len()
    }

    /// Returns the counters in which one more pod can make a node feasible: those of spread and affinity.
    pub fn add_sensitive_counters(&self) -> impl Iterator<Item = usize> + '_ {
        let affinity = self.affinity.iter().flat_map(|affinity| affinity.tallies.first());
        self.spread.iter().map(|one| &one.tally).chain(affinity).map(|(counter, _)| *counter)
    }

    /// Evaluates the constraints on the current counts.
    ///
    /// A nominated pod may never arrive, so no pod may depend on it, and no pod may take its place. Where more pods can
    /// make a domain feasible, the domain must be feasible both with and without nominated pods.
    #[must_use]
    pub fn snapshot<'a>(&self, counters: &'a TopologyCounters) -> TopologySnapshot<'a> {
        TopologySnapshot {
            bounds: self.bounds(counters).collect(),
            anti_affinity: BlockedDomains::new(&self.anti_affinity, counters),
            existing_anti_affinity: BlockedDomains::new(&self.existing_anti_affinity, counters),
        }
    }

    /// Returns the first constraint that one node violates.
    #[must_use]
    pub fn violation(&self, counters: &TopologyCounters, node: usize) -> Option<TopologyViolation> {
        if let Some(bound) = self.bounds(counters).find(|bound| !bound.allows(node)) {
            return Some(bound.violation(node));
        }
        let is_blocked = |id: &TallyId| {
            let tally = counters.tally(*id);
            tally.total != 0
                && match counters.keys[tally.key].domain(node) {
                    NO_DOMAIN => false,
                    domain => tally.sums.get(domain as usize) > 0,
                }
        };
        if self.anti_affinity.iter().any(is_blocked) {
            return Some(TopologyViolation::AntiAffinity);
        }
        let is_repelled = self.existing_anti_affinity.iter().any(is_blocked);
        is_repelled.then_some(TopologyViolation::ExistingAntiAffinity)
    }

    fn bounds<'a>(&self, counters: &'a TopologyCounters) -> impl Iterator<Item = DomainBound<'a>> {
        let spread = self.spread.iter().map(|one| one.bound(counters));
        let affinity = self.affinity.iter().flat_map(|affinity| affinity.bounds(counters));
        spread.chain(affinity)
    }
}

impl HardSpread {
    fn bound<'a>(&self, counters: &'a TopologyCounters) -> DomainBound<'a> {
        let tally = counters.tally(self.tally);
        let bound = |sums: Cow<'a, SparseCounts>| {
            let max = self.max_count(&sums, counters);
            let key = &counters.keys[tally.key];
            DomainBound { key, sums, min: i64::MIN, max, is_spread: true, without_nominated: None }
        };
        let without_nominated =
            counters.sums_without_nominated(self.tally).map(|sums| Box::new(bound(Cow::Owned(sums))));
        DomainBound { without_nominated, ..bound(Cow::Borrowed(&tally.sums)) }
    }

    /// Selected pods that a domain may hold before the pod is added.
    fn max_count(&self, sums: &SparseCounts, counters: &TopologyCounters) -> i64 {
        let scope = &counters.scopes[counters.tally(self.tally).scope];
        let has_few_domains = i64::try_from(scope.domain_count).unwrap_or(i64::MAX) < self.min_domains;
        let min = match sums {
            _ if has_few_domains || scope.domain_count == 0 => 0,
            SparseCounts::Array(all) => {
                let sum = |domain: usize| all.get(domain).copied().unwrap_or(0);
                let eligible = scope.nodes_per_domain.iter().enumerate().filter(|(_, nodes)| **nodes > 0);
                eligible.map(|(domain, _)| sum(domain)).min().unwrap_or(0)
            }
            // An eligible domain without an entry has the count 0.
            SparseCounts::List(some) if some.len() < scope.domain_count => 0,
            SparseCounts::List(some) => some.iter().map(|(_, sum)| *sum).min().unwrap_or(0),
        };
        self.max_skew.saturating_add(min) - self.self_match
    }
}

impl RequiredAffinity {
    fn bounds<'a>(&self, counters: &'a TopologyCounters) -> impl Iterator<Item = DomainBound<'a>> {
        let has_no_match = |without_nominated| {
            self.tallies.iter().all(|tally| counters.total(*tally, without_nominated) == 0)
        };
        // The first pod of a group that must be together: without a match anywhere, any domain is allowed.
        let min = |without_nominated| {
            if self.matches_itself && has_no_match(without_nominated) { i64::MIN } else { 1 }
        };
        let (min_with, min_without) = (min(false), min(true));
        self.tallies.iter().map(move |id| {
            let tally = counters.tally(*id);
            let bound = |sums: Cow<'a, SparseCounts>, min| {
                let key = &counters.keys[tally.key];
                DomainBound { key, sums, min, max: i64::MAX, is_spread: false, without_nominated: None }
            };
            let without_nominated = counters
                .sums_without_nominated(*id)
                .map(|sums| Box::new(bound(Cow::Owned(sums), min_without)));
            DomainBound { without_nominated, ..bound(Cow::Borrowed(&tally.sums), min_with) }
        })
    }
}
