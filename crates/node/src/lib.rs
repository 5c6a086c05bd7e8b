//! What is really running: nodes and the pods on them.
//!
//! - [`lifecycle`]: the life of a pod on its node, a pure function of what is wanted, what a runtime shows, and the
//!   time. Every runtime uses it.
//! - [`runtime`]: what the life cycle asks of a runtime, and what it tells it to do.
//! - [`simulated`]: a runtime that runs nothing. [`rules`]: how its containers behave. [`images`]: which can exist.
//!   [`logs`]: what they say. [`ticks`]: what comes again and again.
//! - [`fleet`]: which simulated nodes there are. [`nodes`], [`pods`], [`attend`]: their planners. [`admission`]: which pods
//!   a node takes up. [`resizing`]: which it gives what they ask for later. [`needs`]: what they wait for.
//!   [`control_plane`]: the pods of what runs in this process. [`published`]: the rules of a fleet that runs elsewhere.

pub mod addresses;
pub mod admission;
pub mod attend;
pub mod control_plane;
pub mod fleet;
pub mod host_paths;
pub mod images;
pub mod lifecycle;
pub mod logs;
pub mod needs;
pub mod nodes;
pub mod pod;
pub mod pods;
pub mod published;
pub mod resizing;
pub mod rules;
pub mod runtime;
pub mod simulated;
pub mod ticks;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use setpoint_reconcile::views::pod::{BY_NODE, NEW_BY_NODE};
use setpoint_reconcile::{Controller, Index};

pub use fleet::Fleet;

/// The planners of a fleet of simulated nodes.
#[must_use]
pub fn planners(fleet: Fleet) -> Vec<Box<dyn Controller>> {
    let fleet = Arc::new(fleet);
    let mut planners: Vec<Box<dyn Controller>> =
        vec![Box::new(nodes::Nodes(Arc::clone(&fleet))), Box::new(pods::Admission(Arc::clone(&fleet)))];
    if !fleet.components.names.is_empty() {
        planners.push(Box::new(control_plane::ControlPlane(Arc::clone(&fleet))));
    }
    if fleet.published.is_some() {
        planners.push(Box::new(published::Published(Arc::clone(&fleet))));
    }
    planners.push(Box::new(pods::Pods(fleet)));
    planners
}

/// The questions that they ask of the world.
#[must_use]
pub fn indexes() -> Vec<Index> {
    vec![
        BY_NODE,
        NEW_BY_NODE,
        needs::HELD_BY_NAMESPACE,
        addresses::WITHOUT_ADDRESS_BY_NODE,
        resizing::RESIZES_BY_NODE,
    ]
}
