//! Node IPAM controller: assigns `podCIDRs` to nodes from the cluster's ranges.
//!
//! All nodes are one key, so no two nodes get the same block in one plan. The lowest free blocks are assigned
//! first; blocks that nodes have, assigned by whichever controller, and Service ranges are never assigned.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::node::Node;
use thiserror::Error;

/// Network in CIDR form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// First address, as a number.
    first: u128,
    /// Prefix length.
    prefix: u32,
    is_v4: bool,
}

/// Invalid CIDR, or one with too many or too few addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no range of addresses")]
pub struct InvalidCidr {
    text: String,
}

impl Cidr {
    fn bits(self) -> u32 {
        if self.is_v4 { 32 } else { 128 }
    }

    /// Last address.
    fn last(self) -> u128 {
        let host_bits = self.bits() - self.prefix;
        self.first | 1_u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1)
    }

    /// `true` if the networks overlap.
    #[must_use]
    pub fn overlaps(self, other: Cidr) -> bool {
        self.is_v4 == other.is_v4 && self.first <= other.last() && other.first <= self.last()
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Cidr, InvalidCidr> {
        let invalid = || InvalidCidr { text: text.to_owned() };
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix: u32 = prefix.parse().map_err(|_| invalid())?;
        let (number, is_v4) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), true),
            IpAddr::V6(address) => (u128::from(address), false),
        };
        let host_bits = if is_v4 { 32_u32 } else { 128 }.checked_sub(prefix).ok_or_else(invalid)?;
        let first = number.checked_shr(host_bits).and_then(|kept| kept.checked_shl(host_bits)).unwrap_or(0);
        Ok(Cidr { first, prefix, is_v4 })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = if self.is_v4 {
            IpAddr::from(u32::try_from(self.first).unwrap_or(0).to_be_bytes())
        } else {
            IpAddr::from(self.first.to_be_bytes())
        };
        write!(f, "{address}/{}", self.prefix)
    }
}

/// Range that is divided into one block per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterCidr {
    cidr: Cidr,
    node_prefix: u32,
}

impl ClusterCidr {
    /// Divides a range into blocks with the prefix length `node_prefix`.
    ///
    /// # Errors
    /// If the blocks are larger than the range, or there are too many of them.
    pub fn new(cidr: Cidr, node_prefix: u32) -> Result<ClusterCidr, InvalidCidr> {
        /// Maximum number of bits that distinguish the blocks of an IPv6 range.
        const BLOCK_BITS_MAX: u32 = 16;
        let is_valid_size = (cidr.prefix..=cidr.bits()).contains(&node_prefix);
        if !is_valid_size || !cidr.is_v4 && node_prefix - cidr.prefix > BLOCK_BITS_MAX {
            return Err(InvalidCidr { text: format!("{cidr} in blocks of /{node_prefix}") });
        }
        Ok(ClusterCidr { cidr, node_prefix })
    }

    fn shift(self) -> u32 {
        self.cidr.bits() - self.node_prefix
    }

    fn block(self, index: u128) -> Cidr {
        let offset = index.checked_shl(self.shift()).unwrap_or(0);
        Cidr { first: self.cidr.first | offset, prefix: self.node_prefix, is_v4: self.cidr.is_v4 }
    }

    /// First and last block that overlap with a network.
    fn overlapping_blocks(self, other: Cidr) -> Option<(u128, u128)> {
        let (first, last) = (other.first.max(self.cidr.first), other.last().min(self.cidr.last()));
        let index = |address: u128| (address - self.cidr.first).checked_shr(self.shift()).unwrap_or(0);
        self.cidr.overlaps(other).then(|| (index(first), index(last)))
    }

    /// Free blocks, lowest first.
    fn free_blocks(self, allocated: &BTreeSet<(u128, u128)>) -> impl Iterator<Item = u128> {
        let count = 1_u128 << (self.node_prefix - self.cidr.prefix);
        let (mut allocated, mut next) = (allocated.iter().peekable(), 0);
        std::iter::from_fn(move || {
            while let Some((_, last)) = allocated.next_if(|(first, _)| *first <= next) {
                next = next.max(last + 1);
            }
            let block = (next < count).then_some(next);
            next += 1;
            block
        })
    }
}

/// The node IPAM controller.
pub struct NodeIpam {
    cluster_cidrs: Vec<ClusterCidr>,
    services: Vec<Cidr>,
}

impl NodeIpam {
    /// Name of the controller.
    pub const NAME: &str = "node-ipam-controller";

    /// Creates a controller that assigns to each node one block of every range, none of which overlaps
    /// `services`.
    #[must_use]
    pub fn new(cluster_cidrs: Vec<ClusterCidr>, services: Vec<Cidr>) -> NodeIpam {
        NodeIpam { cluster_cidrs, services }
    }

    fn allocated(&self, cluster_cidr: ClusterCidr, world: &WorldReader<'_>) -> BTreeSet<(u128, u128)> {
        let nodes = world.views::<Node>().flat_map(|(_, node)| &node.spec.pod_cidrs);
        let assigned = nodes.filter_map(|text| text.parse::<Cidr>().ok());
        assigned
            .chain(self.services.iter().copied())
            .filter_map(|cidr| cluster_cidr.overlapping_blocks(cidr))
            .collect()
    }
}

