//! Preemption: finds a node on which deleting pods of lower priority makes an unschedulable pod feasible.
//!
//! As in kube-scheduler, the candidate with the fewest violations of PodDisruptionBudgets wins, then the one with the
//! least important and the fewest victims. Dry runs change the cache and restore it. Start at
//! [`PreemptionEvaluator::select_candidate`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use setpoint_api::Time;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::condition;
use setpoint_views::pod::Pod;
use setpoint_views::pod_disruption_budget::PodDisruptionBudget;

use crate::cache::{CacheVersion, PodId, SchedulerCache};
use crate::cost::COST_MAX;
use crate::filter_score_cache::FilterScoreCache;
use crate::plugins::{QueueingHint, Rejection};
use crate::profile::Profile;
use crate::selection::ReasonCounts;
use crate::signature::PodSignature;

/// Minimum number of candidates to find, or a tenth of the nodes if that is more, where results cannot be kept. A pod
/// with very many constraints stops earlier, at a cost of [`COST_MAX`].
const CANDIDATES_MIN: usize = 100;

/// Node with the victims of a preemption.
#[derive(Clone, Debug)]
pub struct PreemptionCandidate {
    /// Pods to delete, most important first.
    pub victims: Vec<PodId>,
    /// Further pods that must leave and are terminating already.
    pub terminating_victims: usize,
    /// Victims whose deletion violates a PodDisruptionBudget.
    pdb_violations: usize,
    highest_priority: i64,
    /// Sum of the priorities of the victims, each shifted to be positive.
    priority_sum: i64,
    /// Earliest start time among the victims of the highest priority.
    earliest_start: Time,
}

/// Result of a dry run on a node.
#[derive(Clone, Debug)]
enum DryRunResult {
    /// Not run, or preemption cannot help on the node.
    Skipped,
    Candidate(PreemptionCandidate),
    /// The pod does not fit even without any pod of lower priority.
    Rejected(Rejection),
}

/// Dry run results for the pods of a signature, kept until a node changes.
#[derive(Clone, Debug, Default)]
pub struct PreemptionCache {
    /// Version that the results are valid for; `None` if they cannot be kept.
    version: Option<CacheVersion>,
    /// Results by position.
    results: Vec<DryRunResult>,
}

/// PodDisruptionBudgets by namespace.
pub struct DisruptionBudgets<'a>(BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>);

impl<'a> DisruptionBudgets<'a> {
    /// Reads the budgets of a world.
    #[must_use]
    pub fn new(world: &'a WorldReader<'a>) -> DisruptionBudgets<'a> {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudget>> = BTreeMap::new();
        for (object, budget) in world.views::<PodDisruptionBudget>() {
            by_namespace.entry(&object.meta().namespace).or_default().push(budget);
        }
        DisruptionBudgets(by_namespace)
    }

    /// For each pod, `true` if its deletion violates a budget, when the pods are deleted in this order.
    fn find_violations(&self, pods: &[PodId], cache: &SchedulerCache) -> Vec<bool> {
        let mut allowed: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        let violates = |id: &PodId| {
            let (Some(info), Some(signature)) = (cache.pod(*id), cache.signature_of(*id)) else {
                return false;
            };
            let Some((namespace, budgets)) = self.0.get_key_value(&*signature.namespace) else {
                return false;
            };
            let allowed = allowed
                .entry(*namespace)
                .or_insert_with(|| budgets.iter().map(|budget| budget.status.disruptions_allowed).collect());
            let mut violates = false;
            for (budget, allowed) in budgets.iter().zip(allowed) {
                let selector = &budget.spec.selector;
                let is_covered = !selector.is_everything()
                    && selector.matches(|name| signature.labels.get(name))
                    && !budget.status.disrupted_pods.contains_key(&*info.object.meta().name);
                if is_covered {
                    *allowed -= 1;
                    violates |= *allowed < 0;
                }
            }
            violates
        };
        pods.iter().map(violates).collect()
    }
}

/// Preemption for one unschedulable pod.
pub struct PreemptionEvaluator<'a> {
    /// Signature of the pod.
    pub signature: &'a PodSignature,
    /// The world.
    pub world: &'a WorldReader<'a>,
    /// Profile of the pod.
    pub profile: &'a Profile,
    /// Budgets to respect if possible.
    pub budgets: &'a DisruptionBudgets<'a>,
    /// Random number that breaks ties and chooses where a partial search begins.
    pub random: u64,
}

