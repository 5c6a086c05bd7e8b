//! TaintToleration plugin: filters nodes by `NoSchedule` and `NoExecute` taints, and scores them by `PreferNoSchedule`.

use setpoint_views::node::Taint;

use super::{QueueingHint, Rejection, SCORE_MAX};
use crate::cache::node_info::NodeInfo;
use crate::signature::PodSignature;

/// Default weight of the score.
pub const WEIGHT: i64 = 3;

/// `true` if the taint keeps pods without a toleration off the node.
#[must_use]
pub fn forbids_scheduling(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

/// Filters nodes with a taint that the pod does not tolerate.
///
/// # Errors
/// Rejects the node.
pub fn filter(signature: &PodSignature, node: &NodeInfo) -> Result<(), Rejection> {
    let mut taints = node.attributes.taints.iter().filter(|taint| forbids_scheduling(taint));
    if taints.all(|taint| signature.tolerations.tolerates(taint)) {
        return Ok(());
    }
    Err(Rejection::unresolvable("node(s) had untolerated taint(s)", QueueingHint::NODE_ADD_OR_UPDATE))
}

/// Number of `PreferNoSchedule` taints of the node that the pod does not tolerate.
#[must_use]
pub fn count_untolerated_preferences(signature: &PodSignature, node: &NodeInfo) -> usize {
    let taints = node.attributes.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    taints.filter(|taint| !signature.tolerations.tolerates(taint)).count()
}

/// Score of a node with `count` untolerated taints, if `max` is the highest count of any feasible node.
#[must_use]
pub fn score(count: i64, max: i64) -> i64 {
    if max == 0 { SCORE_MAX } else { SCORE_MAX - SCORE_MAX * count / max }
}
