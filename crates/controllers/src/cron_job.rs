//! CronJob controller: creates Jobs by a schedule.
//!
//! The name of a Job follows from its scheduled time, so no time starts two Jobs, whichever state is lost. Of
//! missed times only the last one is started.

mod clock;
mod zone;

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::kinds::batch::schedule::Schedule;
use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::planner::wake_controller;
use setpoint_reconcile::{Act, Note, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::cron_job::{CronJob, CronJobSpec, CronJobStatus, ObjectReference};
use setpoint_views::job::Job;

use crate::pods::Owner;
use crate::said;
use clock::Clock;
use zone::Zone;

/// Annotation of a Job with its scheduled time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Delay after a scheduled time before it is checked.
const DELAY: Duration = Duration::from_millis(100);

/// The CronJob controller.
pub struct CronJobController;

impl Planner for CronJobController {
    /// Events emitted by the last plan: they are not repeated while they hold.
    type Memo = Vec<Note>;

    fn name(&self) -> &'static str {
        "cronjob-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::itself(CronJob::RESOURCE),
            Watch::via(Job::RESOURCE, |job, _, wake| {
                wake_controller(job, "CronJob", CronJob::RESOURCE, wake);
            }),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Vec<Note>>,
        now: Time,
        _: Seed,
    ) -> Plan<Vec<Note>> {
        let Some(object) = world.get(key) else { return Plan::default() };
        let Some(cron) = object.view::<CronJob>() else { return Plan::default() };
        let mut look = Look::new(world, object, cron, now);
        look.track();
        let mut plan = Plan::default();
        if !object.meta().is_deleted() {
            look.schedule(&mut plan);
        }
        if look.status != cron.status {
            plan.stage([Act::from(Write::status(object, value_of(&look.status)))]);
        }
        plan.stage(look.surplus());
        plan.notes = said::news(&look.said, &seen.memo);
        plan.memo = look.said;
        plan
    }
}

/// Sync context of one CronJob.
struct Look<'a> {
    world: &'a WorldReader<'a>,
    owner: Owner<'a>,
    spec: &'a CronJobSpec,
    jobs: Vec<(&'a Object, &'a Job)>,
    status: CronJobStatus,
    said: Vec<Note>,
    now: Time,
}