impl PreemptionEvaluator<'_> {
    /// Returns the best node with its victims.
    ///
    /// # Errors
    /// The message, as kube-scheduler prints it, if preemption is possible on no node.
    pub fn select_candidate(
        &self,
        results: &mut FilterScoreCache,
        cache: &mut SchedulerCache,
    ) -> Result<(usize, PreemptionCandidate), String> {
        // A rejection of every node does not depend on pods.
        if results.prefilter_rejection.is_none() {
            self.run_dry_runs(results, cache);
        }
        let found = results.preemption.results.iter().enumerate();
        let candidates = found.filter_map(|(at, result)| match result {
            DryRunResult::Candidate(candidate) => Some((at, candidate)),
            _ => None,
        });
        let best = candidates.min_by_key(|(at, one)| {
            let hash = cache.nodes[results.node(*at)].hash;
            let tie_break = (hash ^ self.random).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let victims = (one.highest_priority, one.priority_sum, one.victims.len());
            (one.pdb_violations, victims, Reverse(one.earliest_start), tie_break)
        });
        match best {
            Some((at, candidate)) => Ok((results.node(at), candidate.clone())),
            None => Err(no_candidate_message(results, cache)),
        }
    }

    /// Runs the dry runs whose results are not known.
    fn run_dry_runs(&self, results: &mut FilterScoreCache, cache: &mut SchedulerCache) {
        let mut known = std::mem::take(&mut results.preemption);
        // Topology constraints and budgets change without the node, so results that depend on them cannot be kept.
        let can_keep = results.topology.is_empty() && self.budgets.0.is_empty();
        let version = cache.version();
        let changed = known
            .version
            .filter(|_| can_keep)
            .and_then(|version| cache.nodes_changed_since(version))
            .map(<[usize]>::to_vec);
        let positions = results.len();
        let stale: Vec<usize> = match changed {
            Some(changed) => {
                let new = known.results.len()..positions;
                changed.iter().filter_map(|node| results.position(*node)).chain(new).collect()
            }
            None => (0..positions).collect(),
        };
        known.results.resize(positions, DryRunResult::Skipped);
        let wanted = if can_keep { usize::MAX } else { (positions / 10).max(CANDIDATES_MIN) };
        let offset = if can_keep || positions == 0 {
            0
        } else {
            usize::try_from(self.random).unwrap_or(0) % positions
        };
        // The search ends with enough candidates only if one of them violates no budget.
        let (mut candidates, mut has_free_candidate, mut steps) = (0, false, 0);
        for at in stale.iter().cycle().skip(offset).take(stale.len()) {
            let is_done = (candidates >= wanted && has_free_candidate) || steps > COST_MAX;
            // A dry run tests the constraints once for each pod that may be reprieved, and twice more.
            let tests = cache.nodes[results.node(*at)].pods.len() + 2;
            steps += u64::try_from((results.topology.len() + 1) * tests).unwrap_or(u64::MAX);
            known.results[*at] =
                if is_done { DryRunResult::Skipped } else { self.dry_run(*at, results, cache) };
            if let DryRunResult::Candidate(candidate) = &known.results[*at] {
                candidates += 1;
                has_free_candidate |= candidate.pdb_violations == 0;
            }
        }
        known.version = (can_keep && steps <= COST_MAX).then_some(version);
        results.preemption = known;
    }

    /// Selects victims on the node at a position. Restores the cache.
    fn dry_run(&self, at: usize, results: &FilterScoreCache, cache: &mut SchedulerCache) -> DryRunResult {
        let node = results.node(at);
        if !results.node_results()[at].exists() || !is_resolvable(at, results, cache) {
            return DryRunResult::Skipped;
        }
        let potential: Vec<PodId> = cache.nodes[node]
            .pods
            .iter()
            .copied()
            .filter(|id| self.is_potential_victim(*id, cache))
            .collect();
        if potential.is_empty() {
            let reason = "No preemption victims found for incoming pod";
            return DryRunResult::Rejected(Rejection::unresolvable(reason, QueueingHint::NONE));
        }
        for id in &potential {
            cache.apply_assignment(*id, node, -1);
        }
        let result = match self.run_filters(node, results, cache) {
            Err(rejection) => DryRunResult::Rejected(rejection),
            Ok(()) => DryRunResult::Candidate(self.select_victims(&potential, node, results, cache)),
        };
        for id in potential {
            if cache.pod(id).is_some_and(|info| info.node.is_none()) {
                cache.apply_assignment(id, node, 1);
            }
        }
        result
    }

    /// `true` if the pod is bound and has a lower priority. A nominated or assumed pod is no victim: it does not run.
    fn is_potential_victim(&self, id: PodId, cache: &SchedulerCache) -> bool {
        cache.pod(id).is_some_and(|info| info.is_bound)
            && cache.signature_of(id).is_some_and(|signature| signature.priority < self.signature.priority)
    }

    fn run_filters(
        &self,
        node: usize,
        results: &FilterScoreCache,
        cache: &SchedulerCache,
    ) -> Result<(), Rejection> {
        results.run_filters(node, self.signature, cache, self.world, self.profile)?;
        let violation = results.topology.violation(&cache.counters, node);
        violation.map_or(Ok(()), |violation| Err(violation.rejection()))
    }

    /// Reprieves as many potential victims as possible, the most important first, and before them those whose deletion
    /// would violate a budget. The rest are the victims.
    fn select_victims(
        &self,
        potential: &[PodId],
        node: usize,
        results: &FilterScoreCache,
        cache: &mut SchedulerCache,
    ) -> PreemptionCandidate {
        let is_leaving =
            |id: &PodId| cache.pod(*id).is_some_and(|info| info.is_terminating || info.is_victim);
        let (mut leaving, mut pods): (Vec<PodId>, Vec<PodId>) =
            potential.iter().copied().partition(is_leaving);
        leaving.sort_by_key(|id| importance_key(*id, cache));
        pods.sort_by_key(|id| importance_key(*id, cache));
        let violations = self.budgets.find_violations(&pods, cache);
        let mut candidate = PreemptionCandidate {
            victims: Vec::new(),
            terminating_victims: 0,
            pdb_violations: 0,
            highest_priority: i64::MIN,
            priority_sum: 0,
            earliest_start: Time(i64::MAX),
        };
        for violates in [true, false] {
            for (id, _) in pods.iter().zip(&violations).filter(|(_, one)| **one == violates) {
                if !self.reprieve_pod(*id, node, results, cache) {
                    candidate.victims.push(*id);
                    candidate.pdb_violations += usize::from(violates);
                }
            }
        }
        for id in leaving {
            candidate.terminating_victims += usize::from(!self.reprieve_pod(id, node, results, cache));
        }
        candidate.victims.sort_by_key(|id| importance_key(*id, cache));
        for id in &candidate.victims {
            let (Reverse(priority), started, _) = importance_key(*id, cache);
            candidate.priority_sum += priority + i64::from(i32::MAX) + 1;
            if priority > candidate.highest_priority {
                (candidate.highest_priority, candidate.earliest_start) = (priority, started);
            }
        }
        candidate
    }

    /// Puts a potential victim back if the incoming pod still fits. Returns `false` if it does not.
    fn reprieve_pod(
        &self,
        id: PodId,
        node: usize,
        results: &FilterScoreCache,
        cache: &mut SchedulerCache,
    ) -> bool {
        cache.apply_assignment(id, node, 1);
        let fits = self.run_filters(node, results, cache).is_ok();
        if !fits {
            cache.apply_assignment(id, node, -1);
        }
        fits
    }

    /// Returns the reason why the pod is not eligible to preempt others. `nominated_node` is empty if there is none.
    #[must_use]
    pub fn find_ineligibility(
        &self,
        nominated_node: &str,
        results: &FilterScoreCache,
        cache: &SchedulerCache,
    ) -> Option<&'static str> {
        if !self.signature.can_preempt {
            return Some("not eligible due to preemptionPolicy=Never.");
        }
        let node = cache.node_numbers.get(nominated_node).copied()?;
        let position = results.position(node)?;
        if results.prefilter_rejection.is_some() {
            return None;
        }
        if results.rejection(position).is_some_and(|rejection| !rejection.is_resolvable) {
            return None;
        }
        let is_terminating_victim = |id: &PodId| {
            let is_leaving =
                cache.pod(*id).is_some_and(|info| info.is_terminating && is_preempted(&info.object));
            is_leaving && self.is_potential_victim(*id, cache)
        };
        let is_waiting = cache.nodes[node].pods.iter().any(is_terminating_victim);
        is_waiting.then_some("not eligible due to a terminating pod on the nominated node.")
    }
}

