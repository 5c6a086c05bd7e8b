//! Pods that must or should be near others, or far from them; in both directions, for those that are there may not
//! want to be near the one that comes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Helps, Rejection, SCORE_MAX};
use crate::cache::Cache;
use crate::cache::counters::{Over, TallyId, What};
use crate::cost::TooCostly;
use crate::gates::{Gates, Near, Shut};
use crate::shape::{PodTerm, PodTerms, Pods, Shape};

/// What it counts for beside other rules.
pub const WEIGHT: i64 = 2;

/// What draws a pod to the domains of a label, or away where the weight is negative, for each pod that is counted.
#[derive(Clone, Debug)]
pub struct Pull {
    /// The counts.
    pub tally: TallyId,
    /// What each counts for.
    pub weight: i64,
}

/// The domains that will do.
///
/// # Errors
/// If the terms of the pod are about too many pods.
pub fn gates(cache: &mut Cache, shape: &Shape, gates: &mut Gates) -> Result<(), TooCostly> {
    let PodTerms { near, far, .. } = &shape.others;
    let together = (!near.is_empty()).then(|| meant(near));
    let counters = cache.counters_of(together.into_iter().chain(far.iter().map(|term| meant([term]))))?;
    let (of_near, of_far) = counters.split_at(usize::from(!near.is_empty()));
    if let Some(counter) = of_near.first() {
        let own = cache.counters.are_all_about(shape, near);
        let tallies: BTreeSet<TallyId> = near.iter().map(|term| tally(cache, *counter, &term.key)).collect();
        gates.near = Some(Near { tallies: tallies.into_iter().collect(), own });
    }
    let far: BTreeSet<TallyId> =
        far.iter().zip(of_far).map(|(term, counter)| tally(cache, *counter, &term.key)).collect();
    gates.far = far.into_iter().collect();
    let shunned: BTreeSet<TallyId> =
        said_of(cache, shape, true).into_iter().map(|(tally, _)| tally).collect();
    gates.shunned = shunned.into_iter().collect();
    Ok(())
}

/// What draws the pod where.
///
/// # Errors
/// If the terms of the pod are about too many pods.
pub fn pulls(cache: &mut Cache, shape: &Shape) -> Result<Vec<Pull>, TooCostly> {
    let wishes = &shape.others.wishes;
    let counters = cache.counters_of(wishes.iter().map(|(_, term)| meant([term])))?;
    let mut pulls: BTreeMap<TallyId, i64> = BTreeMap::new();
    for ((weight, term), counter) in wishes.iter().zip(counters) {
        *pulls.entry(tally(cache, counter, &term.key)).or_insert(0) += weight;
    }
    for (tally, weight) in said_of(cache, shape, false) {
        *pulls.entry(tally).or_insert(0) += weight;
    }
    Ok(pulls.into_iter().map(|(tally, weight)| Pull { tally, weight }).collect())
}

/// The pods that all of these terms mean.
fn meant<'a>(terms: impl IntoIterator<Item = &'a PodTerm>) -> What {
    let mut pods: Vec<Pods> = terms.into_iter().map(|term| term.pods.clone()).collect();
    pods.sort_unstable();
    pods.dedup();
    What::Meant(pods)
}

/// What other pods ask for of pods of this shape, with its weight: that they are far, or what they would rather have.
fn said_of(cache: &mut Cache, shape: &Shape, is_hard: bool) -> Vec<(TallyId, i64)> {
    let found = cache.counters.about(shape, is_hard).into_iter();
    let found = found.map(|counter| {
        let what = Arc::clone(&cache.counters.all[counter].what);
        match &*what {
            What::Shunning(term) => (tally(cache, counter, &term.key), 0),
            What::Wishing(weight, term) => (tally(cache, counter, &term.key), *weight),
            What::Meant(_) | What::Selected { .. } => unreachable!("these are no terms"),
        }
    });
    found.collect()
}

fn tally(cache: &mut Cache, counter: usize, key: &str) -> TallyId {
    let key = cache.counters.key(key, &cache.nodes);
    let over = cache.counters.node_set(Over::default(), &cache.nodes);
    cache.counters.tally(counter, key, over)
}

/// Why a domain will not do.
#[must_use]
pub fn rejection(shut: Shut) -> Rejection {
    let going = Helps::NODES | Helps::PODS;
    match shut {
        Shut::Shunned => {
            Rejection::by_pods("node(s) didn't satisfy existing pods anti-affinity rules", going)
        }
        Shut::Far => Rejection::by_pods("node(s) didn't match pod anti-affinity rules", going),
        _ => Rejection::for_good("node(s) didn't match pod affinity rules", going | Helps::PODS_CAME),
    }
}

/// The score of a node that is drawn to so much, between the least and the most.
#[must_use]
pub fn score(pull: i64, least: i64, most: i64) -> i64 {
    if most == least {
        return 0;
    }
    (SCORE_MAX as f64 * ((pull - least) as f64 / (most - least) as f64)) as i64
}
