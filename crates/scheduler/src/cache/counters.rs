//! Counters of pods by node, and by topology domain: the nodes that share the value of a label.
//!
//! A [`Counter`] follows every pod that comes to a node or leaves it, so that rules about other pods never have to
//! look at the pods. A [`Tally`] of a counter sums over the nodes of each domain, perhaps of some nodes only. Counters,
//! labels and sets of nodes are found by what they are, never by looking at all of them, and hold memory for what they
//! count and not for each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::labels::Selector;
use setpoint_reconcile::object::Pairs;

use super::counts::Counts;
use super::node::Node;
use super::sets::{Labels, SetIndex};
use crate::shape::{NodeChoice, PodTerm, Pods, Shape};
use crate::tolerations::Tolerations;

/// No domain: the node does not have the label.
pub const NOWHERE: u32 = u32::MAX;

/// A tally: the number of its counter, and its place there.
pub type TallyId = (usize, usize);

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
    /// Whether pods of a shape, which has these labels, are in a set of pods. What pods have as terms of their own is
    /// not asked here: see [`Counters::term`].
    fn holds(&self, shape: &Shape, labels: &Labels<'_>, namespaces: &BTreeMap<Box<str>, Pairs>) -> bool {
        match self {
            What::Selected { namespace, selector } => {
                shape.namespace == *namespace && selector.matches(|name| labels.get(name))
            }
            What::Meant(all) => all.iter().all(|pods| is_one_of(pods, shape, labels, namespaces)),
            What::Shunning(_) | What::Wishing(..) => false,
        }
    }

    /// Enters the set into an index. A pod is in the set only if it is found there.
    pub fn enter(&self, index: &mut SetIndex, number: u32) {
        match self {
            What::Selected { namespace, selector } => index.add_in(namespace, selector, number),
            What::Meant(all) => all.first().into_iter().for_each(|pods| index.add(pods, number)),
            What::Shunning(term) | What::Wishing(_, term) => index.add(&term.pods, number),
        }
    }
}

impl What {
    /// How many values a pod has to be compared with, at the most.
    #[must_use]
    pub fn size(&self) -> u64 {
        let of_selector = |selector: &Selector| -> usize {
            selector.requirements().iter().map(|one| one.values().len() + 1).sum()
        };
        let size = match self {
            What::Selected { selector, .. } => of_selector(selector),
            What::Meant(all) => all.iter().map(|pods| 1 + of_selector(&pods.selector)).sum(),
            What::Shunning(_) | What::Wishing(..) => 0,
        };
        u64::try_from(1 + size).unwrap_or(u64::MAX)
    }
}

/// `true` if pods of a shape, which has these labels, are some of these.
fn is_one_of(
    pods: &Pods,
    shape: &Shape,
    labels: &Labels<'_>,
    namespaces: &BTreeMap<Box<str>, Pairs>,
) -> bool {
    let by_name = pods.namespaces.binary_search(&shape.namespace).is_ok();
    let by_labels = || {
        let of = |name: &str| namespaces.get(&shape.namespace).and_then(|labels| labels.get(name));
        pods.of_namespaces.as_ref().is_some_and(|selector| selector.matches(of))
    };
    pods.selector.matches(|name| labels.get(name)) && (by_name || by_labels())
}

/// What it counts for a node that it has pods that need to be near.
pub const NEAR_WEIGHT: i64 = 1;

/// The nodes that a tally is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Over {
    /// Those that this allows.
    pub nodes: Option<NodeChoice>,
    /// Those whose taints these put up with.
    pub tolerations: Option<Tolerations>,
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
                taints.all(|taint| tolerations.tolerate(taint))
            })
    }

    fn is_all(&self) -> bool {
        self.nodes.is_none() && self.tolerations.is_none() && self.keys.is_empty()
    }
}

/// A set of nodes that tallies are over.
#[derive(Clone, Debug)]
struct NodeSet {
    over: Arc<Over>,
    /// `true` if each node is in it; nothing if all are.
    taken: Option<Vec<bool>>,
}

