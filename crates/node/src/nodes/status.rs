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

use crate::attend::IMAGE_BYTES;
use crate::fleet::{Fleet, NETWORK_GRACE, Seat};
use crate::images::hex;
use crate::lifecycle::whole;

/// Interval of status reports without changes.
const HEARTBEAT: Duration = Duration::from_secs(300);
/// Maximum number of images in a node status.
const IMAGES_MAX: usize = 50;
/// Architecture of simulated nodes.
pub const ARCHITECTURE: &str = "amd64";
/// Kubelet version of simulated nodes.
const VERSION: &str = "v1.37.0";

/// Node status without conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    addresses: Vec<Address>,
    node_info: Info,
    #[serde(deserialize_with = "or_default")]
    images: Vec<Image>,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<NodeCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Info {
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
struct Image {
    #[serde(deserialize_with = "or_default")]
    names: Vec<String>,
    size_bytes: u64,
}

/// Returns the node's internal IP from its status.
#[must_use]
pub fn address(node: &Object) -> Option<String> {
    let Part { status } = node.decode()?;
    status.addresses.into_iter().find(|one| one.kind == "InternalIP").map(|one| one.address)
}

/// Node fields that are read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Part {
    status: Status,
}

/// Status changes to report.
pub struct Wanted {
    /// Status patch; `None` if nothing is to be reported.
    pub patch: Option<Value>,
    /// `true` if the node becomes ready.
    pub becomes_ready: bool,
    /// Boot ID.
    pub boot: Option<String>,
    /// Time of the next report.
    pub next: Time,
}

/// Returns the status of a node at registration.
pub fn of_new(fleet: &Fleet, number: u32, now: Time) -> Status {
    let mut status = plain(fleet, number, &fleet.name(number), Time::EPOCH);
    status.conditions = conditions(false, now);
    status
}

/// Formats a hash of the text as a UUID.
fn uuid(text: &str) -> String {
    let hex = hex(text);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32])
}

/// Returns the status fields that do not depend on the node's state.
fn plain(fleet: &Fleet, number: u32, identity: &str, booted: Time) -> Status {
    let capacity: BTreeMap<String, String> = fleet.capacity.iter().cloned().collect();
    let address = |kind: &str, address: String| Address { kind: kind.to_owned(), address };
    let version = env!("CARGO_PKG_VERSION");
    Status {
        allocatable: capacity.clone(),
        capacity,
        addresses: vec![
            address("InternalIP", fleet.address(number)),
            address("Hostname", fleet.name(number)),
        ],
        node_info: Info {
            architecture: ARCHITECTURE.to_owned(),
            boot_id: uuid(&format!("boot of {identity} at {}", booted.0)),
            container_runtime_version: format!("simulated://{version}"),
            kernel_version: "none".to_owned(),
            kube_proxy_version: String::new(),
            kubelet_version: VERSION.to_owned(),
            machine_id: uuid(&format!("machine {}", fleet.name(number))).replace('-', ""),
            operating_system: "linux".to_owned(),
            os_image: "Setpoint simulated node".to_owned(),
            system_uuid: uuid(&format!("system {}", fleet.name(number))),
        },
        ..Status::default()
    }
}

fn conditions(has_network: bool, now: Time) -> Vec<NodeCondition> {
    let condition = |kind: &str, is_so: bool, reason: &str, message: &str| NodeCondition {
        kind: kind.to_owned(),
        status: if is_so { "True" } else { "False" }.to_owned(),
        last_heartbeat_time: Some(whole(now)),
        last_transition_time: Some(whole(now)),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let enough = |kind: &str, reason: &str, message: &str| condition(kind, false, reason, message);
    let ready = if has_network {
        condition("Ready", true, "KubeletReady", "simulated node is posting ready status")
    } else {
        let message = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                       message:the node has no addresses for pods";
        condition("Ready", false, "KubeletNotReady", message)
    };
    vec![
        enough("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        enough("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        enough("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ready,
    ]
}

/// Returns the images of pods on a node, sorted by name.
fn images(world: &WorldReader<'_>, node: &str) -> Vec<Image> {
    let pods = world.by_index(BY_NODE.name, node).filter_map(|pod| pod.view::<PodView>());
    let running = pods.filter(|pod| pod.status.phase != "Pending");
    let names: std::collections::BTreeSet<&str> = running
        .flat_map(|pod| pod.spec.containers.iter().chain(&pod.spec.init_containers))
        .map(|container| container.image.as_str())
        .collect();
    let image = |name: &str| Image { names: vec![name.to_owned()], size_bytes: IMAGE_BYTES };
    names.into_iter().take(IMAGES_MAX).map(image).collect()
}

/// Compares the reported status with the actual one. Returns the last reported boot ID and the changes.
pub fn compare(fleet: &Fleet, seat: &Seat<'_>, world: &WorldReader<'_>, now: Time) -> (String, Wanted) {
    let known = seat.object.decode::<Part>().unwrap_or_default().status;
    let ranges = fleet.pod_ranges(seat, now);
    let mut wanted = plain(fleet, seat.number, &fleet.name(seat.number), seat.booted());
    // Capacity that others patched in (extended resources) becomes allocatable too, as with a kubelet.
    for (name, amount) in &known.capacity {
        if !wanted.capacity.contains_key(name) {
            wanted.capacity.insert(name.clone(), amount.clone());
            wanted.allocatable.insert(name.clone(), amount.clone());
        }
    }
    wanted.conditions = conditions(!ranges.is_empty(), now);
    let was_ready = seat.node.is_ready();
    let becomes_ready = !ranges.is_empty() && !was_ready;
    let mut differs = known.capacity != wanted.capacity
        || known.allocatable != wanted.allocatable
        || known.addresses != wanted.addresses
        || known.node_info != wanted.node_info;
    let mut heard: Option<Time> = None;
    for condition in &mut wanted.conditions {
        let before = known.conditions.iter().find(|other| other.kind == condition.kind);
        let same = before.filter(|before| before.status == condition.status);
        if let Some(same) = same {
            condition.last_transition_time = same.last_transition_time;
        }
        differs |=
            same.is_none_or(|same| same.reason != condition.reason || same.message != condition.message);
        let at = before.and_then(|before| before.last_heartbeat_time).unwrap_or(Time::EPOCH);
        heard = Some(heard.map_or(at, |heard| heard.min(at)));
    }
    let due = heard.unwrap_or(Time::EPOCH).after(HEARTBEAT);
    let boot = wanted.node_info.boot_id.clone();
    let mut next = now.after(HEARTBEAT);
    let mut patch = None;
    if differs || due <= now {
        // Images are reported along with other changes only.
        wanted.images = images(world, seat.object.key().name());
        let mut said = value_of(&wanted);
        // Resources that the node lost must be removed by name.
        for name in known.allocatable.keys().filter(|name| !wanted.allocatable.contains_key(*name)) {
            said.ensure_map("allocatable").insert(name.as_str(), Value::Null);
        }
        patch = Some(said);
    } else {
        next = due;
    }
    if ranges.is_empty() {
        next = next.min(seat.object.meta().created().after(NETWORK_GRACE));
    }
    (known.node_info.boot_id, Wanted { patch, becomes_ready, boot: Some(boot), next })
}
