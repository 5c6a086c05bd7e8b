//! What planners read of a Pod.

mod written;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::{Before, Pairs, View};
use setpoint_reconcile::world::Index;

use self::written::Written;
use super::node::Taint;
use super::{Condition, condition, or_default, time};

/// A Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// What is wanted.
    pub spec: PodSpec,
    /// How it stands.
    pub status: PodStatus,
    #[serde(skip)]
    written: Written,
}

impl View for Pod {
    const RESOURCE: &'static str = "pods";

    fn shrink(&mut self) {
        self.spec.volumes.shrink_to_fit();
        // A spec that is shared has been shrunk before.
        if let Some(SharedSpec { tolerations, containers, init_containers, .. }) =
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

    fn share(&mut self, like: &Pod) {
        if self.spec.shared == like.spec.shared {
            self.spec.shared = Arc::clone(&like.spec.shared);
        }
    }

    fn read_stored(body: &str, before: Option<Before<'_, Pod>>) -> Option<Pod> {
        written::read(body, before)
    }
}

/// Pods by the node they are bound to.
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

/// Pods that their node has not taken up, by that node.
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

/// What is wanted of a Pod: its own part, and, by reference, the part that it shares with pods of the same template.
#[derive(Clone, Debug, Default)]
pub struct PodSpec {
    /// The node it is to run on; empty while it has none.
    pub node_name: String,
    /// What it mounts; those parts that planners read. The volume for its token has a name of its own in every pod.
    pub volumes: Vec<Volume>,
    shared: Arc<SharedSpec>,
}

impl PodSpec {
    /// `true` if both refer to the same shared part.
    #[must_use]
    pub fn shares_with(&self, other: &PodSpec) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Deref for PodSpec {
    type Target = SharedSpec;

    fn deref(&self) -> &SharedSpec {
        &self.shared
    }
}

impl DerefMut for PodSpec {
    /// Copies what is shared.
    fn deref_mut(&mut self) -> &mut SharedSpec {
        Arc::make_mut(&mut self.shared)
    }
}

impl<'de> Deserialize<'de> for PodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PodSpec, D::Error> {
        let mut shared = SharedSpec::deserialize(deserializer)?;
        let (node_name, volumes) =
            (std::mem::take(&mut shared.node_name), std::mem::take(&mut shared.volumes));
        Ok(PodSpec { node_name, volumes, shared: Arc::new(shared) })
    }
}

/// What is wanted of a Pod and the same for all pods of its template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SharedSpec {
    /// Read here, and kept in [`PodSpec`].
    node_name: String,
    /// As above.
    volumes: Vec<Volume>,
    /// Who gives it a node.
    pub scheduler_name: String,
    /// Whether containers are started again.
    pub restart_policy: String,
    /// Whose account it runs under.
    pub service_account_name: String,
    /// How long it is given to stop.
    pub termination_grace_period_seconds: Option<i64>,
    /// How long it may run.
    pub active_deadline_seconds: Option<i64>,
    /// How important it is, by name.
    pub priority_class_name: String,
    /// How important it is.
    pub priority: Option<i64>,
    /// Its name on the network.
    pub hostname: String,
    /// The service that names it on the network.
    pub subdomain: String,
    /// Whether it uses the node's own network.
    pub host_network: bool,
    /// Whether it has the users of its node; it has if it says nothing.
    pub host_users: Option<bool>,
    /// What it puts up with on a node.
    pub tolerations: Vec<Toleration>,
    /// What runs in it.
    pub containers: Vec<Container>,
    /// What runs before that.
    pub init_containers: Vec<Container>,
    /// What must be cleared before it gets a node.
    pub scheduling_gates: Vec<Value>,
    /// Where it may run.
    pub node_selector: Pairs,
    /// Where it should run, and beside whom.
    pub affinity: Option<Value>,
    /// How it spreads.
    pub topology_spread_constraints: Vec<Value>,
    /// What it takes beside its containers.
    pub overhead: Option<Value>,
    /// What it asks for as a whole.
    pub resources: Option<Value>,
    /// When it may push others aside.
    pub preemption_policy: String,
    /// The devices it claims.
    pub resource_claims: Vec<ResourceClaim>,
}

/// Devices that a Pod claims: by a claim, or by a template of one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaim {
    /// What the Pod calls it.
    pub name: String,
    /// The claim.
    pub resource_claim_name: Option<String>,
    /// The template that a claim is made of.
    pub resource_claim_template_name: Option<String>,
}

