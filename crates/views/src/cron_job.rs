//! What planners read of a CronJob.

use serde::{Deserialize, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::View;

use super::{or_default, time, unless_empty, write_time};

/// A CronJob.
#[derive(Clone, Debug, Deserialize)]
pub struct CronJob {
    /// What is wanted.
    pub spec: CronJobSpec,
    /// How it stands.
    #[serde(default)]
    pub status: CronJobStatus,
}

impl View for CronJob {
    const RESOURCE: &'static str = "cronjobs.batch";
}

/// What is wanted of a CronJob.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobSpec {
    /// When to run.
    #[serde(default)]
    pub schedule: String,
    /// By which clock.
    pub time_zone: Option<String>,
    /// How late a Job may start.
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`.
    #[serde(default)]
    pub concurrency_policy: String,
    /// Whether it rests.
    #[serde(default, deserialize_with = "or_default")]
    pub suspend: bool,
    /// What its Jobs look like.
    #[serde(default)]
    pub job_template: Value,
    /// How many Jobs that succeeded are kept.
    pub successful_jobs_history_limit: Option<i64>,
    /// How many Jobs that failed are kept.
    pub failed_jobs_history_limit: Option<i64>,
}

/// How a CronJob stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// The Jobs that run.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub active: Vec<Reference>,
    /// When a Job was last started, by the schedule.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub last_schedule_time: Option<Time>,
    /// When a Job last succeeded.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub last_successful_time: Option<Time>,
}

/// An object, as a status names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// Group and version of its kind.
    pub api_version: String,
    /// The revision at which it was seen.
    pub resource_version: String,
}
