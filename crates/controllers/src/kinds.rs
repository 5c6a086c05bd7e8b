//! Mapping from `apiVersion` and `kind` of a reference to the resource.
//!
//! Built-in kinds are in a table; custom kinds are found by their CustomResourceDefinitions in the world.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use setpoint_api::resources::{self, ResourceInfo, Verb};
use setpoint_reconcile::{Object, View, WorldReader};
use setpoint_views::custom_resource_definition::{CustomResourceDefinition, custom_resource};

use crate::indexes::DEFINITIONS_BY_KIND;

/// Resource of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindResource<'a> {
    /// Name of the resource, as in keys.
    pub resource: &'a str,
    /// `true` if the resource is namespaced.
    pub namespaced: bool,
}

/// Resource of a served kind, in any served version; `None` if the kind is not served.
#[must_use]
pub fn find_resource<'a>(
    world: &'a WorldReader<'a>,
    api_version: &str,
    kind: &'a str,
) -> Option<KindResource<'a>> {
    if let Some(kind) = BUILT_IN.kinds.get(kind).and_then(|versions| versions.get(api_version)) {
        return Some(KindResource { resource: &kind.resource, namespaced: kind.namespaced });
    }
    let (group, version) = api_version.split_once('/')?;
    let definitions = world.by_index(DEFINITIONS_BY_KIND, kind);
    let mut views =
        definitions.filter_map(|object| Some((object, object.view::<CustomResourceDefinition>()?)));
    let (object, definition) =
        views.find(|(_, definition)| *definition.spec.group == *group && definition.serves(version))?;
    // A CustomResourceDefinition is named after its resource.
    Some(KindResource { resource: &object.meta().name, namespaced: definition.is_namespaced() })
}

/// Storage group version and kind of a built-in resource.
#[must_use]
pub fn storage_kind(resource: &str) -> Option<(&'static str, &'static str)> {
    BUILT_IN.storage_kinds.get(resource).map(|(api_version, kind)| (api_version.as_str(), *kind))
}

/// Index function: accepted kind of an established CustomResourceDefinition. Its other names are not served.
pub(crate) fn index_definition_kind(object: &Object, emit: &mut dyn FnMut(&str)) {
    if let Some((_, definition)) = custom_resource(object) {
        emit(&definition.status.accepted_names.kind);
    }
}

/// Namespaced custom resources of which no list was observed yet.
pub(crate) fn unobserved_resources(world: &WorldReader<'_>) -> Vec<String> {
    let custom = world.all(CustomResourceDefinition::RESOURCE).filter_map(custom_resource);
    custom
        .filter(|(resource, definition)| {
            definition.is_namespaced() && world.find_resource(resource.as_str()).is_none()
        })
        .map(|(resource, _)| resource.as_str().to_owned())
        .collect()
}

struct BuiltInResource {
    resource: String,
    namespaced: bool,
}

struct BuiltIn {
    /// By kind, then by group version.
    kinds: BTreeMap<&'static str, BTreeMap<String, BuiltInResource>>,
    /// Group version and kind, by resource.
    storage_kinds: BTreeMap<String, (String, &'static str)>,
}

static BUILT_IN: LazyLock<BuiltIn> = LazyLock::new(|| {
    let mut built_in = BuiltIn { kinds: BTreeMap::new(), storage_kinds: BTreeMap::new() };
    for info in resources::all().iter().filter(|info| info.verbs.contains(Verb::List)) {
        let resource = resource_of(info);
        let api_version = if info.group.is_empty() {
            info.version.to_string()
        } else {
            format!("{}/{}", info.group, info.version)
        };
        let built_in_resource = BuiltInResource { resource: resource.clone(), namespaced: info.namespaced };
        built_in.kinds.entry(&*info.kind).or_default().insert(api_version.clone(), built_in_resource);
        // Of the two groups of Events the core one is stored; of several versions the newest is.
        if info.group != "events.k8s.io" {
            built_in.storage_kinds.insert(resource, (api_version, &*info.kind));
        }
    }
    built_in
});

/// Resource under which objects are stored.
fn resource_of(info: &ResourceInfo) -> String {
    match &*info.group {
        "" | "events.k8s.io" => info.plural.to_string(),
        group => format!("{}.{group}", info.plural),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_are_found_in_every_served_version() {
        let world = setpoint_reconcile::World::new(setpoint_views::world_config(crate::indexes::all()));
        let reader = world.reader();
        let found = |api_version, kind| find_resource(&reader, api_version, kind).map(|kind| kind.resource);
        assert_eq!(found("v1", "Pod"), Some("pods"));
        assert_eq!(found("apps/v1", "Deployment"), Some("deployments.apps"));
        assert_eq!(
            found("autoscaling/v1", "HorizontalPodAutoscaler"),
            Some("horizontalpodautoscalers.autoscaling")
        );
        assert_eq!(found("extensions/v1beta1", "Deployment"), None);
        assert_eq!(
            storage_kind("horizontalpodautoscalers.autoscaling").map(|(version, _)| version),
            Some("autoscaling/v2")
        );
        assert_eq!(storage_kind("events"), Some(("v1", "Event")));
    }
}