/// A container of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Its ports.
    pub ports: Vec<ContainerPort>,
    /// What it needs.
    pub resources: Resources,
    /// `Always` for one that starts first and goes on beside the others.
    pub restart_policy: String,
    /// What becomes of it, or of the Pod, when it ends in some way.
    pub restart_policy_rules: Vec<RestartRule>,
}

/// What becomes of a container that ends in some way.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RestartRule {
    /// `Restart`, or `RestartAllContainers` for the whole Pod.
    pub action: String,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Its name.
    pub name: String,
    /// Its number.
    pub container_port: i64,
    /// Its number on the node; 0 for none.
    pub host_port: i64,
    /// Its address on the node.
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// Its protocol.
    pub protocol: String,
}

/// What a container needs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// At the least.
    #[serde(deserialize_with = "or_default")]
    pub requests: Pairs,
    /// At the most.
    #[serde(deserialize_with = "or_default")]
    pub limits: Pairs,
}

/// A volume of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The claim it is bound to.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// The claim that is made for it.
    pub ephemeral: Option<Value>,
    /// The image that it is.
    pub image: Option<Box<ImageSource>>,
    /// The disk that it is, of a kind that is attached to one node, or to several to be read only.
    #[serde(rename = "gcePersistentDisk")]
    pub gce: Option<Box<Disk>>,
    /// As above.
    #[serde(rename = "awsElasticBlockStore")]
    pub aws: Option<Box<Disk>>,
    /// As above.
    pub iscsi: Option<Box<Disk>>,
    /// As above.
    pub rbd: Option<Box<Disk>>,
}

/// The image that a volume is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ImageSource {
    /// Its name.
    pub reference: String,
}

/// What tells the disks of one kind apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// Its name.
    #[serde(alias = "pdName", alias = "volumeID", alias = "iqn", alias = "image")]
    pub name: String,
    /// Where it is.
    pub pool: String,
    /// Who knows of it.
    #[serde(deserialize_with = "or_default")]
    pub monitors: Vec<String>,
    /// Whether it is only read.
    pub read_only: bool,
}

/// The claim of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    /// Its name.
    pub claim_name: String,
}

/// What a Pod puts up with on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The key of the taint; empty for all.
    pub key: String,
    /// `Equal` or `Exists`.
    pub operator: String,
    /// The value of the taint.
    pub value: String,
    /// The effect of the taint; empty for all.
    pub effect: String,
    /// For how long, where it is to go.
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Whether it puts up with a taint.
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

/// Tolerations by key: a taint is compared with those of its own key and those for all keys.
#[derive(Clone, Debug, Default)]
pub struct TolerationsByKey<'a>(BTreeMap<&'a str, Vec<(usize, &'a Toleration)>>);

impl<'a> TolerationsByKey<'a> {
    /// Index of a list.
    #[must_use]
    pub fn of(list: &'a [Toleration]) -> TolerationsByKey<'a> {
        let mut by_key: BTreeMap<&str, Vec<(usize, &Toleration)>> = BTreeMap::new();
        for (at, one) in list.iter().enumerate() {
            by_key.entry(&one.key).or_default().push((at, one));
        }
        TolerationsByKey(by_key)
    }

    /// The first of the list that tolerates a taint.
    #[must_use]
    pub fn first(&self, taint: &Taint) -> Option<&'a Toleration> {
        let first_of = |key: &str| self.0.get(key)?.iter().find(|(_, one)| one.tolerates(taint)).copied();
        let both = ["", taint.key.as_str()].into_iter().filter_map(first_of);
        both.min_by_key(|(at, _)| *at).map(|(_, one)| one)
    }
}

/// How a Pod stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Why it is so, in one word.
    pub reason: String,
    /// Why it is so.
    pub message: String,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    /// Its address.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// Its addresses.
    #[serde(rename = "podIPs", deserialize_with = "or_default")]
    pub pod_ips: Vec<Ip>,
    /// When its node took it up.
    #[serde(deserialize_with = "time")]
    pub start_time: Option<Time>,
    /// How its containers stand.
    #[serde(deserialize_with = "or_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// How the containers that run first stand.
    #[serde(deserialize_with = "or_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The claims that were made for it.
    #[serde(deserialize_with = "or_default")]
    pub resource_claim_statuses: Vec<ResourceClaimStatus>,
    /// The node that others are to make room on.
    pub nominated_node_name: String,
    /// What its node set aside for it as a whole.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Pairs,
    /// What it has as a whole.
    pub resources: Option<Box<Resources>>,
}

/// A claim that was made for a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// What the Pod calls it.
    pub name: String,
    /// The claim; nothing if none is needed.
    pub resource_claim_name: Option<String>,
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ip {
    /// It.
    pub ip: String,
}

