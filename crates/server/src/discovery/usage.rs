//! `metrics.k8s.io` as clients find it: a group that is there only where somebody measures.

use setpoint_api::{Value, value};

/// The group of what nodes and pods use.
pub const GROUP: &str = "metrics.k8s.io";
/// Its version.
pub const VERSION: &str = "v1beta1";

/// Each resource: its name, its kind, and whether it has namespaces.
const RESOURCES: [(&str, &str, bool); 2] = [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];

/// The kind of a resource of the group.
#[must_use]
pub fn kind(plural: &str) -> &'static str {
    let found = RESOURCES.iter().find(|(name, ..)| *name == plural);
    found.map_or("", |(_, kind, _)| kind)
}

/// The resources, as the list of a version has them.
pub(super) fn resources() -> Vec<Value> {
    let entry = |(name, kind, namespaced): &(&str, &str, bool)| {
        value!({
            "name": (*name), "singularName": "", "namespaced": (*namespaced), "kind": (*kind),
            "verbs": ["get", "list"],
        })
    };
    RESOURCES.iter().map(entry).collect()
}

/// The resources, as the document has them that shows everything at once.
pub(super) fn aggregated() -> Vec<Value> {
    let entry = |(name, kind, namespaced): &(&str, &str, bool)| {
        let scope = if *namespaced { "Namespaced" } else { "Cluster" };
        value!({
            "resource": (*name),
            "responseKind": {"group": (GROUP), "version": (VERSION), "kind": (*kind)},
            "scope": (scope),
            "singularResource": "",
            "verbs": ["get", "list"],
        })
    };
    RESOURCES.iter().map(entry).collect()
}
