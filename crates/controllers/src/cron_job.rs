//! CronJob controller: creates Jobs by a schedule.
//!
//! The name of a Job follows from its scheduled time, so no time starts two Jobs, whichever state is lost. Of
//! missed times only the last one is started.

mod schedule;
mod time_zone;

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::kinds::batch::schedule::Schedule;
use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::planner::enqueue_owner;
use setpoint_reconcile::{
    Action, EventRecord, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write,
};
use setpoint_views::cron_job::{CronJob, CronJobSpec, CronJobStatus, ObjectReference};
use setpoint_views::job::Job;

use crate::event_dedup;
use crate::pods::Owner;
use schedule::ZonedSchedule;
use time_zone::TimeZone;

/// Annotation of a Job with its scheduled time.
const SCHEDULED_TIME_ANNOTATION: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Delay after a scheduled time before it is checked.
const CHECK_DELAY: Duration = Duration::from_millis(100);

/// The CronJob controller.
pub struct CronJobController;

impl Planner for CronJobController {
    /// Events emitted by the last plan: they are not repeated while they hold.
    type Memo = Vec<EventRecord>;

    fn name(&self) -> &'static str {
        "cronjob-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::primary(CronJob::RESOURCE),
            Watch::mapped(Job::RESOURCE, |job, _, enqueue| {
                enqueue_owner(job, "CronJob", CronJob::RESOURCE, enqueue);
            }),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Vec<EventRecord>>,
        now: Time,
        _: Seed,
    ) -> Plan<Vec<EventRecord>> {
        let Some(object) = world.get(key) else { return Plan::default() };
        let Some(cron) = object.view::<CronJob>() else { return Plan::default() };
        let mut sync = CronJobSync::new(world, object, cron, now);
        sync.sync_active_jobs();
        let mut plan = Plan::default();
        if !object.meta().is_deleted() {
            sync.sync_schedule(&mut plan);
        }
        if sync.status != cron.status {
            plan.stage([Action::from(Write::status(object, value_of(&sync.status)))]);
        }
        plan.stage(sync.cleanup_finished_jobs());
        plan.events = event_dedup::new_events(&sync.events, &seen.memo);
        plan.memo = sync.events;
        plan
    }
}

/// Sync context of one CronJob.
struct CronJobSync<'a> {
    world: &'a WorldReader<'a>,
    owner: Owner<'a>,
    spec: &'a CronJobSpec,
    jobs: Vec<(&'a Object, &'a Job)>,
    status: CronJobStatus,
    events: Vec<EventRecord>,
    now: Time,
}

