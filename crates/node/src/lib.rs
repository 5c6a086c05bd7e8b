//! Kubelet and simulated nodes: the pod life cycle, a simulated container runtime, and the planners of a
//! fleet.
//!
//! - [`lifecycle`]: pod life cycle, a pure function of the pod, the state of the runtime, and the time. It
//!   works with any runtime.
//! - [`runtime`]: container runtime interface of the life cycle.
//! - [`simulated`]: runtime that starts no processes. [`behavior`]: behavior of its containers, comparable to
//!   the Stages of kwok. [`images`]: image names. [`logs`]: container logs and usage. [`ticks`]: periodic
//!   times.
//! - [`fleet`]: configuration of simulated nodes. [`nodes`], [`pods`]: their planners. [`pod_sync`]: sync of
//!   one pod. [`admission`]: kubelet admission. [`allocation`]: in-place resize. [`pod_ips`]: pod IPs.
//!   [`references`]: ConfigMaps, Secrets and host paths of pods. [`control_plane`]: mirror pods of in-process
//!   components. [`published_rules`]: behavior rules of a fleet that runs in another process.
//!
//! Start with [`lifecycle::compute_pod_actions`], then [`pod_sync::sync_pod`].

pub mod admission;
pub mod allocation;
pub mod behavior;
pub mod control_plane;
pub mod fleet;
pub mod host_paths;
pub mod images;
pub mod lifecycle;
pub mod logs;
pub mod nodes;
pub mod pod;
pub mod pod_ips;
pub mod pod_sync;
pub mod pods;
pub mod published_rules;
pub mod references;
pub mod runtime;
pub mod simulated;
pub mod ticks;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use setpoint_reconcile::{Controller, Index};
use setpoint_views::pod::{BY_NODE, NEW_BY_NODE};

pub use fleet::Fleet;

/// Returns the planners of a fleet of simulated nodes.
#[must_use]
pub fn planners(fleet: Fleet) -> Vec<Box<dyn Controller>> {
    let fleet = Arc::new(fleet);
    let mut planners: Vec<Box<dyn Controller>> =
        vec![Box::new(nodes::Nodes(Arc::clone(&fleet))), Box::new(pods::PodAdmission(Arc::clone(&fleet)))];
    if !fleet.components.names.is_empty() {
        planners.push(Box::new(control_plane::ControlPlane(Arc::clone(&fleet))));
    }
    if fleet.published_rules.is_some() {
        planners.push(Box::new(published_rules::RulesPublisher(Arc::clone(&fleet))));
    }
    planners.push(Box::new(pods::Pods(fleet)));
    planners
}

/// Returns the world indexes that the planners read.
#[must_use]
pub fn indexes() -> Vec<Index> {
    vec![
        BY_NODE,
        NEW_BY_NODE,
        references::WAITING_FOR_REFERENCES_BY_NAMESPACE,
        pod_ips::WITHOUT_IP_BY_NODE,
        allocation::PENDING_RESIZES_BY_NODE,
    ]
}
