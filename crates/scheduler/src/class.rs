//! What was found out for all pods of one shape: of each node whether it will do, and how well. Only nodes that
//! changed are looked at again.

pub mod ranks;

use std::collections::BTreeMap;

use setpoint_reconcile::World;

use crate::cache::Cache;
use crate::choose::{self, Verdict};
use crate::cost::{Cost, TooCostly};
use crate::gates::Gates;
use crate::preempt::Known;
use crate::profile::{Profile, Weights};
use crate::rules::devices::Devices;
use crate::rules::pod_affinity::{self, Pull};
use crate::rules::spread::{self, Wishes};
use crate::rules::volumes::{Needs, Unmet};
use crate::rules::{
    Rejection, devices, disks, features, fit, images, node_affinity, ports, taints, unschedulable, volumes,
};
use crate::shape::Shape;
use ranks::Ranks;

/// The verdict on a node that does not exist.
const ABSENT: u16 = u16::MAX;

/// What was found out of one node.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// 0 if the node will do; otherwise the number of a rejection, from 1 on.
    verdict: u16,
    /// How many taints discourage the pod.
    pub discouraged: u16,
    /// What rules give that look at the node alone.
    pub base: i32,
    /// How much the pod would like the node.
    pub liking: i32,
    /// A number that stands for the node's name, to break ties.
    pub hash: u32,
}

/// What was found out for a shape.
#[derive(Clone)]
pub struct Class {
    /// The nodes that alone come into question; all if nothing is said.
    spots: Option<Vec<usize>>,
    cells: Vec<Cell>,
    /// Those that will do, the best last.
    pub ranks: Ranks,
    moment: (u64, usize),
    said: usize,
    /// Whether any node is discouraged or liked.
    pub has_opinions: bool,
    rejections: Vec<Rejection>,
    numbers: BTreeMap<Rejection, u16>,
    /// How many nodes were known when `spots` was found out.
    spots_at: usize,
    /// Why no node comes into question at all.
    pub barred: Option<Rejection>,
    /// Which domains will do.
    pub gates: Gates,
    /// What draws the pod where.
    pub pulls: Vec<Pull>,
    /// How the pod wishes to spread.
    pub wishes: Wishes,
    /// What its volumes need.
    pub needs: Needs,
    /// What its claims for devices come to.
    pub devices: Devices,
    /// What rules count for.
    pub weights: Weights,
    /// When it was last used.
    pub used: u64,
    /// Whom to push aside on each node, as far as is known.
    pub victims: Known,
    /// `true` if no node is looked for, since that would take too long: nothing else is known then.
    pub is_too_costly: bool,
    /// That no node would do at some moment, and why.
    failed: Option<((u64, usize), Verdict)>,
}

impl Class {
    /// Finds out everything for a shape.
    pub fn new(shape: &Shape, cache: &mut Cache, world: &World, profile: &Profile) -> Class {
        let barred = node_affinity::conflict(shape);
        let affordable = Cost::of(shape).check(cache.existing);
        let needs = match affordable {
            Ok(()) => volumes::needs(shape, world, cache.existing, &mut cache.reach),
            Err(costly) => Err(Unmet::TooCostly(costly)),
        };
        let (needs, barred, affordable) = match needs {
            Ok(needs) => (needs, barred, Ok(())),
            Err(Unmet::Rejected(rejection)) => (Needs::default(), barred.or(Some(rejection)), Ok(())),
            Err(Unmet::TooCostly(costly)) => (Needs::default(), barred, Err(costly)),
        };
        let (devices, barred) = match devices::needs(shape, world) {
            Ok(devices) => (devices, barred),
            Err(rejection) => (Devices::default(), barred.or(Some(rejection))),
        };
        let mut class = Class {
            spots: None,
            spots_at: usize::MAX,
            cells: Vec::new(),
            ranks: Ranks::default(),
            moment: (u64::MAX, 0),
            said: usize::MAX,
            has_opinions: false,
            rejections: Vec::new(),
            numbers: BTreeMap::new(),
            barred,
            gates: Gates::default(),
            pulls: Vec::new(),
            wishes: Wishes::default(),
            needs,
            devices,
            weights: profile.weights,
            used: 0,
            victims: Known::default(),
            is_too_costly: false,
            failed: None,
        };
        cache.made += 1;
        let wishes = affordable.and_then(|()| spread::wishes(cache, shape, profile, world));
        match wishes {
            Ok(wishes) => {
                class.wishes = wishes;
                class.refresh(shape, cache, world, profile);
            }
            Err(costly) => class.give_up(costly),
        }
        class
    }

