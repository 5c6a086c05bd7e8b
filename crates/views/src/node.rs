//! What planners read of a Node.

use serde::{Deserialize, Serialize};
use setpoint_api::Time;
use setpoint_reconcile::object::{Pairs, View};

use super::{or_default, time, write_time};

/// The label of a node on which no container runs for real: its role, so that people see it.
pub const SIMULATED: &str = "node-role.kubernetes.io/simulated";

/// A Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// What is wanted.
    pub spec: NodeSpec,
    /// How it stands.
    pub status: NodeStatus,
}

impl View for Node {
    const RESOURCE: &'static str = "nodes";
}

/// What is wanted of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// What keeps pods away.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
    /// Whether it gets no new pods.
    pub unschedulable: bool,
    /// The addresses of its pods.
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<String>,
}

/// What keeps pods away from a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// When it was added.
    #[serde(
        deserialize_with = "time",
        serialize_with = "write_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub time_added: Option<Time>,
}

impl Taint {
    /// Whether it is the same but for its value and time: a node has each only once.
    #[must_use]
    pub fn is(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
}

/// How a Node stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<NodeCondition>,
    /// The volumes that are attached to it.
    #[serde(deserialize_with = "or_default")]
    pub volumes_attached: Vec<AttachedVolume>,
    /// The volumes that it has mounted, or is about to.
    #[serde(deserialize_with = "or_default")]
    pub volumes_in_use: Vec<String>,
    /// What pods may take of it.
    #[serde(deserialize_with = "or_default")]
    pub allocatable: Pairs,
    /// The images that it has.
    #[serde(deserialize_with = "or_default")]
    pub images: Vec<Image>,
    /// What it says that it can do, in order.
    #[serde(deserialize_with = "or_default")]
    pub declared_features: Vec<String>,
}

/// A volume that is attached to a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachedVolume {
    /// Its name, with that of the plugin before it.
    pub name: String,
    /// Where its device is.
    pub device_path: String,
}

/// An image that a Node has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Its names.
    #[serde(deserialize_with = "or_default")]
    pub names: Vec<Box<str>>,
    /// Its size.
    pub size_bytes: i64,
}

/// A condition of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the node last said so.
    #[serde(
        deserialize_with = "time",
        serialize_with = "write_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_heartbeat_time: Option<Time>,
    /// Since when it is so.
    #[serde(
        deserialize_with = "time",
        serialize_with = "write_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_transition_time: Option<Time>,
    /// Why, in one word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

impl Node {
    /// The condition of a type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// What it says of its readiness: `True`, `False` or `Unknown`; nothing if it never said anything.
    #[must_use]
    pub fn readiness(&self) -> Option<&str> {
        self.condition("Ready").map(|condition| condition.status.as_str())
    }

    /// Whether it can run pods.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness() == Some("True")
    }

    /// Whether it was given up for silent, and has said nothing since.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.readiness() == Some("Unknown")
    }
}
