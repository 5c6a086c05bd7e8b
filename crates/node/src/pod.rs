//! A pod as its node reads it, and the status that the node writes.
//!
//! It is read from the bytes while a plan is made and dropped with it: what only a node reads would cost memory for
//! every pod if it were kept in the view that all planners share. A [`Status`] that is written whole removes what it
//! does not have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use setpoint_api::Time;
use setpoint_reconcile::Object;
use setpoint_reconcile::views::{Condition, or_default, time, unless_empty, write_time};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// What is wanted.
    pub spec: Spec,
    /// What was last reported.
    pub status: Status,
}

impl Pod {
    /// Reads an object; nothing if it is no pod.
    #[must_use]
    pub fn read(object: &Object) -> Option<Pod> {
        object.decode()
    }
}

/// What is wanted of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Where it runs.
    pub node_name: String,
    /// Whether containers are started again: `Always`, `OnFailure`, `Never`.
    pub restart_policy: String,
    /// How long it is given to stop.
    pub termination_grace_period_seconds: Option<i64>,
    /// How long it may be active.
    pub active_deadline_seconds: Option<i64>,
    /// Whether it has the node's own addresses.
    pub host_network: bool,
    /// What it is called in itself, if not by its name.
    pub hostname: String,
    /// What runs first, one after the other.
    pub init_containers: Vec<Container>,
    /// What runs.
    pub containers: Vec<Container>,
    /// What people added to look around.
    pub ephemeral_containers: Vec<Container>,
    /// Conditions that others must set before it is ready.
    pub readiness_gates: Vec<Gate>,
    /// What its containers can mount.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    /// As whom its containers run that do not say it themselves.
    #[serde(deserialize_with = "or_default")]
    pub security_context: SecurityContext,
}

impl Spec {
    /// Every container that a life cycle knows: those that run first, then the others.
    pub fn all(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }
}

/// A condition that somebody must set before a pod is ready.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gate {
    /// Its type.
    pub condition_type: String,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub image_pull_policy: String,
    /// What is run.
    pub command: Vec<String>,
    /// With which arguments.
    pub args: Vec<String>,
    /// Whether it can be written to.
    pub stdin: bool,
    /// What it needs, as it is reported.
    pub resources: Resources,
    /// Whether it is started again to get other resources.
    #[serde(deserialize_with = "or_default")]
    pub resize_policy: Vec<ResizePolicy>,
    /// Its own restart policy.
    pub restart_policy: Option<String>,
    /// Exceptions from it.
    pub restart_policy_rules: Vec<RestartRule>,
    /// Whether it has started.
    pub startup_probe: Option<Probe>,
    /// Whether it can serve.
    pub readiness_probe: Option<Probe>,
    /// Whether it is well.
    pub liveness_probe: Option<Probe>,
    /// What is done when it starts and stops.
    pub lifecycle: Lifecycle,
    /// Where it leaves its last words.
    pub termination_message_path: String,
    /// Whether its log stands in for them.
    pub termination_message_policy: String,
    /// What is mounted where.
    pub volume_mounts: Vec<Mount>,
    /// Its environment.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<Variable>,
    /// What its environment takes over as a whole.
    #[serde(deserialize_with = "or_default")]
    pub env_from: Vec<Variables>,
    /// As whom it runs.
    #[serde(deserialize_with = "or_default")]
    pub security_context: SecurityContext,
}

impl Container {
    /// Whether it starts first and goes on beside the others.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// As whom something runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityContext {
    /// As which user; as the image says if nobody does.
    pub run_as_user: Option<i64>,
    /// Whether that must not be root.
    pub run_as_non_root: Option<bool>,
}

impl SecurityContext {
    /// Whether something runs as root though it must not. What it does not say itself holds as `all` says; who is meant by
    /// an image is not known, and not held against it.
    #[must_use]
    pub fn is_broken(&self, all: &SecurityContext) -> bool {
        let is_root = self.run_as_user.or(all.run_as_user) == Some(0);
        is_root && self.run_as_non_root.or(all.run_as_non_root) == Some(true)
    }
}

/// A volume, as far as it comes from ConfigMaps, Secrets and the node itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// A ConfigMap.
    pub config_map: Option<Source>,
    /// A Secret.
    pub secret: Option<Source>,
    /// Several things in one.
    pub projected: Option<Projected>,
    /// A path of the node.
    pub host_path: Option<HostPath>,
}

/// A path of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostPath {
    /// The path.
    pub path: String,
    /// What must be there; empty if anything will do.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
}

/// Several things in one volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Projected {
    /// They.
    #[serde(deserialize_with = "or_default")]
    pub sources: Vec<Projection>,
}

/// One of several things in a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Projection {
    /// A ConfigMap.
    pub config_map: Option<Source>,
    /// A Secret.
    pub secret: Option<Source>,
    /// The pod's token.
    pub service_account_token: Option<serde::de::IgnoredAny>,
}

/// A ConfigMap or a Secret that something comes from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Its name, where a volume is all of a Secret.
    pub secret_name: String,
    /// Whether it may be missing.
    pub optional: Option<bool>,
    /// Which entries; all if there are none.
    #[serde(deserialize_with = "or_default")]
    pub items: Vec<Item>,
}

/// An entry of a ConfigMap or a Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Item {
    /// Its name.
    pub key: String,
}

/// One of a container's environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value, if that is written down.
    pub value: String,
    /// Where it comes from; nothing if it is written down.
    pub value_from: Option<ValueFrom>,
}