/// The only key: all nodes.
fn all_nodes() -> Option<Key> {
    key_of("nodes", "", "all nodes")
}

impl Planner for NodeIpam {
    type Memo = ();

    fn name(&self) -> &'static str {
        NodeIpam::NAME
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:node-controller".to_owned()
    }

    fn source(&self) -> &'static str {
        "cidrAllocator"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::mapped("nodes", |object, world, enqueue| {
            let needs_cidr = |node: &Node| node.spec.pod_cidrs.is_empty();
            // The deletion of a node frees a block that another node may wait for.
            if world.get(object.key()).is_none() || object.view::<Node>().is_some_and(needs_cidr) {
                all_nodes().into_iter().for_each(enqueue);
            }
        })];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        all_nodes().into_iter().collect()
    }

    fn plan(&self, _: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let nodes = world.views::<Node>().filter(|(_, node)| node.spec.pod_cidrs.is_empty());
        let mut nodes = nodes.filter(|(object, _)| !object.meta().is_deleted()).peekable();
        if nodes.peek().is_none() {
            return plan;
        }
        let allocated: Vec<_> =
            self.cluster_cidrs.iter().map(|cluster_cidr| self.allocated(*cluster_cidr, world)).collect();
        let mut free_blocks: Vec<_> = self
            .cluster_cidrs
            .iter()
            .zip(&allocated)
            .map(|(cluster_cidr, allocated)| cluster_cidr.free_blocks(allocated))
            .collect();
        let mut actions: Vec<Action> = Vec::new();
        for (object, _) in nodes {
            // A range without a free block has none for later nodes either.
            let Some(blocks) = free_blocks.iter_mut().map(Iterator::next).collect::<Option<Vec<u128>>>()
            else {
                let message = format!("Node {} status is now: CIDRNotAvailable", object.meta().name);
                let subject = InvolvedObject::new(object, "v1", "Node");
                plan.events.push(subject.normal("CIDRNotAvailable", message));
                continue;
            };
            let cidrs = self
                .cluster_cidrs
                .iter()
                .zip(&blocks)
                .map(|(cluster_cidr, block)| cluster_cidr.block(*block).to_string());
            let cidrs: Vec<String> = cidrs.collect();
            let first = cidrs.first().cloned();
            let patch = value!({"spec": {"podCIDR": (first), "podCIDRs": (cidrs)}});
            actions.push(Write::merge(object, "", patch).at_any_revision().into());
        }
        plan.stage(actions);
        plan
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::Value;
    use setpoint_sim::cluster::{Cluster, Controllers};

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn assigned(cluster: &Cluster, name: &str) -> Vec<String> {
        let node = cluster.get("nodes", name).unwrap();
        let cidrs = node.at(&["spec", "podCIDRs"]).and_then(Value::as_list).unwrap_or_default().to_vec();
        cidrs.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    #[test]
    fn every_node_gets_a_free_block_of_each_range() {
        let controllers: Controllers = || {
            let ipv4 = ClusterCidr::new(cidr("10.244.0.0/22"), 24).unwrap();
            let ipv6 = ClusterCidr::new(cidr("fd00:10::/56"), 64).unwrap();
            let ipam = NodeIpam::new(vec![ipv4, ipv6], vec![cidr("10.244.1.0/28")]);
            (vec![Box::new(ipam)], crate::indexes::all())
        };
        let mut cluster = Cluster::new(controllers, 7);
        let own = value!({"metadata": {"name": "own"}, "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]}});
        cluster.create("nodes", "", own);
        for name in ["a", "b", "c"] {
            cluster.create("nodes", "", value!({"metadata": {"name": (name)}}));
        }
        cluster.settle();
        assert_eq!(assigned(&cluster, "a"), ["10.244.2.0/24", "fd00:10::/64"]);
        assert_eq!(assigned(&cluster, "b"), ["10.244.3.0/24", "fd00:10:0:1::/64"]);
        assert_eq!(assigned(&cluster, "c"), Vec::<String>::new(), "there is none left");
        assert!(cluster.list("events").iter().any(|event| event.str_at(&["reason"]) == "CIDRNotAvailable"));
        cluster.assert_quiet();
        cluster.delete("nodes", "a", &value!({})).unwrap();
        cluster.settle();
        assert_eq!(assigned(&cluster, "c"), ["10.244.2.0/24", "fd00:10::/64"]);
        cluster.assert_quiet();
    }

    #[test]
    fn cidrs_are_parsed_and_formatted() {
        assert_eq!(cidr("10.1.2.3/16").to_string(), "10.1.0.0/16");
        assert_eq!(cidr("::/0").to_string(), "::/0");
        assert!("10.0.0.0/33".parse::<Cidr>().is_err() && "x/8".parse::<Cidr>().is_err());
        assert!(
            ClusterCidr::new(cidr("10.0.0.0/24"), 16).is_err()
                && ClusterCidr::new(cidr("fd00::/40"), 64).is_err()
        );
    }
}
