//! Job controller: runs pods until enough of them have succeeded.
//!
//! Every pod has a finalizer until it is counted. A finished pod is first listed in
//! `status.uncountedTerminatedPods`; then its finalizer is removed; then the entry is replaced by an
//! increment of the count. Wherever the loop stops in between, no pod is counted twice and none is lost. The
//! decision (`SuccessCriteriaMet`, `FailureTarget`) is written before pods are deleted for it, and becomes
//! final (`Complete`, `Failed`) when none is left.
//!
//! A pod with the finalizer whose Job is gone or finished is a key of its own: its finalizer is removed.

mod backoff;
mod indexes;
mod manage;
mod policy;
mod sync;
mod tracking;

use setpoint_api::{Key, Time};
use setpoint_reconcile::planner::enqueue_owner;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader};
use setpoint_views::job::Job;
use setpoint_views::pod::Pod;

use crate::indexes::JOB_TRACKED_PODS;
use crate::pods;
pub use backoff::Failures;
use sync::Sync;

/// Finalizer of a pod that is not counted yet.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label with a pod's index.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation with the number of earlier failures of a pod's index.
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation with the number of earlier failures that do not count.
const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Maximum number of uncounted pods in a status.
const UNCOUNTED_MAX: usize = 500;
/// Maximum number of pods that one plan creates or deletes.
const PODS_PER_PLAN_MAX: usize = 500;

/// The Job controller.
pub struct JobController;

/// Pod of a Job.
#[derive(Clone, Copy)]
struct TrackedPod<'a> {
    object: &'a Object,
    pod: &'a Pod,
    /// `true` if it has the finalizer, or gets it by adoption.
    is_tracked: bool,
    /// Completion index; `None` without one.
    index: Option<i64>,
}

impl<'a> TrackedPod<'a> {
    fn new((object, pod): pods::PodRef<'a>, uid: &str) -> TrackedPod<'a> {
        let index = annotation_number(object, COMPLETION_INDEX);
        let is_tracked =
            object.meta().has_finalizer(TRACKING_FINALIZER) || !object.meta().is_controlled_by(uid);
        TrackedPod { object, pod, is_tracked, index }
    }

    fn is_active(&self) -> bool {
        pods::is_active(&(self.object, self.pod))
    }

    fn is_terminating(&self) -> bool {
        self.object.meta().is_deleted() && !self.pod.is_finished()
    }

    fn has_succeeded(&self) -> bool {
        self.pod.status.phase == "Succeeded"
    }

    fn uid(&self) -> &'a str {
        &self.object.meta().uid
    }

    /// Number of earlier failures of its index, counted or ignored.
    fn failures_before(&self) -> i64 {
        self.counted_failures_before() + self.ignored_failures_before()
    }

    fn counted_failures_before(&self) -> i64 {
        annotation_number(self.object, INDEX_FAILURES).unwrap_or(0)
    }

    fn ignored_failures_before(&self) -> i64 {
        annotation_number(self.object, INDEX_IGNORED_FAILURES).unwrap_or(0)
    }
}

/// Value of a numeric annotation.
fn annotation_number(object: &Object, annotation: &str) -> Option<i64> {
    let number: i64 = object.meta().annotations.get(annotation)?.parse().ok()?;
    (0..=i64::from(i32::MAX)).contains(&number).then_some(number)
}

impl Planner for JobController {
    type Memo = Failures;

    fn name(&self) -> &'static str {
        "job-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary(Job::RESOURCE),
            Watch::mapped(Job::RESOURCE, enqueue_orphans),
            Watch::mapped("pods", enqueue_for_pod),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let tracked = world.by_index(JOB_TRACKED_PODS, "").filter(|pod| is_orphan(pod, world));
        world.all(Job::RESOURCE).chain(tracked).map(|object| object.key().clone()).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Failures>,
        now: Time,
        _: Seed,
    ) -> Plan<Failures> {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        if key.resource().as_str() == Pod::RESOURCE {
            if is_orphan(object, world) {
                plan.stage([pods::remove_finalizer(object, TRACKING_FINALIZER)]);
            }
            return plan;
        }
        let Some(job) = object.view::<Job>() else { return plan };
        let is_known_mode = matches!(job.spec.completion_mode.as_str(), "" | "NonIndexed" | "Indexed");
        if job.spec.is_managed_externally() || job.status.finished_condition().is_some() || !is_known_mode {
            return plan;
        }
        Sync::new(world, object, job, seen.memo.clone(), now).plan()
    }
}

/// `true` if a pod has the finalizer and no Job will count it.
fn is_orphan(pod: &Object, world: &WorldReader<'_>) -> bool {
    let meta = pod.meta();
    if !meta.has_finalizer(TRACKING_FINALIZER) {
        return false;
    }
    let Some(owner) = meta.controller() else { return meta.is_deleted() || !is_adoptable(pod, world) };
    if &*owner.kind != "Job" || owner.group() != "batch" {
        return false;
    }
    let owner =
        world.view::<Job>(&meta.namespace, &owner.name).filter(|(job, _)| job.meta().uid == owner.uid);
    owner
        .is_none_or(|(_, job)| !job.spec.is_managed_externally() && job.status.finished_condition().is_some())
}

/// `true` if a Job is about to adopt a pod.
fn is_adoptable(pod: &Object, world: &WorldReader<'_>) -> bool {
    let jobs = world.in_namespace(Job::RESOURCE, &pod.meta().namespace);
    let mut live = jobs.filter(|job| !job.meta().is_deleted()).filter_map(|job| job.view::<Job>());
    live.any(|job| {
        job.status.finished_condition().is_none()
            && !job.spec.is_managed_externally()
            && job.spec.selector.matches(|name| pod.meta().labels.get(name))
    })
}

/// Enqueues the pods that a finished or deleted Job may leave behind.
fn enqueue_orphans(job: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for pod in world.owned(&job.meta().uid, Pod::RESOURCE) {
        if is_orphan(pod, world) {
            enqueue(pod.key().clone());
        }
    }
}

/// Enqueues the Job that controls a pod, or every Job that selects an orphan, and the pod itself.
fn enqueue_for_pod(pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if is_orphan(pod, world) {
        enqueue(pod.key().clone());
    }
    if pod.meta().controller().is_some() {
        return enqueue_owner(pod, "Job", Job::RESOURCE, enqueue);
    }
    for job in world.in_namespace(Job::RESOURCE, &pod.meta().namespace) {
        let selects = |job: &Job| job.spec.selector.matches(|name| pod.meta().labels.get(name));
        if job.view::<Job>().is_some_and(selects) {
            enqueue(job.key().clone());
        }
    }
}

#[cfg(test)]
mod tests;
