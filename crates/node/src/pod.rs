//! Pod as its node reads it, and the status that the node writes.
//!
//! A pod is decoded from its bytes for each plan and dropped afterwards: keeping the fields that only nodes
//! read in the shared view would cost memory for every pod. A [`PodStatus`] is written whole, so fields that it
//! lacks are removed.

mod status;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use setpoint_reconcile::Object;
use setpoint_views::or_default;

pub use self::status::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    Ip, PodStatus,
};

/// Pod, as far as a node reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Spec.
    pub spec: PodSpec,
    /// Last reported status.
    pub status: PodStatus,
}

impl Pod {
    /// Decodes an object; `None` if it is not a pod.
    #[must_use]
    pub fn decode(object: &Object) -> Option<Pod> {
        object.decode()
    }
}

/// Pod spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
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
    pub readiness_gates: Vec<PodReadinessGate>,
    /// Volumes.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    /// Defaults for the security contexts of containers.
    #[serde(deserialize_with = "or_default")]
    pub security_context: SecurityContext,
}

impl PodSpec {
    /// Returns init containers, then regular containers.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }
}

/// Readiness gate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodReadinessGate {
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
    pub resources: ResourceRequirements,
    /// Resize policy per resource.
    #[serde(deserialize_with = "or_default")]
    pub resize_policy: Vec<ContainerResizePolicy>,
    /// Restart policy of this container; `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
    /// Rules that override the restart policy.
    pub restart_policy_rules: Vec<ContainerRestartRule>,
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
    pub volume_mounts: Vec<VolumeMount>,
    /// Environment variables.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<EnvVar>,
    /// ConfigMaps and Secrets whose entries become environment variables.
    #[serde(deserialize_with = "or_default")]
    pub env_from: Vec<EnvFromSource>,
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
    /// (`pod`). The user of an image is unknown and accepted.
    #[must_use]
    pub fn violates_run_as_non_root(&self, pod: &SecurityContext) -> bool {
        let is_root = self.run_as_user.or(pod.run_as_user) == Some(0);
        is_root && self.run_as_non_root.or(pod.run_as_non_root) == Some(true)
    }
}

/// Volume, as far as it comes from ConfigMaps, Secrets and host paths.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Volume name.
    pub name: String,
    /// ConfigMap source.
    pub config_map: Option<ConfigSource>,
    /// Secret source.
    pub secret: Option<ConfigSource>,
    /// Projected source.
    pub projected: Option<ProjectedVolumeSource>,
    /// Host path source.
    pub host_path: Option<HostPathVolumeSource>,
}

/// Host path volume source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostPathVolumeSource {
    /// Path on the node.
    pub path: String,
    /// Required type; empty for no check.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
}

/// Projected volume source.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProjectedVolumeSource {
    /// Projections.
    #[serde(deserialize_with = "or_default")]
    pub sources: Vec<VolumeProjection>,
}

/// Source of a projected volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeProjection {
    /// ConfigMap source.
    pub config_map: Option<ConfigSource>,
    /// Secret source.
    pub secret: Option<ConfigSource>,
    /// Service account token.
    pub service_account_token: Option<serde::de::IgnoredAny>,
}

/// Reference to a ConfigMap or Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigSource {
    /// Object name.
    pub name: String,
    /// Object name in a Secret volume.
    pub secret_name: String,
    /// `true` if the object may be missing.
    pub optional: Option<bool>,
    /// Selected keys; empty for all.
    #[serde(deserialize_with = "or_default")]
    pub items: Vec<KeyToPath>,
}

/// Selected key of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeyToPath {
    /// Key.
    pub key: String,
}

/// Environment variable.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    /// Variable name.
    pub name: String,
    /// Literal value.
    pub value: String,
    /// Source of the value; `None` for a literal.
    pub value_from: Option<EnvVarSource>,
}

/// Source of a variable's value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVarSource {
    /// Pod field.
    pub field_ref: Option<ObjectFieldSelector>,
    /// ConfigMap key.
    pub config_map_key_ref: Option<KeySelector>,
    /// Secret key.
    pub secret_key_ref: Option<KeySelector>,
}

/// Reference to a pod field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectFieldSelector {
    /// Field path.
    pub field_path: String,
}

/// Reference to a key of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeySelector {
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
pub struct EnvFromSource {
    /// ConfigMap source.
    pub config_map_ref: Option<ConfigSource>,
    /// Secret source.
    pub secret_ref: Option<ConfigSource>,
}

/// Resource requirements of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ResourceRequirements {
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
pub struct ContainerResizePolicy {
    /// Resource name.
    pub resource_name: String,
    /// `NotRequired` or `RestartContainer`.
    pub restart_policy: String,
}

/// Container restart rule, which overrides the restart policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRestartRule {
    /// Action: `Restart`.
    pub action: String,
    /// Exit codes that trigger the action.
    pub exit_codes: Option<RestartExitCodes>,
}

/// Set of exit codes, or its complement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartExitCodes {
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
    pub exec: Option<ExecAction>,
    /// Termination grace period after a probe failure.
    pub termination_grace_period_seconds: Option<i64>,
}

/// Command of an exec probe or hook.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExecAction {
    /// Program and arguments.
    pub command: Vec<String>,
}

/// Lifecycle hooks of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    /// Hook that runs after the start.
    pub post_start: Option<LifecycleHandler>,
    /// Hook that runs before SIGTERM.
    pub pre_stop: Option<LifecycleHandler>,
}

/// Lifecycle hook handler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LifecycleHandler {
    /// Sleep handler.
    pub sleep: Option<SleepAction>,
    /// Exec handler.
    pub exec: Option<ExecAction>,
}

/// Sleep handler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SleepAction {
    /// Duration.
    pub seconds: i64,
}

/// Volume mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_as_non_root_rejects_explicit_root_and_containers_override_their_pod() {
        let context = |user, non_root| SecurityContext { run_as_user: user, run_as_non_root: non_root };
        let none = SecurityContext::default();
        for (own, all, violates_run_as_non_root) in [
            (context(Some(0), Some(true)), none.clone(), true),
            (none.clone(), context(Some(0), Some(true)), true),
            (context(None, Some(true)), context(Some(0), None), true),
            (context(Some(0), None), context(Some(7), Some(true)), true),
            (context(Some(7), None), context(Some(0), Some(true)), false),
            (context(None, Some(false)), context(Some(0), Some(true)), false),
            (context(None, Some(true)), none.clone(), false),
            (context(Some(0), None), none.clone(), false),
        ] {
            assert_eq!(own.violates_run_as_non_root(&all), violates_run_as_non_root, "{own:?} in {all:?}");
        }
    }
}
