//! Counting of pods without loss, and the status of a Job.

use std::collections::BTreeSet;

use setpoint_api::Time;
use setpoint_reconcile::{Action, EventRecord, int32};
use setpoint_views::job::JobStatus;
use setpoint_views::{Condition, condition};

use super::policy::PodFailureAction;
use super::sync::{Sync, TerminalState};
use super::{TRACKING_FINALIZER, TrackedPod, UNCOUNTED_MAX};
use crate::conditions::ensure_condition;
use crate::owners::CLAIM_ACTIONS_MAX;
use crate::pods;

/// Result of counting.
pub(super) struct TrackedStatus {
    /// New status.
    pub status: JobStatus,
    /// Event to emit when the status is written.
    pub status_event: Option<EventRecord>,
    /// Events to emit in any case.
    pub events: Vec<EventRecord>,
    /// Pods that lose their finalizer once the status is written.
    pub counted: Vec<Action>,
}

impl Sync<'_> {
    /// Counts finished pods, and computes the status.
    pub fn track_status(&self, terminal_state: Option<&TerminalState>) -> TrackedStatus {
        let mut status = self.observed();
        let mut status_event = None;
        if terminal_state.is_none() && !self.object.meta().is_deleted() {
            status_event = self.set_suspended(&mut status);
        }
        self.count_released(&mut status);
        let (counted, is_complete_list) = self.list_finished(&mut status, terminal_state);
        let mut events = Vec::new();
        if let Some(terminal_state) = terminal_state {
            let is_final = is_complete_list && counted.is_empty() && self.is_empty(&status);
            status_event = self.set_terminal_conditions(&mut status, terminal_state, is_final, &mut events);
        }
        let counted = counted.into_iter().map(|pod| self.remove_finalizer(&pod)).collect();
        TrackedStatus { status, status_event, events, counted }
    }

    /// Removes the finalizer of a counted pod. A pod that is removed uncounted may have finished meanwhile;
    /// then the write conflicts, and the pod is counted.
    fn remove_finalizer(&self, pod: &TrackedPod<'_>) -> Action {
        if pod.has_succeeded() || self.has_failed(pod) {
            pods::remove_finalizer(pod.object, TRACKING_FINALIZER)
        } else {
            pods::remove_finalizer_unchanged(pod.object, TRACKING_FINALIZER)
        }
    }

    /// Previous status with the current observations.
    fn observed(&self) -> JobStatus {
        let mut status = self.job.status.clone();
        let size = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let active = self.active().count();
        status.active = (active > 0).then(|| size(active));
        status.ready = Some(size(self.active().filter(|pod| pod.pod.is_ready()).count()));
        status.terminating = Some(size(self.pods.iter().filter(|pod| pod.is_terminating()).count()));
        status.uncounted_terminated_pods.get_or_insert_default();
        if status.start_time.is_none() && !self.job.spec.suspend {
            status.start_time = Some(self.now);
        }
        if let Some(state) = &self.indexes {
            let total = state.succeeded.total();
            status.succeeded = (total > 0).then_some(total);
            status.completed_indexes = (total > 0).then(|| state.succeeded.to_string());
            status.failed_indexes = state.failed.as_ref().map(ToString::to_string);
        }
        status
    }

    /// Sets the condition `Suspended`. A resumed Job gets a new start time.
    fn set_suspended(&self, status: &mut JobStatus) -> Option<EventRecord> {
        let subject = self.owner.subject();
        if self.job.spec.suspend {
            let changed = ensure_condition(
                &mut status.conditions,
                job_condition("Suspended", "True", "JobSuspended", "Job suspended", self.now),
            );
            return changed.then(|| {
                status.start_time = None;
                subject.normal("Suspended", "Job suspended")
            });
        }
        let changed = ensure_condition(
            &mut status.conditions,
            job_condition("Suspended", "False", "JobResumed", "Job resumed", self.now),
        );
        changed.then(|| {
            status.start_time = Some(self.now);
            subject.normal("Resumed", "Job resumed")
        })
    }

    /// Converts uncounted pods that have lost their finalizer into counts.
    fn count_released(&self, status: &mut JobStatus) {
        let tracked: BTreeSet<&str> =
            self.pods.iter().filter(|pod| pod.is_tracked).map(TrackedPod::uid).collect();
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        for (names, number) in
            [(&mut uncounted.succeeded, &mut status.succeeded), (&mut uncounted.failed, &mut status.failed)]
        {
            let before = names.len();
            names.retain(|uid| tracked.contains(&**uid));
            let gone = i64::try_from(before - names.len()).unwrap_or(i64::MAX);
            if gone > 0 {
                *number = Some(int32::saturate(number.unwrap_or(0).saturating_add(gone)));
            }
        }
    }

    /// Lists finished pods as uncounted. Returns those that can lose their finalizer, and `true` if these are
    /// all.
    fn list_finished(
        &self,
        status: &mut JobStatus,
        terminal_state: Option<&TerminalState>,
    ) -> (Vec<TrackedPod<'_>>, bool) {
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        let uids = |uids: &'_ [Box<str>]| uids.iter().cloned().collect::<BTreeSet<Box<str>>>();
        let (succeeded, failed) = (uids(&self.uncounted.succeeded), uids(&self.uncounted.failed));
        let awaiting_replacement: BTreeSet<usize> =
            self.indexes.iter().flat_map(|state| state.last_failed.values().copied()).collect();
        let mut counted = Vec::new();
        let mut new_indexes = 0;
        for (at, pod) in self.pods.iter().enumerate().filter(|(_, pod)| pod.is_tracked) {
            if !self.can_remove_finalizer(pod, awaiting_replacement.contains(&at), terminal_state.is_some()) {
                continue;
            }
            counted.push(*pod);
            let failed_with_the_job = terminal_state.is_some_and(|terminal_state| !terminal_state.is_success);
            if pod.has_succeeded() && !failed.contains(pod.uid()) {
                if self.indexes.is_some() {
                    new_indexes += 1;
                } else if !succeeded.contains(pod.uid()) {
                    uncounted.succeeded.push(pod.uid().into());
                }
            } else if (self.has_failed(pod) || failed_with_the_job)
                && !failed.contains(pod.uid())
                && self.is_valid(pod)
                && self.match_failure_policy(pod) != PodFailureAction::Ignore
            {
                uncounted.failed.push(pod.uid().into());
            }
            let listed = new_indexes + uncounted.succeeded.len() + uncounted.failed.len();
            if listed >= UNCOUNTED_MAX || counted.len() >= CLAIM_ACTIONS_MAX {
                return (counted, false);
            }
        }
        (counted, true)
    }

    /// `true` if a counted pod no longer needs its finalizer. A pod that awaits its replacement still needs
    /// it.
    fn can_remove_finalizer(&self, pod: &TrackedPod<'_>, awaits_replacement: bool, is_decided: bool) -> bool {
        if self.object.meta().is_deleted() || is_decided || pod.has_succeeded() {
            return true;
        }
        self.has_failed(pod) && !awaits_replacement
    }

    /// `true` if the Job can become final: no pod is left to wait for.
    fn is_empty(&self, status: &JobStatus) -> bool {
        let uncounted = status.uncounted_terminated_pods.as_ref();
        let is_counted = uncounted.is_none_or(|names| names.succeeded.is_empty() && names.failed.is_empty());
        is_counted && status.active.is_none() && status.terminating == Some(0)
    }

    /// Sets the interim condition, and the final one when no pod is left.
    fn set_terminal_conditions(
        &self,
        status: &mut JobStatus,
        terminal_state: &TerminalState,
        is_final: bool,
        events: &mut Vec<EventRecord>,
    ) -> Option<EventRecord> {
        let (interim, last) = if terminal_state.is_success {
            ("SuccessCriteriaMet", "Complete")
        } else {
            ("FailureTarget", "Failed")
        };
        let TerminalState { reason, message, .. } = terminal_state;
        if !condition(&status.conditions, interim).is_some_and(Condition::is_true) {
            ensure_condition(
                &mut status.conditions,
                job_condition(interim, "True", reason, message, self.now),
            );
            return None;
        }
        if !is_final {
            return None;
        }
        ensure_condition(&mut status.conditions, job_condition(last, "True", reason, message, self.now));
        let subject = self.owner.subject();
        if !terminal_state.is_success {
            return Some(subject.warning(known_reason(reason), message.clone()));
        }
        // A start in the future is from before the clock was set back. Validation rejects a completion before
        // the start.
        status.completion_time = Some(status.start_time.map_or(self.now, |start| start.max(self.now)));
        if self.job.spec.completions.is_some_and(|completions| status.succeeded.unwrap_or(0) > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            events.push(subject.warning("TooManySucceededPods", message));
        }
        Some(subject.normal("Completed", "Job completed"))
    }
}

/// Condition of a Job, with `lastProbeTime`.
fn job_condition(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Condition {
    Condition { last_probe_time: Some(now), ..Condition::new(kind, status, reason, message, now) }
}

/// Static string of a failure reason.
fn known_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 5] = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "MaxFailedIndexesExceeded",
        "FailedIndexes",
        "PodFailurePolicy",
    ];
    REASONS.iter().find(|listed| **listed == reason).copied().unwrap_or("Failed")
}
