//! Which simulated nodes there are, and what each is like.

use std::net::Ipv4Addr;
use std::time::Duration;

use setpoint_api::{Time, rfc3339};
use setpoint_reconcile::views::node::{Node, Taint};
use setpoint_reconcile::{Object, Role, World};

use crate::control_plane::Components;
use crate::images::hash;
use crate::rules::PREFIX;
use crate::rules::file::Rule;
use crate::rules::memo::ScriptMemo;

/// In whose name everything on a node is done.
pub(crate) const KUBELET: Role = Role { user: "system:nodes", manager: "kubelet", source: "kubelet" };

/// Where the addresses of nodes begin.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 18, 0, 2);
/// Where those of nodes begin that are called otherwise, so that no two fleets of a cluster have the same; and how many
/// places there are to begin.
const FIRST_OTHER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const OTHER_SHARES: u64 = 512;
/// What the names of nodes begin with where nobody says otherwise.
pub const DEFAULT_PREFIX: &str = "node-";
/// Where the addresses of pods come from on nodes that nobody gives any.
const OWN_RANGE: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
/// How long a node waits to be given addresses.
pub const NETWORK_GRACE: Duration = Duration::from_secs(10);

/// Simulated nodes.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// What their names begin with; a number follows.
    pub prefix: String,
    /// How many there are.
    pub count: u32,
    /// What each has: resources with their amounts.
    pub capacity: Vec<(String, String)>,
    /// Labels of each, beside those that every node has.
    pub labels: Vec<(String, String)>,
    /// Taints of each.
    pub taints: Vec<Taint>,
    /// The zones that they are spread over.
    pub zones: Vec<String>,
    /// How containers behave.
    pub rules: Vec<Rule>,
    /// How long a pod takes to start.
    pub pod_start: Duration,
    /// For how long each takes its Lease.
    pub lease: Duration,
    /// The components of the control plane that run in this process.
    pub components: Components,
    /// What it is called among fleets, as its nodes say in the annotation [`FLEET`].
    pub owner: String,
    /// The text of its rules, if others are to know them.
    pub published: Option<String>,
    /// What is known of the scripts of its containers. It may be lost.
    pub memo: ScriptMemo,
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
            pod_start: Duration::from_secs(1),
            lease: Duration::from_secs(40),
            components: Components::default(),
            owner: BESIDE_SERVER.to_owned(),
            published: None,
            memo: ScriptMemo::default(),
        }
    }
}

impl Fleet {
    /// Says how much of a resource each node has.
    pub fn set(&mut self, resource: &str, amount: &str) {
        match self.capacity.iter_mut().find(|(name, _)| name == resource) {
            Some((_, known)) => amount.clone_into(known),
            None => self.capacity.push((resource.to_owned(), amount.to_owned())),
        }
    }

    /// How often nodes renew their Leases.
    #[must_use]
    pub fn renewal(&self) -> Duration {
        self.lease / 4
    }

    /// The name of a node.
    #[must_use]
    pub fn name(&self, number: u32) -> String {
        format!("{}{number}", self.prefix)
    }

