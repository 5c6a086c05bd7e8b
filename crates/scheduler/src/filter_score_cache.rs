//! Filter and score results for all pods of one signature: per node, whether it is feasible and its score.
//!
//! Only nodes that changed are evaluated again, so a second pod of a signature costs little. Start at
//! [`FilterScoreCache::refresh`].

pub mod ranked_nodes;

use std::collections::BTreeMap;

use setpoint_reconcile::WorldReader;

use crate::cache::{CacheVersion, SchedulerCache};
use crate::cost::{SchedulingCost, TooCostly};
use crate::plugins::dynamic_resources::{self, ClaimAllocations};
use crate::plugins::inter_pod_affinity::{self, WeightedTally};
use crate::plugins::pod_topology_spread::{self, SoftSpread};
use crate::plugins::volumes::{self, VolumeError, VolumeRequirements};
use crate::plugins::{
    Rejection, image_locality, node_affinity, node_declared_features, node_ports, node_resources,
    node_unschedulable, taint_toleration, volume_restrictions,
};
use crate::preemption::PreemptionCache;
use crate::profile::{Profile, ScoreWeights};
use crate::selection::{self, FitError};
use crate::signature::PodSignature;
use crate::topology::TopologyConstraints;
use ranked_nodes::RankedNodes;

/// Verdict on a node that does not exist.
const ABSENT: u16 = u16::MAX;

/// Result for one node, of the plugins that depend on that node only.
#[derive(Clone, Copy, Debug)]
pub struct NodeResult {
    /// 0 if no plugin rejects the node, [`ABSENT`], or the position of the rejection plus 1.
    verdict: u16,
    /// `PreferNoSchedule` taints that the pod does not tolerate.
    pub untolerated_taints: u16,
    /// Score of the plugins that need no normalization over nodes.
    pub base_score: i32,
    /// Weights of the preferred node affinity terms that the node matches.
    pub preference_weight: i32,
    /// Hash of the node's name, to break ties.
    pub hash: u32,
}

impl NodeResult {
    /// Result of a node that does not exist or is not evaluated yet.
    fn absent(hash: u32) -> NodeResult {
        NodeResult { verdict: ABSENT, untolerated_taints: 0, base_score: 0, preference_weight: 0, hash }
    }

    /// `true` if no plugin rejects the node.
    #[inline]
    #[must_use]
    pub fn is_feasible(&self) -> bool {
        self.verdict == 0
    }

    /// `true` if the node exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.verdict != ABSENT
    }
}

/// Results for the pods of one signature.
#[derive(Clone)]
pub struct FilterScoreCache {
    /// Numbers of the nodes that the pod names, sorted; `None` if it names none, and then a node's position is its
    /// number.
    named_nodes: Option<Vec<usize>>,
    /// Number of known nodes when `named_nodes` was computed.
    named_nodes_at: usize,
    /// Results by position.
    node_results: Vec<NodeResult>,
    /// Feasible nodes by base score.
    pub ranked: RankedNodes,
    /// Version of the cache that the results are valid for.
    version: CacheVersion,
    /// Number of term counters that the topology constraints are valid for.
    term_counters: usize,
    /// `true` if any node has untolerated `PreferNoSchedule` taints or matches a preferred term.
    pub has_preferences: bool,
    rejections: Vec<Rejection>,
    rejection_numbers: BTreeMap<Rejection, u16>,
    /// Rejection of every node, as from a PreFilter plugin.
    pub prefilter_rejection: Option<Rejection>,
    /// Required affinity, anti-affinity and spread.
    pub topology: TopologyConstraints,
    /// Scored affinity and anti-affinity.
    pub preferred_affinity: Vec<WeightedTally>,
    /// Scored spread.
    pub soft_spread: SoftSpread,
    /// Requirements of the pod's volumes.
    pub volumes: VolumeRequirements,
    /// State of the pod's ResourceClaims.
    pub claim_allocations: ClaimAllocations,
    /// Scores by the alternatives of the pod's ResourceClaims, by position; empty if there are none.
    pub device_scores: Vec<i64>,
    /// Weights of the scores.
    pub weights: ScoreWeights,
    /// Value of [`SchedulerCache::attempts`] at the last use.
    pub last_used: u64,
    /// Results of preemption dry runs.
    pub preemption: PreemptionCache,
    /// `true` if no node is evaluated, since that would cost too much. The other results are empty then.
    pub is_too_costly: bool,
    /// Last fit error, with the version that it is valid for.
    last_fit_error: Option<(CacheVersion, FitError)>,
}

