//! Job counts: no pod is counted that did not finish, none twice, and in the end none is missing.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::condition;
use setpoint_views::job::Job;

use super::{Check, CommitContext, pod, size};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// UIDs of the pods of a Job by their fate.
#[derive(Default)]
struct FinishedPods {
    /// With the completion index, if there is one.
    succeeded: BTreeMap<Box<str>, Option<String>>,
    failed: BTreeSet<Box<str>>,
    /// Deleted before they finished.
    deleted: BTreeSet<Box<str>>,
    /// All pods of the Job.
    all: BTreeSet<Box<str>>,
}

/// Check of Job statuses.
#[derive(Default)]
pub struct JobCounts {
    ended: BTreeMap<Box<str>, FinishedPods>,
}

impl JobCounts {
    fn record(&mut self, object: &Object, is_gone: bool) {
        let Some(owner) = object.meta().controller().filter(|owner| &*owner.kind == "Job") else { return };
        let ended = self.ended.entry(owner.uid.clone()).or_default();
        let uid = object.meta().uid.clone();
        ended.all.insert(uid.clone());
        let phase = pod(object).map_or("", |pod| pod.status.phase.as_str());
        // A pod without the finalizer was counted before.
        let is_tracked = object.meta().has_finalizer(TRACKING);
        match phase {
            "Succeeded" if is_tracked => {
                let index = object.meta().annotations.get(INDEX).map(str::to_owned);
                ended.succeeded.entry(uid).or_insert(index);
            }
            "Failed" if is_tracked => drop(ended.failed.insert(uid)),
            _ if object.meta().is_deleted() || is_gone => drop(ended.deleted.insert(uid)),
            _ => {}
        }
    }

    fn check_status(&self, object: &Object, marks: &mut CoverageMarks) -> Result<(), String> {
        let (Some(job), Some(ended)) = (object.view::<Job>(), self.ended.get(&object.meta().uid)) else {
            return Ok(());
        };
        let status = &job.status;
        let succeeded = status.succeeded.unwrap_or(0);
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let actual = size(ended.succeeded_count(job));
        let uncounted_count = size(uncounted.succeeded.len());
        if succeeded + uncounted_count > actual {
            return Err(format!(
                "{} reports {succeeded} pods succeeded and {uncounted_count} uncounted, actual {actual}",
                object.key()
            ));
        }
        let failed = status.failed.unwrap_or(0) + size(uncounted.failed.len());
        // Running pods of a failed Job are counted as failed.
        let all_fail = condition(&status.conditions, "FailureTarget").is_some();
        let max = if all_fail { ended.all.len() } else { ended.failed.union(&ended.deleted).count() };
        let max = size(max);
        if failed > max {
            return Err(format!("{} reports {failed} failed pods, at most {max} failed", object.key()));
        }
        if failed > size(ended.failed.len()) {
            marks.record("job counted a pod that was deleted");
        }
        if status.finished_condition().is_some_and(|finish| finish.kind == "Failed") {
            marks.record("job failed");
        }
        Ok(())
    }
}

impl FinishedPods {
    /// Number of successes that the Job may count: an index counts once.
    fn succeeded_count(&self, job: &Job) -> usize {
        if job.spec.is_indexed() {
            self.succeeded.values().collect::<BTreeSet<_>>().len()
        } else {
            self.succeeded.len()
        }
    }
}

impl Check for JobCounts {
    fn check_change(
        &mut self,
        change: &CommitChange,
        _: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        if change.is_of("pods") {
            // The state that counts is the last one with the finalizer, which may be that before or after the change.
            if let Some(before) = &change.before {
                self.record(before, change.after.is_none());
            }
            if let Some(after) = &change.after {
                self.record(after, false);
            }
        }
        if &*change.by == "cronjob-controller" && has_replaced_or_skipped_run(change) {
            marks.record("cron job skipped or replaced a run");
        }
        match &change.after {
            Some(after) if change.is_of("jobs.batch") => self.check_status(after, marks),
            _ => Ok(()),
        }
    }

    fn check_final(&self, world: &WorldReader<'_>) -> Result<(), String> {
        for (object, job) in world.views::<Job>() {
            let Some(ended) = self.ended.get(&object.meta().uid) else { continue };
            let counted = job.status.succeeded.unwrap_or(0) + job.status.failed.unwrap_or(0);
            let is_missing = if job.spec.is_indexed() {
                // Several pods may have succeeded for one index, and deleted pods may be counted as failed.
                let clean = ended.succeeded.iter().filter(|(uid, _)| !ended.deleted.contains(*uid));
                let indexes: BTreeSet<_> = clean.map(|(_, index)| index).collect();
                job.status.succeeded.unwrap_or(0) < size(indexes.len())
            } else {
                let kept = ended.succeeded.keys().chain(&ended.failed).collect::<BTreeSet<_>>();
                counted < size(kept.len())
            };
            if is_missing {
                let (good, bad) = (ended.succeeded.len(), ended.failed.len());
                let key = object.key();
                return Err(format!(
                    "{key} counts {counted} pods, actually {good} succeeded and {bad} failed: {:?}",
                    job.status
                ));
            }
        }
        Ok(())
    }
}

/// `true` if a CronJob replaced or skipped a run.
fn has_replaced_or_skipped_run(change: &CommitChange) -> bool {
    let is_running =
        |object: &Object| object.view::<Job>().is_some_and(|job| job.status.finished_condition().is_none());
    let replaced = change.is_deletion() && change.before.as_ref().is_some_and(is_running);
    let event = change.is_of("events").then(|| change.object().value());
    replaced || event.is_some_and(|event| event.str_at(&["reason"]) == "JobAlreadyActive")
}
