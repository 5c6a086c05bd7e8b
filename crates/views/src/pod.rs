//! View of a Pod.

mod stored_form;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::{Pairs, PreviousVersion, View};
use setpoint_reconcile::world::Index;

use self::stored_form::SpecLength;
use super::node::Taint;
use super::{Condition, condition, deserialize_time, or_default};

/// View of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub spec: PodSpec,
    pub status: PodStatus,
    #[serde(skip)]
    spec_length: SpecLength,
}

impl View for Pod {
    const RESOURCE: &'static str = "pods";

    fn shrink(&mut self) {
        self.spec.volumes.shrink_to_fit();
        // A spec with several references is already shrunk.
        if let Some(SharedPodSpec { tolerations, containers, init_containers, .. }) =
            Arc::get_mut(&mut self.spec.shared)
        {
            tolerations.shrink_to_fit();
            containers.shrink_to_fit();
            for container in containers.iter_mut().chain(init_containers) {
                container.ports.shrink_to_fit();
            }
        }
        self.status.conditions.shrink_to_fit();
        self.status.pod_ips.shrink_to_fit();
        self.status.container_statuses.shrink_to_fit();
    }

    fn share(&mut self, other: &Pod) {
        if self.spec.shared == other.spec.shared {
            self.spec.shared = Arc::clone(&other.spec.shared);
        }
    }

    fn decode_stored(body: &str, previous: Option<PreviousVersion<'_, Pod>>) -> Option<Pod> {
        stored_form::decode(body, previous)
    }
}

/// Index of pods by the node that they are bound to.
pub const BY_NODE: Index = Index {
    name: "pods by node",
    resource: Pod::RESOURCE,
    values: |object, found| {
        if let Some(pod) = object.view::<Pod>()
            && !pod.spec.node_name.is_empty()
        {
            found(&pod.spec.node_name);
        }
    },
};

/// Index of bound pods that the kubelet has not acknowledged, by node.
pub const NEW_BY_NODE: Index = Index {
    name: "new pods by node",
    resource: Pod::RESOURCE,
    values: |object, found| {
        if let Some(pod) = object.view::<Pod>()
            && !pod.spec.node_name.is_empty()
            && !object.meta().is_deleted()
            && pod.is_new()
        {
            found(&pod.spec.node_name);
        }
    },
};

/// Spec of a Pod: its own fields, and a reference to the fields that it shares with pods of the same template.
#[derive(Clone, Debug, Default)]
pub struct PodSpec {
    /// Empty while the pod is unscheduled.
    pub node_name: String,
    /// Not shared: the name of the token volume differs in every pod.
    pub volumes: Vec<Volume>,
    shared: Arc<SharedPodSpec>,
}

impl PodSpec {
    /// `true` if both refer to the same shared fields.
    #[must_use]
    pub fn shares_with(&self, other: &PodSpec) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Deref for PodSpec {
    type Target = SharedPodSpec;

    fn deref(&self) -> &SharedPodSpec {
        &self.shared
    }
}

impl DerefMut for PodSpec {
    /// Copies the shared fields if another pod refers to them.
    fn deref_mut(&mut self) -> &mut SharedPodSpec {
        Arc::make_mut(&mut self.shared)
    }
}

impl<'de> Deserialize<'de> for PodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PodSpec, D::Error> {
        let mut shared = SharedPodSpec::deserialize(deserializer)?;
        let (node_name, volumes) =
            (std::mem::take(&mut shared.node_name), std::mem::take(&mut shared.volumes));
        Ok(PodSpec { node_name, volumes, shared: Arc::new(shared) })
    }
}

/// Fields of a PodSpec that are equal for all pods of a template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SharedPodSpec {
    /// Moved to [`PodSpec`] after decoding.
    node_name: String,
    /// Moved to [`PodSpec`] after decoding.
    volumes: Vec<Volume>,
    pub scheduler_name: String,
    pub restart_policy: String,
    pub service_account_name: String,
    pub termination_grace_period_seconds: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub priority_class_name: String,
    pub priority: Option<i64>,
    pub hostname: String,
    pub subdomain: String,
    pub host_network: bool,
    /// `true` if absent.
    pub host_users: Option<bool>,
    pub tolerations: Vec<Toleration>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub scheduling_gates: Vec<Value>,
    pub node_selector: Pairs,
    pub affinity: Option<Value>,
    pub topology_spread_constraints: Vec<Value>,
    pub overhead: Option<Value>,
    pub resources: Option<Value>,
    pub preemption_policy: String,
    pub resource_claims: Vec<PodResourceClaim>,
}