impl<'a> CronJobSync<'a> {
    fn new(world: &'a WorldReader<'a>, object: &'a Object, cron: &'a CronJob, now: Time) -> CronJobSync<'a> {
        let uid = &object.meta().uid;
        let jobs = world.owned(uid, Job::RESOURCE).filter(|job| job.meta().is_controlled_by(uid));
        CronJobSync {
            world,
            owner: Owner { object, api_version: "batch/v1", kind: "CronJob" },
            spec: &cron.spec,
            jobs: jobs.filter_map(|job| Some((job, job.view()?))).collect(),
            status: cron.status.clone(),
            events: Vec::new(),
            now,
        }
    }

    fn record_warning(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(self.owner.subject().warning(reason, message));
    }

    fn record_normal(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(self.owner.subject().normal(reason, message));
    }

    /// Name of the Job of a scheduled time.
    fn job_name(&self, time: Time) -> String {
        format!("{}-{}", self.owner.object.meta().name, time.0.div_euclid(60_000_000))
    }

    /// Updates the list of active Jobs.
    fn sync_active_jobs(&mut self) {
        let newest = self.status.last_schedule_time.map(|time| self.job_name(time));
        // The status may list many Jobs.
        let listed: BTreeSet<String> =
            self.status.active.iter().map(|reference| reference.uid.clone()).collect();
        let mut finished: BTreeSet<&str> = BTreeSet::new();
        for (object, job) in self.jobs.clone() {
            let meta = object.meta();
            let is_listed = listed.contains(&*meta.uid);
            match job.status.finished_condition() {
                Some(finish) => {
                    if is_listed {
                        finished.insert(&meta.uid);
                        let message = format!("Saw completed job: {}, condition: {}", meta.name, finish.kind);
                        self.record_normal("SawCompletedJob", message);
                    }
                    let succeeded = job.status.completion_time.filter(|_| finish.kind == "Complete");
                    self.status.last_successful_time = self.status.last_successful_time.max(succeeded);
                }
                None if is_listed => {}
                None if newest.as_deref() == Some(&*meta.name) => self.status.active.push(reference(object)),
                None => {
                    let name = &meta.name;
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.record_warning("UnexpectedJob", message);
                }
            }
        }
        self.status.active.retain(|reference| !finished.contains(&*reference.uid));
        let exists = |reference: &ObjectReference| {
            self.world.find(Job::RESOURCE, &reference.namespace, &reference.name).is_some()
        };
        let active = std::mem::take(&mut self.status.active);
        let (existing, missing): (Vec<ObjectReference>, Vec<ObjectReference>) =
            active.into_iter().partition(exists);
        self.status.active = existing;
        for one in missing {
            self.record_normal("MissingJob", format!("Active job went missing: {}", one.name));
        }
    }

    /// Starts the Job that is due.
    fn sync_schedule(&mut self, plan: &mut Plan<Vec<EventRecord>>) {
        let Some((schedule, zone)) = self.parse_schedule() else { return };
        if let Some(next) = schedule.next(self.now) {
            plan.requeue_at(next.after(CHECK_DELAY));
        }
        let created = self.owner.object.meta().created();
        let mut since = self.status.last_schedule_time.unwrap_or(created);
        if let Some(deadline) = self.spec.starting_deadline_seconds {
            since = since.max(self.now.before(Duration::from_secs(u64::try_from(deadline).unwrap_or(0))));
        }
        let Some((due, has_many_missed)) = schedule.most_recent(since, self.now) else { return };
        if has_many_missed {
            let advice = "Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.record_warning("TooManyMissedTimes", format!("too many missed start times. {advice}"));
        }
        let name = self.job_name(due);
        let is_active = self.status.active.iter().any(|reference| reference.name == name);
        if is_active || self.status.last_schedule_time == Some(due) {
            return;
        }
        if self.spec.concurrency_policy == "Forbid" && !self.status.active.is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            return self.record_normal("JobAlreadyActive", message);
        }
        let namespace = &self.owner.object.meta().namespace;
        if let Some(job) = self.world.find(Job::RESOURCE, namespace, &name) {
            // The Job was created before a crash. If it belongs to another owner, the time is skipped.
            if job.meta().is_controlled_by(&self.owner.object.meta().uid) {
                self.status.last_schedule_time = Some(due);
                self.events
                    .retain(|event| event.reason != "UnexpectedJob" || !event.message.ends_with(&name));
                if job.view::<Job>().is_some_and(|job| job.status.finished_condition().is_none()) {
                    self.status.active.push(reference(job));
                }
            }
            return;
        }
        if self.spec.concurrency_policy == "Replace" {
            let active = std::mem::take(&mut self.status.active);
            let jobs = active
                .iter()
                .filter_map(|reference| self.world.find(Job::RESOURCE, namespace, &reference.name));
            plan.stage(jobs.map(|job| self.delete(job)));
        }
        plan.stage([self.create(&name, due, &zone)]);
        self.status.last_schedule_time = Some(due);
    }

    /// Schedule and time zone; `None` if the CronJob is suspended or invalid.
    fn parse_schedule(&mut self) -> Option<(ZonedSchedule, TimeZone)> {
        let text = &self.spec.schedule;
        let in_schedule = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
        let name = match in_schedule {
            Some(rest) => rest.split(' ').next(),
            None => self.spec.time_zone.as_deref(),
        };
        let Some(zone) = TimeZone::find(name) else {
            let name = name.unwrap_or_default();
            self.record_warning(
                "UnknownTimeZone",
                format!("invalid timeZone: {name:?}: unknown time zone {name}"),
            );
            return None;
        };
        if self.spec.suspend {
            return None;
        }
        if in_schedule.is_some() {
            let page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
            let message = format!(
                "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see {page} for more details"
            );
            self.record_warning("UnsupportedSchedule", message);
        }
        match Schedule::parse(text) {
            Ok(schedule) => Some((ZonedSchedule::new(schedule, zone.clone()), zone)),
            Err(error) => {
                self.record_warning(
                    "UnparseableSchedule",
                    format!("unparseable schedule: {text:?} : {error}"),
                );
                None
            }
        }
    }

    fn create(&self, name: &str, due: Time, zone: &TimeZone) -> Action {
        let template = &self.spec.job_template;
        let part = |name: &str| template.at(&["metadata", name]).cloned().unwrap_or_default();
        let mut annotations = part("annotations");
        annotations.make_map().insert(SCHEDULED_TIME_ANNOTATION, zone.format(due));
        let job = value!({
            "metadata": {
                "name": (name),
                "labels": (part("labels")),
                "annotations": (annotations),
                "ownerReferences": [(self.owner.reference())],
            },
            "spec": (template.get("spec").cloned().unwrap_or_default()),
        });
        let subject = self.owner.subject();
        Action::from(Write::create(Job::RESOURCE, &self.owner.object.meta().namespace, job))
            .on_done(subject.normal("SuccessfulCreate", "Created job {name}"))
            .on_failed(subject.warning("FailedCreate", "Error creating job: {error}"))
    }

    fn delete(&self, job: &Object) -> Action {
        let subject = self.owner.subject();
        Action::from(Write::delete(job).with_propagation("Background"))
            .on_done(subject.normal("SuccessfulDelete", format!("Deleted job {}", job.meta().name)))
            .on_failed(subject.warning("FailedDelete", "Deleted job: {error}"))
    }

    /// Finished Jobs beyond the history limits, oldest first.
    fn cleanup_finished_jobs(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (kind, limit) in [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ] {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let has_finished_as =
                |job: &Job| job.status.finished_condition().is_some_and(|finish| finish.kind == kind);
            let mut ended: Vec<_> = self.jobs.iter().filter(|(_, job)| has_finished_as(job)).collect();
            ended.sort_by_key(|(object, job)| {
                let start = job.status.start_time;
                (start.is_none(), start, object.meta().name.clone())
            });
            let excess = ended.len().saturating_sub(limit);
            let to_delete = ended[..excess].iter().filter(|(job, _)| !job.meta().is_deleted());
            actions.extend(to_delete.map(|(job, _)| self.delete(job)));
        }
        actions
    }
}

/// Reference to a Job in the status.
fn reference(job: &Object) -> ObjectReference {
    let meta = job.meta();
    ObjectReference {
        kind: "Job".to_owned(),
        namespace: meta.namespace.to_string(),
        name: meta.name.to_string(),
        uid: meta.uid.to_string(),
        api_version: "batch/v1".to_owned(),
        resource_version: job.revision().to_string(),
    }
}

#[cfg(test)]
mod tests;
