//! Sync of one Job: counts its pods, decides about its end, creates and deletes pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Action, Object, Plan, WorldReader, Write};
use setpoint_views::job::{Job, JobSpec, UncountedTerminatedPods};
use setpoint_views::{Condition, condition};

use super::backoff::{Failures, finished_at};
use super::indexes::IndexSet;
use super::policy::{self, PodFailureAction};
use super::{PODS_PER_PLAN_MAX, TRACKING_FINALIZER, TrackedPod};
use crate::pods::{self, Owner};

/// Sync context of one Job.
pub(super) struct Sync<'a> {
    pub owner: Owner<'a>,
    pub object: &'a Object,
    pub job: &'a Job,
    /// Pods of the Job, sorted by index.
    pub pods: Vec<TrackedPod<'a>>,
    pub uncounted: UncountedTerminatedPods,
    pub succeeded: i64,
    pub failed: i64,
    pub indexes: Option<IndexState>,
    pub failures: Failures,
    pub now: Time,
    adoptions: Vec<Action>,
}

/// State of the completion indexes of an indexed Job.
pub(super) struct IndexState {
    pub completions: i64,
    pub succeeded: IndexSet,
    /// Failed indexes, if the Job has `backoffLimitPerIndex`.
    pub failed: Option<IndexSet>,
    /// Failed pods that keep their finalizer until they are replaced, because they carry the failure count of
    /// their index. Index to position in the pods.
    pub last_failed: BTreeMap<i64, usize>,
}

/// Terminal state of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TerminalState {
    pub is_success: bool,
    pub reason: String,
    pub message: String,
}

impl TerminalState {
    fn failed(reason: &str, message: &str) -> TerminalState {
        TerminalState { is_success: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn success(reason: &str, message: &str) -> TerminalState {
        TerminalState { is_success: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn from_condition(condition: &Condition) -> TerminalState {
        TerminalState {
            is_success: condition.kind == "SuccessCriteriaMet",
            reason: condition.reason.to_string(),
            message: condition.message.to_string(),
        }
    }
}

/// Pods to create and to delete.
#[derive(Default)]
pub(super) struct JobPodChanges {
    /// Pods that are removed without being counted: the finalizer is removed before the pod is deleted.
    pub removals: Vec<Action>,
    pub deletions: Vec<Action>,
    pub creations: Vec<Action>,
    /// Number of pods that later plans create or delete.
    pub deferred: usize,
    /// Time at which pods that are backing off can be created.
    pub backoff_until: Option<Time>,
}

impl<'a> Sync<'a> {
    pub fn new(
        world: &'a WorldReader<'a>,
        object: &'a Object,
        job: &'a Job,
        memo: Failures,
        now: Time,
    ) -> Sync<'a> {
        let owner = Owner { object, api_version: "batch/v1", kind: "Job" };
        let claimed = pods::claim_tracked_pods(world, &owner, &job.spec.selector, Some(TRACKING_FINALIZER));
        let uid = &object.meta().uid;
        let mut pods: Vec<_> = claimed.pods.into_iter().map(|pod| TrackedPod::new(pod, uid)).collect();
        pods.sort_by_key(|pod| pod.index);
        let mut sync = Sync {
            owner,
            object,
            job,
            pods,
            uncounted: job.status.uncounted_terminated_pods.clone().unwrap_or_default(),
            succeeded: 0,
            failed: 0,
            indexes: None,
            failures: memo,
            now,
            adoptions: claimed.actions,
        };
        sync.count();
        sync
    }

    fn spec(&self) -> &'a JobSpec {
        &self.job.spec
    }

    /// Counts successes and failures: in the status, uncounted, and newly finished.
    fn count(&mut self) {
        let (status, uncounted) = (&self.job.status, &self.uncounted);
        // The status may list many pods.
        let uids = |uids: &'_ [Box<str>]| uids.iter().cloned().collect::<BTreeSet<Box<str>>>();
        let (known_succeeded, known_failed) = (uids(&uncounted.succeeded), uids(&uncounted.failed));
        let is_uncounted = |pod: &TrackedPod<'_>, counted: &BTreeSet<Box<str>>| {
            pod.is_tracked && self.is_valid(pod) && !counted.contains(pod.uid())
        };
        let size = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let succeeded =
            self.pods.iter().filter(|pod| pod.has_succeeded() && is_uncounted(pod, &known_succeeded)).count();
        let new_failed =
            self.pods.iter().filter(|pod| self.has_failed(pod) && is_uncounted(pod, &known_failed));
        let failed =
            new_failed.filter(|pod| self.match_failure_policy(pod) != PodFailureAction::Ignore).count();
        self.succeeded = status.succeeded.unwrap_or(0) + size(succeeded + uncounted.succeeded.len());
        self.failed = status.failed.unwrap_or(0) + size(failed + uncounted.failed.len());
        // A pod that was removed by the controller is no failure, whatever its phase.
        let is_failure = |pod: &&TrackedPod<'_>| {
            let is_plain_failure = pod.pod.status.phase == "Failed" && !pod.object.meta().is_deleted();
            if pod.is_tracked { self.has_failed(pod) } else { is_plain_failure }
        };
        let succeeded = self.pods.iter().filter(|pod| pod.has_succeeded());
        self.failures =
            self.failures.clone().with_finished_pods(succeeded, self.pods.iter().filter(is_failure));
        self.indexes = self.index_state();
        if let Some(indexes) = &self.indexes {
            self.succeeded = indexes.succeeded.total();
        }
    }