/// Where a value comes from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ValueFrom {
    /// A field of the pod.
    pub field_ref: Option<Field>,
    /// An entry of a ConfigMap.
    pub config_map_key_ref: Option<KeyRef>,
    /// An entry of a Secret.
    pub secret_key_ref: Option<KeyRef>,
}

/// A field of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Field {
    /// Which.
    pub field_path: String,
}

/// An entry of a ConfigMap or a Secret by its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct KeyRef {
    /// The object.
    pub name: String,
    /// The entry.
    pub key: String,
    /// Whether it may be missing.
    pub optional: Option<bool>,
}

/// What a container's environment takes over as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Variables {
    /// A ConfigMap.
    pub config_map_ref: Option<Source>,
    /// A Secret.
    pub secret_ref: Option<Source>,
}

/// What a container needs, resource by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Resources {
    /// At the most.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub limits: BTreeMap<String, String>,
    /// At the least.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub requests: BTreeMap<String, String>,
}

/// Whether a container is started again to get more or less of a resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResizePolicy {
    /// The resource.
    pub resource_name: String,
    /// `NotRequired` or `RestartContainer`.
    pub restart_policy: String,
}

/// When a container is started again though its policy says otherwise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartRule {
    /// What is done: `Restart`.
    pub action: String,
    /// After which exit codes.
    pub exit_codes: Option<ExitCodes>,
}

/// Exit codes, or all others.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    pub values: Vec<i64>,
}

/// A question that is asked of a container again and again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// When first.
    pub initial_delay_seconds: i64,
    /// How often.
    pub period_seconds: Option<i64>,
    /// How often it must succeed.
    pub success_threshold: Option<i64>,
    /// How often it must fail.
    pub failure_threshold: Option<i64>,
    /// A command that is run.
    pub exec: Option<Command>,
    /// How long a container that failed is given to stop.
    pub termination_grace_period_seconds: Option<i64>,
}

/// A command in a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Command {
    /// Its words.
    pub command: Vec<String>,
}

/// What is done when a container starts and stops.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    /// What is done when it has started.
    pub post_start: Option<Handler>,
    /// What is done before it stops.
    pub pre_stop: Option<Handler>,
}

/// Something that is done in a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Handler {
    /// A wait.
    pub sleep: Option<Sleep>,
    /// A command.
    pub exec: Option<Command>,
}

/// A wait.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Sleep {
    /// How long.
    pub seconds: i64,
}

/// A volume in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Mount {
    /// Which.
    pub name: String,
    /// Where.
    pub mount_path: String,
    /// Whether it can only be read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Whether that holds for what is mounted in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive_read_only: Option<String>,
}

/// How a pod stands, as its node reports it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// For which generation of the pod.
    pub observed_generation: Option<i64>,
    /// `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: String,
    /// Why, in one word.
    #[serde(serialize_with = "text")]
    pub reason: String,
    /// Why.
    #[serde(serialize_with = "text")]
    pub message: String,
    /// Its conditions, those of others among them.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// The node's address.
    #[serde(rename = "hostIP", serialize_with = "text")]
    pub host_ip: String,
    /// The node's addresses.
    #[serde(rename = "hostIPs", deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub host_ips: Vec<Ip>,
    /// Its address.
    #[serde(rename = "podIP", serialize_with = "text")]
    pub pod_ip: String,
    /// Its addresses.
    #[serde(rename = "podIPs", deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub pod_ips: Vec<Ip>,
    /// When its node took it up.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub start_time: Option<Time>,
    /// How the containers that run first stand.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// How its containers stand.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    /// How the containers stand that people added.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

impl Status {
    /// Whether the pod has come to its end.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// How a container stands.
    #[must_use]
    pub fn of(&self, container: &str) -> Option<&ContainerStatus> {
        let mut all = self.init_container_statuses.iter().chain(&self.container_statuses);
        all.find(|status| status.name == container)
    }
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ip {
    /// It.
    pub ip: String,
}

/// How a container stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: State,
    /// How it ended the last time.
    pub last_state: State,
    /// Whether it can serve; of one that runs first, whether it succeeded.
    pub ready: bool,
    /// How often it was started again.
    pub restart_count: i64,
    /// Its image.
    pub image: String,
    /// What exactly that is.
    #[serde(rename = "imageID")]
    pub image_id: String,
    /// What the runtime calls it.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
    /// Whether it has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// What was set aside for it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub allocated_resources: BTreeMap<String, String>,
    /// What it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// What is mounted where.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub volume_mounts: Vec<Mount>,
}

/// What a container does: one of these, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct State {
    /// It waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// It runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// It ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

impl State {
    /// It waits, for a reason.
    #[must_use]
    pub fn waiting(reason: &str, message: impl Into<String>) -> State {
        State {
            waiting: Some(Waiting { reason: reason.to_owned(), message: message.into() }),
            ..State::default()
        }
    }

    /// It ended.
    #[must_use]
    pub fn terminated(end: Terminated) -> State {
        State { terminated: Some(end), ..State::default() }
    }
}

/// Why a container waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Waiting {
    /// In one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// In words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A container that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    /// Since when.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub started_at: Option<Time>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// The code.
    pub exit_code: i64,
    /// Why, in one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Its last words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it started.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub finished_at: Option<Time>,
    /// What the runtime called it.
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    pub container_id: String,
}

/// Writes a text; an empty one is removed.
fn text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.is_empty() { serializer.serialize_none() } else { serializer.serialize_str(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_user_who_is_known_to_be_root_breaks_a_promise_and_containers_say_it_before_their_pod() {
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
