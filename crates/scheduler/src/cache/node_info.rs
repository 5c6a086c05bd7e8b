//! Node as the plugins see it: its labels, taints and allocatable resources, and the sum of the pods assigned to it.
//!
//! [`NodeInfo`] corresponds to the type of the same name in kube-scheduler.

use setpoint_reconcile::Object;
use setpoint_reconcile::object::Pairs;
use setpoint_requirements::host_ports::HostPorts;
use setpoint_requirements::request::{PodRequest, ResourceAmounts};
use setpoint_views::node::{self, Taint};

use super::PodId;
use crate::signature::{PodSignature, normalize_image};

/// A node with the pods that are assigned to it.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Name of the node.
    pub name: Box<str>,
    /// Hash of the name, to break ties between equal scores.
    pub hash: u64,
    /// `true` if the Node object exists. A pod can be bound to a node that does not.
    pub exists: bool,
    /// Values from the Node object; empty if it does not exist.
    pub attributes: NodeAttributes,
    /// Sum of the requests of its pods.
    pub requested: ResourceAmounts,
    /// CPU requests of its pods in millicores, with a default for containers without one; used for scores.
    pub non_zero_milli_cpu: i64,
    /// Memory requests of its pods in bytes, with a default for containers without one; used for scores.
    pub non_zero_memory: i64,
    /// Host ports of its pods.
    pub used_ports: HostPorts,
    /// Pods that are bound, assumed or nominated to it.
    pub pods: Vec<PodId>,
}

/// Values of a Node object that plugins use. A change of any of them can change where pods fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAttributes {
    /// `metadata.labels`.
    pub labels: Pairs,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`: the node is cordoned.
    pub unschedulable: bool,
    /// `status.allocatable` without `pods`.
    pub allocatable: ResourceAmounts,
    /// `status.allocatable.pods`.
    pub allocatable_pods: i64,
    /// Images on the node with their sizes in bytes, sorted by name.
    pub images: Vec<(Box<str>, i64)>,
    /// `status.declaredFeatures`.
    pub features: Vec<Box<str>>,
}

impl NodeAttributes {
    /// Reads the values of a Node object.
    #[must_use]
    pub fn from_node(object: &Object, node: &node::Node) -> NodeAttributes {
        let (allocatable, allocatable_pods) = ResourceAmounts::parse(node.status.allocatable.iter());
        let images = node.status.images.iter().flat_map(|image| {
            image.names.iter().map(|name| (normalize_image(name).into(), image.size_bytes))
        });
        let mut images: Vec<(Box<str>, i64)> = images.collect();
        images.sort_unstable();
        NodeAttributes {
            labels: object.meta().labels.clone(),
            taints: node.spec.taints.clone(),
            unschedulable: node.spec.unschedulable,
            allocatable,
            allocatable_pods,
            images,
            features: node.status.declared_features.iter().map(|one| one.as_str().into()).collect(),
        }
    }
}

impl NodeInfo {
    /// Returns a node that does not exist yet and has no pods.
    #[must_use]
    pub fn new(name: &str) -> NodeInfo {
        NodeInfo { name: name.into(), hash: hash_name(name), ..NodeInfo::default() }
    }

    /// Adds the requests of a pod (`times` 1) or subtracts them (`times` -1).
    pub fn add_requests(&mut self, request: &PodRequest, times: i64) {
        self.requested.add(&request.requested, times);
        self.non_zero_milli_cpu += request.non_zero_milli_cpu * times;
        self.non_zero_memory += request.non_zero_memory * times;
    }

    /// Adds a pod.
    pub fn add_pod(&mut self, id: PodId, signature: &PodSignature) {
        self.add_requests(&signature.request, 1);
        self.used_ports.add(&signature.ports);
        self.pods.push(id);
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, id: PodId, signature: &PodSignature) {
        self.add_requests(&signature.request, -1);
        self.used_ports.remove(&signature.ports);
        if let Some(at) = self.pods.iter().position(|other| *other == id) {
            self.pods.swap_remove(at);
        }
    }
}

/// FNV-1a hash of a name: the same in every process, so that equal inputs give equal placements.
#[must_use]
pub fn hash_name(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
