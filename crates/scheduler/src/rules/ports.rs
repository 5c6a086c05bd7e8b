//! Two pods cannot have the same port of a node.

use super::{Helps, Rejection};
use crate::cache::node::Node;
use crate::shape::Shape;

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(shape: &Shape, node: &Node) -> Result<(), Rejection> {
    if !shape.ports.clashes(&node.ports) {
        return Ok(());
    }
    let why = "node(s) didn't have free ports for the requested pod ports";
    Err(Rejection::by_pods(why, Helps::NODES | Helps::PODS))
}
