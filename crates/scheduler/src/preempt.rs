//! Who makes room for a more important pod: as few and as unimportant pods as will do, and none that a disruption
//! budget protects if that can be helped.

use std::collections::BTreeMap;

use setpoint_api::Time;
use setpoint_reconcile::World;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::pod_disruption_budget::PodDisruptionBudget;

use crate::cache::{Cache, PodId};
use crate::choose::Reasons;
use crate::class::Class;
use crate::cost::COST_MAX;
use crate::profile::Profile;
use crate::rules::{Helps, Rejection};
use crate::shape::Shape;

/// How many nodes are tried where results cannot be kept, if there are so many: a tenth of them, but not fewer. A pod with
/// very many constraints tries as many as cost no more than [`COST_MAX`].
const TRIED_MIN: usize = 100;

/// Who would make room on a node.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The pods to delete.
    pub victims: Vec<PodId>,
    /// How many more must go, and do so already.
    pub going: usize,
    violations: usize,
    highest: i64,
    sum: i64,
    /// Since when the oldest of the most important victims runs.
    started: Time,
}

/// What is known of a node.
#[derive(Clone, Debug)]
enum Found {
    Nothing,
    Would(Candidate),
    Never(Rejection),
}

/// What is known of nodes for pods of a shape. It holds until a node changes, where only the node itself counts.
#[derive(Clone, Debug, Default)]
pub struct Known {
    moment: Option<(u64, usize)>,
    found: Vec<Found>,
}

impl Known {
    /// Forgets everything.
    pub fn forget(&mut self) {
        *self = Known::default();
    }
}

/// What disruption budgets still allow.
pub struct Budgets<'a>(BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>);

impl<'a> Budgets<'a> {
    /// Those of a world.
    #[must_use]
    pub fn of(world: &'a World) -> Budgets<'a> {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudget>> = BTreeMap::new();
        for (object, budget) in world.views::<PodDisruptionBudget>() {
            by_namespace.entry(&object.meta().namespace).or_default().push(budget);
        }
        Budgets(by_namespace)
    }

    /// Which of these pods cannot go without a violation, when they go one after another.
    fn violated(&self, pods: &[PodId], cache: &Cache) -> Vec<bool> {
        let mut left: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        let violates = |id: &PodId| {
            let (Some(entry), Some(shape)) = (cache.pod(*id), cache.shape_of(*id)) else { return false };
            let Some((namespace, budgets)) = self.0.get_key_value(&*shape.namespace) else { return false };
            let left = left
                .entry(*namespace)
                .or_insert_with(|| budgets.iter().map(|budget| budget.status.disruptions_allowed).collect());
            let mut violates = false;
            for (budget, left) in budgets.iter().zip(left) {
                let selector = &budget.spec.selector;
                let protects = !selector.is_everything()
                    && selector.matches(|name| shape.labels.get(name))
                    && !budget.status.disrupted_pods.contains_key(&*entry.object.meta().name);
                if protects {
                    *left -= 1;
                    violates |= *left < 0;
                }
            }
            violates
        };
        pods.iter().map(violates).collect()
    }
}

/// A pod that looks for room, and where.
pub struct Search<'a> {
    /// Its shape.
    pub shape: &'a Shape,
    /// The world.
    pub world: &'a World,
    /// Its profile.
    pub profile: &'a Profile,
    /// What must not be violated if that can be helped.
    pub budgets: &'a Budgets<'a>,
    /// Chance.
    pub chance: u64,
}

