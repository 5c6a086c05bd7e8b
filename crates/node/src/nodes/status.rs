//! Status of a simulated node.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::node::NodeCondition;
use setpoint_views::or_default;
use setpoint_views::pod::{BY_NODE, Pod as PodView};

use crate::fleet::{Fleet, NodeRef, POD_CIDR_TIMEOUT};
use crate::images::hex_digest;
use crate::lifecycle::truncate_to_seconds;
use crate::pod_sync::IMAGE_BYTES;

/// Interval of status reports without changes.
const STATUS_REPORT_INTERVAL: Duration = Duration::from_secs(300);
/// Maximum number of images in a node status.
const IMAGES_MAX: usize = 50;
/// Architecture of simulated nodes.
pub const ARCHITECTURE: &str = "amd64";
/// Kubelet version of simulated nodes.
const VERSION: &str = "v1.37.0";

/// Node status without conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    addresses: Vec<NodeAddress>,
    node_info: NodeInfo,
    #[serde(deserialize_with = "or_default")]
    images: Vec<ContainerImage>,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<NodeCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    architecture: String,
    #[serde(rename = "bootID")]
    boot_id: String,
    container_runtime_version: String,
    kernel_version: String,
    kube_proxy_version: String,
    kubelet_version: String,
    #[serde(rename = "machineID")]
    machine_id: String,
    operating_system: String,
    os_image: String,
    #[serde(rename = "systemUUID")]
    system_uuid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerImage {
    #[serde(deserialize_with = "or_default")]
    names: Vec<String>,
    size_bytes: u64,
}

/// Returns the node's internal IP from its status.
#[must_use]
pub fn internal_ip(node: &Object) -> Option<String> {
    let NodeFields { status } = node.decode()?;
    status.addresses.into_iter().find(|one| one.kind == "InternalIP").map(|one| one.address)
}

/// Node fields that are read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeFields {
    status: NodeStatus,
}

/// Status changes to report.
pub struct StatusUpdate {
    /// Status patch; `None` if nothing is to be reported.
    pub patch: Option<Value>,
    /// `true` if the node becomes ready.
    pub becomes_ready: bool,
    /// Boot ID.
    pub boot_id: Option<String>,
    /// Time of the next report.
    pub next_report: Time,
}

/// Returns the status of a node at registration.
pub fn initial_status(fleet: &Fleet, number: u32, now: Time) -> NodeStatus {
    let mut status = static_status(fleet, number, &fleet.node_name(number), Time::EPOCH);
    status.conditions = conditions(false, now);
    status
}

/// Formats a hash of the text as a UUID.
fn uuid(text: &str) -> String {
    let hex_digest = hex_digest(text);
    format!(
        "{}-{}-{}-{}-{}",
        &hex_digest[..8],
        &hex_digest[8..12],
        &hex_digest[12..16],
        &hex_digest[16..20],
        &hex_digest[20..32]
    )
}

/// Returns the status fields that do not depend on the node's state.
fn static_status(fleet: &Fleet, number: u32, identity: &str, boot_time: Time) -> NodeStatus {
    let capacity: BTreeMap<String, String> = fleet.capacity.iter().cloned().collect();
    let address = |kind: &str, address: String| NodeAddress { kind: kind.to_owned(), address };
    let version = env!("CARGO_PKG_VERSION");
    NodeStatus {
        allocatable: capacity.clone(),
        capacity,
        addresses: vec![
            address("InternalIP", fleet.node_ip(number)),
            address("Hostname", fleet.node_name(number)),
        ],
        node_info: NodeInfo {
            architecture: ARCHITECTURE.to_owned(),
            boot_id: uuid(&format!("boot of {identity} at {}", boot_time.0)),
            container_runtime_version: format!("simulated://{version}"),
            kernel_version: "none".to_owned(),
            kube_proxy_version: String::new(),
            kubelet_version: VERSION.to_owned(),
            machine_id: uuid(&format!("machine {}", fleet.node_name(number))).replace('-', ""),
            operating_system: "linux".to_owned(),
            os_image: "Setpoint simulated node".to_owned(),
            system_uuid: uuid(&format!("system {}", fleet.node_name(number))),
        },
        ..NodeStatus::default()
    }
}