/// How a container stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Whether it can serve.
    pub ready: bool,
    /// How often it was started again.
    pub restart_count: i64,
    /// What it does.
    #[serde(deserialize_with = "or_default")]
    pub state: ContainerState,
    /// What it has.
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
    /// What its node set aside for it.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Pairs,
}

/// What a container does; those parts that planners read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    running: Option<IgnoredAny>,
    /// Why it has not started.
    pub waiting: Option<Box<Waiting>>,
    /// How it ended.
    pub terminated: Option<Box<Terminated>>,
}

impl ContainerState {
    /// `true` if it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

/// Why a container has not started.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// In one word.
    pub reason: String,
}

/// How a container ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// With which code.
    pub exit_code: Option<i64>,
    /// When.
    #[serde(deserialize_with = "time")]
    pub finished_at: Option<Time>,
}

impl Pod {
    /// Whether no node has taken it up.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.status.start_time.is_none() && !self.is_finished()
    }

    /// The names of the claims for devices that it lists and that are known, with whether each is to be made for it.
    pub fn device_claims(&self) -> impl Iterator<Item = (&str, bool)> {
        self.claims_with_status().filter_map(|(claim, status)| match &claim.resource_claim_name {
            Some(name) => Some((name.as_str(), false)),
            None => Some((status?.resource_claim_name.as_deref()?, true)),
        })
    }

    /// The claims that it lists, each with the status of the one that is made for it; no status if the claim was not
    /// looked into yet.
    pub fn claims_with_status(&self) -> impl Iterator<Item = (&ResourceClaim, Option<&ResourceClaimStatus>)> {
        // The first of equal names counts.
        let statuses = self.status.resource_claim_statuses.iter().rev();
        let by_name: BTreeMap<&str, &ResourceClaimStatus> =
            statuses.map(|status| (status.name.as_str(), status)).collect();
        let claims = self.spec.resource_claims.iter();
        claims.map(move |claim| (claim, by_name.get(claim.name.as_str()).copied()))
    }

    /// Whether it can serve.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        condition(&self.status.conditions, "Ready").is_some_and(Condition::is_true)
    }

    /// Since when it can serve.
    #[must_use]
    pub fn ready_since(&self) -> Option<Time> {
        let ready = condition(&self.status.conditions, "Ready").filter(|ready| ready.is_true())?;
        ready.last_transition_time
    }

    /// Whether it has been able to serve for at least so many seconds.
    #[must_use]
    pub fn is_available(&self, min_ready_seconds: i64, now: Time) -> bool {
        self.available_at(min_ready_seconds).is_some_and(|since| since <= now)
    }

    /// When it will have been able to serve for so many seconds, if it stays as it is.
    #[must_use]
    pub fn available_at(&self, min_ready_seconds: i64) -> Option<Time> {
        let ready = condition(&self.status.conditions, "Ready").filter(|ready| ready.is_true())?;
        if min_ready_seconds <= 0 {
            return Some(ready.last_transition_time.unwrap_or(Time::EPOCH).min(Time::EPOCH));
        }
        let wait = std::time::Duration::from_secs(min_ready_seconds.unsigned_abs());
        Some(ready.last_transition_time?.after(wait))
    }

    /// Whether it has come to its end, well or not.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// How often its containers were started again, the most restarted one counts.
    #[must_use]
    pub fn restarts(&self) -> i64 {
        let all = self.status.container_statuses.iter().chain(&self.status.init_container_statuses);
        all.map(|container| container.restart_count).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_of_a_pod_is_as_small_as_the_allocator_likes_it() {
        // A size class of the allocator; strings and lists come on top.
        assert!(size_of::<Pod>() <= 448, "{}", size_of::<Pod>());
        assert!(size_of::<ContainerStatus>() <= 128, "{}", size_of::<ContainerStatus>());
    }

    #[test]
    fn state_of_a_container_is_what_planners_read_of_it() {
        let read = |text: &str| serde_json::from_str::<ContainerState>(text).unwrap();
        assert!(read(r#"{"running":{"startedAt":"2026-11-18T06:58:13Z"}}"#).is_running());
        assert!(read(r#"{"running":{}}"#).is_running());
        assert!(!read("{}").is_running() && !read(r#"{"running":null}"#).is_running());
        assert_eq!(read(r#"{"waiting":{"reason":"x","message":"y"}}"#).waiting.unwrap().reason, "x");
        let ended = read(r#"{"terminated":{"exitCode":3,"finishedAt":"1970-01-01T00:00:07Z","reason":"r"}}"#);
        let ended = ended.terminated.unwrap();
        assert_eq!((ended.exit_code, ended.finished_at), (Some(3), Some(Time::from_seconds(7))));
    }
}