/// Reference of a pod to a ResourceClaim, or to a template of one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    pub name: String,
    pub resource_claim_name: Option<String>,
    pub resource_claim_template_name: Option<String>,
}

/// Container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub image: String,
    pub ports: Vec<ContainerPort>,
    pub resources: ResourceRequirements,
    /// `Always` marks a sidecar among the init containers.
    pub restart_policy: String,
    pub restart_policy_rules: Vec<ContainerRestartRule>,
}

/// Restart rule of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerRestartRule {
    /// `Restart` or `RestartAllContainers`.
    pub action: String,
}

/// Port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    pub name: String,
    pub container_port: i64,
    /// 0 if none.
    pub host_port: i64,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    pub protocol: String,
}

/// Resource requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    #[serde(deserialize_with = "or_default")]
    pub requests: Pairs,
    #[serde(deserialize_with = "or_default")]
    pub limits: Pairs,
}

/// Volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: String,
    pub persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
    pub ephemeral: Option<Value>,
    pub image: Option<Box<ImageVolumeSource>>,
    #[serde(rename = "gcePersistentDisk")]
    pub gce: Option<Box<DiskSource>>,
    #[serde(rename = "awsElasticBlockStore")]
    pub aws: Option<Box<DiskSource>>,
    pub iscsi: Option<Box<DiskSource>>,
    pub rbd: Option<Box<DiskSource>>,
}

/// Image volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ImageVolumeSource {
    pub reference: String,
}

/// Identity of a network disk: GCE persistent disk, EBS volume, iSCSI LUN or RBD image.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskSource {
    /// `pdName`, `volumeID`, `iqn` or `image`.
    #[serde(alias = "pdName", alias = "volumeID", alias = "iqn", alias = "image")]
    pub name: String,
    pub pool: String,
    #[serde(deserialize_with = "or_default")]
    pub monitors: Vec<String>,
    pub read_only: bool,
}

/// Reference of a volume to a claim.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimVolumeSource {
    pub claim_name: String,
}

/// Toleration of a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Matches all taint keys if empty.
    pub key: String,
    /// `Equal`, `Exists`, `Lt` or `Gt`; `Equal` if empty.
    pub operator: String,
    pub value: String,
    /// Matches all effects if empty.
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// `true` if it tolerates the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                "Lt" => number(&taint.value).zip(number(&self.value)).is_some_and(|(taint, own)| taint < own),
                "Gt" => number(&taint.value).zip(number(&self.value)).is_some_and(|(taint, own)| taint > own),
                _ => false,
            }
    }
}

/// Tolerations by key: a taint is compared with those of its own key and those without a key.
#[derive(Clone, Debug, Default)]
pub struct TolerationsByKey<'a>(BTreeMap<&'a str, Vec<(usize, &'a Toleration)>>);

impl<'a> TolerationsByKey<'a> {
    /// Indexes tolerations.
    #[must_use]
    pub fn new(tolerations: &'a [Toleration]) -> TolerationsByKey<'a> {
        let mut by_key: BTreeMap<&str, Vec<(usize, &Toleration)>> = BTreeMap::new();
        for (position, toleration) in tolerations.iter().enumerate() {
            by_key.entry(&toleration.key).or_default().push((position, toleration));
        }
        TolerationsByKey(by_key)
    }

    /// Returns the first toleration of the list that tolerates a taint.
    #[must_use]
    pub fn first(&self, taint: &Taint) -> Option<&'a Toleration> {
        let first_of_key =
            |key: &str| self.0.get(key)?.iter().find(|(_, toleration)| toleration.tolerates(taint)).copied();
        let candidates = ["", taint.key.as_str()].into_iter().filter_map(first_of_key);
        candidates.min_by_key(|(position, _)| *position).map(|(_, toleration)| toleration)
    }
}

/// Status of a Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    pub reason: String,
    pub message: String,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    #[serde(rename = "podIPs", deserialize_with = "or_default")]
    pub pod_ips: Vec<PodIp>,
    /// Absent until the kubelet acknowledges the pod.
    #[serde(deserialize_with = "deserialize_time")]
    pub start_time: Option<Time>,
    #[serde(deserialize_with = "or_default")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    pub nominated_node_name: String,
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Pairs,
    pub resources: Option<Box<ResourceRequirements>>,
}

/// Claim that was generated for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaimStatus {
    pub name: String,
    /// Absent if no claim is needed.
    pub resource_claim_name: Option<String>,
}

/// IP address of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodIp {
    pub ip: String,
}

