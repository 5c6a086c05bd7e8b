//! How many pods of some sort are on each node, and in each domain of nodes that share the value of a label.
//!
//! A [`Counter`] follows every pod that comes to a node or leaves it, so that rules about other pods never have to
//! look at the pods. A [`Tally`] of a counter sums over the nodes of each domain, perhaps of some nodes only.

use std::collections::BTreeMap;

use setpoint_api::labels::Selector;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::pod::Toleration;

use super::node::Node;
use crate::shape::{NodeChoice, PodTerm, Pods, Shape};

/// No domain: the node does not have the label.
pub const NOWHERE: u32 = u32::MAX;

/// Which pods are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Pods of a namespace that a selector selects and nobody deleted.
    Selected {
        /// The namespace.
        namespace: Box<str>,
        /// The selector.
        selector: Selector,
    },
    /// Pods that are meant by all of these.
    Meant(Vec<Pods>),
    /// Pods that must be far from the pods of a term.
    Shunning(PodTerm),
    /// Pods that want to be near to the pods of a term, by weight, or far from them where that is negative.
    Wishing(i64, PodTerm),
}

impl What {
    /// How many times a pod counts, of which is known whether it was deleted.
    fn weighs(&self, shape: &Shape, deleted: bool, namespaces: &BTreeMap<Box<str>, Pairs>) -> i64 {
        let nothing = Pairs::default();
        let of_namespace = || namespaces.get(&shape.namespace).unwrap_or(&nothing);
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            What::Selected { namespace, selector } => i64::from(
                !deleted && shape.namespace == *namespace && selector.matches(|name| shape.labels.get(name)),
            ),
            What::Meant(all) => i64::from(all.iter().all(|pods| shape.is_one_of(pods, of_namespace()))),
            What::Shunning(term) => count(shape.others.far.iter().filter(|one| *one == term).count()),
            What::Wishing(weight, term) => {
                let wishes = shape.others.wishes.iter().filter(|(own, one)| own == weight && one == term);
                let needs = shape.others.near.iter().filter(|one| *weight == NEAR_WEIGHT && *one == term);
                count(wishes.count() + needs.count())
            }
        }
    }
}

/// What it counts for a node that it has pods that need to be near.
pub const NEAR_WEIGHT: i64 = 1;

/// The nodes that a tally is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Over {
    /// Those that this allows.
    pub nodes: Option<NodeChoice>,
    /// Those whose taints these put up with.
    pub tolerations: Option<Vec<Toleration>>,
    /// Those that have all of these labels.
    pub keys: Vec<Box<str>>,
}

impl Over {
    fn takes(&self, node: &Node) -> bool {
        let labels = &node.offer.labels;
        self.keys.iter().all(|key| labels.get(key).is_some())
            && self.nodes.as_ref().is_none_or(|choice| choice.allows(&node.name, labels))
            && self.tolerations.as_ref().is_none_or(|tolerations| {
                let mut taints =
                    node.offer.taints.iter().filter(|taint| crate::rules::taints::keeps_away(taint));
                taints.all(|taint| tolerations.iter().any(|one| one.tolerates(taint)))
            })
    }
}

/// The sums of a counter over the domains of a label.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The label.
    pub key: usize,
    /// The nodes it is over.
    pub over: Over,
    /// The count of each domain.
    pub sums: Vec<i64>,
    /// How many nodes of each domain are counted.
    pub nodes: Vec<u32>,
    /// The count of all domains together.
    pub total: i64,
    taken: Vec<bool>,
}

/// A count of pods of some sort.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Which pods.
    pub what: What,
    /// How many on each node.
    pub on: Vec<i64>,
    /// How many in all.
    pub total: i64,
    /// How many of those on each node are only promised it.
    held: BTreeMap<usize, i64>,
    /// The sums over domains.
    pub tallies: Vec<Tally>,
}

/// The domains of one label.
#[derive(Clone, Debug)]
pub struct Key {
    /// The label.
    pub name: Box<str>,
    /// The domain of each node.
    pub domains: Vec<u32>,
    numbers: BTreeMap<Box<str>, u32>,
}

impl Key {
    fn place(&mut self, nodes: &[Node]) {
        for node in &nodes[self.domains.len()..] {
            let domain = self.domain(node);
            self.domains.push(domain);
        }
    }

    fn domain(&mut self, node: &Node) -> u32 {
        let Some(value) = node.offer.labels.get(&self.name).filter(|_| node.exists) else { return NOWHERE };
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.numbers.len()).unwrap_or(NOWHERE);
        self.numbers.insert(value.into(), number);
        number
    }
}

/// All counters, and the domains that they count by.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// The labels by which anything is counted.
    pub keys: Vec<Key>,
    /// The counters.
    pub all: Vec<Counter>,
    /// Rises with every counter of what pods say of others.
    pub said: usize,
    /// The labels of namespaces.
    pub namespaces: BTreeMap<Box<str>, Pairs>,
}

/// Which counters a pod of a shape counts in, and how many times: while it lives, and once it is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    alive: Vec<(u32, i64)>,
    deleted: Vec<(u32, i64)>,
}

impl Counters {
    /// Where a shape counts, among the counters from one on.
    pub fn weigh(&self, weights: &mut Weights, shape: &Shape, from: usize) {
        for (number, counter) in self.all.iter().enumerate().skip(from) {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            for (list, deleted) in [(&mut weights.alive, false), (&mut weights.deleted, true)] {
                let weight = counter.what.weighs(shape, deleted, &self.namespaces);
                if weight != 0 {
                    list.push((number, weight));
                }
            }
        }
    }

