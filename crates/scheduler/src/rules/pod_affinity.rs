//! Pods that must or should be near others, or far from them; in both directions, for those that are there may not
//! want to be near the one that comes.

use setpoint_reconcile::object::Pairs;

use super::{Helps, Rejection, SCORE_MAX};
use crate::cache::Cache;
use crate::cache::counters::{Over, What};
use crate::gates::{Gate, Sort};
use crate::shape::{PodTerm, PodTerms, Shape};

/// What it counts for beside other rules.
pub const WEIGHT: i64 = 2;

/// What draws a pod to the domains of a label, or away where the weight is negative, for each pod that is counted.
#[derive(Clone, Debug)]
pub struct Pull {
    /// The counts.
    pub tally: (usize, usize),
    /// What each counts for.
    pub weight: i64,
}

/// The domains that will do.
pub fn gates(cache: &mut Cache, shape: &Shape) -> Vec<Gate> {
    let mut gates = Vec::new();
    let labels = labels_of(cache, shape);
    if !shape.others.near.is_empty() {
        let own = shape.others.near.iter().all(|term| shape.is_one_of(&term.pods, &labels));
        let counter = cache.counter(meant(&shape.others.near));
        let terms = shape.others.near.iter();
        let all: Vec<_> = terms.map(|term| tally(cache, counter, &term.key)).collect();
        for tally in &all {
            gates.push(Gate { tally: *tally, sort: Sort::Near { own, all: all.clone() } });
        }
    }
    for term in &shape.others.far {
        let counter = cache.counter(meant([term]));
        gates.push(Gate { tally: tally(cache, counter, &term.key), sort: Sort::Far });
    }
    for (counter, _, term) in said_of(cache, shape, &labels, true) {
        gates.push(Gate { tally: tally(cache, counter, &term.key), sort: Sort::Shunned });
    }
    gates
}

/// What draws the pod where.
pub fn pulls(cache: &mut Cache, shape: &Shape) -> Vec<Pull> {
    let mut pulls = Vec::new();
    let labels = labels_of(cache, shape);
    for (weight, term) in &shape.others.wishes {
        let counter = cache.counter(meant([term]));
        pulls.push(Pull { tally: tally(cache, counter, &term.key), weight: *weight });
    }
    for (counter, weight, term) in said_of(cache, shape, &labels, false) {
        pulls.push(Pull { tally: tally(cache, counter, &term.key), weight });
    }
    pulls
}

/// What must be counted for a pod that says something of others, beside what these say.
pub fn counted(shape: &Shape) -> impl Iterator<Item = What> {
    let PodTerms { near, far, wishes } = &shape.others;
    let together = (!near.is_empty()).then(|| meant(near));
    let wishes = wishes.iter().map(|(_, term)| term);
    together.into_iter().chain(far.iter().chain(wishes).map(|term| meant([term])))
}

/// The pods that all of these terms mean.
fn meant<'a>(terms: impl IntoIterator<Item = &'a PodTerm>) -> What {
    What::Meant(terms.into_iter().map(|term| term.pods.clone()).collect())
}

fn labels_of(cache: &Cache, shape: &Shape) -> Pairs {
    cache.counters.namespaces.get(&shape.namespace).cloned().unwrap_or_default()
}

/// What other pods say that concerns this one: those that shun it, or those with wishes.
fn said_of(cache: &Cache, shape: &Shape, labels: &Pairs, shunning: bool) -> Vec<(usize, i64, PodTerm)> {
    let all = cache.counters.all.iter().enumerate();
    let said = all.filter_map(|(at, counter)| match &counter.what {
        What::Shunning(term) if shunning => Some((at, 0, term)),
        What::Wishing(weight, term) if !shunning => Some((at, *weight, term)),
        _ => None,
    });
    let meant = said.filter(|(_, _, term)| shape.is_one_of(&term.pods, labels));
    meant.map(|(at, weight, term)| (at, weight, term.clone())).collect()
}

fn tally(cache: &mut Cache, counter: usize, key: &str) -> (usize, usize) {
    let key = cache.counters.key(key, &cache.nodes);
    cache.counters.tally(counter, key, Over::default(), &cache.nodes)
}

/// Why a domain will not do.
#[must_use]
pub fn rejection(sort: &Sort) -> Rejection {
    let going = Helps::NODES | Helps::PODS;
    match sort {
        Sort::Shunned => {
            Rejection::by_pods("node(s) didn't satisfy existing pods anti-affinity rules", going)
        }
        Sort::Far => Rejection::by_pods("node(s) didn't match pod anti-affinity rules", going),
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