    fn index_state(&self) -> Option<IndexState> {
        let spec = self.spec();
        let completions = spec.completions.filter(|_| spec.is_indexed())?;
        let parse = |text: &Option<String>| IndexSet::parse(text.as_deref().unwrap_or_default(), completions);
        let valid = || self.pods.iter().filter(|pod| pod.is_tracked && self.is_valid(pod));
        let succeeded = valid().filter(|pod| pod.has_succeeded()).filter_map(|pod| pod.index);
        let succeeded = parse(&self.job.status.completed_indexes).with_indexes(succeeded);
        let failed = spec.backoff_limit_per_index.map(|limit| {
            let failed = valid().filter(|pod| self.fails_index(pod, limit)).filter_map(|pod| pod.index);
            // A succeeded index stays so, even if another pod of it failed the index.
            let failed = failed.filter(|index| !succeeded.contains(*index));
            parse(&self.job.status.failed_indexes).with_indexes(failed)
        });
        let mut state = IndexState { completions, succeeded, failed, last_failed: BTreeMap::new() };
        if state.failed.is_some() {
            state.last_failed = self.last_failed(&state);
        }
        Some(state)
    }

    fn last_failed(&self, state: &IndexState) -> BTreeMap<i64, usize> {
        let active: BTreeSet<i64> = self.active().filter_map(|pod| pod.index).collect();
        let is_pending = |index: i64| {
            let has_failed = state.failed.as_ref().is_some_and(|failed| failed.contains(index));
            !state.succeeded.contains(index) && !has_failed && !active.contains(&index)
        };
        let mut last = BTreeMap::new();
        for (at, pod) in self.pods.iter().enumerate() {
            let Some(index) = pod.index.filter(|index| is_pending(*index)) else { continue };
            if !pod.is_tracked || !self.is_valid(pod) || !self.has_failed(pod) {
                continue;
            }
            let rank = |pod: &TrackedPod<'_>| (pod.failures_before(), finished_at(pod));
            let latest = last.entry(index).or_insert(at);
            if rank(&self.pods[*latest]) <= rank(pod) {
                *latest = at;
            }
        }
        last
    }

    /// `true` if the pod belongs to the Job: in an indexed Job, if its index is in range.
    pub fn is_valid(&self, pod: &TrackedPod<'_>) -> bool {
        let completions = self.spec().completions.unwrap_or(0);
        !self.spec().is_indexed() || pod.index.is_some_and(|index| index < completions)
    }

    /// `true` if a pod has failed, or counts as failed because it is being deleted.
    pub fn has_failed(&self, pod: &TrackedPod<'_>) -> bool {
        pod.pod.status.phase == "Failed"
            || !self.spec().replaces_only_failed() && pod.object.meta().is_deleted() && !pod.has_succeeded()
    }

    pub fn match_failure_policy(&self, pod: &TrackedPod<'_>) -> PodFailureAction {
        policy::match_failure_policy(self.spec().pod_failure_policy.as_ref(), pod)
    }

    fn fails_index(&self, pod: &TrackedPod<'_>, limit: i64) -> bool {
        self.has_failed(pod)
            && match self.match_failure_policy(pod) {
                PodFailureAction::FailIndex => true,
                PodFailureAction::Ignore => false,
                _ => pod.counted_failures_before() >= limit,
            }
    }

