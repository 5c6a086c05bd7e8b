//! Taints keep pods away that do not put up with them; some only discourage.

use setpoint_reconcile::views::node::Taint;

use super::{Helps, Rejection, SCORE_MAX};
use crate::cache::node::Node;
use crate::shape::Shape;

/// What it counts for beside other rules.
pub const WEIGHT: i64 = 3;

/// Whether a taint keeps pods away.
#[must_use]
pub fn keeps_away(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(shape: &Shape, node: &Node) -> Result<(), Rejection> {
    let mut taints = node.offer.taints.iter().filter(|taint| keeps_away(taint));
    if taints.all(|taint| shape.tolerates(taint)) {
        return Ok(());
    }
    Err(Rejection::for_good("node(s) had untolerated taint(s)", Helps::NODES))
}

/// How many taints discourage the pod.
#[must_use]
pub fn discouragements(shape: &Shape, node: &Node) -> usize {
    let taints = node.offer.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    taints.filter(|taint| !shape.tolerates(taint)).count()
}

/// The score of a node with so many, where the worst has `most`.
#[must_use]
pub fn score(count: i64, most: i64) -> i64 {
    if most == 0 { SCORE_MAX } else { SCORE_MAX - SCORE_MAX * count / most }
}
