//! NodeUnschedulable plugin: a cordoned node gets only pods that tolerate its `unschedulable` taint.

use setpoint_views::node::Taint;

use super::{QueueingHint, Rejection};
use crate::cache::node_info::NodeInfo;
use crate::signature::PodSignature;

/// Filters cordoned nodes.
///
/// # Errors
/// Rejects the node.
pub fn filter(signature: &PodSignature, node: &NodeInfo) -> Result<(), Rejection> {
    if !node.attributes.unschedulable {
        return Ok(());
    }
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if signature.tolerations.tolerates(&taint) {
        return Ok(());
    }
    Err(Rejection::unresolvable("node(s) were unschedulable", QueueingHint::NODE_ADD_OR_UPDATE))
}