/// `true` if removing pods from the node at a position may make it feasible.
fn is_resolvable(at: usize, results: &FilterScoreCache, cache: &SchedulerCache) -> bool {
    if let Some(rejection) = results.rejection(at) {
        return rejection.is_resolvable;
    }
    let violation = results.topology.violation(&cache.counters, results.node(at));
    violation.is_some_and(|violation| violation.rejection().is_resolvable)
}

fn no_candidate_message(results: &FilterScoreCache, cache: &SchedulerCache) -> String {
    let mut reasons = ReasonCounts::default();
    let mut rejected = 0;
    for result in &results.preemption.results {
        if let DryRunResult::Rejected(rejection) = result {
            reasons.add(rejection, 1);
            rejected += 1;
        }
    }
    if rejected < cache.node_count {
        let rest = Rejection::unresolvable("Preemption is not helpful for scheduling", QueueingHint::NONE);
        reasons.add(&rest, cache.node_count - rejected);
    }
    format!("0/{} nodes are available: {}.", cache.node_count, reasons.message())
}

/// `true` if the pod was preempted by a scheduler.
fn is_preempted(object: &Object) -> bool {
    object.view::<Pod>().is_some_and(|pod| {
        condition(&pod.status.conditions, "DisruptionTarget")
            .is_some_and(|found| found.is_true() && found.reason == "PreemptionByScheduler")
    })
}

/// Sort key of pods, most important first: highest priority, then earliest start. A pod that has not started is less
/// important than all that have.
fn importance_key(id: PodId, cache: &SchedulerCache) -> (Reverse<i64>, Time, Time) {
    let priority = cache.signature_of(id).map_or(0, |signature| signature.priority);
    let times = cache.pod(id).map(|info| {
        let started = info.object.view::<Pod>().and_then(|pod| pod.status.start_time);
        (started.unwrap_or(Time(i64::MAX)), info.object.meta().created())
    });
    let (started, created) = times.unwrap_or((Time::EPOCH, Time::EPOCH));
    (Reverse(priority), started, created)
}