impl FilterScoreCache {
    /// Computes the results for a signature.
    pub fn new(
        signature: &PodSignature,
        cache: &mut SchedulerCache,
        world: &WorldReader<'_>,
        profile: &Profile,
    ) -> FilterScoreCache {
        let rejection = node_affinity::find_conflict(signature);
        let requirements = match SchedulingCost::new(signature).check(cache.node_count) {
            Ok(()) => {
                volumes::find_requirements(signature, world, cache.node_count, &mut cache.volume_affinity)
            }
            Err(costly) => Err(VolumeError::TooCostly(costly)),
        };
        let (volumes, rejection, affordable) = match requirements {
            Ok(volumes) => (volumes, rejection, Ok(())),
            Err(VolumeError::Rejected(by_volumes)) => {
                (VolumeRequirements::default(), rejection.or(Some(by_volumes)), Ok(()))
            }
            Err(VolumeError::TooCostly(costly)) => (VolumeRequirements::default(), rejection, Err(costly)),
        };
        let (claim_allocations, prefilter_rejection) =
            match dynamic_resources::read_claims(signature, world, cache) {
                Ok(allocations) => (allocations, rejection),
                Err(by_claims) => (ClaimAllocations::default(), rejection.or(Some(by_claims))),
            };
        let mut results = FilterScoreCache {
            named_nodes: None,
            named_nodes_at: usize::MAX,
            node_results: Vec::new(),
            ranked: RankedNodes::default(),
            version: (u64::MAX, 0),
            term_counters: usize::MAX,
            has_preferences: false,
            rejections: Vec::new(),
            rejection_numbers: BTreeMap::new(),
            prefilter_rejection,
            topology: TopologyConstraints::default(),
            preferred_affinity: Vec::new(),
            soft_spread: SoftSpread::default(),
            volumes,
            claim_allocations,
            device_scores: Vec::new(),
            weights: profile.weights,
            last_used: 0,
            preemption: PreemptionCache::default(),
            is_too_costly: false,
            last_fit_error: None,
        };
        cache.results_built += 1;
        let soft_spread =
            affordable.and_then(|()| pod_topology_spread::soft_spread(cache, signature, profile, world));
        match soft_spread {
            Ok(soft_spread) => {
                results.soft_spread = soft_spread;
                results.refresh(signature, cache, world, profile);
            }
            Err(costly) => results.reject_as_too_costly(costly),
        }
        results
    }

    fn reject_as_too_costly(&mut self, costly: TooCostly) {
        self.is_too_costly = true;
        self.prefilter_rejection = Some(Rejection::unresolvable(costly.message(), costly.hint()));
        self.topology = TopologyConstraints::default();
        (self.preferred_affinity, self.soft_spread) = (Vec::new(), SoftSpread::default());
        self.node_results.clear();
        self.ranked = RankedNodes::default();
    }

    /// Recomputes the constraints and scored terms that depend on other pods.
    fn rebuild_topology(
        &mut self,
        signature: &PodSignature,
        cache: &mut SchedulerCache,
        world: &WorldReader<'_>,
        profile: &Profile,
    ) -> Result<(), TooCostly> {
        let spread = pod_topology_spread::hard_constraints(cache, signature, profile, world)?;
        let mut topology = TopologyConstraints { spread, ..TopologyConstraints::default() };
        inter_pod_affinity::add_constraints(cache, signature, &mut topology)?;
        self.preferred_affinity = inter_pod_affinity::preferred_affinity(cache, signature)?;
        self.topology = topology;
        Ok(())
    }

