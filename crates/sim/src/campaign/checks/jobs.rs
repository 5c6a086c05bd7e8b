//! Job counts are exact: no pod is counted that did not end, none twice, and in the end none is missing.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_reconcile::views::condition;
use setpoint_reconcile::views::job::Job;
use setpoint_reconcile::{Object, World};

use super::{Check, Scene, pod, size};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// What really became of the pods of a Job, by their identities.
#[derive(Default)]
struct Ended {
    /// With the index, if they have one.
    succeeded: BTreeMap<Box<str>, Option<String>>,
    failed: BTreeSet<Box<str>>,
    /// Those that somebody deleted before they ended.
    deleted: BTreeSet<Box<str>>,
    /// All there ever were.
    all: BTreeSet<Box<str>>,
}

/// See the module.
#[derive(Default)]
pub struct CountsAreExact {
    ended: BTreeMap<Box<str>, Ended>,
}

impl CountsAreExact {
    fn note(&mut self, object: &Object, is_gone: bool) {
        let Some(owner) = object.meta().controller().filter(|owner| &*owner.kind == "Job") else { return };
        let ended = self.ended.entry(owner.uid.clone()).or_default();
        let uid = object.meta().uid.clone();
        ended.all.insert(uid.clone());
        let phase = pod(object).map_or("", |pod| pod.status.phase.as_str());
        // Where a pod was counted before, it does not matter what becomes of it.
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

    fn judge(&self, object: &Object, marks: &mut Marks) -> Result<(), String> {
        let (Some(job), Some(ended)) = (object.view::<Job>(), self.ended.get(&object.meta().uid)) else {
            return Ok(());
        };
        let status = &job.status;
        let succeeded = status.succeeded.unwrap_or(0);
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let really = size(ended.succeeded_count(job));
        let also = size(uncounted.succeeded.len());
        if succeeded + also > really {
            return Err(format!(
                "{} says {succeeded} pods succeeded, and {also} more; {really} did",
                object.key()
            ));
        }
        let failed = status.failed.unwrap_or(0) + size(uncounted.failed.len());
        // When a Job fails, the pods fail with it that are still at work.
        let all_fail = condition(&status.conditions, "FailureTarget").is_some();
        let most = if all_fail { ended.all.len() } else { ended.failed.union(&ended.deleted).count() };
        let most = size(most);
        if failed > most {
            return Err(format!("{} says {failed} pods failed, {most} did", object.key()));
        }
        if failed > size(ended.failed.len()) {
            marks.note("job counted a pod that was deleted");
        }
        if status.finish().is_some_and(|finish| finish.kind == "Failed") {
            marks.note("job failed for good");
        }
        Ok(())
    }
}

impl Ended {
    /// How many successes a Job can have had: of those with indexes, each counts once.
    fn succeeded_count(&self, job: &Job) -> usize {
        if job.spec.is_indexed() {
            self.succeeded.values().collect::<BTreeSet<_>>().len()
        } else {
            self.succeeded.len()
        }
    }
}

impl Check for CountsAreExact {
    fn see(&mut self, change: &Change, _: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        if change.is_of("pods") {
            // Tracked while it was, or tracked still: what counts is what it was when it could be counted.
            if let Some(before) = &change.before {
                self.note(before, change.after.is_none());
            }
            if let Some(after) = &change.after {
                self.note(after, false);
            }
        }
        if &*change.by == "cronjob-controller" && replaced_or_skipped(change) {
            marks.note("cron job skipped or replaced a run");
        }
        match &change.after {
            Some(after) if change.is_of("jobs.batch") => self.judge(after, marks),
            _ => Ok(()),
        }
    }

    fn finally(&self, world: &World) -> Result<(), String> {
        for (object, job) in world.views::<Job>() {
            let Some(ended) = self.ended.get(&object.meta().uid) else { continue };
            let said = job.status.succeeded.unwrap_or(0) + job.status.failed.unwrap_or(0);
            let lost = if job.spec.is_indexed() {
                // Several pods may have succeeded for one index; pods that were deleted may be counted as failed.
                let clean = ended.succeeded.iter().filter(|(uid, _)| !ended.deleted.contains(*uid));
                let indexes: BTreeSet<_> = clean.map(|(_, index)| index).collect();
                job.status.succeeded.unwrap_or(0) < size(indexes.len())
            } else {
                let kept = ended.succeeded.keys().chain(&ended.failed).collect::<BTreeSet<_>>();
                said < size(kept.len())
            };
            if lost {
                let (good, bad) = (ended.succeeded.len(), ended.failed.len());
                let key = object.key();
                return Err(format!(
                    "{key} counts {said} pods, and {good} succeeded and {bad} failed: {:?}",
                    job.status
                ));
            }
        }
        Ok(())
    }
}

/// Whether a CronJob did not simply start a run.
fn replaced_or_skipped(change: &Change) -> bool {
    let is_running = |object: &Object| object.view::<Job>().is_some_and(|job| job.status.finish().is_none());
    let replaced = change.is_deletion() && change.before.as_ref().is_some_and(is_running);
    let told = change.is_of("events").then(|| change.object().value());
    replaced || told.is_some_and(|event| event.str_at(&["reason"]) == "JobAlreadyActive")
}