    /// The number of a node; nothing if it is none of these.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(&self.prefix)?;
        let number: u32 = digits.parse().ok().filter(|number| *number < self.count)?;
        // Only one way to write a number names a node.
        (digits == "0" || !digits.starts_with(['0', '+'])).then_some(number)
    }

    /// The address of a node.
    #[must_use]
    pub fn address(&self, number: u32) -> String {
        let first = if self.prefix == DEFAULT_PREFIX {
            u32::from(FIRST_ADDRESS)
        } else {
            let share = u32::try_from(hash(&self.prefix) % OTHER_SHARES).unwrap_or(0);
            u32::from(FIRST_OTHER_ADDRESS).saturating_add(share << 8)
        };
        Ipv4Addr::from(first.saturating_add(number)).to_string()
    }

    /// The zone of a node.
    #[must_use]
    pub fn zone(&self, number: u32) -> Option<&str> {
        let at = usize::try_from(number).unwrap_or(0).checked_rem(self.zones.len())?;
        Some(&self.zones[at])
    }

    /// Whether a node says that it is one of these. Nobody else writes it, or what is on it.
    #[must_use]
    pub fn owns(&self, node: &Object) -> bool {
        node.meta().annotations.get(FLEET) == Some(self.owner.as_str())
    }

    /// A node that is one of these, registered, switched on, and not taken for silent. One that returns says so first:
    /// what it said of its pods before would be taken back.
    #[must_use]
    pub fn running<'a>(&self, name: &str, world: &'a World) -> Option<Seat<'a>> {
        let number = self.number(name)?;
        let (object, node) = world.view::<Node>("", name).filter(|(object, _)| self.owns(object))?;
        let seat = Seat { object, node, number };
        (seat.power() == Power::On && is_heard(object)).then_some(seat)
    }

    /// The addresses that pods on a node get: those it was given, or its own if nobody gives any.
    #[must_use]
    pub fn pod_ranges(&self, seat: &Seat<'_>, now: Time) -> Vec<String> {
        if !seat.node.spec.pod_cidrs.is_empty() {
            return seat.node.spec.pod_cidrs.clone();
        }
        // A node from the future was registered before the clock was set back, and has waited long enough.
        let created = seat.object.meta().created();
        if created <= now && now < created.after(NETWORK_GRACE) {
            return Vec::new();
        }
        let first = u32::from(OWN_RANGE).saturating_add((seat.number % (1 << 14)) << 8);
        vec![format!("{}/24", Ipv4Addr::from(first))]
    }
}

/// Whether a node works, as somebody said who plays with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// It works.
    On,
    /// It does not run.
    Off,
    /// It runs, and reaches nobody.
    Partitioned,
}

impl Power {
    /// What was said of a node.
    #[must_use]
    pub fn of(node: &Object) -> Power {
        match node.meta().annotations.get(POWER) {
            Some("off") => Power::Off,
            Some("partitioned") => Power::Partitioned,
            _ => Power::On,
        }
    }
}

/// The annotation by which a node says to which fleet it belongs.
pub const FLEET: &str = "setpoint.dev/fleet";
/// What the fleet beside the server is called.
pub const BESIDE_SERVER: &str = "setpoint-up";
/// The annotation that says whether a node works.
pub const POWER: &str = "simulate.setpoint.dev/power";
/// The annotation that says when a node was last started.
pub const BOOTED: &str = "simulate.setpoint.dev/booted";

/// A registered node of a fleet.
pub struct Seat<'a> {
    /// The object.
    pub object: &'a Object,
    /// What is read of it.
    pub node: &'a Node,
    /// Its number.
    pub number: u32,
}

impl Seat<'_> {
    /// Whether it works.
    #[must_use]
    pub fn power(&self) -> Power {
        Power::of(self.object)
    }

    /// Since when it runs.
    #[must_use]
    pub fn booted(&self) -> Time {
        let said =
            self.object.meta().annotations.get(BOOTED).and_then(|text| rfc3339::parse_micros(text).ok());
        said.unwrap_or(Time::EPOCH)
    }
}

/// Whether a node is not taken for silent. One that goes says nothing more, but lets its pods go.
#[must_use]
pub fn is_heard(node: &Object) -> bool {
    node.meta().is_deleted() || !node.view::<Node>().is_some_and(Node::is_silent)
}

/// Whether somebody said anything of a node that its containers feel.
#[must_use]
pub fn is_played_with(node: &Object) -> bool {
    node.meta().annotations.iter().any(|(name, _)| name.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_the_same_both_ways() {
        let fleet = Fleet { count: 12, zones: vec!["a".to_owned(), "b".to_owned()], ..Fleet::default() };
        for number in 0..12 {
            assert_eq!(fleet.number(&fleet.name(number)), Some(number));
        }
        for other in ["node-12", "node-01", "node-+1", "node-", "x-1", "node-1a"] {
            assert_eq!(fleet.number(other), None, "{other}");
        }
        assert_eq!(
            (fleet.address(0), fleet.address(300)),
            ("172.18.0.2".to_owned(), "172.18.1.46".to_owned())
        );
        let [one, other] = ["sim-", "z-"].map(|prefix| Fleet { prefix: prefix.to_owned(), ..fleet.clone() });
        assert!(one.address(0) != other.address(0) && one.address(0) != fleet.address(0));
        assert_eq!((fleet.zone(3), Fleet::default().zone(3)), (Some("b"), None));
    }
}