impl NodeSet {
    fn fill(&mut self, nodes: &[Node]) {
        self.taken = (!self.over.is_all()).then(|| nodes.iter().map(|node| self.over.takes(node)).collect());
    }

    fn takes(&self, node: usize) -> bool {
        self.taken.as_ref().is_none_or(|taken| taken.get(node).copied().unwrap_or(false))
    }
}

/// The domains of a label over a set of nodes.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The label.
    pub key: usize,
    over: usize,
    /// How many nodes of each domain are in the set.
    pub nodes: Vec<u32>,
    /// How many domains have any.
    pub domains: usize,
}

/// The sums of a counter over the domains of a scope.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The scope.
    pub scope: usize,
    /// The label.
    pub key: usize,
    /// The count of each domain.
    pub sums: Counts,
    /// The count of all domains together.
    pub total: i64,
}

/// A count of pods of some sort.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Which pods.
    pub what: Arc<What>,
    /// How many on each node.
    pub on: Counts,
    /// How many in all.
    pub total: i64,
    /// How many of those on each node are only promised it.
    held: BTreeMap<usize, i64>,
    /// The sums over domains.
    pub tallies: Vec<Tally>,
    /// The tally over each scope.
    by_scope: BTreeMap<usize, usize>,
}

/// The domains of one label.
#[derive(Clone, Debug)]
pub struct Key {
    /// The label.
    pub name: Box<str>,
    /// The domain of each node; nothing if no node has the label.
    domains: Vec<u32>,
    numbers: BTreeMap<Box<str>, u32>,
}

impl Key {
    /// The domain of a node, or [`NOWHERE`].
    #[inline]
    #[must_use]
    pub fn domain(&self, node: usize) -> u32 {
        self.domains.get(node).copied().unwrap_or(NOWHERE)
    }

    /// `true` if any node has the label.
    #[must_use]
    pub fn is_anywhere(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// How many domains there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    fn place(&mut self, nodes: &[Node], names: &BTreeSet<Box<str>>) {
        self.numbers.clear();
        self.domains.clear();
        if !names.contains(&self.name) {
            return;
        }
        for node in nodes {
            let value = node.offer.labels.get(&self.name).filter(|_| node.exists);
            let domain = value.map_or(NOWHERE, |value| number(&mut self.numbers, value));
            self.domains.push(domain);
        }
    }
}

fn number(numbers: &mut BTreeMap<Box<str>, u32>, value: &str) -> u32 {
    if let Some(number) = numbers.get(value) {
        return *number;
    }
    let number = u32::try_from(numbers.len()).unwrap_or(NOWHERE);
    numbers.insert(value.into(), number);
    number
}

/// All counters, and the domains that they count by.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// The labels by which anything is counted.
    pub keys: Vec<Key>,
    key_numbers: BTreeMap<Box<str>, usize>,
    /// The labels that nodes have.
    names: BTreeSet<Box<str>>,
    /// How many nodes are known.
    nodes: usize,
    node_sets: Vec<NodeSet>,
    node_set_numbers: BTreeMap<Arc<Over>, usize>,
    /// The domains that are counted by.
    pub scopes: Vec<Scope>,
    scope_numbers: BTreeMap<(usize, usize), usize>,
    /// The counters.
    pub all: Vec<Counter>,
    numbers: BTreeMap<Arc<What>, usize>,
    /// Counters of pods with terms about others, by the pods that the terms are about.
    terms: SetIndex,
    /// Counters of sets of pods.
    sets: SetIndex,
    /// Rises with every counter of what pods say of others.
    pub said: usize,
    /// The labels of namespaces.
    pub namespaces: BTreeMap<Box<str>, Pairs>,
}

/// The counters that a pod of a shape counts in, by number, and how many times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights(Vec<(u32, i32)>);

