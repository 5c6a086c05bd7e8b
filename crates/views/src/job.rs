//! View of a Job.

use serde::{Deserialize, Serialize};
use setpoint_api::Time;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::{
    Condition, PodTemplate, condition, deserialize_selector, deserialize_time, or_default, serialize_time,
    serialize_unless_empty,
};

/// Value of `managedBy` for the built-in controller, which also reconciles Jobs without `managedBy`.
const JOB_CONTROLLER_NAME: &str = "kubernetes.io/job-controller";

/// View of a Job.
#[derive(Clone, Debug, Deserialize)]
pub struct Job {
    pub spec: JobSpec,
    #[serde(default)]
    pub status: JobStatus,
}

impl View for Job {
    const RESOURCE: &'static str = "jobs.batch";
}

/// Spec of a Job.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    #[serde(default = "default_parallelism")]
    pub parallelism: i64,
    /// If absent, one succeeded pod completes the Job.
    pub completions: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub pod_failure_policy: Option<PodFailurePolicy>,
    pub success_policy: Option<SuccessPolicy>,
    #[serde(default = "default_backoff_limit")]
    pub backoff_limit: i64,
    pub backoff_limit_per_index: Option<i64>,
    pub max_failed_indexes: Option<i64>,
    #[serde(default = "nothing", deserialize_with = "deserialize_selector")]
    pub selector: Selector,
    #[serde(default)]
    pub template: PodTemplate,
    pub ttl_seconds_after_finished: Option<i64>,
    /// `NonIndexed` or `Indexed`.
    #[serde(default)]
    pub completion_mode: String,
    #[serde(default, deserialize_with = "or_default")]
    pub suspend: bool,
    /// `TerminatingOrFailed` or `Failed`.
    #[serde(default)]
    pub pod_replacement_policy: String,
    pub managed_by: Option<String>,
}

impl JobSpec {
    /// `true` if each pod has a completion index.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.completion_mode == "Indexed"
    }

    /// `true` if a pod is replaced only once it is terminal, not while it terminates.
    #[must_use]
    pub fn replaces_only_failed(&self) -> bool {
        self.pod_replacement_policy == "Failed"
    }

    /// `true` if `managedBy` names another controller.
    #[must_use]
    pub fn is_managed_externally(&self) -> bool {
        self.managed_by.as_deref().is_some_and(|manager| manager != JOB_CONTROLLER_NAME)
    }
}

fn default_parallelism() -> i64 {
    1
}

fn default_backoff_limit() -> i64 {
    6
}

fn nothing() -> Selector {
    Selector::Nothing
}

/// Pod failure policy of a Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodFailurePolicy {
    /// The first rule that matches decides.
    #[serde(deserialize_with = "or_default")]
    pub rules: Vec<PodFailurePolicyRule>,
}

/// Rule of a pod failure policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailurePolicyRule {
    /// `Ignore`, `FailJob`, `FailIndex` or `Count`.
    pub action: String,
    pub on_exit_codes: Option<OnExitCodes>,
    #[serde(deserialize_with = "or_default")]
    pub on_pod_conditions: Vec<OnPodConditionsPattern>,
}

/// Requirement on exit codes of containers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OnExitCodes {
    /// Any container if absent.
    pub container_name: Option<String>,
    /// `In` or `NotIn`.
    pub operator: String,
    pub values: Vec<i64>,
}

/// Requirement on a pod condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OnPodConditionsPattern {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
}

/// Success policy of an indexed Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    /// One rule that is met suffices.
    pub rules: Vec<SuccessPolicyRule>,
}

/// Rule of a success policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessPolicyRule {
    /// All indexes if absent.
    pub succeeded_indexes: Option<String>,
    /// All of the indexes if absent.
    pub succeeded_count: Option<i64>,
}

/// Status of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub conditions: Vec<Condition>,
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub start_time: Option<Time>,
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub completion_time: Option<Time>,
    /// Absent if 0.
    pub active: Option<i64>,
    /// Absent if 0.
    pub succeeded: Option<i64>,
    /// Absent if 0.
    pub failed: Option<i64>,
    pub terminating: Option<i64>,
    pub ready: Option<i64>,
    /// Intervals, such as `0-3,5`.
    pub completed_indexes: Option<String>,
    /// Intervals, such as `0-3,5`.
    pub failed_indexes: Option<String>,
    pub uncounted_terminated_pods: Option<UncountedTerminatedPods>,
}

impl JobStatus {
    /// Returns the condition `Complete` or `Failed` that is `True`.
    #[must_use]
    pub fn finished_condition(&self) -> Option<&Condition> {
        let kinds = ["Complete", "Failed"];
        kinds
            .iter()
            .find_map(|kind| condition(&self.conditions, kind).filter(|condition| condition.is_true()))
    }
}

/// UIDs of terminated pods that the counters do not include yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct UncountedTerminatedPods {
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub succeeded: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub failed: Vec<Box<str>>,
}
