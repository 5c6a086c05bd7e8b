//! Scheduling cycle: one plan, which takes pods from the queue in order and places them one after another.
//!
//! Each pod sees the placements before it: a placed pod is assumed on its node at once, and a nominated pod reserves
//! resources on its node against all pods of the same or lower priority. Start at [`SchedulingCycle::plan`].

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::plan::{EventRecord, InvolvedObject};
use setpoint_reconcile::{Action, Object, Plan, Seed, Seen, WorldReader, Write};
use setpoint_views::pod::Pod;

use super::pod_queue::QueuedPod;
use super::status::{FailureStatus, status_patch};
use super::{DEFAULT_SCHEDULER_NAME, Scheduler};
use crate::cache::node_info::hash_name;
use crate::cache::unconfirmed::{ExpectedWrite, UnconfirmedWrite};
use crate::cache::{PodId, SchedulerCache};
use crate::cost::COST_MAX;
use crate::filter_score_cache::FilterScoreCache;
use crate::plugins::volumes::node_terms::TermSize;
use crate::plugins::{QueueingHint, dynamic_resources};
use crate::preemption::{DisruptionBudgets, PreemptionCandidate, PreemptionEvaluator};
use crate::queue_state::QueueState;
use crate::selection::{self, FitError};

/// State of one plan while it is computed.
pub(super) struct SchedulingCycle<'a> {
    scheduler: &'a Scheduler,
    pub(super) world: &'a WorldReader<'a>,
    pub(super) cache: SchedulerCache,
    budgets: DisruptionBudgets<'a>,
    pub(super) now: Time,
    seed: Seed,
    pub(super) plan: Plan<SchedulerCache>,
    status_writes: Vec<Action>,
    /// Nominated pods by node.
    pub(super) nominated_pods: BTreeMap<usize, Vec<PodId>>,
    /// Pods whose nomination was cleared in this cycle.
    cleared_nominations: BTreeSet<PodId>,
    /// Finalizers of claims that are allocated, which precede the allocations.
    pub(super) claim_finalizers: Vec<Action>,
    /// Bindings of volumes, allocations and reservations of devices.
    pub(super) claim_writes: Vec<Action>,
    /// Removals of allocations that no node suits.
    claim_deallocations: Vec<Action>,
    /// `DisruptionTarget` conditions of victims.
    victim_conditions: Vec<Action>,
    victim_deletions: Vec<Action>,
    /// Size of the node affinity of unusually large volumes; measured for the first pod with claims.
    pub(super) large_volumes: OnceCell<TermSize>,
}

/// Note in the message of a pod whose claim is released, before the result of the preemption.
const DEALLOCATED: &str = "deallocation of ResourceClaim completed, ";

/// Result of preemption for an unschedulable pod.
enum PreemptionOutcome {
    /// Node with its victims.
    Candidate(usize, PreemptionCandidate),
    /// The pod is not eligible, for example because victims are still terminating.
    NotEligible,
    /// Preemption helps on no node.
    NotHelpful,
}