impl Weights {
    /// Those among the counters from one on.
    fn from(&self, from: usize) -> &[(u32, i32)] {
        &self.0[self.0.partition_point(|(number, _)| (*number as usize) < from)..]
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `true` if there are any among the counters from one on.
    #[must_use]
    pub fn reach(&self, from: usize) -> bool {
        self.0.last().is_some_and(|(number, _)| *number as usize >= from)
    }
}

impl Counters {
    /// Where a shape counts: in these counters of its own terms, and in those of the sets that it is in.
    #[must_use]
    pub fn weigh(&self, shape: &Shape, own: impl IntoIterator<Item = (u32, i32)>) -> Weights {
        let labels = Labels::of(&shape.labels);
        let mut list: Vec<(u32, i32)> = own.into_iter().collect();
        self.sets.candidates(&shape.namespace, &shape.labels, |number| {
            if self.all[number as usize].what.holds(shape, &labels, &self.namespaces) {
                list.push((number, 1));
            }
        });
        list.sort_unstable();
        Weights(list)
    }

    /// An index of the sets among the counters from one on.
    #[must_use]
    pub fn index_from(&self, from: usize) -> SetIndex {
        let mut index = SetIndex::default();
        for (number, counter) in self.all.iter().enumerate().skip(from) {
            counter.what.enter(&mut index, u32::try_from(number).unwrap_or(u32::MAX));
        }
        index
    }

    /// Adds to where a shape counts what it counts in of an index over the newest counters. Gives how many it looked at.
    pub fn weigh_more(&self, weights: &mut Weights, shape: &Shape, index: &SetIndex) -> u64 {
        let labels = Labels::of(&shape.labels);
        let (before, mut steps) = (weights.0.len(), 0);
        index.candidates(&shape.namespace, &shape.labels, |number| {
            steps += 1;
            if self.all[number as usize].what.holds(shape, &labels, &self.namespaces) {
                weights.0.push((number, 1));
            }
        });
        weights.0[before..].sort_unstable();
        steps
    }

    /// The counters of pods that have a term which is about pods of this shape: those that must be far from it, or those
    /// that want to be near to it or far from it.
    pub fn about(&self, shape: &Shape, is_hard: bool) -> Vec<usize> {
        let labels = Labels::of(&shape.labels);
        let mut found = Vec::new();
        self.terms.candidates(&shape.namespace, &shape.labels, |number| {
            let term = match &*self.all[number as usize].what {
                What::Shunning(term) if is_hard => term,
                What::Wishing(_, term) if !is_hard => term,
                _ => return,
            };
            if is_one_of(&term.pods, shape, &labels, &self.namespaces) {
                found.push(number as usize);
            }
        });
        found.sort_unstable();
        found
    }

    /// `true` if pods of a shape are some of these.
    #[must_use]
    pub fn are_all_about(&self, shape: &Shape, terms: &[PodTerm]) -> bool {
        let labels = Labels::of(&shape.labels);
        terms.iter().all(|term| is_one_of(&term.pods, shape, &labels, &self.namespaces))
    }

    /// The counters of pods that others must be near to, or spread with, in which a pod counts.
    pub fn drawing(&self, weights: &Weights, deleted: bool) -> impl Iterator<Item = usize> {
        let draws = move |at: &usize| match *self.all[*at].what {
            What::Meant(_) => true,
            What::Selected { .. } => !deleted,
            What::Shunning(_) | What::Wishing(..) => false,
        };
        weights.0.iter().map(|(number, _)| *number as usize).filter(draws)
    }

    /// Counts a pod on a node, or with -1 no longer, in the counters from one on.
    pub fn count(&mut self, weights: &Weights, deleted: bool, node: usize, times: i64, from: usize) {
        for (number, weight) in weights.from(from) {
            let counter = &mut self.all[*number as usize];
            if deleted && matches!(*counter.what, What::Selected { .. }) {
                continue;
            }
            let change = i64::from(*weight) * times;
            counter.on.add(node, change, self.nodes);
            counter.total += change;
            for tally in &mut counter.tallies {
                let scope = &self.scopes[tally.scope];
                let domain = self.keys[tally.key].domain(node);
                if domain != NOWHERE && self.node_sets[scope.over].takes(node) {
                    tally.total += change;
                    tally.sums.add(domain as usize, change, scope.nodes.len());
                }
            }
        }
    }