    /// Pods that are pending or running.
    pub fn active(&self) -> impl Iterator<Item = &TrackedPod<'a>> {
        self.pods.iter().filter(|pod| pod.is_active())
    }

    pub fn plan(self) -> Plan<Failures> {
        let mut plan = Plan::<Failures>::default();
        let is_deleted = self.object.meta().is_deleted();
        let mut terminal_state = self.terminal_state();
        let changes = match &terminal_state {
            Some(_) => JobPodChanges {
                deletions: self
                    .active()
                    .take(PODS_PER_PLAN_MAX)
                    .map(|pod| pods::delete(pod.object, &self.owner))
                    .collect(),
                deferred: self.active().count().saturating_sub(PODS_PER_PLAN_MAX),
                ..JobPodChanges::default()
            },
            None if is_deleted => JobPodChanges::default(),
            None => self.manage(),
        };
        if terminal_state.is_none() && self.is_complete(&changes) {
            let message = "Reached expected number of succeeded pods";
            terminal_state = Some(TerminalState::success("CompletionsReached", message));
        }
        let tracked = self.track_status(terminal_state.as_ref());
        plan.events.extend(tracked.events);
        if tracked.status != self.job.status {
            let mut action = Action::from(Write::status(self.object, value_of(&tracked.status)));
            action.done.extend(tracked.status_event);
            plan.stage(self.adoptions);
            plan.stage([action]);
        } else {
            plan.stage(self.adoptions);
        }
        plan.stage(tracked.counted.into_iter().chain(changes.removals));
        // While pods are backing off, the Job is not requeued at once.
        if !changes.deletions.is_empty() || !changes.creations.is_empty() {
            plan.defer(changes.deferred);
        }
        plan.stage(changes.deletions);
        plan.stage(changes.creations);
        for at in changes.backoff_until.into_iter().chain(deadline(self.job, tracked.status.start_time)) {
            if at > self.now {
                plan.requeue_at(at);
            }
        }
        plan.memo = self.failures;
        plan
    }

    /// Terminal state of the Job, if it is reached. An earlier decision stands; failures come before
    /// successes.
    fn terminal_state(&self) -> Option<TerminalState> {
        let true_condition =
            |kind| condition(&self.job.status.conditions, kind).filter(|condition| condition.is_true());
        if let Some(decided) =
            true_condition("SuccessCriteriaMet").or_else(|| true_condition("FailureTarget"))
        {
            return Some(TerminalState::from_condition(decided));
        }
        let fails = self.pods.iter().filter(|pod| self.has_failed(pod)).find_map(|pod| {
            match self.match_failure_policy(pod) {
                PodFailureAction::FailJob(message) => Some(message),
                _ => None,
            }
        });
        if let Some(message) = fails {
            return Some(TerminalState::failed("PodFailurePolicy", &message));
        }
        if self.failed > self.spec().backoff_limit || self.has_exceeded_restarts() {
            let message = "Job has reached the specified backoff limit";
            return Some(TerminalState::failed("BackoffLimitExceeded", message));
        }
        if deadline(self.job, self.job.status.start_time).is_some_and(|deadline| deadline <= self.now) {
            let message = "Job was active longer than specified deadline";
            return Some(TerminalState::failed("DeadlineExceeded", message));
        }
        self.terminal_state_of_indexes()
    }

    fn terminal_state_of_indexes(&self) -> Option<TerminalState> {
        let state = self.indexes.as_ref()?;
        if let Some(failed) = state.failed.as_ref().map(IndexSet::total) {
            if self.spec().max_failed_indexes.is_some_and(|max| failed > max) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return Some(TerminalState::failed("MaxFailedIndexesExceeded", message));
            }
            if failed > 0 && failed + state.succeeded.total() >= state.completions {
                return Some(TerminalState::failed("FailedIndexes", "Job has failed indexes"));
            }
        }
        let policy = self.spec().success_policy.as_ref();
        let message = policy::match_success_policy(policy, state.completions, &state.succeeded)?;
        Some(TerminalState::success("SuccessPolicy", &message))
    }

    /// `true` if container restarts have reached `backoffLimit`, for `restartPolicy: OnFailure`.
    fn has_exceeded_restarts(&self) -> bool {
        if self.spec().template.0.str_at(&["spec", "restartPolicy"]) != "OnFailure" {
            return false;
        }
        let active = self.pods.iter().map(|pod| &pod.pod.status);
        let active = active.filter(|status| matches!(status.phase.as_str(), "Running" | "Pending"));
        let containers =
            active.flat_map(|status| status.container_statuses.iter().chain(&status.init_container_statuses));
        let restarts: i64 = containers.map(|container| container.restart_count).sum();
        restarts > 0 && restarts >= self.spec().backoff_limit
    }

    /// `true` if enough pods have succeeded and none is active, once the work is done.
    fn is_complete(&self, changes: &JobPodChanges) -> bool {
        let is_enough = match self.spec().completions {
            Some(completions) => self.succeeded >= completions,
            None => self.succeeded > 0,
        };
        is_enough && changes.creations.is_empty() && self.active().count() == changes.deletions.len()
    }
}

/// End of `activeDeadlineSeconds`; `None` while the Job is suspended.
fn deadline(job: &Job, start: Option<Time>) -> Option<Time> {
    let limit = job.spec.active_deadline_seconds.filter(|_| !job.spec.suspend)?;
    Some(start?.after(Duration::from_secs(u64::try_from(limit).unwrap_or(0))))
}
