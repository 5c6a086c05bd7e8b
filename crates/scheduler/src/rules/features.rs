//! A pod may need something that only some nodes can do; a node says what it can.

use setpoint_reconcile::views::pod::{Container, Pod};

use super::{Helps, Rejection};
use crate::cache::node::Node;
use crate::shape::Shape;

/// What a node can do that restarts the whole pod when a container ends.
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
/// What a node can do that gives users of their own to pods on its network.
const USERS: &str = "UserNamespacesHostNetworkSupport";

/// What a node must be able to do for a pod.
#[must_use]
pub fn needed(pod: &Pod) -> Vec<&'static str> {
    let spec = &pod.spec;
    let restarts_all =
        |one: &Container| one.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers");
    let mut needed = Vec::new();
    if spec.containers.iter().chain(&spec.init_containers).any(restarts_all) {
        needed.push(RESTART_ALL);
    }
    if spec.host_network && spec.host_users == Some(false) {
        needed.push(USERS);
    }
    needed
}

/// Whether the node will do.
///
/// # Errors
/// If not, and why.
pub fn filter(shape: &Shape, node: &Node) -> Result<(), Rejection> {
    let can = |needed: &&str| node.offer.features.iter().any(|one| **one == **needed);
    if shape.features.iter().all(can) {
        return Ok(());
    }
    Err(Rejection::for_good("node(s) didn't match Pod's required features", Helps::NODES))
}