/// Status of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub ready: bool,
    pub restart_count: i64,
    #[serde(deserialize_with = "or_default")]
    pub state: ContainerState,
    #[serde(deserialize_with = "or_default")]
    pub resources: ResourceRequirements,
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Pairs,
}

/// State of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    running: Option<IgnoredAny>,
    pub waiting: Option<Box<ContainerStateWaiting>>,
    pub terminated: Option<Box<ContainerStateTerminated>>,
}

impl ContainerState {
    /// `true` if the state is `running`.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

/// Waiting state of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStateWaiting {
    pub reason: String,
}

/// Terminated state of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStateTerminated {
    pub exit_code: Option<i64>,
    #[serde(deserialize_with = "deserialize_time")]
    pub finished_at: Option<Time>,
}

impl Pod {
    /// `true` until the kubelet acknowledges the pod (`status.startTime`) or it terminates.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.status.start_time.is_none() && !self.is_finished()
    }

    /// Names of its ResourceClaims that are known, each with `true` if the claim is generated from a template.
    pub fn device_claims(&self) -> impl Iterator<Item = (&str, bool)> {
        self.claims_with_status().filter_map(|(claim, status)| match &claim.resource_claim_name {
            Some(name) => Some((name.as_str(), false)),
            None => Some((status?.resource_claim_name.as_deref()?, true)),
        })
    }

    /// Its claims, each with the status of the generated claim; no status until the controller handled the claim.
    pub fn claims_with_status(
        &self,
    ) -> impl Iterator<Item = (&PodResourceClaim, Option<&PodResourceClaimStatus>)> {
        // The first of duplicate names wins.
        let statuses = self.status.resource_claim_statuses.iter().rev();
        let by_name: BTreeMap<&str, &PodResourceClaimStatus> =
            statuses.map(|status| (status.name.as_str(), status)).collect();
        let claims = self.spec.resource_claims.iter();
        claims.map(move |claim| (claim, by_name.get(claim.name.as_str()).copied()))
    }

    /// `true` if the Ready condition is `True`.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        condition(&self.status.conditions, "Ready").is_some_and(Condition::is_true)
    }

    /// Transition time of the Ready condition while it is `True`.
    #[must_use]
    pub fn ready_since(&self) -> Option<Time> {
        let ready = condition(&self.status.conditions, "Ready").filter(|ready| ready.is_true())?;
        ready.last_transition_time
    }

    /// `true` if it has been ready for `min_ready_seconds`.
    #[must_use]
    pub fn is_available(&self, min_ready_seconds: i64, now: Time) -> bool {
        self.available_at(min_ready_seconds).is_some_and(|since| since <= now)
    }

    /// Time at which it becomes available if it stays ready.
    #[must_use]
    pub fn available_at(&self, min_ready_seconds: i64) -> Option<Time> {
        let ready = condition(&self.status.conditions, "Ready").filter(|ready| ready.is_true())?;
        if min_ready_seconds <= 0 {
            return Some(ready.last_transition_time.unwrap_or(Time::EPOCH).min(Time::EPOCH));
        }
        let wait = std::time::Duration::from_secs(min_ready_seconds.unsigned_abs());
        Some(ready.last_transition_time?.after(wait))
    }

    /// `true` if the phase is `Succeeded` or `Failed`.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Highest restart count of its containers.
    #[must_use]
    pub fn max_container_restarts(&self) -> i64 {
        let statuses = self.status.container_statuses.iter().chain(&self.status.init_container_statuses);
        statuses.map(|container| container.restart_count).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_of_a_pod_fits_a_size_class_of_the_allocator() {
        // Strings and lists are allocated separately.
        assert!(size_of::<Pod>() <= 448, "{}", size_of::<Pod>());
        assert!(size_of::<ContainerStatus>() <= 128, "{}", size_of::<ContainerStatus>());
    }

    #[test]
    fn container_state_is_decoded() {
        let read = |text: &str| serde_json::from_str::<ContainerState>(text).unwrap();
        assert!(read(r#"{"running":{"startedAt":"2026-11-18T06:58:13Z"}}"#).is_running());
        assert!(read(r#"{"running":{}}"#).is_running());
        assert!(!read("{}").is_running() && !read(r#"{"running":null}"#).is_running());
        assert_eq!(read(r#"{"waiting":{"reason":"x","message":"y"}}"#).waiting.unwrap().reason, "x");
        let state = read(r#"{"terminated":{"exitCode":3,"finishedAt":"1970-01-01T00:00:07Z","reason":"r"}}"#);
        let terminated = state.terminated.unwrap();
        assert_eq!((terminated.exit_code, terminated.finished_at), (Some(3), Some(Time::from_seconds(7))));
    }
}
