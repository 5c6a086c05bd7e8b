//! What should follow: the built-in controllers, one file each, planners only.
//!
//! A controller is a [`Planner`](setpoint_reconcile::Planner): a pure function of the world. [`all`] lists them;
//! [`indexes`] are the questions they ask of the world; [`pods`] is what those have in common that manage pods. To
//! add one, write its file, add what it reads to the views, and name it in [`all`].

pub mod conditions;
pub mod cron_job;
pub mod disruption;
pub mod horizontal_pod_autoscaler;
pub mod indexes;
pub mod job;
pub mod pod_gc;
pub mod pods;
pub mod replica_set;
pub mod said;
pub mod scale;
pub mod ttl_after_finished;

use setpoint_reconcile::Controller;

/// Every controller.
#[must_use]
pub fn all() -> Vec<Box<dyn Controller>> {
    vec![
        Box::new(cron_job::CronJobController),
        Box::new(disruption::DisruptionController),
        Box::new(horizontal_pod_autoscaler::HorizontalPodAutoscalerController),
        Box::new(job::JobController),
        Box::new(pod_gc::PodGcController::default()),
        Box::new(replica_set::ReplicaSetController),
        Box::new(ttl_after_finished::TtlAfterFinishedController),
    ]
}