    /// Evaluates the nodes that changed since the last call.
    pub fn refresh(
        &mut self,
        signature: &PodSignature,
        cache: &mut SchedulerCache,
        world: &WorldReader<'_>,
        profile: &Profile,
    ) {
        if self.term_counters != cache.counters.term_counters {
            if let Err(costly) = self.rebuild_topology(signature, cache, world, profile) {
                return self.reject_as_too_costly(costly);
            }
            self.term_counters = cache.counters.term_counters;
            self.preemption = PreemptionCache::default();
        }
        if self.named_nodes_at != cache.nodes.len() {
            self.named_nodes_at = cache.nodes.len();
            let named_nodes = find_named_nodes(signature, cache);
            if named_nodes != self.named_nodes {
                // A node that the pod names was added, so positions change.
                self.named_nodes = named_nodes;
                self.node_results.clear();
                self.ranked = RankedNodes::default();
            }
        }
        let version = cache.version();
        let count = self.named_nodes.as_ref().map_or(cache.nodes.len(), Vec::len);
        let known = self.node_results.len();
        let stale = match cache.nodes_changed_since(self.version) {
            Some(changed) if self.named_nodes.is_none() => changed.to_vec(),
            Some(changed) => changed.iter().filter_map(|node| self.position(*node)).collect(),
            None => (0..known).collect(),
        };
        self.node_results.resize(count, NodeResult::absent(0));
        for at in stale.into_iter().filter(|at| *at < known).chain(known..count) {
            let result = self.evaluate_node(self.node(at), signature, cache, world, profile);
            self.has_preferences |= result.untolerated_taints != 0 || result.preference_weight != 0;
            self.ranked.update(at, &self.node_results[at], &result);
            self.node_results[at] = result;
            if self.claim_allocations.has_scores() {
                self.score_devices(at, cache);
            }
        }
        self.version = version;
    }

    fn score_devices(&mut self, at: usize, cache: &SchedulerCache) {
        self.device_scores.resize(self.node_results.len(), 0);
        let is_feasible = self.node_results[at].is_feasible();
        let node = &cache.nodes[self.node(at)];
        self.device_scores[at] =
            if is_feasible { dynamic_resources::score(&self.claim_allocations, node) } else { 0 };
    }

    fn evaluate_node(
        &mut self,
        node: usize,
        signature: &PodSignature,
        cache: &SchedulerCache,
        world: &WorldReader<'_>,
        profile: &Profile,
    ) -> NodeResult {
        let info = &cache.nodes[node];
        let hash = info.hash as u32;
        if !info.exists {
            return NodeResult::absent(hash);
        }
        if let Err(rejection) = self.run_filters(node, signature, cache, world, profile) {
            let verdict = self.intern_rejection(rejection);
            return NodeResult { verdict, ..NodeResult::absent(hash) };
        }
        let weights = &profile.weights;
        let base_score = node_resources::score(&signature.request, info, weights)
            + weights.image_locality * image_locality::score(signature, info, cache);
        let untolerated_taints = taint_toleration::count_untolerated_preferences(signature, info);
        let preference_weight = node_affinity::preference_weight(signature, info, profile);
        NodeResult {
            verdict: 0,
            untolerated_taints: u16::try_from(untolerated_taints).unwrap_or(u16::MAX),
            base_score: i32::try_from(base_score).unwrap_or(i32::MAX),
            preference_weight: i32::try_from(preference_weight).unwrap_or(i32::MAX),
            hash,
        }
    }

