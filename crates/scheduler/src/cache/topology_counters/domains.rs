//! Topology domains: nodes that share the value of a label.
//!
//! A [`TopologyKey`] numbers the values of one label, a [`NodeSet`] is the result of one [`NodeFilter`], and a
//! [`TopologyScope`] combines the two. Each is kept once and referred to by number. All three are recomputed when the
//! labels or taints of a node change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_requirements::node_affinity::RequiredNodeAffinity;

use crate::cache::node_info::NodeInfo;
use crate::plugins::taint_toleration::forbids_scheduling;
use crate::tolerations::Tolerations;

/// Domain number of a node without the label.
pub const NO_DOMAIN: u32 = u32::MAX;

/// Domains of one topology key.
#[derive(Clone, Debug)]
pub struct TopologyKey {
    /// Label key, such as `topology.kubernetes.io/zone`.
    name: Box<str>,
    /// Domain number of each node; empty if no node has the label.
    domain_of_node: Vec<u32>,
    /// Domain numbers by label value.
    domain_numbers: BTreeMap<Box<str>, u32>,
}

impl TopologyKey {
    pub(super) fn new(name: &str) -> TopologyKey {
        TopologyKey { name: name.into(), domain_of_node: Vec::new(), domain_numbers: BTreeMap::new() }
    }

    /// Domain of a node, or [`NO_DOMAIN`].
    #[inline]
    #[must_use]
    pub fn domain(&self, node: usize) -> u32 {
        self.domain_of_node.get(node).copied().unwrap_or(NO_DOMAIN)
    }

    /// `true` if any node has the label.
    #[must_use]
    pub fn has_domains(&self) -> bool {
        !self.domain_numbers.is_empty()
    }

    /// Number of distinct values of the label.
    #[must_use]
    pub fn domain_count(&self) -> usize {
        self.domain_numbers.len()
    }

    /// Recomputes the domain of every node. `node_label_keys` are the label keys that any node has.
    pub(super) fn assign_domains(&mut self, nodes: &[NodeInfo], node_label_keys: &BTreeSet<Box<str>>) {
        self.domain_numbers.clear();
        self.domain_of_node.clear();
        if !node_label_keys.contains(&self.name) {
            return;
        }
        for node in nodes {
            let value = node.attributes.labels.get(&self.name).filter(|_| node.exists);
            let domain = value.map_or(NO_DOMAIN, |value| intern_domain(&mut self.domain_numbers, value));
            self.domain_of_node.push(domain);
        }
    }
}

fn intern_domain(numbers: &mut BTreeMap<Box<str>, u32>, value: &str) -> u32 {
    if let Some(number) = numbers.get(value) {
        return *number;
    }
    let number = u32::try_from(numbers.len()).unwrap_or(NO_DOMAIN);
    numbers.insert(value.into(), number);
    number
}

/// Nodes that are eligible for a tally. A node must pass every part that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeFilter {
    /// Node affinity that a node must match (`nodeAffinityPolicy: Honor`).
    pub node_affinity: Option<RequiredNodeAffinity>,
    /// Tolerations for the taints of a node (`nodeTaintsPolicy: Honor`).
    pub tolerations: Option<Tolerations>,
    /// Label keys that a node must have.
    pub required_keys: Vec<Box<str>>,
}

impl NodeFilter {
    fn matches(&self, node: &NodeInfo) -> bool {
        let labels = &node.attributes.labels;
        self.required_keys.iter().all(|key| labels.get(key).is_some())
            && self.node_affinity.as_ref().is_none_or(|affinity| affinity.matches(&node.name, labels))
            && self.tolerations.as_ref().is_none_or(|tolerations| {
                let mut taints = node.attributes.taints.iter().filter(|taint| forbids_scheduling(taint));
                taints.all(|taint| tolerations.tolerates(taint))
            })
    }

    fn is_unrestricted(&self) -> bool {
        self.node_affinity.is_none() && self.tolerations.is_none() && self.required_keys.is_empty()
    }
}

/// Nodes that pass a filter.
#[derive(Clone, Debug)]
pub(super) struct NodeSet {
    filter: Arc<NodeFilter>,
    /// Membership of each node; `None` if every node is a member.
    members: Option<Vec<bool>>,
}

impl NodeSet {
    pub(super) fn new(filter: Arc<NodeFilter>, nodes: &[NodeInfo]) -> NodeSet {
        let mut set = NodeSet { filter, members: None };
        set.fill(nodes);
        set
    }

    pub(super) fn fill(&mut self, nodes: &[NodeInfo]) {
        self.members = (!self.filter.is_unrestricted())
            .then(|| nodes.iter().map(|node| self.filter.matches(node)).collect());
    }

    pub(super) fn contains(&self, node: usize) -> bool {
        self.members.as_ref().is_none_or(|members| members.get(node).copied().unwrap_or(false))
    }

    /// Membership entries in memory.
    pub(super) fn len(&self) -> usize {
        self.members.as_ref().map_or(0, Vec::len)
    }
}

/// Domains of one topology key over one set of nodes.
#[derive(Clone, Debug)]
pub struct TopologyScope {
    pub(super) key: usize,
    pub(super) node_set: usize,
    /// Nodes of the set in each domain.
    pub nodes_per_domain: Vec<u32>,
    /// Domains with at least one node of the set.
    pub domain_count: usize,
}

impl TopologyScope {
    pub(super) fn new(key: usize, node_set: usize) -> TopologyScope {
        TopologyScope { key, node_set, nodes_per_domain: Vec::new(), domain_count: 0 }
    }

    pub(super) fn fill(&mut self, key: &TopologyKey, set: &NodeSet) {
        self.nodes_per_domain = vec![0; key.domain_count()];
        self.domain_count = 0;
        for (node, domain) in key.domain_of_node.iter().enumerate() {
            if *domain != NO_DOMAIN && set.contains(node) {
                let nodes = &mut self.nodes_per_domain[*domain as usize];
                self.domain_count += usize::from(*nodes == 0);
                *nodes += 1;
            }
        }
    }
}
