//! NodeAffinity plugin: filters nodes by `nodeSelector` and required node affinity, and scores them by preferred terms.

use super::{QueueingHint, Rejection, SCORE_MAX};
use crate::cache::node_info::NodeInfo;
use crate::profile::Profile;
use crate::signature::PodSignature;

/// Default weight of the score.
pub const WEIGHT: i64 = 2;

/// Reason for nodes that are not evaluated because the pod names other nodes (`matchFields: metadata.name`).
pub const NOT_NAMED_REASON: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";

/// Filters nodes that do not match the node affinity of the pod or the added affinity of its profile.
///
/// # Errors
/// Rejects the node.
pub fn filter(signature: &PodSignature, node: &NodeInfo, profile: &Profile) -> Result<(), Rejection> {
    let labels = &node.attributes.labels;
    let hint = QueueingHint::NODE_ADD_OR_UPDATE;
    if profile.added_affinity.as_ref().is_some_and(|added| !added.matches(&node.name, labels)) {
        return Err(Rejection::unresolvable("node(s) didn't match scheduler-enforced node affinity", hint));
    }
    if signature.node_affinity.matches(&node.name, labels) {
        return Ok(());
    }
    Err(Rejection::unresolvable("node(s) didn't match Pod's node affinity/selector", hint))
}

/// Rejects every node if each term of the pod names nodes, and no node satisfies the names of any term.
#[must_use]
pub fn find_conflict(signature: &PodSignature) -> Option<Rejection> {
    let names = signature.node_affinity.node_names()?;
    names.is_empty().then(|| Rejection::unresolvable("pod affinity terms conflict", QueueingHint::NONE))
}

/// Sum of the weights of the preferred terms that the node matches, those of the pod and of its profile.
#[must_use]
pub fn preference_weight(signature: &PodSignature, node: &NodeInfo, profile: &Profile) -> i64 {
    let terms = profile.added_preferences.iter().chain(&signature.preferred_node_terms);
    let matching = terms.filter(|(_, term)| term.matches(&node.name, &node.attributes.labels));
    matching.map(|(weight, _)| weight).sum()
}

/// Score of a node with a sum of `weight`, if `max` is the highest sum of any feasible node.
#[must_use]
pub fn score(weight: i64, max: i64) -> i64 {
    if max == 0 { 0 } else { SCORE_MAX * weight / max }
}
