//! A node that was cordoned gets no new pods, unless they put up with that.

use setpoint_reconcile::views::node::Taint;

use super::{Helps, Rejection};
use crate::cache::node::Node;
use crate::shape::Shape;

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(shape: &Shape, node: &Node) -> Result<(), Rejection> {
    if !node.offer.unschedulable {
        return Ok(());
    }
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if shape.tolerates(&taint) {
        return Ok(());
    }
    Err(Rejection::for_good("node(s) were unschedulable", Helps::NODES))
}