    /// Runs the filters that depend on one node only.
    ///
    /// # Errors
    /// The rejection of the first plugin that rejects the node.
    pub fn run_filters(
        &self,
        node: usize,
        signature: &PodSignature,
        cache: &SchedulerCache,
        world: &WorldReader<'_>,
        profile: &Profile,
    ) -> Result<(), Rejection> {
        let info = &cache.nodes[node];
        node_unschedulable::filter(signature, info)?;
        taint_toleration::filter(signature, info)?;
        node_affinity::filter(signature, info, profile)?;
        node_ports::filter(signature, info)?;
        node_resources::filter(&signature.request, info)?;
        volume_restrictions::filter(signature, info, cache)?;
        volumes::filter(&self.volumes, signature, info, cache, world)?;
        node_declared_features::filter(signature, info)?;
        dynamic_resources::filter(&self.claim_allocations, info)
    }

    /// Returns the best node for a pod; `None` if no node is feasible.
    #[must_use]
    pub fn select_node(&self, cache: &SchedulerCache, random: u32) -> Option<usize> {
        if self.cached_fit_error(cache).is_some() {
            None
        } else {
            selection::select_node(self, cache, random)
        }
    }

    /// Returns the number of nodes that are scored one by one for a pod: all, unless the ranking alone decides.
    #[must_use]
    pub fn scored_nodes(&self) -> u64 {
        let is_ranked = self.topology.is_empty()
            && self.preferred_affinity.is_empty()
            && self.soft_spread.constraints.is_empty()
            && !self.has_preferences
            && self.device_scores.is_empty();
        if is_ranked { 0 } else { self.node_results.len() as u64 }
    }

    /// Returns the fit error of an earlier attempt, if no node changed since.
    #[must_use]
    pub fn cached_fit_error(&self, cache: &SchedulerCache) -> Option<&FitError> {
        let found = self.last_fit_error.as_ref().filter(|(version, _)| *version == cache.version());
        found.map(|(_, error)| error)
    }

    /// Keeps a fit error until a node changes.
    pub fn cache_fit_error(&mut self, error: &FitError, cache: &SchedulerCache) {
        self.last_fit_error = Some((cache.version(), error.clone()));
    }

    fn intern_rejection(&mut self, rejection: Rejection) -> u16 {
        if let Some(number) = self.rejection_numbers.get(&rejection) {
            return *number;
        }
        let number = u16::try_from(self.rejections.len() + 1).unwrap_or(ABSENT).min(ABSENT - 1);
        self.rejections.push(rejection.clone());
        self.rejection_numbers.insert(rejection, number);
        number
    }

    /// Number of nodes that are evaluated.
    #[must_use]
    pub fn len(&self) -> usize {
        self.node_results.len()
    }

    /// `true` if no node is evaluated.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.node_results.is_empty()
    }

    /// Results of the evaluated nodes by position.
    #[must_use]
    pub fn node_results(&self) -> &[NodeResult] {
        &self.node_results
    }

    /// Returns the number of the node at a position.
    #[inline]
    #[must_use]
    pub fn node(&self, position: usize) -> usize {
        self.named_nodes.as_ref().map_or(position, |nodes| nodes[position])
    }

    /// Returns the position of a node, if it is evaluated.
    #[must_use]
    pub fn position(&self, node: usize) -> Option<usize> {
        match &self.named_nodes {
            Some(nodes) => nodes.binary_search(&node).ok(),
            None => (node < self.node_results.len()).then_some(node),
        }
    }

    /// Returns the rejection of the node at a position by a plugin that depends on that node only.
    #[must_use]
    pub fn rejection(&self, position: usize) -> Option<&Rejection> {
        match self.node_results[position].verdict {
            0 | ABSENT => None,
            number => self.rejections.get(usize::from(number) - 1),
        }
    }
}

/// Returns the known nodes that a pod names, sorted by number; `None` if it names none.
fn find_named_nodes(signature: &PodSignature, cache: &SchedulerCache) -> Option<Vec<usize>> {
    let names = signature.node_affinity.node_names()?;
    let known = names.iter().filter_map(|name| cache.node_numbers.get(*name).copied());
    let mut nodes: Vec<usize> = known.collect();
    nodes.sort_unstable();
    Some(nodes)
}
