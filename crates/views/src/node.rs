//! View of a Node.

use serde::{Deserialize, Serialize};
use setpoint_api::Time;
use setpoint_reconcile::object::{Pairs, View};

use super::{deserialize_time, or_default, serialize_time};

/// Label of simulated nodes, in a namespace whose labels nodes may set. `kubectl get nodes` prints it as a role.
pub const SIMULATED_LABEL: &str = "node.kubernetes.io/simulated";
/// Label of simulated nodes that were registered by earlier releases.
const OLD_SIMULATED_LABEL: &str = "node-role.kubernetes.io/simulated";

/// `true` if a node is simulated, given a test for the presence of a label.
#[must_use]
pub fn is_simulated(has_label: impl Fn(&str) -> bool) -> bool {
    has_label(SIMULATED_LABEL) || has_label(OLD_SIMULATED_LABEL)
}

/// View of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

impl View for Node {
    const RESOURCE: &'static str = "nodes";
}

/// Spec of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<String>,
}

/// Taint of a node or device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    #[serde(
        deserialize_with = "deserialize_time",
        serialize_with = "serialize_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub time_added: Option<Time>,
}

impl Taint {
    /// `true` if key and effect match. They identify a taint: a node has at most one of each.
    #[must_use]
    pub fn matches(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
}

/// Status of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<NodeCondition>,
    #[serde(deserialize_with = "or_default")]
    pub volumes_attached: Vec<AttachedVolume>,
    /// Volumes that are mounted or about to be.
    #[serde(deserialize_with = "or_default")]
    pub volumes_in_use: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub allocatable: Pairs,
    #[serde(deserialize_with = "or_default")]
    pub images: Vec<ContainerImage>,
    /// Sorted.
    #[serde(deserialize_with = "or_default")]
    pub declared_features: Vec<String>,
}

/// Volume that is attached to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachedVolume {
    /// Unique volume name: plugin name, then the name of the volume.
    pub name: String,
    pub device_path: String,
}

/// Image on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    #[serde(deserialize_with = "or_default")]
    pub names: Vec<Box<str>>,
    pub size_bytes: i64,
}

/// Condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(
        deserialize_with = "deserialize_time",
        serialize_with = "serialize_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_heartbeat_time: Option<Time>,
    #[serde(
        deserialize_with = "deserialize_time",
        serialize_with = "serialize_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_transition_time: Option<Time>,
    pub reason: String,
    pub message: String,
}

impl Node {
    /// Returns the condition of a type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Status of the Ready condition: `True`, `False` or `Unknown`; `None` before its first report.
    #[must_use]
    pub fn readiness(&self) -> Option<&str> {
        self.condition("Ready").map(|condition| condition.status.as_str())
    }

    /// `true` if the Ready condition is `True`.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness() == Some("True")
    }

    /// `true` if the Ready condition is `Unknown`: the node stopped renewing its Lease.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.readiness() == Some("Unknown")
    }
}
