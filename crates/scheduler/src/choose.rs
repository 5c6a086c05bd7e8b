//! Which node is the best for a pod, and if none will do, why not.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cache::Cache;
use crate::cache::counters::{Key, NOWHERE};
use crate::class::ranks::{Found, tie};
use crate::class::{Cell, Class};
use crate::gates::Open;
use crate::rules::{Helps, Rejection, node_affinity, pod_affinity, spread, taints};

/// The best node for a pod of a class; among equals chance decides, which comes as an argument.
#[must_use]
pub fn best(class: &Class, cache: &Cache, chance: u32) -> Option<usize> {
    if class.barred.is_some() {
        return None;
    }
    let gates = class.gates.open(&cache.counters);
    let mut best = Best::default();
    if class.pulls.is_empty() && class.wishes.all.is_empty() && !class.has_opinions {
        match class.ranks.best(chance, |at| gates.takes(class.node(at))) {
            Found::Best(at) => return Some(class.node(at)),
            Found::None => return None,
            Found::NotYet => {}
        }
        for (at, cell) in class.cells().iter().enumerate() {
            if cell.will_do() && gates.takes(class.node(at)) {
                best.offer(at, i64::from(cell.base), cell, chance);
            }
        }
        return best.at.map(|at| class.node(at));
    }
    let fit: Vec<u32> = fitting(class, &gates).collect();
    let crowds = crowds(class, cache, &fit);
    let pulls = pulls(class, cache, &fit);
    let worst = most(&fit, |at| i64::from(class.cells()[at].discouraged));
    let liked = most(&fit, |at| i64::from(class.cells()[at].liking));
    for (i, at) in fit.iter().enumerate() {
        let at = *at as usize;
        let cell = &class.cells()[at];
        let mut score = i64::from(cell.base);
        score += class.weights.taints * taints::score(i64::from(cell.discouraged), worst);
        score += class.weights.nodes * node_affinity::score(i64::from(cell.liking), liked);
        if let Some(crowds) = &crowds {
            score += class.weights.spread * crowds[i];
        }
        if let Some(pulls) = &pulls {
            score += class.weights.pods * pulls[i];
        }
        best.offer(at, score, cell, chance);
    }
    best.at.map(|at| class.node(at))
}

/// Whether a node will do for a pod of a class.
#[must_use]
pub fn will_do(class: &Class, cache: &Cache, node: usize) -> bool {
    let cell = class.place(node).map(|at| class.cells()[at]);
    class.barred.is_none()
        && cell.is_some_and(|cell| cell.will_do())
        && class.gates.shut(&cache.counters, node).is_none()
}

/// All nodes that will do.
#[must_use]
pub fn all(class: &Class, cache: &Cache) -> Vec<usize> {
    let gates = class.gates.open(&cache.counters);
    let fit = fitting(class, &gates).map(|at| class.node(at as usize));
    if class.barred.is_some() { Vec::new() } else { fit.collect() }
}

fn fitting<'a>(class: &'a Class, gates: &'a Open<'_>) -> impl Iterator<Item = u32> + 'a {
    let places = class.cells().iter().enumerate();
    let fit = places.filter(|(at, cell)| cell.will_do() && gates.takes(class.node(*at)));
    fit.map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX))
}

fn most(fit: &[u32], of: impl Fn(usize) -> i64) -> i64 {
    fit.iter().map(|at| of(*at as usize)).max().unwrap_or(0)
}

/// The scores of nodes for how crowded their domains are.
fn crowds(class: &Class, cache: &Cache, fit: &[u32]) -> Option<Vec<i64>> {
    let wishes = &class.wishes.all;
    if wishes.is_empty() {
        return None;
    }
    let keys: Vec<&Key> = wishes.iter().map(|wish| &cache.counters.keys[wish.key]).collect();
    // Where no node has one of the labels, all score alike.
    if class.wishes.needs_all && keys.iter().any(|key| !key.is_anywhere()) {
        return None;
    }
    let has_all = |node: usize| keys.iter().all(|key| key.domain(node) != NOWHERE);
    let counts = |node: usize| !class.wishes.needs_all || has_all(node);
    let counted = fit.iter().filter(|at| counts(class.node(**at as usize))).count();
    let mut sums = vec![0.0; fit.len()];
    for (wish, key) in wishes.iter().zip(&keys).filter(|(_, key)| key.is_anywhere()) {
        let counter = &cache.counters.all[wish.counter];
        // What a domain counts for is computed once.
        let of_domains: Option<Vec<f64>> = wish.tally.map(|tally| {
            let tally = cache.counters.sums(tally);
            let mut seen = vec![false; key.count() + 1];
            for at in fit.iter().map(|at| class.node(*at as usize)).filter(|node| counts(*node)) {
                seen[(key.domain(at) as usize).min(key.count())] = true;
            }
            let size = seen.iter().filter(|seen| **seen).count();
            (0..key.count()).map(|domain| spread::crowd(tally.sums.get(domain), wish.skew, size)).collect()
        });
        for (sum, at) in sums.iter_mut().zip(fit) {
            let node = class.node(*at as usize);
            let domain = key.domain(node);
            if domain != NOWHERE {
                *sum += match &of_domains {
                    Some(crowds) => crowds[domain as usize],
                    None => spread::crowd(counter.on.get(node), wish.skew, counted),
                };
            }
        }
    }
    let raw: Vec<i64> = sums.iter().map(|sum| sum.round() as i64).collect();
    let valid =
        || raw.iter().zip(fit).filter(|(_, at)| counts(class.node(**at as usize))).map(|(raw, _)| *raw);
    let (least, most) = (valid().min().unwrap_or(0), valid().max().unwrap_or(0));
    let score = |(raw, at): (&i64, &u32)| {
        if counts(class.node(*at as usize)) { spread::score(*raw, least, most) } else { 0 }
    };
    Some(raw.iter().zip(fit).map(score).collect())
}

