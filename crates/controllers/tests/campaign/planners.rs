//! All planners of the product, with settings under which each has something to do.

use setpoint_controllers::api_services::MetricsService;
use setpoint_controllers::lease_holder::LeaseHolder;
use setpoint_controllers::node_ipam::ClusterCidr;
use setpoint_controllers::{Settings, crd, flow_control};
use setpoint_node::Fleet;
use setpoint_node::control_plane::{COMPONENTS, Components};
use setpoint_reconcile::{Controller, Index};
use setpoint_scheduler::Scheduler;

/// All planners of the product.
pub fn planners() -> Vec<Box<dyn Controller>> {
    let range = ClusterCidr::new("10.128.0.0/9".parse().unwrap(), 24).unwrap();
    let settings = Settings {
        root_ca: "any".to_owned(),
        cluster_cidrs: vec![range],
        terminated_pod_gc_threshold: 1,
        signs_tokens: true,
        ..Settings::default()
    };
    let mut all = setpoint_controllers::all(&settings);
    all.push(Box::new(Scheduler::default()));
    all.push(Box::new(LeaseHolder { lease: "kube-controller-manager", identity: "me".to_owned() }));
    all.push(Box::new(MetricsService { has_nodes: true }));
    all.extend(flow_control::server_controllers());
    all.extend(crd::server_controllers());
    let components = Components { names: COMPONENTS.to_vec(), ..Components::default() };
    let fleet = Fleet { components, published_rules: Some("rules: []".to_owned()), ..Fleet::default() };
    all.extend(setpoint_node::planners(fleet));
    all
}

/// Indexes that they need.
pub fn indexes() -> impl Iterator<Item = Index> {
    setpoint_controllers::indexes::all().into_iter().chain(crd::indexes()).chain(setpoint_node::indexes())
}
