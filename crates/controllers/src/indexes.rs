//! The questions that controllers ask of the world, beside who owns what.

use setpoint_reconcile::views::cluster_role::ClusterRole;
use setpoint_reconcile::views::custom_resource_definition::CustomResourceDefinition;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::service::Service;
use setpoint_reconcile::{Index, Object, View};

use crate::cluster_role_aggregation::is_aggregating;
use crate::kinds::definition_kind;

/// Roles that gather their rules from others, all under the empty text.
pub const AGGREGATING_ROLES: &str = "aggregating roles";
/// Definitions of custom resources by the kind that they define.
pub const DEFINITIONS_BY_KIND: &str = "definitions by kind";
/// Pods that are announced to be disrupted and run on, all under the empty value.
pub const DISRUPTION_TARGETS: &str = "pods to be disrupted";
/// Pods that have ended, all under the empty value.
pub const ENDED_PODS: &str = "pods that ended";
/// Pods that a Job has yet to count, all under the empty value.
pub const JOB_TRACKED_PODS: &str = "pods that a job tracks";
/// Nodes by the zone that they are in.
pub const NODES_BY_ZONE: &str = "nodes by zone";
/// Pods that nobody manages, by namespace.
pub const ORPHAN_PODS: &str = "orphan pods";
/// Replica sets that nobody manages, by namespace.
pub const ORPHAN_REPLICA_SETS: &str = "orphan replica sets";
/// Revisions that nobody manages, by namespace.
pub const ORPHAN_REVISIONS: &str = "orphan revisions";
/// Pods by the node they are bound to.
pub const PODS_BY_NODE: &str = "pods by node";

/// Pods by each of their labels, within a namespace: see [`labelled`].
pub const PODS_BY_LABEL: &str = "pods by label";
/// Services by the first label that they select, within a namespace: see [`labelled`].
pub const SERVICES_BY_SELECTOR: &str = "services by selector";

/// The place of a label in a namespace.
#[must_use]
pub fn labelled(namespace: &str, name: &str, value: &str) -> String {
    format!("{namespace}/{name}={value}")
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Index> {
    vec![
        Index { name: AGGREGATING_ROLES, resource: ClusterRole::RESOURCE, values: is_aggregating },
        Index {
            name: DEFINITIONS_BY_KIND,
            resource: CustomResourceDefinition::RESOURCE,
            values: definition_kind,
        },
        Index { name: DISRUPTION_TARGETS, resource: "pods", values: disruption_target },
        Index { name: ENDED_PODS, resource: "pods", values: ended },
        Index { name: JOB_TRACKED_PODS, resource: "pods", values: job_tracked },
        Index { name: NODES_BY_ZONE, resource: "nodes", values: |node, found| found(&zone_of(node)) },
        Index { name: ORPHAN_PODS, resource: "pods", values: orphan },
        Index { name: ORPHAN_REPLICA_SETS, resource: "replicasets.apps", values: orphan },
        Index { name: ORPHAN_REVISIONS, resource: "controllerrevisions.apps", values: orphan },
        Index { name: PODS_BY_LABEL, resource: "pods", values: labels },
        Index { name: PODS_BY_NODE, resource: "pods", values: node },
        Index { name: SERVICES_BY_SELECTOR, resource: "services", values: first_selected },
    ]
}

fn disruption_target(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.view().is_some_and(|pod| crate::disruption::announced_since(object, pod).is_some()) {
        found("");
    }
}

fn ended(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.view::<Pod>().is_some_and(Pod::is_finished) {
        found("");
    }
}

fn job_tracked(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.meta().has_finalizer(crate::job::TRACKING) {
        found("");
    }
}

/// The zone of a node, with its region.
#[must_use]
pub fn zone_of(node: &Object) -> String {
    let label = |name: &str| node.meta().labels.get(name).unwrap_or_default();
    format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

fn orphan(object: &Object, found: &mut dyn FnMut(&str)) {
    if object.meta().controller().is_none() {
        found(&object.meta().namespace);
    }
}

fn node(object: &Object, found: &mut dyn FnMut(&str)) {
    if let Some(pod) = object.view::<Pod>()
        && !pod.spec.node_name.is_empty()
    {
        found(&pod.spec.node_name);
    }
}

fn labels(object: &Object, found: &mut dyn FnMut(&str)) {
    for (name, value) in object.meta().labels.iter() {
        found(&labelled(&object.meta().namespace, name, value));
    }
}

fn first_selected(object: &Object, found: &mut dyn FnMut(&str)) {
    let selector = object.view::<Service>().and_then(|service| service.spec.selector.as_ref());
    if let Some((name, value)) = selector.and_then(|selector| selector.iter().next()) {
        found(&labelled(&object.meta().namespace, name, value));
    }
}
