//! Node selection: the feasible node with the highest score, or the reasons why no node is feasible.
//!
//! Corresponds to `findNodesThatFitPod`, `prioritizeNodes` and `selectHost` of kube-scheduler, on cached results and
//! topology counters. Start at [`select_node`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cache::SchedulerCache;
use crate::cache::topology_counters::{NO_DOMAIN, TopologyKey};
use crate::filter_score_cache::ranked_nodes::{RankLookup, tie_break};
use crate::filter_score_cache::{FilterScoreCache, NodeResult};
use crate::plugins::{
    QueueingHint, Rejection, SCORE_MAX, inter_pod_affinity, node_affinity, pod_topology_spread,
    taint_toleration,
};
use crate::topology::TopologySnapshot;

/// Returns the best node for a pod. `random` breaks ties between equal scores.
#[must_use]
pub fn select_node(results: &FilterScoreCache, cache: &SchedulerCache, random: u32) -> Option<usize> {
    if results.prefilter_rejection.is_some() {
        return None;
    }
    let topology = results.topology.snapshot(&cache.counters);
    let mut best = BestNode::default();
    if results.preferred_affinity.is_empty()
        && results.soft_spread.constraints.is_empty()
        && !results.has_preferences
        && results.device_scores.is_empty()
    {
        match results.ranked.find_best(random, |at| topology.allows(results.node(at))) {
            RankLookup::Best(at) => return Some(results.node(at)),
            RankLookup::NoneFits => return None,
            RankLookup::Undecided => {}
        }
        for (at, result) in results.node_results().iter().enumerate() {
            if result.is_feasible() && topology.allows(results.node(at)) {
                best.consider(at, i64::from(result.base_score), result, random);
            }
        }
        return best.at.map(|at| results.node(at));
    }
    let feasible: Vec<u32> = feasible_positions(results, &topology).collect();
    let spread_scores = score_spread(results, cache, &feasible);
    let affinity_scores = score_affinity(results, cache, &feasible);
    let max_taints = max_over(&feasible, |at| i64::from(results.node_results()[at].untolerated_taints));
    let max_preference = max_over(&feasible, |at| i64::from(results.node_results()[at].preference_weight));
    let device_scores = &results.device_scores;
    let max_device_score = max_over(&feasible, |at| device_scores.get(at).copied().unwrap_or(0));
    for (i, at) in feasible.iter().enumerate() {
        let at = *at as usize;
        let result = &results.node_results()[at];
        let weights = &results.weights;
        let mut score = i64::from(result.base_score);
        score += weights.taint_toleration
            * taint_toleration::score(i64::from(result.untolerated_taints), max_taints);
        score +=
            weights.node_affinity * node_affinity::score(i64::from(result.preference_weight), max_preference);
        if let Some(scores) = &spread_scores {
            score += weights.pod_topology_spread * scores[i];
        }
        if let Some(scores) = &affinity_scores {
            score += weights.inter_pod_affinity * scores[i];
        }
        if max_device_score > 0 {
            let device_score = device_scores.get(at).copied().unwrap_or(0);
            score += weights.dynamic_resources * (device_score * SCORE_MAX / max_device_score);
        }
        best.consider(at, score, result, random);
    }
    best.at.map(|at| results.node(at))
}

/// `true` if a node is feasible for a pod.
#[must_use]
pub fn is_feasible(results: &FilterScoreCache, cache: &SchedulerCache, node: usize) -> bool {
    let result = results.position(node).map(|at| results.node_results()[at]);
    results.prefilter_rejection.is_none()
        && result.is_some_and(|result| result.is_feasible())
        && results.topology.violation(&cache.counters, node).is_none()
}

/// Returns all feasible nodes.
#[cfg(test)]
pub fn feasible_nodes(results: &FilterScoreCache, cache: &SchedulerCache) -> Vec<usize> {
    let topology = results.topology.snapshot(&cache.counters);
    let feasible = feasible_positions(results, &topology).map(|at| results.node(at as usize));
    if results.prefilter_rejection.is_some() { Vec::new() } else { feasible.collect() }
}

