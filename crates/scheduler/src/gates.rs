//! Topology constraints: which domains of nodes will do, by what rules about other pods come to.
//!
//! A pod may have thousands of terms about other pods, and be meant by thousands of terms of other pods. What keeps it
//! away from a domain is gathered by label, so that a node is looked at once for each label and not for each term.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::cache::counters::{Counters, Key, NOWHERE, TallyId};
use crate::cache::counts::Counts;
use crate::rules::{Rejection, pod_affinity, spread};

/// So many tallies are looked at one by one; more are gathered by label first.
const FEW: usize = 8;

/// The constraints of a shape.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    /// Spread constraints that must hold.
    pub spread: Vec<Spread>,
    /// Required pod affinity.
    pub near: Option<Near>,
    /// Required pod anti-affinity: domains with any of these pods will not do.
    pub far: Vec<TallyId>,
    /// The same that other pods ask for: domains with any of those will not do.
    pub shunned: Vec<TallyId>,
}

/// A spread constraint: a domain must not have more pods than the least has, by some.
#[derive(Clone, Debug)]
pub struct Spread {
    /// The counts.
    pub tally: TallyId,
    /// By how much.
    pub skew: i64,
    /// With fewer domains the least is none.
    pub min_domains: i64,
    /// What the pod itself adds.
    pub own: i64,
}

/// Required pod affinity: the domains must hold a matching pod, unless no domain does and the pod matches its own terms.
#[derive(Clone, Debug)]
pub struct Near {
    /// The counts, one for each label.
    pub tallies: Vec<TallyId>,
    /// `true` if the pod matches its own terms.
    pub own: bool,
}

/// What keeps a pod away from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shut {
    /// A spread constraint.
    Spread {
        /// `true` if the node does not have the label at all.
        is_missing: bool,
    },
    /// Required pod affinity.
    Near,
    /// Required pod anti-affinity.
    Far,
    /// Required pod anti-affinity of other pods.
    Shunned,
}

impl Shut {
    /// The same in words.
    #[must_use]
    pub fn rejection(self) -> Rejection {
        match self {
            Shut::Spread { is_missing } => spread::rejection(is_missing),
            other => pod_affinity::rejection(other),
        }
    }
}

/// The least and the most that a domain may count.
struct Bound<'a> {
    key: &'a Key,
    sums: Cow<'a, Counts>,
    least: i64,
    most: i64,
    is_spread: bool,
    /// The same as if no pod came that is only promised a node.
    firm: Option<Box<Bound<'a>>>,
}

impl Bound<'_> {
    #[inline]
    fn takes(&self, node: usize) -> bool {
        match self.key.domain(node) {
            NOWHERE => false,
            domain => {
                let sum = self.sums.get(domain as usize);
                self.least <= sum
                    && sum <= self.most
                    && self.firm.as_ref().is_none_or(|firm| firm.takes(node))
            }
        }
    }
}

/// Domains that will not do because any pods of some sort are there.
enum Blocked<'a> {
    Few(Vec<(&'a Key, &'a Counts)>),
    Many(Vec<(&'a Key, Vec<bool>)>),
}

impl<'a> Blocked<'a> {
    fn of(tallies: &[TallyId], counters: &'a Counters) -> Blocked<'a> {
        let filled = || tallies.iter().map(|tally| counters.sums(*tally)).filter(|tally| tally.total != 0);
        if filled().nth(FEW).is_none() {
            return Blocked::Few(filled().map(|tally| (&counters.keys[tally.key], &tally.sums)).collect());
        }
        let mut by_key: BTreeMap<usize, Vec<bool>> = BTreeMap::new();
        for tally in filled() {
            let count = counters.keys[tally.key].count();
            let blocked = by_key.entry(tally.key).or_insert_with(|| vec![false; count]);
            tally.sums.filled().for_each(|(domain, _)| blocked[domain] = true);
        }
        Blocked::Many(by_key.into_iter().map(|(key, blocked)| (&counters.keys[key], blocked)).collect())
    }

    #[inline]
    fn takes(&self, node: usize) -> bool {
        match self {
            Blocked::Few(all) => all.iter().all(|(key, sums)| match key.domain(node) {
                NOWHERE => true,
                domain => sums.get(domain as usize) <= 0,
            }),
            Blocked::Many(all) => all.iter().all(|(key, blocked)| match key.domain(node) {
                NOWHERE => true,
                domain => !blocked[domain as usize],
            }),
        }
    }
}

/// The constraints at one moment.
pub struct Open<'a> {
    bounds: Vec<Bound<'a>>,
    far: Blocked<'a>,
    shunned: Blocked<'a>,
}

impl Open<'_> {
    /// `true` if a node will do.
    #[inline]
    #[must_use]
    pub fn takes(&self, node: usize) -> bool {
        self.bounds.iter().all(|bound| bound.takes(node)) && self.far.takes(node) && self.shunned.takes(node)
    }

    /// What keeps the pod away from a node; nothing if it will do.
    #[must_use]
    pub fn shut(&self, node: usize) -> Option<Shut> {
        if let Some(bound) = self.bounds.iter().find(|bound| !bound.takes(node)) {
            return Some(bound.shut(node));
        }
        let kinds = [(&self.far, Shut::Far), (&self.shunned, Shut::Shunned)];
        kinds.into_iter().find(|(blocked, _)| !blocked.takes(node)).map(|(_, shut)| shut)
    }
}

