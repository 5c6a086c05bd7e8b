//! What should follow: the built-in controllers, one file each, planners only.
//!
//! A controller is a [`Planner`](setpoint_reconcile::Planner): a pure function of the world. [`all`] lists them;
//! [`indexes`] are the questions they ask of the world; [`pods`] is what those have in common that manage pods, [`service_pods`]
//! those that look behind Services. To
//! add one, write its file, add what it reads to the views, and name it in [`all`].

pub mod endpoint_slice;
pub mod endpoints;
pub mod holder;
pub mod indexes;
pub mod pods;
pub mod replica_set;
pub mod service_pods;

use setpoint_reconcile::Controller;

/// Every controller.
#[must_use]
pub fn all() -> Vec<Box<dyn Controller>> {
    vec![Box::new(endpoint_slice::EndpointSliceController), Box::new(replica_set::ReplicaSetController)]
}