impl<'a> SchedulingCycle<'a> {
    pub(super) fn new(
        scheduler: &'a Scheduler,
        world: &'a WorldReader<'a>,
        seen: Seen<'_, SchedulerCache>,
        now: Time,
        seed: Seed,
    ) -> SchedulingCycle<'a> {
        let mut cache = seen.memo;
        let sent_bindings = std::mem::take(&mut cache.sent_bindings);
        cache.sync(world, |object, pod| scheduler.is_responsible_for(object, pod));
        cache.now = now;
        // `seen.failure` keeps its value until the next failure, so an equal one was handled by an earlier plan.
        let is_new = seen.failure.is_some() && seen.failure != cache.last_failure.as_ref();
        cache.last_failure = seen.failure.cloned();
        let mut cycle = SchedulingCycle {
            scheduler,
            world,
            cache,
            budgets: DisruptionBudgets::new(world),
            now,
            seed,
            plan: Plan::default(),
            status_writes: Vec::new(),
            nominated_pods: BTreeMap::new(),
            cleared_nominations: BTreeSet::new(),
            claim_finalizers: Vec::new(),
            claim_writes: Vec::new(),
            claim_deallocations: Vec::new(),
            victim_conditions: Vec::new(),
            victim_deletions: Vec::new(),
            large_volumes: OnceCell::new(),
        };
        if let Some(failure) = seen.failure.filter(|failure| is_new && failure.verb == "create") {
            cycle.handle_failed_bindings(&sent_bindings, failure);
        }
        cycle
    }

    /// Attempts the pods that are due and returns the plan.
    pub(super) fn plan(mut self) -> Plan<SchedulerCache> {
        let pods = self.select_pods();
        // Pods in PreBind are assumed on their nodes against all pods, whatever the priority.
        for one in &pods {
            if self.is_prebinding(one.id) {
                self.reserve_nominated(one.id);
            }
        }
        let mut nominated = pods.iter().peekable();
        let cost_before = self.cache.comparisons() + self.cache.scored_nodes;
        for QueuedPod { id, priority, is_due } in &pods {
            while let Some(one) = nominated.next_if(|one| one.priority >= *priority) {
                self.reserve_nominated(one.id);
            }
            if *is_due && self.cache.comparisons() + self.cache.scored_nodes - cost_before > COST_MAX {
                // The plan has reached its cost bound: the next plan attempts the remaining pods.
                self.plan.requeue_at(self.now);
                self.reserve_nominated(*id);
            } else if *is_due {
                self.cache.shrink_counters();
                self.release_reservation(*id);
                if !self.attempt(*id) {
                    self.reserve_nominated(*id);
                }
            }
        }
        let states = self.cache.queue.values().filter_map(|id| self.cache.pod(*id)?.queue_state);
        let mut next_attempt = None;
        let mut nominated_count = 0;
        for state in states {
            nominated_count += usize::from(state.nominated_node.is_some());
            let at = state.next_attempt_at();
            next_attempt = Some(next_attempt.map_or(at, |next: Time| next.min(at)));
        }
        self.cache.nominated_count = nominated_count;
        if let Some(at) = next_attempt {
            self.plan.requeue_at(at.max(self.now));
        }
        let mut plan = self.plan;
        // Victims first: their termination takes time, and status updates can wait.
        plan.stage(self.victim_conditions);
        plan.stage(self.victim_deletions);
        plan.stage(self.status_writes);
        plan.stage(self.claim_finalizers);
        plan.stage(self.claim_writes);
        plan.stage(self.claim_deallocations);
        self.cache.volume_affinity.clear();
        plan.memo = self.cache;
        plan
    }

    /// Attempts to schedule a pod. Returns `true` if it has a node.
    fn attempt(&mut self, id: PodId) -> bool {
        let Some((object, signature)) =
            self.cache.pod(id).map(|info| info.object.clone()).zip(self.cache.signature_of(id).cloned())
        else {
            return false;
        };
        let (Some(pod), Some(profile)) =
            (object.view::<Pod>(), self.scheduler.profile(&signature.scheduler_name))
        else {
            return false;
        };
        let at = self.cache.pod(id).map_or(0, |info| info.signature as usize);
        let known = self.cache.signatures[at].as_mut().and_then(|entry| entry.results.take());
        let mut results = match known {
            Some(mut results) => {
                results.refresh(&signature, &mut self.cache, self.world, profile);
                results
            }
            None => Box::new(FilterScoreCache::new(&signature, &mut self.cache, self.world, profile)),
        };
        self.cache.attempts += 1;
        results.last_used = self.cache.attempts;
        let device_cost = results.claim_allocations.cost();
        self.cache.scored_nodes += results.scored_nodes() + device_cost;
        if let Some(entry) = self.cache.signatures[at].as_mut() {
            entry.device_cost = device_cost;
        }
        if let Some(error) = results.claim_allocations.error() {
            let message = format!("running \"DynamicResources\" filter plugin: {error}");
            self.fail_with_error(id, &object, pod, &message, None);
            return false;
        }
        let random = self.seed_of(&object).draw(0);
        let nominated_name = self.nominated_node_name(id, pod);
        let nominated = self.cache.node_numbers.get(nominated_name).copied();
        let nominated = nominated.filter(|node| selection::is_feasible(&results, &self.cache, *node));
        let node = nominated.or_else(|| results.select_node(&self.cache, random as u32));
        match node {
            Some(node) => self.assume_and_bind(id, &object, node, &results),
            None => {
                let evaluator = PreemptionEvaluator {
                    signature: &signature,
                    world: self.world,
                    profile,
                    budgets: &self.budgets,
                    random,
                };
                let deallocation = dynamic_resources::deallocation_write(&results.claim_allocations);
                let note = if deallocation.is_some() { DEALLOCATED } else { "" };
                self.claim_deallocations.extend(deallocation);
                let (error, outcome) =
                    try_preemption(&evaluator, nominated_name, note, &mut results, &mut self.cache);
                self.fail_attempt(id, &object, pod, error, outcome);
            }
        }
        // Changes of volumes and ResourceClaims do not invalidate results, so those of pods with claims are not kept.
        if let Some(entry) = self.cache.signatures[at].as_mut()
            && signature.claims.is_empty()
            && signature.resource_claims.is_none()
            && !results.is_too_costly
        {
            entry.results = Some(results);
        }
        node.is_some()
    }

    /// Assumes a pod on a node and binds it, or first its volumes and devices.
    fn assume_and_bind(&mut self, id: PodId, object: &Object, node: usize, results: &FilterScoreCache) {
        self.cache.assign(id, node);
        self.cache.assumed.push(id);
        self.cache.record_assigned_pod_add(id);
        if !results.volumes.are_bound() || !results.claim_allocations.are_ready() {
            self.prebind(id, object, node, results);
            return;
        }
        let (key, name) = (object.key(), &self.cache.nodes[node].name);
        let namespace = key.namespace().unwrap_or_default();
        let binding = value!({
            "metadata": {"name": (key.name()), "namespace": (namespace), "uid": (&*object.meta().uid)},
            "target": {"kind": "Node", "name": (&**name)},
        });
        let about = InvolvedObject::new(object, "v1", "Pod");
        let done = about
            .normal("Scheduled", format!("Successfully assigned {}/{} to {name}", namespace, key.name()))
            .with_action("Binding");
        let failed = about.warning("FailedScheduling", "binding rejected: {error}").with_action("Scheduling");
        let write = Write::Post { key: key.clone(), subresource: "binding", object: binding };
        let (done, failed) = (with_reporter(done, object), with_reporter(failed, object));
        self.plan.push(Action::from(write).on_done(done).on_failed(failed));
        self.cache.sent_bindings.push((id, object.clone()));
    }

    /// Writes `nominatedNodeName`; an empty name clears it.
    pub(super) fn write_nomination(&mut self, id: PodId, object: Object, name: &str) {
        let value = if name.is_empty() { Value::Null } else { Value::from(name) };
        let patch = value!({"nominatedNodeName": (value)});
        self.status_writes.push(Write::status(&object, patch).strategic().at_any_revision().into());
        let expected = ExpectedWrite::Status { message: None, nominated_node: Some(name.into()) };
        self.cache.unconfirmed.push(UnconfirmedWrite { id, object, expected });
    }

    pub(super) fn set_queue_state(&mut self, id: PodId, hint: QueueingHint, nominated_node: Option<usize>) {
        if let Some(info) = self.cache.pods[id as usize].as_mut() {
            let state = QueueState::after_attempt(info.queue_state, hint, self.now);
            info.queue_state = Some(QueueState { nominated_node, ..state });
        }
    }

    /// Reports a failed attempt, and carries out the preemption if there is a candidate.
    fn fail_attempt(
        &mut self,
        id: PodId,
        object: &Object,
        pod: &Pod,
        error: FitError,
        outcome: PreemptionOutcome,
    ) {
        let nomination = match &outcome {
            PreemptionOutcome::Candidate(node, _) => Some(self.cache.nodes[*node].name.to_string()),
            PreemptionOutcome::NotEligible => None,
            PreemptionOutcome::NotHelpful => Some(String::new()),
        };
        let nominated_name = nomination.as_deref().unwrap_or(self.nominated_node_name(id, pod));
        let nominated_node = self.cache.node_numbers.get(nominated_name).copied();
        let is_retry = self.cache.pod(id).is_some_and(|info| info.queue_state.is_some());
        let preemption_hint = match outcome {
            PreemptionOutcome::NotHelpful => QueueingHint::NONE,
            _ => QueueingHint::ASSIGNED_POD_DELETE,
        };
        self.set_queue_state(id, error.hint | preemption_hint, nominated_node);
        let status = FailureStatus {
            reason: "Unschedulable",
            message: &error.message,
            nominated_node: nomination.as_deref(),
        };
        self.write_failure_status(id, object, pod, &status, is_retry);
        let event = InvolvedObject::new(object, "v1", "Pod").warning("FailedScheduling", error.message);
        self.plan.events.push(with_reporter(event.with_action("Scheduling"), object));
        if let PreemptionOutcome::Candidate(node, candidate) = outcome {
            self.preempt(id, object, pod, node, &candidate);
            self.clear_lower_nominations(id, node);
            self.assume_nominated(id, node);
        }
    }

    pub(super) fn write_failure_status(
        &mut self,
        id: PodId,
        object: &Object,
        pod: &Pod,
        failure: &FailureStatus<'_>,
        compares_message: bool,
    ) {
        let Some(write) = status_patch(object, pod, failure, compares_message, self.now) else { return };
        self.status_writes.push(write);
        let expected = ExpectedWrite::Status {
            message: Some(failure.message.into()),
            nominated_node: failure.nominated_node.map(Into::into),
        };
        self.cache.unconfirmed.push(UnconfirmedWrite { id, object: object.clone(), expected });
    }

    /// `nominatedNodeName` of a pod; empty if it has none or if it was cleared in this cycle.
    fn nominated_node_name<'p>(&self, id: PodId, pod: &'p Pod) -> &'p str {
        if self.cleared_nominations.contains(&id) { "" } else { &pod.status.nominated_node_name }
    }

    /// Clears the nominations of pods with a lower priority than the preemptor on its node, and requeues those pods.
    fn clear_lower_nominations(&mut self, preemptor: PodId, node: usize) {
        let priority = self.cache.signature_of(preemptor).map_or(0, |signature| signature.priority);
        let mut cleared = Vec::new();
        for id in self.nominated_pods.get(&node).into_iter().flatten().copied() {
            let is_lower = self.cache.signature_of(id).is_some_and(|signature| signature.priority < priority)
                && !self.is_prebinding(id);
            let Some(info) = self.cache.pods[id as usize].as_mut().filter(|_| is_lower) else { continue };
            if !self.cleared_nominations.insert(id) {
                continue;
            }
            let state = info
                .queue_state
                .unwrap_or_else(|| QueueState::after_attempt(None, QueueingHint::NONE, self.now));
            info.queue_state =
                Some(QueueState { nominated_node: None, is_requeued: true, has_exact_hint: true, ..state });
            cleared.push((id, info.object.clone()));
        }
        for (id, object) in cleared {
            self.write_nomination(id, object, "");
        }
    }

    /// Deletes the victims of a candidate, each with a `DisruptionTarget` condition and a `Preempted` Event.
    fn preempt(
        &mut self,
        preemptor: PodId,
        object: &Object,
        pod: &Pod,
        node: usize,
        candidate: &PreemptionCandidate,
    ) {
        let time = Seconds(self.now).to_string();
        for id in &candidate.victims {
            let Some(info) = self.cache.pods[*id as usize].as_mut() else { continue };
            info.is_victim = true;
            self.cache.victims.push((*id, preemptor));
            let victim = &info.object;
            let message =
                format!("{}: preempting to accommodate a higher priority pod", pod.spec.scheduler_name);
            let condition = value!({
                "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": (message), "lastProbeTime": null, "lastTransitionTime": (time.as_str()),
                "observedGeneration": (Some(victim.meta().generation).filter(|generation| *generation > 0)),
            });
            let patch = value!({"conditions": [(condition)]});
            self.victim_conditions.push(Write::status(victim, patch).strategic().at_any_revision().into());
            let message =
                format!("Preempted by pod {} on node {}", object.meta().uid, self.cache.nodes[node].name);
            let event = InvolvedObject::new(victim, "v1", "Pod")
                .normal("Preempted", message)
                .with_action("Preempting");
            self.victim_deletions
                .push(Action::from(Write::delete(victim)).on_done(with_reporter(event, object)));
        }
    }

    /// Reserves resources for a nominated pod on its node.
    fn reserve_nominated(&mut self, id: PodId) {
        if self.cache.pod(id).is_some_and(|info| info.node.is_none())
            && let Some(node) = self.nominated_node(id)
        {
            // A pod in PreBind is assumed there: other pods may depend on it.
            if self.is_prebinding(id) {
                self.cache.assign(id, node);
                self.cache.assumed.push(id);
            } else {
                self.assume_nominated(id, node);
            }
        }
    }

    pub(super) fn queue_state_mut(&mut self, id: PodId) -> Option<&mut QueueState> {
        self.cache.pods[id as usize].as_mut()?.queue_state.as_mut()
    }

    /// Returns the source of random numbers for a pod.
    pub(super) fn seed_of(&self, object: &Object) -> Seed {
        Seed(self.seed.0 ^ hash_name(&object.meta().uid))
    }

    /// `true` if a pod has a node and waits for its volumes or devices there.
    fn is_prebinding(&self, id: PodId) -> bool {
        let state = self.cache.pod(id).and_then(|info| info.queue_state);
        state.is_some_and(|state| state.prebind_since.is_some())
    }

    /// Releases the resources that are reserved for a pod, so that its own reservation does not reject it.
    pub(super) fn release_reservation(&mut self, id: PodId) {
        if self.cache.pod(id).is_some_and(|info| !info.is_bound) {
            self.cache.unassign(id);
        }
    }

    fn assume_nominated(&mut self, id: PodId, node: usize) {
        self.cache.nominate(id, node);
        self.cache.assumed.push(id);
    }
}