impl<'a> Look<'a> {
    fn new(world: &'a WorldReader<'a>, object: &'a Object, cron: &'a CronJob, now: Time) -> Look<'a> {
        let uid = &object.meta().uid;
        let jobs = world.owned(uid, Job::RESOURCE).filter(|job| job.meta().is_controlled_by(uid));
        Look {
            world,
            owner: Owner { object, api_version: "batch/v1", kind: "CronJob" },
            spec: &cron.spec,
            jobs: jobs.filter_map(|job| Some((job, job.view()?))).collect(),
            status: cron.status.clone(),
            said: Vec::new(),
            now,
        }
    }

    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.said.push(self.owner.subject().warning(reason, message));
    }

    fn tell(&mut self, reason: &'static str, message: impl Into<String>) {
        self.said.push(self.owner.subject().normal(reason, message));
    }

    /// Name of the Job of a scheduled time.
    fn job_name(&self, time: Time) -> String {
        format!("{}-{}", self.owner.object.meta().name, time.0.div_euclid(60_000_000))
    }

    /// Updates the list of active Jobs.
    fn track(&mut self) {
        let newest = self.status.last_schedule_time.map(|time| self.job_name(time));
        // The status may list many Jobs.
        let listed: BTreeSet<String> = self.status.active.iter().map(|one| one.uid.clone()).collect();
        let mut finished: BTreeSet<&str> = BTreeSet::new();
        for (object, job) in self.jobs.clone() {
            let meta = object.meta();
            let is_listed = listed.contains(&*meta.uid);
            match job.status.finished_condition() {
                Some(finish) => {
                    if is_listed {
                        finished.insert(&meta.uid);
                        let message = format!("Saw completed job: {}, condition: {}", meta.name, finish.kind);
                        self.tell("SawCompletedJob", message);
                    }
                    let succeeded = job.status.completion_time.filter(|_| finish.kind == "Complete");
                    self.status.last_successful_time = self.status.last_successful_time.max(succeeded);
                }
                None if is_listed => {}
                None if newest.as_deref() == Some(&*meta.name) => self.status.active.push(reference(object)),
                None => {
                    let name = &meta.name;
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.warn("UnexpectedJob", message);
                }
            }
        }
        self.status.active.retain(|one| !finished.contains(&*one.uid));
        let is_there =
            |one: &ObjectReference| self.world.find(Job::RESOURCE, &one.namespace, &one.name).is_some();
        let active = std::mem::take(&mut self.status.active);
        let (there, gone): (Vec<ObjectReference>, Vec<ObjectReference>) =
            active.into_iter().partition(is_there);
        self.status.active = there;
        for one in gone {
            self.tell("MissingJob", format!("Active job went missing: {}", one.name));
        }
    }

    /// Starts the Job that is due.
    fn schedule(&mut self, plan: &mut Plan<Vec<Note>>) {
        let Some((clock, zone)) = self.clock() else { return };
        if let Some(next) = clock.next(self.now) {
            plan.look_again_at(next.after(DELAY));
        }
        let created = self.owner.object.meta().created();
        let mut since = self.status.last_schedule_time.unwrap_or(created);
        if let Some(deadline) = self.spec.starting_deadline_seconds {
            since = since.max(self.now.before(Duration::from_secs(u64::try_from(deadline).unwrap_or(0))));
        }
        let Some((due, many)) = clock.last(since, self.now) else { return };
        if many {
            let advice = "Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", format!("too many missed start times. {advice}"));
        }
        let name = self.job_name(due);
        let is_met = self.status.active.iter().any(|one| one.name == name);
        if is_met || self.status.last_schedule_time == Some(due) {
            return;
        }
        if self.spec.concurrency_policy == "Forbid" && !self.status.active.is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            return self.tell("JobAlreadyActive", message);
        }
        let namespace = &self.owner.object.meta().namespace;
        if let Some(job) = self.world.find(Job::RESOURCE, namespace, &name) {
            // The Job was created before a crash. If it belongs to another owner, the time is skipped.
            if job.meta().is_controlled_by(&self.owner.object.meta().uid) {
                self.status.last_schedule_time = Some(due);
                self.said.retain(|note| note.reason != "UnexpectedJob" || !note.message.ends_with(&name));
                if job.view::<Job>().is_some_and(|job| job.status.finished_condition().is_none()) {
                    self.status.active.push(reference(job));
                }
            }
            return;
        }
        if self.spec.concurrency_policy == "Replace" {
            let active = std::mem::take(&mut self.status.active);
            let jobs = active.iter().filter_map(|one| self.world.find(Job::RESOURCE, namespace, &one.name));
            plan.stage(jobs.map(|job| self.delete(job)));
        }
        plan.stage([self.create(&name, due, &zone)]);
        self.status.last_schedule_time = Some(due);
    }

    /// Schedule and time zone; `None` if the CronJob is suspended or invalid.
    fn clock(&mut self) -> Option<(Clock, Zone)> {
        let text = &self.spec.schedule;
        let inside = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
        let name = match inside {
            Some(rest) => rest.split(' ').next(),
            None => self.spec.time_zone.as_deref(),
        };
        let Some(zone) = Zone::find(name) else {
            let name = name.unwrap_or_default();
            self.warn("UnknownTimeZone", format!("invalid timeZone: {name:?}: unknown time zone {name}"));
            return None;
        };
        if self.spec.suspend {
            return None;
        }
        if inside.is_some() {
            let page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
            let message = format!(
                "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see {page} for more details"
            );
            self.warn("UnsupportedSchedule", message);
        }
        match Schedule::parse(text) {
            Ok(schedule) => Some((Clock::new(schedule, zone.clone()), zone)),
            Err(error) => {
                self.warn("UnparseableSchedule", format!("unparseable schedule: {text:?} : {error}"));
                None
            }
        }
    }

    fn create(&self, name: &str, due: Time, zone: &Zone) -> Act {
        let template = &self.spec.job_template;
        let part = |name: &str| template.at(&["metadata", name]).cloned().unwrap_or_default();
        let mut annotations = part("annotations");
        annotations.make_map().insert(SCHEDULED, zone.write(due));
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
        Act::from(Write::create(Job::RESOURCE, &self.owner.object.meta().namespace, job))
            .on_done(subject.normal("SuccessfulCreate", "Created job {name}"))
            .on_failed(subject.warning("FailedCreate", "Error creating job: {error}"))
    }

    fn delete(&self, job: &Object) -> Act {
        let subject = self.owner.subject();
        Act::from(Write::delete(job).propagating("Background"))
            .on_done(subject.normal("SuccessfulDelete", format!("Deleted job {}", job.meta().name)))
            .on_failed(subject.warning("FailedDelete", "Deleted job: {error}"))
    }

    /// Finished Jobs beyond the history limits, oldest first.
    fn surplus(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        for (kind, limit) in [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ] {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let is_it = |job: &Job| job.status.finished_condition().is_some_and(|finish| finish.kind == kind);
            let mut ended: Vec<_> = self.jobs.iter().filter(|(_, job)| is_it(job)).collect();
            ended.sort_by_key(|(object, job)| {
                let start = job.status.start_time;
                (start.is_none(), start, object.meta().name.clone())
            });
            let surplus = ended.len().saturating_sub(limit);
            let going = ended[..surplus].iter().filter(|(job, _)| !job.meta().is_deleted());
            acts.extend(going.map(|(job, _)| self.delete(job)));
        }
        acts
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
