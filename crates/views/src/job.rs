//! What planners read of a Job.

use serde::{Deserialize, Serialize};
use setpoint_api::Time;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{Condition, Template, condition, or_default, selector, time, unless_empty, write_time};

/// The controller that manages Jobs which name none, or which name it.
pub const BUILT_IN: &str = "kubernetes.io/job-controller";

/// A Job.
#[derive(Clone, Debug, Deserialize)]
pub struct Job {
    /// What is wanted.
    pub spec: JobSpec,
    /// How it stands.
    #[serde(default)]
    pub status: JobStatus,
}

impl View for Job {
    const RESOURCE: &'static str = "jobs.batch";
}

/// What is wanted of a Job.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    /// How many pods may run at a time.
    #[serde(default = "one")]
    pub parallelism: i64,
    /// How many pods must succeed; if absent, one success ends the Job.
    pub completions: Option<i64>,
    /// How long it may be active.
    pub active_deadline_seconds: Option<i64>,
    /// What failures of pods mean.
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Which successes are enough.
    pub success_policy: Option<SuccessPolicy>,
    /// How many pods may fail.
    #[serde(default = "six")]
    pub backoff_limit: i64,
    /// How many pods of one index may fail.
    pub backoff_limit_per_index: Option<i64>,
    /// How many indexes may fail.
    pub max_failed_indexes: Option<i64>,
    /// Which pods are its own.
    #[serde(default = "nothing", deserialize_with = "selector")]
    pub selector: Selector,
    /// What its pods look like.
    #[serde(default)]
    pub template: Template,
    /// How long it stays once it is finished.
    pub ttl_seconds_after_finished: Option<i64>,
    /// `NonIndexed` or `Indexed`.
    #[serde(default)]
    pub completion_mode: String,
    /// Whether it rests.
    #[serde(default, deserialize_with = "or_default")]
    pub suspend: bool,
    /// When a pod on its way out is replaced: `TerminatingOrFailed` or `Failed`.
    #[serde(default)]
    pub pod_replacement_policy: String,
    /// Who manages it.
    pub managed_by: Option<String>,
}

impl JobSpec {
    /// Whether each pod has an index of its own.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.completion_mode == "Indexed"
    }

    /// Whether a pod is only replaced once it has failed.
    #[must_use]
    pub fn replaces_only_failed(&self) -> bool {
        self.pod_replacement_policy == "Failed"
    }

    /// Whether somebody else manages it.
    #[must_use]
    pub fn is_managed_elsewhere(&self) -> bool {
        self.managed_by.as_deref().is_some_and(|manager| manager != BUILT_IN)
    }
}

fn one() -> i64 {
    1
}

fn six() -> i64 {
    6
}

fn nothing() -> Selector {
    Selector::Nothing
}

/// What failures of pods mean: the first rule that fits decides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodFailurePolicy {
    /// The rules.
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<PodFailureRule>,
}

/// A rule about failures of pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailureRule {
    /// `Ignore`, `FailJob`, `FailIndex` or `Count`.
    pub action: String,
    /// Which exit codes it is about.
    pub on_exit_codes: Option<ExitCodes>,
    /// Which conditions of pods it is about.
    #[serde(deserialize_with = "or_default")]
    pub on_pod_conditions: Vec<PodConditionPattern>,
}

/// Exit codes of containers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    /// Of which container; of any if absent.
    pub container_name: Option<String>,
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    pub values: Vec<i64>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodConditionPattern {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its status.
    pub status: String,
}

/// Which successes are enough: one rule that is met will do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    /// The rules.
    pub rules: Vec<SuccessRule>,
}

/// A rule about successes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    /// Which indexes it is about; about all if absent.
    pub succeeded_indexes: Option<String>,
    /// How many of them are enough; all if absent.
    pub succeeded_count: Option<i64>,
}

/// How a Job stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Its conditions.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub conditions: Vec<Condition>,
    /// Since when it is active.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub start_time: Option<Time>,
    /// When it was completed.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub completion_time: Option<Time>,
    /// How many pods run or are going to; absent for none.
    pub active: Option<i64>,
    /// How many pods succeeded; absent for none.
    pub succeeded: Option<i64>,
    /// How many pods failed; absent for none.
    pub failed: Option<i64>,
    /// How many pods are on their way out.
    pub terminating: Option<i64>,
    /// How many pods can serve.
    pub ready: Option<i64>,
    /// The indexes that succeeded, as `0-3,5`.
    pub completed_indexes: Option<String>,
    /// The indexes that failed.
    pub failed_indexes: Option<String>,
    /// Pods that have ended and are not in the counts yet.
    pub uncounted_terminated_pods: Option<Uncounted>,
}

impl JobStatus {
    /// The condition with which the Job came to its end.
    #[must_use]
    pub fn finish(&self) -> Option<&Condition> {
        let kinds = ["Complete", "Failed"];
        kinds.iter().find_map(|kind| condition(&self.conditions, kind).filter(|one| one.is_true()))
    }
}

/// Pods that have ended and are not in the counts yet, by identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Uncounted {
    /// Those that succeeded.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub succeeded: Vec<Box<str>>,
    /// Those that failed.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub failed: Vec<Box<str>>,
}