    /// The counters of pods that others must be near to, or spread with, in which a pod counts.
    pub fn drawing(&self, weights: &Weights, deleted: bool) -> impl Iterator<Item = usize> {
        let list = if deleted { &weights.deleted } else { &weights.alive };
        let draws = |at: &usize| matches!(self.all[*at].what, What::Meant(_) | What::Selected { .. });
        list.iter().map(|(number, _)| *number as usize).filter(draws)
    }

    /// Counts a pod on a node, or with -1 no longer, in the counters from one on.
    pub fn count(&mut self, weights: &Weights, deleted: bool, node: usize, times: i64, from: usize) {
        let list = if deleted { &weights.deleted } else { &weights.alive };
        for (number, weight) in list.iter().filter(|(number, _)| *number as usize >= from) {
            let (counter, change) = (&mut self.all[*number as usize], weight * times);
            counter.on[node] += change;
            counter.total += change;
            for tally in &mut counter.tallies {
                if tally.taken[node] {
                    tally.total += change;
                    tally.sums[self.keys[tally.key].domains[node] as usize] += change;
                }
            }
        }
    }

    /// Keeps in mind that a pod which is counted on a node is only promised it, or with -1 no longer.
    pub fn count_held(&mut self, weights: &Weights, deleted: bool, node: usize, times: i64, from: usize) {
        let list = if deleted { &weights.deleted } else { &weights.alive };
        for (number, weight) in list.iter().filter(|(number, _)| *number as usize >= from) {
            let held = &mut self.all[*number as usize].held;
            let count = held.entry(node).or_insert(0);
            *count += weight * times;
            if *count == 0 {
                held.remove(&node);
            }
        }
    }

    /// The sums of a tally without what is only promised; nothing if nothing is.
    #[must_use]
    pub fn firm_sums(&self, (counter, tally): (usize, usize)) -> Option<Vec<i64>> {
        let counter = &self.all[counter];
        if counter.held.is_empty() {
            return None;
        }
        let tally = &counter.tallies[tally];
        let mut sums = tally.sums.clone();
        for (node, count) in counter.held.iter().filter(|(node, _)| tally.taken[**node]) {
            sums[self.keys[tally.key].domains[*node] as usize] -= count;
        }
        Some(sums)
    }

    /// How many pods a tally counts in all, perhaps without what is only promised.
    #[must_use]
    pub fn total(&self, (counter, tally): (usize, usize), is_firm: bool) -> i64 {
        let counter = &self.all[counter];
        let tally = &counter.tallies[tally];
        let held = counter.held.iter().filter(|(node, _)| is_firm && tally.taken[**node]);
        tally.total - held.map(|(_, count)| *count).sum::<i64>()
    }

    /// The number of a label.
    pub fn key(&mut self, name: &str, nodes: &[Node]) -> usize {
        if let Some(at) = self.keys.iter().position(|key| *key.name == *name) {
            return at;
        }
        let mut key = Key { name: name.into(), domains: Vec::new(), numbers: BTreeMap::new() };
        key.place(nodes);
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// The counter of something, if there is one.
    #[must_use]
    pub fn find(&self, what: &What) -> Option<usize> {
        self.all.iter().position(|counter| counter.what == *what)
    }

    /// Adds a counter, which has counted nothing yet.
    pub fn add(&mut self, what: What, nodes: usize) -> usize {
        self.said += usize::from(matches!(what, What::Shunning(_) | What::Wishing(..)));
        self.all.push(Counter {
            what,
            on: vec![0; nodes],
            total: 0,
            held: BTreeMap::new(),
            tallies: Vec::new(),
        });
        self.all.len() - 1
    }

    /// The tally of a counter by a label over some nodes.
    pub fn tally(&mut self, counter: usize, key: usize, over: Over, nodes: &[Node]) -> (usize, usize) {
        let tallies = &self.all[counter].tallies;
        if let Some(at) = tallies.iter().position(|tally| tally.key == key && tally.over == over) {
            return (counter, at);
        }
        let mut tally = Tally { key, over, sums: Vec::new(), nodes: Vec::new(), total: 0, taken: Vec::new() };
        sum(&mut tally, &self.all[counter].on, &self.keys[key], nodes);
        self.all[counter].tallies.push(tally);
        (counter, self.all[counter].tallies.len() - 1)
    }

    /// The sums of a tally.
    #[must_use]
    pub fn sums(&self, (counter, tally): (usize, usize)) -> &Tally {
        &self.all[counter].tallies[tally]
    }

    /// Makes room for nodes that came.
    pub fn grow(&mut self, nodes: &[Node]) {
        for key in &mut self.keys {
            key.place(nodes);
        }
        for counter in &mut self.all {
            counter.on.resize(nodes.len(), 0);
            for tally in &mut counter.tallies {
                tally.taken.resize(nodes.len(), false);
            }
        }
    }

    /// Sums anew, after nodes changed what decides which domains they are in.
    pub fn resum(&mut self, nodes: &[Node]) {
        for key in &mut self.keys {
            key.numbers.clear();
            key.domains.clear();
            key.place(nodes);
        }
        for counter in &mut self.all {
            for tally in &mut counter.tallies {
                sum(tally, &counter.on, &self.keys[tally.key], nodes);
            }
        }
    }
}

fn sum(tally: &mut Tally, on: &[i64], key: &Key, nodes: &[Node]) {
    tally.sums = vec![0; key.numbers.len()];
    tally.nodes = vec![0; key.numbers.len()];
    tally.total = 0;
    tally.taken.clear();
    for (at, node) in nodes.iter().enumerate() {
        let domain = key.domains[at];
        let taken = domain != NOWHERE && tally.over.takes(node);
        tally.taken.push(taken);
        if taken {
            tally.sums[domain as usize] += on[at];
            tally.total += on[at];
            tally.nodes[domain as usize] += 1;
        }
    }
}
