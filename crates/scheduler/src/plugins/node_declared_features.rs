//! NodeDeclaredFeatures plugin: a node must declare every feature that the pod's spec depends on.

use setpoint_views::pod::{Container, Pod};

use super::{QueueingHint, Rejection};
use crate::cache::node_info::NodeInfo;
use crate::signature::PodSignature;

/// Feature for pods with the restart rule action `RestartAllContainers`.
const RESTART_ALL_CONTAINERS: &str = "RestartAllContainersOnContainerExits";
/// Feature for pods in the host network with a user namespace of their own.
const HOST_NETWORK_USER_NAMESPACES: &str = "UserNamespacesHostNetworkSupport";

/// Returns the features that a pod depends on.
#[must_use]
pub fn required_features(pod: &Pod) -> Vec<&'static str> {
    let spec = &pod.spec;
    let restarts_all =
        |one: &Container| one.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers");
    let mut required = Vec::new();
    if spec.containers.iter().chain(&spec.init_containers).any(restarts_all) {
        required.push(RESTART_ALL_CONTAINERS);
    }
    if spec.host_network && spec.host_users == Some(false) {
        required.push(HOST_NETWORK_USER_NAMESPACES);
    }
    required
}

/// Filters nodes that do not declare a required feature.
///
/// # Errors
/// Rejects the node.
pub fn filter(signature: &PodSignature, node: &NodeInfo) -> Result<(), Rejection> {
    let is_declared = |required: &&str| node.attributes.features.iter().any(|one| **one == **required);
    if signature.features.iter().all(is_declared) {
        return Ok(());
    }
    let reason = "node(s) didn't match Pod's required features";
    Err(Rejection::unresolvable(reason, QueueingHint::NODE_ADD_OR_UPDATE))
}
