//! Fleet: the set of simulated nodes that one process runs, and their configuration.

use std::net::Ipv4Addr;
use std::time::Duration;

use setpoint_api::{Time, rfc3339};
use setpoint_reconcile::{ClientIdentity, Object, WorldReader};
use setpoint_views::node::{Node, Taint};

use crate::behavior::ANNOTATION_PREFIX;
use crate::behavior::rules_file::BehaviorRule;
use crate::behavior::script_cache::ScriptCache;
use crate::control_plane::Components;
use crate::images::stable_hash;

/// Identity of all writes of a node.
pub(crate) const KUBELET: ClientIdentity =
    ClientIdentity { user: "system:nodes", manager: "kubelet", source: "kubelet" };

/// First node IP of the default fleet.
const FIRST_NODE_IP: Ipv4Addr = Ipv4Addr::new(172, 18, 0, 2);
/// First node IP of fleets with another prefix, and the number of /24 ranges among which they are distributed
/// by a hash of the prefix.
const FIRST_OTHER_NODE_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const OTHER_RANGES: u64 = 512;
/// Default prefix of node names.
pub const DEFAULT_PREFIX: &str = "node-";
/// First pod IP range of nodes without a `podCIDR`.
const FALLBACK_POD_CIDRS: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
/// Time that a node waits for its `podCIDR`.
pub const POD_CIDR_TIMEOUT: Duration = Duration::from_secs(10);

/// Configuration of a fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Prefix of node names; a number follows.
    pub prefix: String,
    /// Number of nodes.
    pub count: u32,
    /// Capacity of each node: resource names and quantities.
    pub capacity: Vec<(String, String)>,
    /// Additional labels of each node.
    pub labels: Vec<(String, String)>,
    /// Taints of each.
    pub taints: Vec<Taint>,
    /// Zones that the nodes are distributed over.
    pub zones: Vec<String>,
    /// Rules for the behavior of containers.
    pub rules: Vec<BehaviorRule>,
    /// Start delay of a pod.
    pub pod_start_delay: Duration,
    /// Lease duration of each node.
    pub lease_duration: Duration,
    /// Control plane components that run in this process.
    pub components: Components,
    /// Fleet name, in the annotation [`FLEET_ANNOTATION`] of its nodes.
    pub owner: String,
    /// Text of the rules, if they are published for other processes.
    pub published_rules: Option<String>,
    /// Cache of evaluated scripts.
    pub script_cache: ScriptCache,
}

impl Default for Fleet {
    fn default() -> Fleet {
        let capacity = [
            ("cpu", "16"),
            ("ephemeral-storage", "100Gi"),
            ("hugepages-1Gi", "0"),
            ("hugepages-2Mi", "0"),
            ("memory", "64Gi"),
            ("pods", "110"),
        ];
        Fleet {
            prefix: DEFAULT_PREFIX.to_owned(),
            count: 1,
            capacity: capacity.map(|(name, amount)| (name.to_owned(), amount.to_owned())).to_vec(),
            labels: Vec::new(),
            taints: Vec::new(),
            zones: Vec::new(),
            rules: Vec::new(),
            pod_start_delay: Duration::from_secs(1),
            lease_duration: Duration::from_secs(40),
            components: Components::default(),
            owner: SERVER_FLEET.to_owned(),
            published_rules: None,
            script_cache: ScriptCache::default(),
        }
    }
}

impl Fleet {
    /// Sets the capacity of each node for a resource.
    pub fn set_capacity(&mut self, resource: &str, amount: &str) {
        match self.capacity.iter_mut().find(|(name, _)| name == resource) {
            Some((_, known)) => amount.clone_into(known),
            None => self.capacity.push((resource.to_owned(), amount.to_owned())),
        }
    }

    /// Returns the renewal interval of Leases.
    #[must_use]
    pub fn lease_renewal_interval(&self) -> Duration {
        self.lease_duration / 4
    }

    /// Returns the name of a node.
    #[must_use]
    pub fn node_name(&self, number: u32) -> String {
        format!("{}{number}", self.prefix)
    }

    /// Returns the number of a node; `None` if it is not in the fleet.
    #[must_use]
    pub fn node_number(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(&self.prefix)?;
        let number: u32 = digits.parse().ok().filter(|number| *number < self.count)?;
        // Other spellings of the number, such as `01`, name no node.
        (digits == "0" || !digits.starts_with(['0', '+'])).then_some(number)
    }

    /// Returns the node IP.
    #[must_use]
    pub fn node_ip(&self, number: u32) -> String {
        let first = if self.prefix == DEFAULT_PREFIX {
            u32::from(FIRST_NODE_IP)
        } else {
            let range = u32::try_from(stable_hash(&self.prefix) % OTHER_RANGES).unwrap_or(0);
            u32::from(FIRST_OTHER_NODE_IP).saturating_add(range << 8)
        };
        Ipv4Addr::from(first.saturating_add(number)).to_string()
    }

