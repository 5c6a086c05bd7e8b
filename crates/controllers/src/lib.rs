//! What should follow: the built-in controllers, one file each, planners only.
//!
//! A controller is a [`Planner`](setpoint_reconcile::Planner): a pure function of the world. [`all`] lists them;
//! [`indexes`] are the questions they ask of the world; [`kinds`] says which resource a kind is; [`pods`] is what
//! those have in common that manage pods, [`service_pods`] those that look behind Services. To add one, write its file,
//! add what it reads to the views, and name it in [`all`].

pub mod endpoint_slice;
pub mod endpoints;
pub mod garbage_collector;
pub mod holder;
pub mod indexes;
pub mod kinds;
pub mod namespace;
pub mod pods;
pub mod replica_set;
pub mod root_ca;
pub mod service_account;
pub mod service_pods;

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
        Box::new(endpoint_slice::EndpointSliceController),
        Box::new(endpoints::EndpointsController),
        Box::new(garbage_collector::GarbageCollector),
        Box::new(namespace::NamespaceController),
        Box::new(replica_set::ReplicaSetController),
        Box::new(service_account::ServiceAccountController),
    ];
    if !settings.root_ca.is_empty() {
        all.push(Box::new(root_ca::RootCaPublisher::new(&*settings.root_ca)));
    }
    all
}