fn conditions(has_network: bool, now: Time) -> Vec<NodeCondition> {
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| NodeCondition {
        kind: kind.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        last_heartbeat_time: Some(truncate_to_seconds(now)),
        last_transition_time: Some(truncate_to_seconds(now)),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let no_pressure = |kind: &str, reason: &str, message: &str| condition(kind, false, reason, message);
    let ready = if has_network {
        condition("Ready", true, "KubeletReady", "simulated node is posting ready status")
    } else {
        let message = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                       message:the node has no addresses for pods";
        condition("Ready", false, "KubeletNotReady", message)
    };
    vec![
        no_pressure(
            "MemoryPressure",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        no_pressure("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        no_pressure("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ready,
    ]
}

/// Returns the images of pods on a node, sorted by name.
fn images(world: &WorldReader<'_>, node: &str) -> Vec<ContainerImage> {
    let pods = world.by_index(BY_NODE.name, node).filter_map(|pod| pod.view::<PodView>());
    let running = pods.filter(|pod| pod.status.phase != "Pending");
    let names: std::collections::BTreeSet<&str> = running
        .flat_map(|pod| pod.spec.containers.iter().chain(&pod.spec.init_containers))
        .map(|container| container.image.as_str())
        .collect();
    let image = |name: &str| ContainerImage { names: vec![name.to_owned()], size_bytes: IMAGE_BYTES };
    names.into_iter().take(IMAGES_MAX).map(image).collect()
}

/// Compares the reported status with the actual one. Returns the last reported boot ID and the changes.
pub fn compute_update(
    fleet: &Fleet,
    node: &NodeRef<'_>,
    world: &WorldReader<'_>,
    now: Time,
) -> (String, StatusUpdate) {
    let reported = node.object.decode::<NodeFields>().unwrap_or_default().status;
    let pod_cidrs = fleet.pod_cidrs_of(node, now);
    let mut actual = static_status(fleet, node.number, &fleet.node_name(node.number), node.boot_time());
    // Capacity that others patched in (extended resources) becomes allocatable too, as with a kubelet.
    for (name, amount) in &reported.capacity {
        if !actual.capacity.contains_key(name) {
            actual.capacity.insert(name.clone(), amount.clone());
            actual.allocatable.insert(name.clone(), amount.clone());
        }
    }
    actual.conditions = conditions(!pod_cidrs.is_empty(), now);
    let was_ready = node.view.is_ready();
    let becomes_ready = !pod_cidrs.is_empty() && !was_ready;
    let mut differs = reported.capacity != actual.capacity
        || reported.allocatable != actual.allocatable
        || reported.addresses != actual.addresses
        || reported.node_info != actual.node_info;
    let mut last_heartbeat: Option<Time> = None;
    for condition in &mut actual.conditions {
        let before = reported.conditions.iter().find(|other| other.kind == condition.kind);
        let same = before.filter(|before| before.status == condition.status);
        if let Some(same) = same {
            condition.last_transition_time = same.last_transition_time;
        }
        differs |=
            same.is_none_or(|same| same.reason != condition.reason || same.message != condition.message);
        let at = before.and_then(|before| before.last_heartbeat_time).unwrap_or(Time::EPOCH);
        last_heartbeat = Some(last_heartbeat.map_or(at, |last_heartbeat| last_heartbeat.min(at)));
    }
    let due = last_heartbeat.unwrap_or(Time::EPOCH).after(STATUS_REPORT_INTERVAL);
    let boot_id = actual.node_info.boot_id.clone();
    let mut next = now.after(STATUS_REPORT_INTERVAL);
    let mut patch = None;
    if differs || due <= now {
        // Images are reported along with other changes only.
        actual.images = images(world, node.object.key().name());
        let mut patch_value = value_of(&actual);
        // Resources that the node lost must be removed by name.
        for name in reported.allocatable.keys().filter(|name| !actual.allocatable.contains_key(*name)) {
            patch_value.ensure_map("allocatable").insert(name.as_str(), Value::Null);
        }
        patch = Some(patch_value);
    } else {
        next = due;
    }
    if pod_cidrs.is_empty() {
        next = next.min(node.object.meta().created().after(POD_CIDR_TIMEOUT));
    }
    (
        reported.node_info.boot_id,
        StatusUpdate { patch, becomes_ready, boot_id: Some(boot_id), next_report: next },
    )
}
