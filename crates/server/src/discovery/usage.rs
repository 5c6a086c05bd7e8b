//! Discovery of `metrics.k8s.io`, which is served only with a usage source.

use setpoint_api::{Value, value};

/// The API group.
pub const GROUP: &str = "metrics.k8s.io";
/// Its version.
pub const VERSION: &str = "v1beta1";

/// Plural, kind, and `true` for namespaced resources.
const RESOURCES: [(&str, &str, bool); 2] = [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];

/// The kind of a resource of the group.
#[must_use]
pub fn kind(plural: &str) -> &'static str {
    let found = RESOURCES.iter().find(|(name, ..)| *name == plural);
    found.map_or("", |(_, kind, _)| kind)
}

/// Entries of the legacy APIResourceList.
pub(super) fn resources() -> Vec<Value> {
    let entry = |(name, kind, namespaced): &(&str, &str, bool)| {
        value!({
            "name": (*name), "singularName": "", "namespaced": (*namespaced), "kind": (*kind),
            "verbs": ["get", "list"],
        })
    };
    RESOURCES.iter().map(entry).collect()
}

/// Entries of the aggregated document.
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
