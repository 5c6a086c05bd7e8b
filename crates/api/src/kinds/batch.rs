//! Kinds of the group `batch`.

pub mod cron_job;
pub mod job;
pub mod schedule;
pub mod time_zone;

mod duration;
mod indexes;
mod job_spec;
mod job_status;
mod pod_failure_policy;
mod success_policy;

#[cfg(test)]
mod tests;