    /// Looks for no node, since that would take too long.
    fn give_up(&mut self, costly: TooCostly) {
        self.is_too_costly = true;
        self.barred = Some(Rejection::for_good(costly.message(), costly.helps()));
        (self.gates, self.pulls, self.wishes) = (Gates::default(), Vec::new(), Wishes::default());
        self.cells.clear();
        self.ranks = Ranks::default();
    }

    /// Finds out anew what rules about other pods come to.
    fn connect(
        &mut self,
        shape: &Shape,
        cache: &mut Cache,
        world: &World,
        profile: &Profile,
    ) -> Result<(), TooCostly> {
        let mut gates = Gates { spread: spread::gates(cache, shape, profile, world)?, ..Gates::default() };
        pod_affinity::gates(cache, shape, &mut gates)?;
        self.pulls = pod_affinity::pulls(cache, shape)?;
        self.gates = gates;
        Ok(())
    }

    /// Looks again at the nodes that changed.
    pub fn refresh(&mut self, shape: &Shape, cache: &mut Cache, world: &World, profile: &Profile) {
        if self.said != cache.counters.said {
            if let Err(costly) = self.connect(shape, cache, world, profile) {
                return self.give_up(costly);
            }
            self.said = cache.counters.said;
            self.victims.forget();
        }
        if self.spots_at != cache.nodes.len() {
            self.spots_at = cache.nodes.len();
            let spots = spots(shape, cache);
            if spots != self.spots {
                // A node that the pod names has come.
                self.spots = spots;
                self.cells.clear();
                self.ranks = Ranks::default();
            }
        }
        let moment = cache.moment();
        let count = self.spots.as_ref().map_or(cache.nodes.len(), Vec::len);
        let known = self.cells.len();
        let stale = match cache.touched_since(self.moment) {
            Some(touched) if self.spots.is_none() => touched.to_vec(),
            Some(touched) => touched.iter().filter_map(|node| self.place(*node)).collect(),
            None => (0..known).collect(),
        };
        let blank = Cell { verdict: ABSENT, discouraged: 0, base: 0, liking: 0, hash: 0 };
        self.cells.resize(count, blank);
        for at in stale.into_iter().filter(|at| *at < known).chain(known..count) {
            let cell = self.look(self.node(at), shape, cache, world, profile);
            self.has_opinions |= cell.discouraged != 0 || cell.liking != 0;
            self.ranks.change(at, &self.cells[at], &cell);
            self.cells[at] = cell;
        }
        self.moment = moment;
    }

    fn look(&mut self, node: usize, shape: &Shape, cache: &Cache, world: &World, profile: &Profile) -> Cell {
        let seen = &cache.nodes[node];
        let hash = seen.hash as u32;
        let blank = Cell { verdict: ABSENT, discouraged: 0, base: 0, liking: 0, hash };
        if !seen.exists {
            return blank;
        }
        if let Err(rejection) = self.judge(node, shape, cache, world, profile) {
            let verdict = self.number(rejection);
            return Cell { verdict, ..blank };
        }
        let weights = &profile.weights;
        let base =
            fit::score(&shape.request, seen, weights) + weights.images * images::score(shape, seen, cache);
        Cell {
            verdict: 0,
            discouraged: u16::try_from(taints::discouragements(shape, seen)).unwrap_or(u16::MAX),
            base: i32::try_from(base).unwrap_or(i32::MAX),
            liking: i32::try_from(node_affinity::liking(shape, seen, profile)).unwrap_or(i32::MAX),
            hash,
        }
    }