impl Bound<'_> {
    fn shut(&self, node: usize) -> Shut {
        if self.is_spread {
            Shut::Spread { is_missing: self.key.domain(node) == NOWHERE }
        } else {
            Shut::Near
        }
    }
}

impl Gates {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let near = self.near.as_ref().map_or(0, |near| near.tallies.len());
        self.spread.len() + near + self.far.len() + self.shunned.len()
    }

    /// The counters of pods that the pod must be near to, or spread with.
    pub fn drawn_by(&self) -> impl Iterator<Item = usize> + '_ {
        let near = self.near.iter().flat_map(|near| near.tallies.first());
        self.spread.iter().map(|one| &one.tally).chain(near).map(|(counter, _)| *counter)
    }

    /// The constraints as they stand. Nobody may rely on pods that are only promised a node, nor be in their way: where
    /// more pods may open a domain, it must be open with them and without them.
    #[must_use]
    pub fn open<'a>(&self, counters: &'a Counters) -> Open<'a> {
        Open {
            bounds: self.bounds(counters).collect(),
            far: Blocked::of(&self.far, counters),
            shunned: Blocked::of(&self.shunned, counters),
        }
    }

    /// What keeps the pod away from one node; nothing if it will do.
    #[must_use]
    pub fn shut(&self, counters: &Counters, node: usize) -> Option<Shut> {
        if let Some(bound) = self.bounds(counters).find(|bound| !bound.takes(node)) {
            return Some(bound.shut(node));
        }
        let is_blocked = |tally: &TallyId| {
            let tally = counters.sums(*tally);
            tally.total != 0
                && match counters.keys[tally.key].domain(node) {
                    NOWHERE => false,
                    domain => tally.sums.get(domain as usize) > 0,
                }
        };
        if self.far.iter().any(is_blocked) {
            return Some(Shut::Far);
        }
        self.shunned.iter().any(is_blocked).then_some(Shut::Shunned)
    }

    fn bounds<'a>(&self, counters: &'a Counters) -> impl Iterator<Item = Bound<'a>> {
        let spread = self.spread.iter().map(|one| one.bound(counters));
        let near = self.near.iter().flat_map(|near| near.bounds(counters));
        spread.chain(near)
    }
}

impl Spread {
    fn bound<'a>(&self, counters: &'a Counters) -> Bound<'a> {
        let tally = counters.sums(self.tally);
        let with = |sums: Cow<'a, Counts>| {
            let most = self.most(&sums, counters);
            let key = &counters.keys[tally.key];
            Bound { key, sums, least: i64::MIN, most, is_spread: true, firm: None }
        };
        let firm = counters.firm_sums(self.tally).map(|sums| Box::new(with(Cow::Owned(sums))));
        Bound { firm, ..with(Cow::Borrowed(&tally.sums)) }
    }

    /// How many a domain may have before the pod comes.
    fn most(&self, sums: &Counts, counters: &Counters) -> i64 {
        let scope = &counters.scopes[counters.sums(self.tally).scope];
        let few = i64::try_from(scope.domains).unwrap_or(i64::MAX) < self.min_domains;
        let least = match sums {
            _ if few || scope.domains == 0 => 0,
            Counts::Array(all) => {
                let sum = |domain: usize| all.get(domain).copied().unwrap_or(0);
                let counted = scope.nodes.iter().enumerate().filter(|(_, nodes)| **nodes > 0);
                counted.map(|(domain, _)| sum(domain)).min().unwrap_or(0)
            }
            // Where a counted domain is not in the list, that one has the least.
            Counts::List(some) if some.len() < scope.domains => 0,
            Counts::List(some) => some.iter().map(|(_, sum)| *sum).min().unwrap_or(0),
        };
        self.skew.saturating_add(least) - self.own
    }
}

impl Near {
    fn bounds<'a>(&self, counters: &'a Counters) -> impl Iterator<Item = Bound<'a>> {
        let is_none = |is_firm| self.tallies.iter().all(|tally| counters.total(*tally, is_firm) == 0);
        let least = |is_firm| if self.own && is_none(is_firm) { i64::MIN } else { 1 };
        let (with, without) = (least(false), least(true));
        self.tallies.iter().map(move |id| {
            let tally = counters.sums(*id);
            let bound = |sums: Cow<'a, Counts>, least| {
                let key = &counters.keys[tally.key];
                Bound { key, sums, least, most: i64::MAX, is_spread: false, firm: None }
            };
            let firm = counters.firm_sums(*id).map(|sums| Box::new(bound(Cow::Owned(sums), without)));
            Bound { firm, ..bound(Cow::Borrowed(&tally.sums), with) }
        })
    }
}