impl Search<'_> {
    /// The node where room is best made, and by whom; or why there is none.
    ///
    /// # Errors
    /// If there is none.
    pub fn best(&self, class: &mut Class, cache: &mut Cache) -> Result<(usize, Candidate), String> {
        // Where no node comes into question at all, nobody's going helps.
        if class.barred.is_none() {
            self.look(class, cache);
        }
        let found = class.victims.found.iter().enumerate();
        let candidates = found.filter_map(|(at, found)| match found {
            Found::Would(candidate) => Some((at, candidate)),
            _ => None,
        });
        let best = candidates.min_by_key(|(at, one)| {
            let tie = (cache.nodes[class.node(*at)].hash ^ self.chance).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (one.violations, one.highest, one.sum, one.victims.len(), std::cmp::Reverse(one.started), tie)
        });
        match best {
            Some((at, candidate)) => Ok((class.node(at), candidate.clone())),
            None => Err(self.why_none(class, cache)),
        }
    }

    fn why_none(&self, class: &Class, cache: &Cache) -> String {
        let mut reasons = Reasons::default();
        let mut told = 0;
        for found in &class.victims.found {
            if let Found::Never(rejection) = found {
                reasons.add(rejection, 1);
                told += 1;
            }
        }
        if told < cache.existing {
            let rest = Rejection::for_good("Preemption is not helpful for scheduling", Helps::NONE);
            reasons.add(&rest, cache.existing - told);
        }
        format!("0/{} nodes are available: {}.", cache.existing, reasons.words())
    }

    /// Finds out what is not known yet.
    fn look(&self, class: &mut Class, cache: &mut Cache) {
        let mut known = std::mem::take(&mut class.victims);
        // What is about other nodes too, or about budgets, changes without the node.
        let keeps = class.gates.is_empty() && self.budgets.0.is_empty();
        let moment = cache.moment();
        let touched = known
            .moment
            .filter(|_| keeps)
            .and_then(|moment| cache.touched_since(moment))
            .map(<[usize]>::to_vec);
        let places = class.len();
        let stale: Vec<usize> = match touched {
            Some(touched) => {
                let new = known.found.len()..places;
                touched.iter().filter_map(|node| class.place(*node)).chain(new).collect()
            }
            None => (0..places).collect(),
        };
        known.found.resize(places, Found::Nothing);
        let tries = if keeps { usize::MAX } else { (places / 10).max(TRIED_MIN) };
        let offset =
            if keeps || places == 0 { 0 } else { usize::try_from(self.chance).unwrap_or(0) % places };
        // Enough is enough only once one is among them that violates no budget.
        let (mut would, mut well, mut steps) = (0, false, 0);
        for at in stale.iter().cycle().skip(offset).take(stale.len()) {
            let is_enough = (would >= tries && well) || steps > COST_MAX;
            // A node is compared with the constraints once for each pod that may stay, and twice more.
            let pods = cache.nodes[class.node(*at)].pods.len() + 2;
            steps += u64::try_from((class.gates.len() + 1) * pods).unwrap_or(u64::MAX);
            known.found[*at] = if is_enough { Found::Nothing } else { self.on(*at, class, cache) };
            if let Found::Would(candidate) = &known.found[*at] {
                would += 1;
                well |= candidate.violations == 0;
            }
        }
        known.moment = (keeps && steps <= COST_MAX).then_some(moment);
        class.victims = known;
    }

    /// Who would make room on a node.
    fn on(&self, at: usize, class: &Class, cache: &mut Cache) -> Found {
        let node = class.node(at);
        if !class.cells()[at].exists() || !self.may_help(at, class, cache) {
            return Found::Nothing;
        }
        let lower: Vec<PodId> =
            cache.nodes[node].pods.iter().copied().filter(|id| self.is_below(*id, cache)).collect();
        if lower.is_empty() {
            let why = "No preemption victims found for incoming pod";
            return Found::Never(Rejection::for_good(why, Helps::NONE));
        }
        for id in &lower {
            cache.shift(*id, node, -1);
        }
        let fits = self.fits(node, class, cache);
        let found = match fits {
            Err(rejection) => Found::Never(rejection),
            Ok(()) => Found::Would(self.spare(&lower, node, class, cache)),
        };
        for id in lower {
            if cache.pod(id).is_some_and(|entry| entry.node.is_none()) {
                cache.shift(id, node, 1);
            }
        }
        found
    }

    /// Whether it may help that pods go from a node.
    fn may_help(&self, at: usize, class: &Class, cache: &Cache) -> bool {
        if let Some(rejection) = class.rejection(at) {
            return rejection.is_resolvable;
        }
        let node = class.node(at);
        class.gates.shut(&cache.counters, node).is_some_and(|shut| shut.rejection().is_resolvable)
    }

    fn is_below(&self, id: PodId, cache: &Cache) -> bool {
        // A pod that only waits for its node is no pod that could go from it.
        cache.pod(id).is_some_and(|entry| entry.is_bound)
            && cache.shape_of(id).is_some_and(|shape| shape.priority < self.shape.priority)
    }

    fn fits(&self, node: usize, class: &Class, cache: &Cache) -> Result<(), Rejection> {
        class.judge(node, self.shape, cache, self.world, self.profile)?;
        class.gates.shut(&cache.counters, node).map_or(Ok(()), |shut| Err(shut.rejection()))
    }

    /// Lets as many pods stay as can, the most important first, and of those first whose going would violate a budget.
    fn spare(&self, lower: &[PodId], node: usize, class: &Class, cache: &mut Cache) -> Candidate {
        let is_going = |id: &PodId| cache.pod(*id).is_some_and(|entry| entry.is_deleted || entry.is_doomed);
        let (mut going, mut pods): (Vec<PodId>, Vec<PodId>) = lower.iter().copied().partition(is_going);
        going.sort_by_key(|id| importance(*id, cache));
        pods.sort_by_key(|id| importance(*id, cache));
        let violated = self.budgets.violated(&pods, cache);
        let mut candidate = Candidate {
            victims: Vec::new(),
            going: 0,
            violations: 0,
            highest: i64::MIN,
            sum: 0,
            started: Time(i64::MAX),
        };
        for violates in [true, false] {
            for (id, _) in pods.iter().zip(&violated).filter(|(_, one)| **one == violates) {
                if !self.may_stay(*id, node, class, cache) {
                    candidate.victims.push(*id);
                    candidate.violations += usize::from(violates);
                }
            }
        }
        for id in going {
            candidate.going += usize::from(!self.may_stay(id, node, class, cache));
        }
        candidate.victims.sort_by_key(|id| importance(*id, cache));
        for id in &candidate.victims {
            let (std::cmp::Reverse(priority), started, _) = importance(*id, cache);
            candidate.sum += priority + i64::from(i32::MAX) + 1;
            if priority > candidate.highest {
                (candidate.highest, candidate.started) = (priority, started);
            }
        }
        candidate
    }

    /// Puts a pod back if there is room for both.
    fn may_stay(&self, id: PodId, node: usize, class: &Class, cache: &mut Cache) -> bool {
        cache.shift(id, node, 1);
        let fits = self.fits(node, class, cache).is_ok();
        if !fits {
            cache.shift(id, node, -1);
        }
        fits
    }

    /// Why the pod, which was promised a node or none, may push nobody aside; nothing if it may.
    #[must_use]
    pub fn objection(&self, nominated: &str, class: &Class, cache: &Cache) -> Option<&'static str> {
        if !self.shape.preempts {
            return Some("not eligible due to preemptionPolicy=Never.");
        }
        let node = cache.numbers.get(nominated).copied()?;
        let place = class.place(node)?;
        if class.barred.is_some() {
            return None;
        }
        if class.rejection(place).is_some_and(|rejection| !rejection.is_resolvable) {
            return None;
        }
        let makes_room = |id: &PodId| {
            let going = cache.pod(*id).is_some_and(|entry| entry.is_deleted && is_preempted(&entry.object));
            going && self.is_below(*id, cache)
        };
        let waits = cache.nodes[node].pods.iter().any(makes_room);
        waits.then_some("not eligible due to a terminating pod on the nominated node.")
    }
}

/// Whether a pod goes to make room for another.
fn is_preempted(object: &setpoint_reconcile::Object) -> bool {
    let pod = object.view::<Pod>();
    pod.is_some_and(|pod| {
        setpoint_reconcile::views::condition(&pod.status.conditions, "DisruptionTarget")
            .is_some_and(|found| found.is_true() && found.reason == "PreemptionByScheduler")
    })
}

/// The order of pods by importance: those with the highest priority, then those that run longest. One that has not
/// started comes after all that have.
fn importance(id: PodId, cache: &Cache) -> (std::cmp::Reverse<i64>, Time, Time) {
    let priority = cache.shape_of(id).map_or(0, |shape| shape.priority);
    let times = cache.pod(id).map(|entry| {
        let started = entry.object.view::<Pod>().and_then(|pod| pod.status.start_time);
        (started.unwrap_or(Time(i64::MAX)), entry.object.meta().created())
    });
    let (started, created) = times.unwrap_or((Time::EPOCH, Time::EPOCH));
    (std::cmp::Reverse(priority), started, created)
}
