//! Pod status, as its node reports it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use setpoint_api::Time;
use setpoint_views::{Condition, deserialize_time, or_default, serialize_time, serialize_unless_empty};

use super::{ResourceRequirements, VolumeMount};

/// Pod status, as its node reports it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Generation of the pod that the status reflects.
    pub observed_generation: Option<i64>,
    /// Phase: `Pending`, `ContainerStateRunning`, `Succeeded`, `Failed`.
    pub phase: String,
    /// Reason of the phase.
    #[serde(serialize_with = "null_if_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(serialize_with = "null_if_empty")]
    pub message: String,
    /// Conditions, including those of other writers.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// Primary node IP.
    #[serde(rename = "hostIP", serialize_with = "null_if_empty")]
    pub host_ip: String,
    /// Node IPs.
    #[serde(rename = "hostIPs", deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub host_ips: Vec<Ip>,
    /// Primary pod IP.
    #[serde(rename = "podIP", serialize_with = "null_if_empty")]
    pub pod_ip: String,
    /// Pod IPs.
    #[serde(rename = "podIPs", deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub pod_ips: Vec<Ip>,
    /// Time of admission.
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub start_time: Option<Time>,
    /// Statuses of init containers.
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Statuses of regular containers.
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Statuses of ephemeral containers.
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

impl PodStatus {
    /// `true` if the phase is `Succeeded` or `Failed`.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns the status of a container by name.
    #[must_use]
    pub fn container_status(&self, container: &str) -> Option<&ContainerStatus> {
        let mut all = self.init_container_statuses.iter().chain(&self.container_statuses);
        all.find(|status| status.name == container)
    }
}

/// IP address entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ip {
    /// IP address.
    pub ip: String,
}

/// Container status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Container name.
    pub name: String,
    /// Current state.
    pub state: ContainerState,
    /// Termination state of the previous run.
    pub last_state: ContainerState,
    /// `true` if the container is ready; for an init container, if it succeeded.
    pub ready: bool,
    /// Restart count.
    pub restart_count: i64,
    /// Image name.
    pub image: String,
    /// Image ID.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// Container ID.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// `true` once the startup probe has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// Resources allocated by the node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub allocated_resources: BTreeMap<String, String>,
    /// Resources in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Volume mounts.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub volume_mounts: Vec<VolumeMount>,
}

/// Container state: at most one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ContainerState {
    /// Waiting state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<ContainerStateWaiting>,
    /// Running state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<ContainerStateRunning>,
    /// Terminated state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<ContainerStateTerminated>,
}

impl ContainerState {
    /// Returns a waiting state.
    #[must_use]
    pub fn waiting(reason: &str, message: impl Into<String>) -> ContainerState {
        ContainerState {
            waiting: Some(ContainerStateWaiting { reason: reason.to_owned(), message: message.into() }),
            ..ContainerState::default()
        }
    }

    /// Returns a terminated state.
    #[must_use]
    pub fn terminated(end: ContainerStateTerminated) -> ContainerState {
        ContainerState { terminated: Some(end), ..ContainerState::default() }
    }
}

/// Waiting state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ContainerStateWaiting {
    /// Reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Running state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateRunning {
    /// Start time.
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub started_at: Option<Time>,
}

/// Terminated state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateTerminated {
    /// Exit code.
    pub exit_code: i64,
    /// Reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Termination message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Start time.
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub started_at: Option<Time>,
    /// End time.
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub finished_at: Option<Time>,
    /// Container ID.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
}

/// Serializes a string, and an empty one as null.
fn null_if_empty<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.is_empty() { serializer.serialize_none() } else { serializer.serialize_str(text) }
}