/// Sets the reporter of an Event to the `schedulerName` of the pod.
pub(super) fn with_reporter(event: EventRecord, pod: &Object) -> EventRecord {
    match pod.view::<Pod>().map(|pod| pod.spec.scheduler_name.as_str()) {
        Some(name) if !name.is_empty() && name != DEFAULT_SCHEDULER_NAME => event.reported_by(name),
        _ => event,
    }
}

/// Collects the reasons why no node is feasible, and searches for a preemption candidate.
fn try_preemption(
    evaluator: &PreemptionEvaluator<'_>,
    nominated_name: &str,
    note: &str,
    results: &mut FilterScoreCache,
    cache: &mut SchedulerCache,
) -> (FitError, PreemptionOutcome) {
    if let Some(known) = results.cached_fit_error(cache) {
        return (known.clone(), PreemptionOutcome::NotHelpful);
    }
    let mut error = selection::diagnose(results, cache);
    if cache.node_count == 0 {
        return (error, PreemptionOutcome::NotHelpful);
    }
    let (outcome, message) = match evaluator.find_ineligibility(nominated_name, results, cache) {
        Some(reason) => (PreemptionOutcome::NotEligible, reason.to_owned()),
        None => match evaluator.select_candidate(results, cache) {
            Ok((node, candidate)) => {
                let count = candidate.victims.len() + candidate.terminating_victims;
                let message = format!(
                    "found a potential placement for pod on node {}, preempting {count} victims",
                    cache.nodes[node].name
                );
                (PreemptionOutcome::Candidate(node, candidate), message)
            }
            Err(message) => (PreemptionOutcome::NotHelpful, message),
        },
    };
    error.message = format!("{} {note}preemption: {message}", error.message);
    if matches!(outcome, PreemptionOutcome::NotHelpful) {
        results.cache_fit_error(&error, cache);
    }
    (error, outcome)
}
