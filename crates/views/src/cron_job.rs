//! View of a CronJob.

use serde::{Deserialize, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::View;

use super::{deserialize_time, or_default, serialize_time, serialize_unless_empty};

/// View of a CronJob.
#[derive(Clone, Debug, Deserialize)]
pub struct CronJob {
    pub spec: CronJobSpec,
    #[serde(default)]
    pub status: CronJobStatus,
}

impl View for CronJob {
    const RESOURCE: &'static str = "cronjobs.batch";
}

/// Spec of a CronJob.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobSpec {
    #[serde(default)]
    pub schedule: String,
    pub time_zone: Option<String>,
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow`, `Forbid` or `Replace`.
    #[serde(default)]
    pub concurrency_policy: String,
    #[serde(default, deserialize_with = "or_default")]
    pub suspend: bool,
    #[serde(default)]
    pub job_template: Value,
    pub successful_jobs_history_limit: Option<i64>,
    pub failed_jobs_history_limit: Option<i64>,
}

/// Status of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub active: Vec<ObjectReference>,
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub last_schedule_time: Option<Time>,
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub last_successful_time: Option<Time>,
}

/// Reference to an object from a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub api_version: String,
    pub resource_version: String,
}