fn feasible_positions<'a>(
    results: &'a FilterScoreCache,
    topology: &'a TopologySnapshot<'_>,
) -> impl Iterator<Item = u32> + 'a {
    let positions = results.node_results().iter().enumerate();
    let feasible =
        positions.filter(|(at, result)| result.is_feasible() && topology.allows(results.node(*at)));
    feasible.map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX))
}

fn max_over(feasible: &[u32], of: impl Fn(usize) -> i64) -> i64 {
    feasible.iter().map(|at| of(*at as usize)).max().unwrap_or(0)
}

/// Spread scores of the feasible nodes; `None` if all are equal.
fn score_spread(results: &FilterScoreCache, cache: &SchedulerCache, feasible: &[u32]) -> Option<Vec<i64>> {
    let constraints = &results.soft_spread.constraints;
    if constraints.is_empty() {
        return None;
    }
    let requires_all_keys = results.soft_spread.requires_all_keys;
    let keys: Vec<&TopologyKey> = constraints.iter().map(|one| &cache.counters.keys[one.key]).collect();
    // No node has one of the keys, so all score 0.
    if requires_all_keys && keys.iter().any(|key| !key.has_domains()) {
        return None;
    }
    let has_all_keys = |node: usize| keys.iter().all(|key| key.domain(node) != NO_DOMAIN);
    let is_scored = |node: usize| !requires_all_keys || has_all_keys(node);
    let scored_count = feasible.iter().filter(|at| is_scored(results.node(**at as usize))).count();
    let mut sums = vec![0.0; feasible.len()];
    for (constraint, key) in constraints.iter().zip(&keys).filter(|(_, key)| key.has_domains()) {
        let counter = &cache.counters.list[constraint.counter];
        // Computed once per domain, not once per node.
        let domain_scores: Option<Vec<f64>> = constraint.tally.map(|tally| {
            let tally = cache.counters.tally(tally);
            let mut is_seen = vec![false; key.domain_count() + 1];
            for at in feasible.iter().map(|at| results.node(*at as usize)).filter(|node| is_scored(*node)) {
                is_seen[(key.domain(at) as usize).min(key.domain_count())] = true;
            }
            let domains = is_seen.iter().filter(|seen| **seen).count();
            let score = |domain| {
                pod_topology_spread::domain_score(tally.sums.get(domain), constraint.max_skew, domains)
            };
            (0..key.domain_count()).map(score).collect()
        });
        for (sum, at) in sums.iter_mut().zip(feasible) {
            let node = results.node(*at as usize);
            let domain = key.domain(node);
            if domain != NO_DOMAIN {
                *sum += match &domain_scores {
                    Some(scores) => scores[domain as usize],
                    None => pod_topology_spread::domain_score(
                        counter.by_node.get(node),
                        constraint.max_skew,
                        scored_count,
                    ),
                };
            }
        }
    }
    let raw: Vec<i64> = sums.iter().map(|sum| sum.round() as i64).collect();
    let scored = || {
        raw.iter().zip(feasible).filter(|(_, at)| is_scored(results.node(**at as usize))).map(|(raw, _)| *raw)
    };
    let (min, max) = (scored().min().unwrap_or(0), scored().max().unwrap_or(0));
    let normalize = |(raw, at): (&i64, &u32)| {
        if is_scored(results.node(*at as usize)) { pod_topology_spread::score(*raw, min, max) } else { 0 }
    };
    Some(raw.iter().zip(feasible).map(normalize).collect())
}