    /// Returns the zone of a node.
    #[must_use]
    pub fn zone(&self, number: u32) -> Option<&str> {
        let at = usize::try_from(number).unwrap_or(0).checked_rem(self.zones.len())?;
        Some(&self.zones[at])
    }

    /// `true` if the node's annotation names this fleet. Only the owner writes a node and its pods.
    #[must_use]
    pub fn owns(&self, node: &Object) -> bool {
        node.meta().annotations.get(FLEET_ANNOTATION) == Some(self.owner.as_str())
    }

    /// Returns a registered node of this fleet that is powered on and not marked unreachable. A node that
    /// returns must first renew its status: pod statuses that it wrote before would be overwritten.
    #[must_use]
    pub fn running_node<'a>(&self, name: &str, world: &'a WorldReader<'a>) -> Option<NodeRef<'a>> {
        let number = self.node_number(name)?;
        let (object, view) = world.view::<Node>("", name).filter(|(object, _)| self.owns(object))?;
        let node = NodeRef { object, view, number };
        (node.power() == PowerState::On && is_reachable(object)).then_some(node)
    }

    /// Returns the pod IP ranges of a node: its `podCIDRs`, or a range of its own if it gets none in time.
    #[must_use]
    pub fn pod_cidrs_of(&self, node: &NodeRef<'_>, now: Time) -> Vec<String> {
        if !node.view.spec.pod_cidrs.is_empty() {
            return node.view.spec.pod_cidrs.clone();
        }
        // A creation time in the future was written before the clock was set back; the wait is over.
        let created = node.object.meta().created();
        if created <= now && now < created.after(POD_CIDR_TIMEOUT) {
            return Vec::new();
        }
        let first = u32::from(FALLBACK_POD_CIDRS).saturating_add((node.number % (1 << 14)) << 8);
        vec![format!("{}/24", Ipv4Addr::from(first))]
    }
}

/// Simulated power state of a node, set by an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// The node works.
    On,
    /// The node is off.
    Off,
    /// The node runs without a network connection.
    Partitioned,
}

impl PowerState {
    /// Returns the power state of a node.
    #[must_use]
    pub fn of(node: &Object) -> PowerState {
        match node.meta().annotations.get(POWER_ANNOTATION) {
            Some("off") => PowerState::Off,
            Some("partitioned") => PowerState::Partitioned,
            _ => PowerState::On,
        }
    }
}

/// Annotation with the name of the fleet that owns a node.
pub const FLEET_ANNOTATION: &str = "setpoint.dev/fleet";
/// Name of the fleet that runs in the server process.
pub const SERVER_FLEET: &str = "setpoint-up";
/// Annotation with the power state of a node.
pub const POWER_ANNOTATION: &str = "simulate.setpoint.dev/power";
/// Annotation with the time of a node's last boot.
pub const BOOT_TIME_ANNOTATION: &str = "simulate.setpoint.dev/booted";

/// A registered node of a fleet.
pub struct NodeRef<'a> {
    /// Node object.
    pub object: &'a Object,
    /// Decoded view of the object.
    pub view: &'a Node,
    /// Number in the fleet.
    pub number: u32,
}

impl NodeRef<'_> {
    /// Returns the power state.
    #[must_use]
    pub fn power(&self) -> PowerState {
        PowerState::of(self.object)
    }

    /// Returns the boot time.
    #[must_use]
    pub fn boot_time(&self) -> Time {
        let annotation = self
            .object
            .meta()
            .annotations
            .get(BOOT_TIME_ANNOTATION)
            .and_then(|text| rfc3339::parse_micros(text).ok());
        annotation.unwrap_or(Time::EPOCH)
    }
}

/// `true` if the node is not marked unreachable. A node under deletion no longer reports, but still
/// terminates its pods.
#[must_use]
pub fn is_reachable(node: &Object) -> bool {
    node.meta().is_deleted() || !node.view::<Node>().is_some_and(Node::is_unreachable)
}

/// `true` if the node has simulation annotations.
#[must_use]
pub fn has_simulation_annotations(node: &Object) -> bool {
    node.meta().annotations.iter().any(|(name, _)| name.starts_with(ANNOTATION_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_and_numbers_round_trip() {
        let fleet = Fleet { count: 12, zones: vec!["a".to_owned(), "b".to_owned()], ..Fleet::default() };
        for number in 0..12 {
            assert_eq!(fleet.node_number(&fleet.node_name(number)), Some(number));
        }
        for other in ["node-12", "node-01", "node-+1", "node-", "x-1", "node-1a"] {
            assert_eq!(fleet.node_number(other), None, "{other}");
        }
        assert_eq!(
            (fleet.node_ip(0), fleet.node_ip(300)),
            ("172.18.0.2".to_owned(), "172.18.1.46".to_owned())
        );
        let [one, other] = ["sim-", "z-"].map(|prefix| Fleet { prefix: prefix.to_owned(), ..fleet.clone() });
        assert!(one.node_ip(0) != other.node_ip(0) && one.node_ip(0) != fleet.node_ip(0));
        assert_eq!((fleet.zone(3), Fleet::default().zone(3)), (Some("b"), None));
    }
}