    /// Keeps in mind that a pod which is counted on a node is only promised it, or with -1 no longer.
    pub fn count_held(&mut self, weights: &Weights, deleted: bool, node: usize, times: i64, from: usize) {
        for (number, weight) in weights.from(from) {
            let counter = &mut self.all[*number as usize];
            if deleted && matches!(*counter.what, What::Selected { .. }) {
                continue;
            }
            let count = counter.held.entry(node).or_insert(0);
            *count += i64::from(*weight) * times;
            if *count == 0 {
                counter.held.remove(&node);
            }
        }
    }

    /// The sums of a tally without what is only promised; nothing if nothing is.
    #[must_use]
    pub fn firm_sums(&self, (counter, tally): TallyId) -> Option<Counts> {
        let counter = &self.all[counter];
        if counter.held.is_empty() {
            return None;
        }
        let tally = &counter.tallies[tally];
        let mut sums = tally.sums.clone();
        for (domain, count) in self.held_of(counter, tally) {
            sums.add(domain, -count, self.scopes[tally.scope].nodes.len());
        }
        Some(sums)
    }

    /// What is only promised of what a tally counts, by domain.
    fn held_of<'a>(
        &'a self,
        counter: &'a Counter,
        tally: &'a Tally,
    ) -> impl Iterator<Item = (usize, i64)> + 'a {
        let scope = &self.scopes[tally.scope];
        counter.held.iter().filter_map(move |(node, count)| {
            let domain = self.keys[tally.key].domain(*node);
            let is_taken = domain != NOWHERE && self.node_sets[scope.over].takes(*node);
            is_taken.then_some((domain as usize, *count))
        })
    }

    /// How many pods a tally counts in all, perhaps without what is only promised.
    #[must_use]
    pub fn total(&self, (counter, tally): TallyId, is_firm: bool) -> i64 {
        let counter = &self.all[counter];
        let tally = &counter.tallies[tally];
        let held: i64 = if is_firm { self.held_of(counter, tally).map(|(_, count)| count).sum() } else { 0 };
        tally.total - held
    }

    /// The number of a label.
    pub fn key(&mut self, name: &str, nodes: &[Node]) -> usize {
        if let Some(at) = self.key_numbers.get(name) {
            return *at;
        }
        let mut key = Key { name: name.into(), domains: Vec::new(), numbers: BTreeMap::new() };
        key.place(nodes, &self.names);
        self.key_numbers.insert(name.into(), self.keys.len());
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// The number of a set of nodes.
    pub fn node_set(&mut self, over: Over, nodes: &[Node]) -> usize {
        if let Some(at) = self.node_set_numbers.get(&over) {
            return *at;
        }
        let over = Arc::new(over);
        let mut set = NodeSet { over: Arc::clone(&over), taken: None };
        set.fill(nodes);
        self.node_set_numbers.insert(over, self.node_sets.len());
        self.node_sets.push(set);
        self.node_sets.len() - 1
    }

    fn scope(&mut self, key: usize, over: usize) -> usize {
        if let Some(at) = self.scope_numbers.get(&(key, over)) {
            return *at;
        }
        let mut scope = Scope { key, over, nodes: Vec::new(), domains: 0 };
        scope.fill(&self.keys[key], &self.node_sets[over]);
        self.scope_numbers.insert((key, over), self.scopes.len());
        self.scopes.push(scope);
        self.scopes.len() - 1
    }

    /// The counter of pods with a term about others. It is made for the first shape that has the term, before any pod of
    /// that shape comes to a node, so a new one has nothing to count.
    pub fn term(&mut self, what: What) -> usize {
        if let Some(at) = self.numbers.get(&what) {
            return *at;
        }
        self.said += 1;
        let at = self.add(what);
        self.all[at].what.enter(&mut self.terms, u32::try_from(at).unwrap_or(u32::MAX));
        at
    }

    /// The counter of a set of pods; a new one has counted nothing yet.
    pub fn set(&mut self, what: What) -> usize {
        if let Some(at) = self.numbers.get(&what) {
            return *at;
        }
        let at = self.add(what);
        self.all[at].what.enter(&mut self.sets, u32::try_from(at).unwrap_or(u32::MAX));
        at
    }

    /// The counter of something, if there is one.
    #[must_use]
    pub fn find(&self, what: &What) -> Option<usize> {
        self.numbers.get(what).copied()
    }

    fn add(&mut self, what: What) -> usize {
        let what = Arc::new(what);
        self.numbers.insert(Arc::clone(&what), self.all.len());
        self.all.push(Counter {
            what,
            on: Counts::default(),
            total: 0,
            held: BTreeMap::new(),
            tallies: Vec::new(),
            by_scope: BTreeMap::new(),
        });
        self.all.len() - 1
    }

    /// The tally of a counter by a label over a set of nodes.
    pub fn tally(&mut self, counter: usize, key: usize, over: usize) -> TallyId {
        let scope = self.scope(key, over);
        if let Some(at) = self.all[counter].by_scope.get(&scope) {
            return (counter, *at);
        }
        let mut tally = Tally { scope, key, sums: Counts::default(), total: 0 };
        self.sum(&mut tally, &self.all[counter].on);
        let counted = &mut self.all[counter];
        counted.by_scope.insert(scope, counted.tallies.len());
        counted.tallies.push(tally);
        (counter, counted.tallies.len() - 1)
    }

    /// The sums of a tally.
    #[must_use]
    pub fn sums(&self, (counter, tally): TallyId) -> &Tally {
        &self.all[counter].tallies[tally]
    }

    /// Takes in that a node of which only the name is known has come.
    pub fn grow(&mut self, nodes: usize) {
        self.nodes = nodes;
    }

    /// Sums anew, after nodes changed what decides which domains they are in.
    pub fn resum(&mut self, nodes: &[Node]) {
        self.nodes = nodes.len();
        self.names.clear();
        for (name, _) in nodes.iter().filter(|node| node.exists).flat_map(|node| node.offer.labels.iter()) {
            if !self.names.contains(name) {
                self.names.insert(name.into());
            }
        }
        for key in &mut self.keys {
            key.place(nodes, &self.names);
        }
        for set in &mut self.node_sets {
            set.fill(nodes);
        }
        for scope in &mut self.scopes {
            scope.fill(&self.keys[scope.key], &self.node_sets[scope.over]);
        }
        for at in 0..self.all.len() {
            let mut tallies = std::mem::take(&mut self.all[at].tallies);
            for tally in &mut tallies {
                self.sum(tally, &self.all[at].on);
            }
            self.all[at].tallies = tallies;
        }
    }

    fn sum(&self, tally: &mut Tally, on: &Counts) {
        let scope = &self.scopes[tally.scope];
        (tally.sums, tally.total) = (Counts::default(), 0);
        for (node, count) in on.filled() {
            let domain = self.keys[tally.key].domain(node);
            if domain != NOWHERE && self.node_sets[scope.over].takes(node) {
                tally.sums.add(domain as usize, count, scope.nodes.len());
                tally.total += count;
            }
        }
    }

    /// How many numbers are held in memory: a measure of how much all of it takes.
    #[must_use]
    pub fn cells(&self) -> usize {
        let scopes = self.scopes.iter().map(|scope| scope.nodes.len());
        let sets = self.node_sets.iter().map(|set| set.taken.as_ref().map_or(0, Vec::len) / 8);
        let tallies =
            |counter: &Counter| -> usize { counter.tallies.iter().map(|tally| 8 + tally.sums.cells()).sum() };
        let counters = self.all.iter().map(|counter| counter.on.cells() + tallies(counter));
        scopes.chain(sets).chain(counters).sum()
    }
}

impl Scope {
    fn fill(&mut self, key: &Key, set: &NodeSet) {
        self.nodes = vec![0; key.count()];
        self.domains = 0;
        for (node, domain) in key.domains.iter().enumerate() {
            if *domain != NOWHERE && set.takes(node) {
                let nodes = &mut self.nodes[*domain as usize];
                self.domains += usize::from(*nodes == 0);
                *nodes += 1;
            }
        }
    }
}
