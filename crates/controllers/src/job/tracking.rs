//! Counting of pods without loss, and the status of a Job.

use std::collections::BTreeSet;

use setpoint_api::Time;
use setpoint_reconcile::{Action, EventRecord, int32};
use setpoint_views::job::JobStatus;
use setpoint_views::{Condition, condition};

use super::policy::Meaning;
use super::sync::{Sync, Verdict};
use super::{TRACKING, TrackedPod, UNCOUNTED_MAX};
use crate::owners::ACTS_MAX;
use crate::pods;

/// Result of counting.
pub(super) struct Tracked {
    /// New status.
    pub status: JobStatus,
    /// Event to emit when the status is written.
    pub said: Option<EventRecord>,
    /// Events to emit in any case.
    pub notes: Vec<EventRecord>,
    /// Pods that lose their finalizer once the status is written.
    pub counted: Vec<Action>,
}

impl Sync<'_> {
    /// Counts finished pods, and computes the status.
    pub fn track(&self, verdict: Option<&Verdict>) -> Tracked {
        let mut status = self.observed();
        let mut said = None;
        if verdict.is_none() && !self.object.meta().is_deleted() {
            said = self.note_rest(&mut status);
        }
        self.settle(&mut status);
        let (counted, is_all) = self.count_ended(&mut status, verdict);
        let mut notes = Vec::new();
        if let Some(verdict) = verdict {
            let is_over = is_all && counted.is_empty() && self.is_empty(&status);
            said = self.conclude(&mut status, verdict, is_over, &mut notes);
        }
        let counted = counted.into_iter().map(|pod| self.let_go(&pod)).collect();
        Tracked { status, said, notes, counted }
    }

    /// Removes the finalizer of a counted pod. A pod that is removed uncounted may have finished meanwhile;
    /// then the write conflicts, and the pod is counted.
    fn let_go(&self, pod: &TrackedPod<'_>) -> Action {
        if pod.has_succeeded() || self.has_failed(pod) {
            pods::remove_finalizer(pod.object, TRACKING)
        } else {
            pods::remove_finalizer_unchanged(pod.object, TRACKING)
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
    fn note_rest(&self, status: &mut JobStatus) -> Option<EventRecord> {
        let subject = self.owner.subject();
        if self.job.spec.suspend {
            let changed = ensure(status, "Suspended", "True", "JobSuspended", "Job suspended", self.now);
            return changed.then(|| {
                status.start_time = None;
                subject.normal("Suspended", "Job suspended")
            });
        }
        let changed = ensure(status, "Suspended", "False", "JobResumed", "Job resumed", self.now);
        changed.then(|| {
            status.start_time = Some(self.now);
            subject.normal("Resumed", "Job resumed")
        })
    }

    /// Converts uncounted pods that have lost their finalizer into counts.
    fn settle(&self, status: &mut JobStatus) {
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
    fn count_ended(&self, status: &mut JobStatus, verdict: Option<&Verdict>) -> (Vec<TrackedPod<'_>>, bool) {
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        let named = |uids: &'_ [Box<str>]| uids.iter().cloned().collect::<BTreeSet<Box<str>>>();
        let (succeeded, failed) = (named(&self.uncounted.succeeded), named(&self.uncounted.failed));
        let awaited: BTreeSet<usize> =
            self.indexes.iter().flat_map(|state| state.last_failed.values().copied()).collect();
        let mut counted = Vec::new();
        let mut new_indexes = 0;
        for (at, pod) in self.pods.iter().enumerate().filter(|(_, pod)| pod.is_tracked) {
            if !self.can_go(pod, awaited.contains(&at), verdict.is_some()) {
                continue;
            }
            counted.push(*pod);
            let failed_with_the_job = verdict.is_some_and(|verdict| !verdict.is_success);
            if pod.has_succeeded() && !failed.contains(pod.uid()) {
                if self.indexes.is_some() {
                    new_indexes += 1;
                } else if !succeeded.contains(pod.uid()) {
                    uncounted.succeeded.push(pod.uid().into());
                }
            } else if (self.has_failed(pod) || failed_with_the_job)
                && !failed.contains(pod.uid())
                && self.is_valid(pod)
                && self.meaning(pod) != Meaning::Ignored
            {
                uncounted.failed.push(pod.uid().into());
            }
            let named = new_indexes + uncounted.succeeded.len() + uncounted.failed.len();
            if named >= UNCOUNTED_MAX || counted.len() >= ACTS_MAX {
                return (counted, false);
            }
        }
        (counted, true)
    }

    /// `true` if a counted pod no longer needs its finalizer. A pod that awaits its replacement still needs
    /// it.
    fn can_go(&self, pod: &TrackedPod<'_>, awaits_replacement: bool, is_decided: bool) -> bool {
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
    fn conclude(
        &self,
        status: &mut JobStatus,
        verdict: &Verdict,
        is_over: bool,
        notes: &mut Vec<EventRecord>,
    ) -> Option<EventRecord> {
        let (interim, last) =
            if verdict.is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
        let Verdict { reason, message, .. } = verdict;
        if !condition(&status.conditions, interim).is_some_and(Condition::is_true) {
            ensure(status, interim, "True", reason, message, self.now);
            return None;
        }
        if !is_over {
            return None;
        }
        ensure(status, last, "True", reason, message, self.now);
        let subject = self.owner.subject();
        if !verdict.is_success {
            return Some(subject.warning(known_reason(reason), message.clone()));
        }
        // A start in the future is from before the clock was set back. Validation rejects a completion before
        // the start.
        status.completion_time = Some(status.start_time.map_or(self.now, |start| start.max(self.now)));
        if self.job.spec.completions.is_some_and(|wanted| status.succeeded.unwrap_or(0) > wanted) {
            let message = "Too many succeeded pods running after completion count reached";
            notes.push(subject.warning("TooManySucceededPods", message));
        }
        Some(subject.normal("Completed", "Job completed"))
    }
}

/// Sets a condition, and returns `true` if it changes. A condition with status `False` is not added.
fn ensure(status: &mut JobStatus, kind: &str, is: &str, reason: &str, message: &str, now: Time) -> bool {
    let new = Condition { last_probe_time: Some(now), ..Condition::new(kind, is, reason, message, now) };
    match status.conditions.iter_mut().find(|condition| condition.kind == kind) {
        Some(old) if old.status == is && old.reason == reason && &*old.message == message => false,
        Some(old) => {
            *old = new;
            true
        }
        None if is == "False" => false,
        None => {
            status.conditions.push(new);
            true
        }
    }
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
    REASONS.iter().find(|known| **known == reason).copied().unwrap_or("Failed")
}
