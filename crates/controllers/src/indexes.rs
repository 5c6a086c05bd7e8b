//! The questions that controllers ask of the world, beside who owns what.

use setpoint_reconcile::views::custom_resource_definition::CustomResourceDefinition;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::service::Service;
use setpoint_reconcile::{Index, Object, View};

use crate::kinds::definition_kind;

/// Definitions of custom resources by the kind that they define.
pub const DEFINITIONS_BY_KIND: &str = "definitions by kind";
/// Pods that nobody manages, by namespace.
pub const ORPHAN_PODS: &str = "orphan pods";
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
        Index {
            name: DEFINITIONS_BY_KIND,
            resource: CustomResourceDefinition::RESOURCE,
            values: definition_kind,
        },
        Index { name: ORPHAN_PODS, resource: "pods", values: orphan },
        Index { name: PODS_BY_LABEL, resource: "pods", values: labels },
        Index { name: PODS_BY_NODE, resource: "pods", values: node },
        Index { name: SERVICES_BY_SELECTOR, resource: "services", values: first_selected },
    ]
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
