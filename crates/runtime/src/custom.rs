//! Custom resources that a loop follows: a pure function of the CustomResourceDefinitions in its world.
//!
//! The shells call [`CustomResources::changes_of`] after each change of definitions, follow the resources that are new,
//! and remove those that are gone ([`Engine::remove_resource`]).

use setpoint_api::{Key, Resource, resource_types};
use setpoint_reconcile::{Engine, View};
use setpoint_views::custom_resource_definition::{CustomResourceDefinition, custom_resource};

/// Resource of the CustomResourceDefinitions.
pub const DEFINITIONS: &str = CustomResourceDefinition::RESOURCE;

/// Resource of the CustomResourceDefinitions.
///
/// # Panics
/// Never: the name is valid.
#[must_use]
pub fn definitions() -> Resource {
    Resource::new(DEFINITIONS).expect("the name of the resource is valid")
}

/// `true` if an engine follows any custom resource: all, or one that it names.
#[must_use]
pub fn follows_custom_resources(engine: &Engine) -> bool {
    let is_custom = |name: &str| {
        let resource = Resource::new(name);
        resource.is_ok_and(|resource| resource_types::storage_type(&resource).is_none())
    };
    engine.follows_added() || engine.watched_resources().any(is_custom)
}

/// A custom resource that a loop follows, with the path of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomResource {
    /// Name of the resource, as in keys.
    pub resource: Resource,
    /// API group.
    pub group: Box<str>,
    /// Version of requests: the storage version, if it is served.
    pub version: Box<str>,
    /// Plural name.
    pub plural: Box<str>,
    /// Kind of its objects.
    pub kind: Box<str>,
    /// `true` if the resource is namespaced.
    pub is_namespaced: bool,
    /// `true` if planners of the loop read only the metadata of its objects.
    pub is_metadata_only: bool,
}

/// Effect of changed CustomResourceDefinitions on the followed resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomResources {
    /// Resources to follow from now on; some may be followed already.
    pub followed: Vec<CustomResource>,
    /// Resources to follow no longer; some may not have been followed.
    pub gone: Vec<Resource>,
}

impl CustomResources {
    /// Effect of the definitions at these keys, as they are now.
    pub fn changes_of<'k>(engine: &Engine, keys: impl Iterator<Item = &'k Key>) -> CustomResources {
        let mut changes = CustomResources::default();
        for key in keys {
            match followed(engine, key) {
                Some(resource) => changes.followed.push(resource),
                None => changes.gone.extend(Resource::new(key.name())),
            }
        }
        changes
    }

    /// Effect of all definitions, of which some may be gone, on the resources that are followed.
    pub fn changes_of_all<'r>(
        engine: &Engine,
        current: impl Iterator<Item = &'r Resource>,
    ) -> CustomResources {
        let reader = engine.world().reader();
        let mut changes =
            CustomResources::changes_of(engine, reader.all(DEFINITIONS).map(|object| object.key()));
        let is_gone = |resource: &&Resource| reader.find(DEFINITIONS, "", resource.as_str()).is_none();
        changes.gone.extend(current.filter(is_gone).cloned());
        changes
    }
}

/// Custom resource of the definition at a key; `None` if objects of it cannot exist, or the engine does not follow it.
fn followed(engine: &Engine, key: &Key) -> Option<CustomResource> {
    let (resource, definition) = custom_resource(engine.world().get(key)?)?;
    if !engine.follows_added() && !engine.follows(&resource) {
        return None;
    }
    let is_watched = engine.watched_resources().any(|name| name == resource.as_str());
    let names = &definition.status.accepted_names;
    Some(CustomResource {
        group: definition.spec.group.clone(),
        version: definition.request_version().map(|version| version.name.clone()).unwrap_or_default(),
        plural: definition.spec.names.plural.clone(),
        kind: if names.kind.is_empty() { &definition.spec.names.kind } else { &names.kind }.clone(),
        is_namespaced: definition.is_namespaced(),
        is_metadata_only: !is_watched && !definition.has_scale(),
        resource,
    })
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Revision, Time, json, value};
    use setpoint_reconcile::{Object, ObservedChange, WorldConfig};

    use super::*;

    fn observe(engine: &mut Engine, plural: &str, is_established: bool, revision: u64) -> Key {
        let name = format!("{plural}.example.com");
        let key = Key::cluster(&definitions(), &name).unwrap();
        let status = if is_established { "True" } else { "False" };
        let object = value!({
            "metadata": {"name": (name), "uid": (plural)},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": (plural), "kind": "Foo"},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
            "status": {"conditions": [{"type": "Established", "status": (status)}]},
        });
        let after =
            Object::read(key.clone(), Revision(revision), Time::EPOCH, json::to_vec(&object)).unwrap();
        let change = ObservedChange {
            key: key.clone(),
            revision: Revision(revision),
            after: Some(after),
            reconciler: None,
        };
        engine.observe(change, Time::EPOCH);
        key
    }

    #[test]
    fn established_definitions_are_followed_until_they_are_gone() {
        let mut engine = Engine::new(Vec::new(), WorldConfig::default());
        let foos = observe(&mut engine, "foos", true, 1);
        let bars = observe(&mut engine, "bars", false, 2);
        let changes = CustomResources::changes_of(&engine, [&foos, &bars].into_iter());
        let names: Vec<&str> = changes.followed.iter().map(|custom| custom.resource.as_str()).collect();
        assert_eq!(names, ["foos.example.com"]);
        assert_eq!(changes.gone.len(), 1, "bars can have no objects");
        let change =
            ObservedChange { key: foos.clone(), revision: Revision(3), after: None, reconciler: None };
        engine.observe(change, Time::EPOCH);
        let current = [Resource::new("foos.example.com").unwrap()];
        let changes = CustomResources::changes_of_all(&engine, current.iter());
        assert!(changes.followed.is_empty() && changes.gone.contains(&current[0]));
        assert_eq!(CustomResources::changes_of(&engine, [&foos].into_iter()).gone, current);
    }
}
