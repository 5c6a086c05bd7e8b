//! Pod as its node reads it, and the status that the node writes.
//!
//! A pod is decoded from its bytes for each plan and dropped afterwards: keeping the fields that only nodes
//! read in the shared view would cost memory for every pod. A [`Status`] is written whole, so fields that it
//! lacks are removed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use setpoint_api::Time;
use setpoint_reconcile::Object;
use setpoint_views::{Condition, deserialize_time, or_default, serialize_time, serialize_unless_empty};

/// Pod, as far as a node reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Spec.
    pub spec: Spec,
    /// Last reported status.
    pub status: Status,
}

impl Pod {
    /// Decodes an object; `None` if it is not a pod.
    #[must_use]
    pub fn read(object: &Object) -> Option<Pod> {
        object.decode()
    }
}

/// Pod spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Node name.
    pub node_name: String,
    /// Restart policy: `Always`, `OnFailure`, `Never`.
    pub restart_policy: String,
    /// Termination grace period.
    pub termination_grace_period_seconds: Option<i64>,
    /// Maximum active time.
    pub active_deadline_seconds: Option<i64>,
    /// `true` if the pod uses the node's network namespace.
    pub host_network: bool,
    /// Host name, if not the pod's name.
    pub hostname: String,
    /// Init containers, which run in order.
    pub init_containers: Vec<Container>,
    /// Regular containers.
    pub containers: Vec<Container>,
    /// Ephemeral containers.
    pub ephemeral_containers: Vec<Container>,
    /// Additional conditions required for readiness.
    pub readiness_gates: Vec<Gate>,
    /// Volumes.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    /// Defaults for the security contexts of containers.
    #[serde(deserialize_with = "or_default")]
    pub security_context: SecurityContext,
}

impl Spec {
    /// Returns init containers, then regular containers.
    pub fn all(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }
}

/// Readiness gate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gate {
    /// Condition type.
    pub condition_type: String,
}

/// Container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Container name.
    pub name: String,
    /// Image name.
    pub image: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub image_pull_policy: String,
    /// Entrypoint.
    pub command: Vec<String>,
    /// Arguments.
    pub args: Vec<String>,
    /// `true` if stdin is open.
    pub stdin: bool,
    /// Requests and limits.
    pub resources: Resources,
    /// Resize policy per resource.
    #[serde(deserialize_with = "or_default")]
    pub resize_policy: Vec<ResizePolicy>,
    /// Restart policy of this container; `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
    /// Rules that override the restart policy.
    pub restart_policy_rules: Vec<RestartRule>,
    /// Startup probe.
    pub startup_probe: Option<Probe>,
    /// Readiness probe.
    pub readiness_probe: Option<Probe>,
    /// Liveness probe.
    pub liveness_probe: Option<Probe>,
    /// Lifecycle hooks.
    pub lifecycle: Lifecycle,
    /// File with the termination message.
    pub termination_message_path: String,
    /// Source of the termination message: `File` or `FallbackToLogsOnError`.
    pub termination_message_policy: String,
    /// Volume mounts.
    pub volume_mounts: Vec<Mount>,
    /// Environment variables.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<Variable>,
    /// ConfigMaps and Secrets whose entries become environment variables.
    #[serde(deserialize_with = "or_default")]
    pub env_from: Vec<Variables>,
    /// Security context.
    #[serde(deserialize_with = "or_default")]
    pub security_context: SecurityContext,
}

impl Container {
    /// `true` if it is a restartable init container.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// User restrictions of a pod or a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityContext {
    /// UID; the image's user if unset.
    pub run_as_user: Option<i64>,
    /// `true` if the container must not run as root.
    pub run_as_non_root: Option<bool>,
}

impl SecurityContext {
    /// `true` if the container runs as root in violation of `runAsNonRoot`. Unset fields default to the pod's
    /// (`all`). The user of an image is unknown and accepted.
    #[must_use]
    pub fn is_broken(&self, all: &SecurityContext) -> bool {
        let is_root = self.run_as_user.or(all.run_as_user) == Some(0);
        is_root && self.run_as_non_root.or(all.run_as_non_root) == Some(true)
    }
}

/// Volume, as far as it comes from ConfigMaps, Secrets and host paths.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Volume name.
    pub name: String,
    /// ConfigMap source.
    pub config_map: Option<Source>,
    /// Secret source.
    pub secret: Option<Source>,
    /// Projected source.
    pub projected: Option<Projected>,
    /// Host path source.
    pub host_path: Option<HostPath>,
}

/// Host path volume source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostPath {
    /// Path on the node.
    pub path: String,
    /// Required type; empty for no check.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
}

/// Projected volume source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Projected {
    /// Projections.
    #[serde(deserialize_with = "or_default")]
    pub sources: Vec<Projection>,
}

/// Source of a projected volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Projection {
    /// ConfigMap source.
    pub config_map: Option<Source>,
    /// Secret source.
    pub secret: Option<Source>,
    /// Service account token.
    pub service_account_token: Option<serde::de::IgnoredAny>,
}

/// Reference to a ConfigMap or Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// Object name.
    pub name: String,
    /// Object name in a Secret volume.
    pub secret_name: String,
    /// `true` if the object may be missing.
    pub optional: Option<bool>,
    /// Selected keys; empty for all.
    #[serde(deserialize_with = "or_default")]
    pub items: Vec<Item>,
}

/// Selected key of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Item {
    /// Key.
    pub key: String,
}

/// Environment variable.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variable {
    /// Variable name.
    pub name: String,
    /// Literal value.
    pub value: String,
    /// Source of the value; `None` for a literal.
    pub value_from: Option<ValueFrom>,
}

