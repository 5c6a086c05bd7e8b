//! A pod says which nodes will do by their labels and names, and which it would rather have.

use super::{Helps, Rejection, SCORE_MAX};
use crate::cache::node::Node;
use crate::profile::Profile;
use crate::shape::Shape;

/// What it counts for beside other rules.
pub const WEIGHT: i64 = 2;

/// What nodes are told that a pod does not name.
pub const NOT_NAMED: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(shape: &Shape, node: &Node, profile: &Profile) -> Result<(), Rejection> {
    let labels = &node.offer.labels;
    if profile.nodes.as_ref().is_some_and(|nodes| !nodes.allows(&node.name, labels)) {
        let why = "node(s) didn't match scheduler-enforced node affinity";
        return Err(Rejection::for_good(why, Helps::NODES));
    }
    if shape.nodes.allows(&node.name, labels) {
        return Ok(());
    }
    Err(Rejection::for_good("node(s) didn't match Pod's node affinity/selector", Helps::NODES))
}

/// Why no node can ever do: each term names nodes, and the names contradict each other.
#[must_use]
pub fn conflict(shape: &Shape) -> Option<Rejection> {
    let names = shape.nodes.only()?;
    names.is_empty().then(|| Rejection::for_good("pod affinity terms conflict", Helps::NONE))
}

/// How much the pod, or its profile, would like the node.
#[must_use]
pub fn liking(shape: &Shape, node: &Node, profile: &Profile) -> i64 {
    let terms = profile.prefers.iter().chain(&shape.prefers);
    let met = terms.filter(|(_, term)| term.allows(&node.name, &node.offer.labels));
    met.map(|(weight, _)| weight).sum()
}

/// The score of a node that is liked so much, where the best is liked `most`.
#[must_use]
pub fn score(liking: i64, most: i64) -> i64 {
    if most == 0 { 0 } else { SCORE_MAX * liking / most }
}