/// Affinity scores of the feasible nodes; `None` if all are equal.
fn score_affinity(results: &FilterScoreCache, cache: &SchedulerCache, feasible: &[u32]) -> Option<Vec<i64>> {
    let terms: Vec<_> = results
        .preferred_affinity
        .iter()
        .filter(|term| cache.counters.list[term.tally.0].total != 0)
        .collect();
    if terms.is_empty() {
        return None;
    }
    // Summed by topology key first: there can be far more terms than keys.
    let mut by_key: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for term in terms {
        let tally = cache.counters.tally(term.tally);
        let count = cache.counters.keys[tally.key].domain_count();
        let sums = by_key.entry(tally.key).or_insert_with(|| vec![0; count]);
        tally.sums.nonzero().for_each(|(domain, sum)| sums[domain] += sum * term.weight);
    }
    let mut raw = vec![0; feasible.len()];
    for (key, sums) in by_key {
        for (raw, at) in raw.iter_mut().zip(feasible) {
            let domain = cache.counters.keys[key].domain(results.node(*at as usize));
            if domain != NO_DOMAIN {
                *raw += sums[domain as usize];
            }
        }
    }
    let min = raw.iter().min().copied().unwrap_or(0);
    let max = raw.iter().max().copied().unwrap_or(0);
    Some(raw.into_iter().map(|raw| inter_pod_affinity::score(raw, min, max)).collect())
}

/// Best node so far, by score and then by tie-break.
#[derive(Default)]
struct BestNode {
    at: Option<usize>,
    score: i64,
    tie_break: u32,
}

impl BestNode {
    #[inline]
    fn consider(&mut self, at: usize, score: i64, result: &NodeResult, random: u32) {
        if self.at.is_some() && score < self.score {
            return;
        }
        let tie_break = tie_break(result.hash, random);
        if self.at.is_none() || (score, tie_break) > (self.score, self.tie_break) {
            *self = BestNode { at: Some(at), score, tie_break };
        }
    }
}

/// Reasons why no node is feasible.
#[derive(Clone, Debug)]
pub struct FitError {
    /// Message as kube-scheduler prints it.
    pub message: String,
    /// Events that can make a node feasible.
    pub hint: QueueingHint,
}

/// Collects the rejections of all nodes.
#[must_use]
pub fn diagnose(results: &FilterScoreCache, cache: &SchedulerCache) -> FitError {
    if cache.node_count == 0 {
        let message = "no nodes available to schedule pods".to_owned();
        return FitError { message, hint: QueueingHint::NODE_ADD_OR_UPDATE };
    }
    let head = format!("0/{} nodes are available:", cache.node_count);
    if let Some(rejection) = &results.prefilter_rejection {
        let message = format!("{head} {}.", rejection.reasons.join(", "));
        return FitError { message, hint: rejection.hint };
    }
    let topology = results.topology.snapshot(&cache.counters);
    let mut reasons = ReasonCounts::default();
    let mut evaluated = 0;
    for (at, result) in results.node_results().iter().enumerate().filter(|(_, result)| result.exists()) {
        evaluated += 1;
        if let Some(rejection) = results.rejection(at) {
            reasons.add(rejection, 1);
        } else if result.is_feasible()
            && let Some(violation) = topology.violation(results.node(at))
        {
            reasons.add(&violation.rejection(), 1);
        }
    }
    if evaluated < cache.node_count {
        let others =
            Rejection::unresolvable(node_affinity::NOT_NAMED_REASON, QueueingHint::NODE_ADD_OR_UPDATE);
        reasons.add(&others, cache.node_count - evaluated);
    }
    FitError { message: format!("{head} {}.", reasons.message()), hint: reasons.hint }
}

/// Rejection reasons with the number of nodes for each.
#[derive(Default)]
pub struct ReasonCounts {
    counts: BTreeMap<Cow<'static, str>, usize>,
    hint: QueueingHint,
}

impl ReasonCounts {
    /// Adds a rejection of `nodes` nodes.
    pub fn add(&mut self, rejection: &Rejection, nodes: usize) {
        self.hint |= rejection.hint;
        for reason in &rejection.reasons {
            match self.counts.get_mut(reason) {
                Some(count) => *count += nodes,
                None => {
                    self.counts.insert(reason.clone(), nodes);
                }
            }
        }
    }

    /// Returns all reasons with their counts. As upstream, sorted as text, so `10 …` comes before `2 …`.
    #[must_use]
    pub fn message(&self) -> String {
        let mut reasons: Vec<String> =
            self.counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        reasons.sort_unstable();
        reasons.join(", ")
    }
}

#[cfg(test)]
mod tests;