/// Source of a variable's value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ValueFrom {
    /// Pod field.
    pub field_ref: Option<Field>,
    /// ConfigMap key.
    pub config_map_key_ref: Option<KeyRef>,
    /// Secret key.
    pub secret_key_ref: Option<KeyRef>,
}

/// Reference to a pod field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Field {
    /// Field path.
    pub field_path: String,
}

/// Reference to a key of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeyRef {
    /// Object name.
    pub name: String,
    /// Key.
    pub key: String,
    /// `true` if the object or key may be missing.
    pub optional: Option<bool>,
}

/// Source of several environment variables.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variables {
    /// ConfigMap source.
    pub config_map_ref: Option<Source>,
    /// Secret source.
    pub secret_ref: Option<Source>,
}

/// Resource requirements of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Resources {
    /// Limits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub limits: BTreeMap<String, String>,
    /// Requests.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub requests: BTreeMap<String, String>,
}

/// Resize policy of a resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResizePolicy {
    /// Resource name.
    pub resource_name: String,
    /// `NotRequired` or `RestartContainer`.
    pub restart_policy: String,
}

/// Container restart rule, which overrides the restart policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    /// Action: `Restart`.
    pub action: String,
    /// Exit codes that trigger the action.
    pub exit_codes: Option<ExitCodes>,
}

/// Set of exit codes, or its complement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    /// `In` or `NotIn`.
    pub operator: String,
    /// Exit codes.
    pub values: Vec<i64>,
}

/// Container probe.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// Delay of the first probe.
    pub initial_delay_seconds: i64,
    /// Interval between probes.
    pub period_seconds: Option<i64>,
    /// Consecutive successes required for success.
    pub success_threshold: Option<i64>,
    /// Consecutive failures required for failure.
    pub failure_threshold: Option<i64>,
    /// Command of an exec probe.
    pub exec: Option<Command>,
    /// Termination grace period after a probe failure.
    pub termination_grace_period_seconds: Option<i64>,
}

/// Command of an exec probe or hook.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Command {
    /// Program and arguments.
    pub command: Vec<String>,
}

/// Lifecycle hooks of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    /// Hook that runs after the start.
    pub post_start: Option<Handler>,
    /// Hook that runs before SIGTERM.
    pub pre_stop: Option<Handler>,
}

/// Lifecycle hook handler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Handler {
    /// Sleep handler.
    pub sleep: Option<Sleep>,
    /// Exec handler.
    pub exec: Option<Command>,
}

/// Sleep handler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Sleep {
    /// Duration.
    pub seconds: i64,
}

/// Volume mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mount {
    /// Volume name.
    pub name: String,
    /// Path in the container.
    pub mount_path: String,
    /// `true` if it is read-only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Recursive read-only mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive_read_only: Option<String>,
}

/// Pod status, as its node reports it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Generation of the pod that the status reflects.
    pub observed_generation: Option<i64>,
    /// Phase: `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: String,
    /// Reason of the phase.
    #[serde(serialize_with = "text")]
    pub reason: String,
    /// Human-readable message.
    #[serde(serialize_with = "text")]
    pub message: String,
    /// Conditions, including those of other writers.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// Primary node IP.
    #[serde(rename = "hostIP", serialize_with = "text")]
    pub host_ip: String,
    /// Node IPs.
    #[serde(rename = "hostIPs", deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub host_ips: Vec<Ip>,
    /// Primary pod IP.
    #[serde(rename = "podIP", serialize_with = "text")]
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

impl Status {
    /// `true` if the phase is `Succeeded` or `Failed`.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns the status of a container by name.
    #[must_use]
    pub fn of(&self, container: &str) -> Option<&ContainerStatus> {
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
    pub state: State,
    /// Termination state of the previous run.
    pub last_state: State,
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
    pub resources: Option<Resources>,
    /// Volume mounts.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub volume_mounts: Vec<Mount>,
}

/// Container state: at most one field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct State {
    /// Waiting state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Running state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// Terminated state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

impl State {
    /// Returns a waiting state.
    #[must_use]
    pub fn waiting(reason: &str, message: impl Into<String>) -> State {
        State {
            waiting: Some(Waiting { reason: reason.to_owned(), message: message.into() }),
            ..State::default()
        }
    }

    /// Returns a terminated state.
    #[must_use]
    pub fn terminated(end: Terminated) -> State {
        State { terminated: Some(end), ..State::default() }
    }
}

/// Waiting state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Waiting {
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
pub struct Running {
    /// Start time.
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub started_at: Option<Time>,
}

/// Terminated state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
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
fn text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.is_empty() { serializer.serialize_none() } else { serializer.serialize_str(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_as_non_root_rejects_explicit_root_and_containers_override_their_pod() {
        let context = |user, non_root| SecurityContext { run_as_user: user, run_as_non_root: non_root };
        let none = SecurityContext::default();
        for (own, all, is_broken) in [
            (context(Some(0), Some(true)), none.clone(), true),
            (none.clone(), context(Some(0), Some(true)), true),
            (context(None, Some(true)), context(Some(0), None), true),
            (context(Some(0), None), context(Some(7), Some(true)), true),
            (context(Some(7), None), context(Some(0), Some(true)), false),
            (context(None, Some(false)), context(Some(0), Some(true)), false),
            (context(None, Some(true)), none.clone(), false),
            (context(Some(0), None), none.clone(), false),
        ] {
            assert_eq!(own.is_broken(&all), is_broken, "{own:?} in {all:?}");
        }
    }
}