/// The scores of nodes for what draws the pod to them.
fn pulls(class: &Class, cache: &Cache, fit: &[u32]) -> Option<Vec<i64>> {
    let pulls: Vec<_> =
        class.pulls.iter().filter(|pull| cache.counters.all[pull.tally.0].total != 0).collect();
    if pulls.is_empty() {
        return None;
    }
    // Added up by label first: there may be far more of them than labels.
    let mut by_key: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for pull in pulls {
        let tally = cache.counters.sums(pull.tally);
        let count = cache.counters.keys[tally.key].count();
        let sums = by_key.entry(tally.key).or_insert_with(|| vec![0; count]);
        tally.sums.filled().for_each(|(domain, sum)| sums[domain] += sum * pull.weight);
    }
    let mut raw = vec![0; fit.len()];
    for (key, sums) in by_key {
        for (raw, at) in raw.iter_mut().zip(fit) {
            let domain = cache.counters.keys[key].domain(class.node(*at as usize));
            if domain != NOWHERE {
                *raw += sums[domain as usize];
            }
        }
    }
    let least = raw.iter().min().copied().unwrap_or(0);
    let most = raw.iter().max().copied().unwrap_or(0);
    Some(raw.into_iter().map(|raw| pod_affinity::score(raw, least, most)).collect())
}

#[derive(Default)]
struct Best {
    at: Option<usize>,
    score: i64,
    tie: u32,
}

impl Best {
    #[inline]
    fn offer(&mut self, at: usize, score: i64, cell: &Cell, chance: u32) {
        if self.at.is_some() && score < self.score {
            return;
        }
        let tie = tie(cell.hash, chance);
        if self.at.is_none() || (score, tie) > (self.score, self.tie) {
            *self = Best { at: Some(at), score, tie };
        }
    }
}

/// Why no node will do.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// In words.
    pub message: String,
    /// What may help.
    pub helps: Helps,
}

/// Says of every node why it will not do.
#[must_use]
pub fn explain(class: &Class, cache: &Cache) -> Verdict {
    let head = format!("0/{} nodes are available:", cache.existing);
    if cache.existing == 0 {
        return Verdict { message: "no nodes available to schedule pods".to_owned(), helps: Helps::NODES };
    }
    if let Some(barred) = &class.barred {
        return Verdict { message: format!("{head} {}.", barred.reasons.join(", ")), helps: barred.helps };
    }
    let gates = class.gates.open(&cache.counters);
    let mut reasons = Reasons::default();
    let mut looked_at = 0;
    for (at, cell) in class.cells().iter().enumerate().filter(|(_, cell)| cell.exists()) {
        looked_at += 1;
        if let Some(rejection) = class.rejection(at) {
            reasons.add(rejection, 1);
        } else if cell.will_do()
            && let Some(shut) = gates.shut(class.node(at))
        {
            reasons.add(&shut.rejection(), 1);
        }
    }
    if looked_at < cache.existing {
        let others = Rejection::for_good(node_affinity::NOT_NAMED, Helps::NODES);
        reasons.add(&others, cache.existing - looked_at);
    }
    Verdict { message: format!("{head} {}.", reasons.words()), helps: reasons.helps }
}

/// Reasons, counted.
#[derive(Default)]
pub struct Reasons {
    counts: BTreeMap<Cow<'static, str>, usize>,
    helps: Helps,
}

impl Reasons {
    /// Adds the reasons of so many nodes.
    pub fn add(&mut self, rejection: &Rejection, nodes: usize) {
        self.helps |= rejection.helps;
        for reason in &rejection.reasons {
            match self.counts.get_mut(reason) {
                Some(count) => *count += nodes,
                None => {
                    self.counts.insert(reason.clone(), nodes);
                }
            }
        }
    }

    /// All of them with their counts, sorted as text.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words: Vec<String> =
            self.counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        words.sort_unstable();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests;
