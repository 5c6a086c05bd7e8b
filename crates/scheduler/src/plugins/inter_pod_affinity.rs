//! InterPodAffinity plugin: required and preferred affinity and anti-affinity between pods.
//!
//! Terms apply in both directions: those of the incoming pod select existing pods, and those of existing pods select the
//! incoming one. [`add_constraints`] adds the required terms as constraints, [`preferred_affinity`] returns the scored ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{QueueingHint, Rejection, SCORE_MAX};
use crate::cache::SchedulerCache;
use crate::cache::topology_counters::{CountedPods, NodeFilter, TallyId};
use crate::cost::TooCostly;
use crate::signature::{AffinityTerm, AffinityTerms, PodSelector, PodSignature};
use crate::topology::{RequiredAffinity, TopologyConstraints, TopologyViolation};

/// Default weight of the score.
pub const WEIGHT: i64 = 2;

/// Scored affinity term: each counted pod adds `weight` to the score of its domain.
#[derive(Clone, Debug)]
pub struct WeightedTally {
    /// Number of matching pods by domain.
    pub tally: TallyId,
    /// Score for each pod; negative for anti-affinity.
    pub weight: i64,
}

/// Adds the required affinity and anti-affinity of a pod, and the anti-affinity of existing pods against it.
///
/// # Errors
/// If the terms of the pod need too many comparisons with other pods.
pub fn add_constraints(
    cache: &mut SchedulerCache,
    signature: &PodSignature,
    constraints: &mut TopologyConstraints,
) -> Result<(), TooCostly> {
    let AffinityTerms { required_affinity, required_anti_affinity, .. } = &signature.pod_affinity;
    // A pod must match every affinity term, so one counter serves all of them.
    let affinity_set = (!required_affinity.is_empty()).then(|| pods_matching(required_affinity));
    let anti_affinity_sets = required_anti_affinity.iter().map(|term| pods_matching([term]));
    let counters = cache.find_or_add_counters(affinity_set.into_iter().chain(anti_affinity_sets))?;
    let (affinity_counter, anti_affinity_counters) =
        counters.split_at(usize::from(!required_affinity.is_empty()));
    if let Some(counter) = affinity_counter.first() {
        let matches_itself = cache.counters.matches_all_terms(signature, required_affinity);
        let tallies: BTreeSet<TallyId> = required_affinity
            .iter()
            .map(|term| find_or_add_tally(cache, *counter, &term.topology_key))
            .collect();
        constraints.affinity =
            Some(RequiredAffinity { tallies: tallies.into_iter().collect(), matches_itself });
    }
    let anti_affinity: BTreeSet<TallyId> = required_anti_affinity
        .iter()
        .zip(anti_affinity_counters)
        .map(|(term, counter)| find_or_add_tally(cache, *counter, &term.topology_key))
        .collect();
    constraints.anti_affinity = anti_affinity.into_iter().collect();
    let existing: BTreeSet<TallyId> =
        terms_of_existing_pods(cache, signature, true).into_iter().map(|(tally, _)| tally).collect();
    constraints.existing_anti_affinity = existing.into_iter().collect();
    Ok(())
}

/// Returns the scored terms for a pod: its preferred terms, and the terms of existing pods that match it.
///
/// # Errors
/// If the terms of the pod need too many comparisons with other pods.
pub fn preferred_affinity(
    cache: &mut SchedulerCache,
    signature: &PodSignature,
) -> Result<Vec<WeightedTally>, TooCostly> {
    let preferred = &signature.pod_affinity.preferred;
    let counters = cache.find_or_add_counters(preferred.iter().map(|(_, term)| pods_matching([term])))?;
    let mut weights: BTreeMap<TallyId, i64> = BTreeMap::new();
    for ((weight, term), counter) in preferred.iter().zip(counters) {
        *weights.entry(find_or_add_tally(cache, counter, &term.topology_key)).or_insert(0) += weight;
    }
    for (tally, weight) in terms_of_existing_pods(cache, signature, false) {
        *weights.entry(tally).or_insert(0) += weight;
    }
    Ok(weights.into_iter().map(|(tally, weight)| WeightedTally { tally, weight }).collect())
}

/// Returns the set of pods that match every term.
fn pods_matching<'a>(terms: impl IntoIterator<Item = &'a AffinityTerm>) -> CountedPods {
    let mut pods: Vec<PodSelector> = terms.into_iter().map(|term| term.pods.clone()).collect();
    pods.sort_unstable();
    pods.dedup();
    CountedPods::Matching(pods)
}

/// Returns tallies of existing pods with terms that match the incoming pod, each with its weight: required
/// anti-affinity if `is_required`, scored terms otherwise.
fn terms_of_existing_pods(
    cache: &mut SchedulerCache,
    signature: &PodSignature,
    is_required: bool,
) -> Vec<(TallyId, i64)> {
    let found = cache.counters.matching_term_counters(signature, is_required).into_iter();
    let found = found.map(|counter| {
        let pods = Arc::clone(&cache.counters.list[counter].pods);
        match &*pods {
            CountedPods::RequiringAntiAffinity(term) => {
                (find_or_add_tally(cache, counter, &term.topology_key), 0)
            }
            CountedPods::Preferring(weight, term) => {
                (find_or_add_tally(cache, counter, &term.topology_key), *weight)
            }
            CountedPods::Matching(_) | CountedPods::Selected { .. } => {
                unreachable!("not in the index of terms")
            }
        }
    });
    found.collect()
}

fn find_or_add_tally(cache: &mut SchedulerCache, counter: usize, topology_key: &str) -> TallyId {
    let key = cache.counters.find_or_add_key(topology_key, &cache.nodes);
    let node_set = cache.counters.find_or_add_node_set(NodeFilter::default(), &cache.nodes);
    cache.counters.find_or_add_tally(counter, key, node_set)
}

/// Returns the rejection for a violation of affinity or anti-affinity.
#[must_use]
pub fn rejection(violation: TopologyViolation) -> Rejection {
    let hint = QueueingHint::NODE_ADD_OR_UPDATE | QueueingHint::ASSIGNED_POD_DELETE;
    match violation {
        TopologyViolation::ExistingAntiAffinity => {
            Rejection::resolvable("node(s) didn't satisfy existing pods anti-affinity rules", hint)
        }
        TopologyViolation::AntiAffinity => {
            Rejection::resolvable("node(s) didn't match pod anti-affinity rules", hint)
        }
        _ => {
            let hint = hint | QueueingHint::ASSIGNED_POD_ADD;
            Rejection::unresolvable("node(s) didn't match pod affinity rules", hint)
        }
    }
}

/// Normalizes the weighted sum of a node to a score; the sums of all feasible nodes range from `min` to `max`.
#[must_use]
pub fn score(sum: i64, min: i64, max: i64) -> i64 {
    if max == min {
        return 0;
    }
    (SCORE_MAX as f64 * ((sum - min) as f64 / (max - min) as f64)) as i64
}
