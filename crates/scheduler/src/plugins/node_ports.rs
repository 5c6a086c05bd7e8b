//! NodePorts plugin: two pods on one node cannot use the same host port.

use super::{QueueingHint, Rejection};
use crate::cache::node_info::NodeInfo;
use crate::signature::PodSignature;

/// Filters nodes on which a host port of the pod is in use.
///
/// # Errors
/// Rejects the node.
pub fn filter(signature: &PodSignature, node: &NodeInfo) -> Result<(), Rejection> {
    if !signature.ports.has_conflict(&node.used_ports) {
        return Ok(());
    }
    let reason = "node(s) didn't have free ports for the requested pod ports";
    let hint = QueueingHint::NODE_ADD_OR_UPDATE | QueueingHint::ASSIGNED_POD_DELETE;
    Err(Rejection::resolvable(reason, hint))
}