    /// Whether a node will do, to all rules that look at it alone.
    ///
    /// # Errors
    /// If not, and why: the first rule that says so decides.
    pub fn judge(
        &self,
        node: usize,
        shape: &Shape,
        cache: &Cache,
        world: &World,
        profile: &Profile,
    ) -> Result<(), Rejection> {
        let seen = &cache.nodes[node];
        unschedulable::filter(shape, seen)?;
        taints::filter(shape, seen)?;
        node_affinity::filter(shape, seen, profile)?;
        ports::filter(shape, seen)?;
        fit::filter(&shape.request, seen)?;
        disks::filter(shape, seen, cache)?;
        volumes::filter(&self.needs, shape, seen, cache, world)?;
        features::filter(shape, seen)?;
        devices::filter(&self.devices, seen)
    }

    /// Number of nodes that are looked at to find the best one, where rules count that depend on other pods or nodes.
    #[must_use]
    pub fn scanned(&self) -> u64 {
        let is_ranked = self.gates.is_empty()
            && self.pulls.is_empty()
            && self.wishes.all.is_empty()
            && !self.has_opinions;
        if is_ranked { 0 } else { self.cells.len() as u64 }
    }

    /// The best node for a pod; nothing if none will do.
    #[must_use]
    pub fn find(&self, cache: &Cache, chance: u32) -> Option<usize> {
        // What would not do a moment ago will not do now, if nothing happened since.
        let failed = self.failed.as_ref().is_some_and(|(moment, _)| *moment == cache.moment());
        if failed { None } else { choose::best(self, cache, chance) }
    }

    /// Why no node will do, if that was found out and nothing happened since.
    #[must_use]
    pub fn last_failure(&self, cache: &Cache) -> Option<Verdict> {
        let (_, verdict) = self.failed.as_ref().filter(|(moment, _)| *moment == cache.moment())?;
        Some(verdict.clone())
    }

    /// Remembers why no node will do.
    pub fn remember_failure(&mut self, verdict: &Verdict, cache: &Cache) {
        self.failed = Some((cache.moment(), verdict.clone()));
    }

    fn number(&mut self, rejection: Rejection) -> u16 {
        if let Some(number) = self.numbers.get(&rejection) {
            return *number;
        }
        let number = u16::try_from(self.rejections.len() + 1).unwrap_or(ABSENT).min(ABSENT - 1);
        self.rejections.push(rejection.clone());
        self.numbers.insert(rejection, number);
        number
    }

    /// How many nodes come into question.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether no node comes into question.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// What was found out of the nodes that come into question.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The number of a node that comes into question.
    #[inline]
    #[must_use]
    pub fn node(&self, at: usize) -> usize {
        self.spots.as_ref().map_or(at, |spots| spots[at])
    }

    /// The place of a node among those that come into question.
    #[must_use]
    pub fn place(&self, node: usize) -> Option<usize> {
        match &self.spots {
            Some(spots) => spots.binary_search(&node).ok(),
            None => (node < self.cells.len()).then_some(node),
        }
    }

    /// Why a node will not do, to rules that look at it alone; nothing if it will.
    #[must_use]
    pub fn rejection(&self, at: usize) -> Option<&Rejection> {
        match self.cells[at].verdict {
            0 | ABSENT => None,
            number => self.rejections.get(usize::from(number) - 1),
        }
    }
}

/// The nodes that a shape names, as far as they are known; nothing if it names none.
fn spots(shape: &Shape, cache: &Cache) -> Option<Vec<usize>> {
    let names = shape.nodes.only()?;
    let mut spots: Vec<usize> = names.iter().filter_map(|name| cache.numbers.get(*name).copied()).collect();
    spots.sort_unstable();
    Some(spots)
}

impl Cell {
    /// Whether the node will do, to rules that look at it alone.
    #[inline]
    #[must_use]
    pub fn will_do(&self) -> bool {
        self.verdict == 0
    }

    /// Whether there is such a node.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.verdict != ABSENT
    }
}
