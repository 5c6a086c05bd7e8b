//! What should follow: the built-in controllers, one file each, planners only.
//!
//! A controller is a [`Planner`](setpoint_reconcile::Planner): a pure function of the world. [`all`] lists them;
//! [`indexes`] are the questions they ask of the world; [`kinds`] says which resource a kind is; [`owners`] whose an
//! object is; [`pods`] is what those have in common that manage pods, [`service_pods`] those that look behind Services,
//! [`revisions`] those that keep their past. To add one, write its file, add what it reads to the views, and name it
//! in [`all`].

pub mod daemon_set;
pub mod deployment;
pub mod endpoint_slice;
pub mod endpoints;
pub mod garbage_collector;
pub mod hashes;
pub mod holder;
pub mod indexes;
pub mod kinds;
pub mod namespace;
pub mod owners;
pub mod placement;
pub mod pods;
pub mod replica_set;
pub mod replication_controller;
pub mod revisions;
pub mod root_ca;
pub mod service_account;
pub mod service_pods;
pub mod stateful_set;

#[cfg(test)]
mod testing;

use setpoint_reconcile::Controller;

/// What controllers are told beside the world.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The certificates that pods trust the API server by, in PEM; nothing is published if there are none.
    pub root_ca: String,
}

/// Every controller.
#[must_use]
pub fn all(settings: &Settings) -> Vec<Box<dyn Controller>> {
    let mut all: Vec<Box<dyn Controller>> = vec![
        Box::new(daemon_set::DaemonSetController),
        Box::new(deployment::DeploymentController),
        Box::new(endpoint_slice::EndpointSliceController),
        Box::new(endpoints::EndpointsController),
        Box::new(garbage_collector::GarbageCollector),
        Box::new(namespace::NamespaceController),
        Box::new(replica_set::ReplicaSetController),
        Box::new(replication_controller::ReplicationControllerController),
        Box::new(service_account::ServiceAccountController),
        Box::new(stateful_set::StatefulSetController),
    ];
    if !settings.root_ca.is_empty() {
        all.push(Box::new(root_ca::RootCaPublisher::new(&*settings.root_ca)));
    }
    all
}
