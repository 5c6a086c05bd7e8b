//! Endpoint of one resource: the paths of its requests, and the type of its objects.

use setpoint_api::resource_types::ResourceType;
use setpoint_api::resources::Verb;
use setpoint_api::schema::Struct;
use setpoint_api::{Key, Resource, Value};

use crate::custom::CustomResource;

/// Endpoint of a resource in the version of the loop's requests.
pub(super) struct Endpoint {
    pub resource: Resource,
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    root: String,
    plural: Box<str>,
    api_version: String,
    kind: Box<str>,
    is_namespaced: bool,
    /// `true` if only metadata is listed and watched.
    pub is_metadata_only: bool,
    /// `None` for a custom resource.
    built_in: Option<&'static ResourceType>,
}

impl Endpoint {
    pub fn built_in(resource_type: &'static ResourceType) -> Endpoint {
        let api_version = resource_type.api_version();
        let prefix = if resource_type.info.group.is_empty() { "/api" } else { "/apis" };
        Endpoint {
            resource: resource_type.resource.clone(),
            root: format!("{prefix}/{api_version}"),
            plural: (&*resource_type.info.plural).into(),
            api_version,
            kind: (&*resource_type.info.kind).into(),
            is_namespaced: resource_type.info.namespaced,
            is_metadata_only: false,
            built_in: Some(resource_type),
        }
    }

    pub fn custom(custom: CustomResource) -> Endpoint {
        let api_version = format!("{}/{}", custom.group, custom.version);
        Endpoint {
            resource: custom.resource,
            root: format!("/apis/{api_version}"),
            plural: custom.plural,
            api_version,
            kind: custom.kind,
            is_namespaced: custom.is_namespaced,
            is_metadata_only: custom.is_metadata_only,
            built_in: None,
        }
    }

    /// `true` if requests are the same as those of another endpoint of the resource.
    pub fn is_same(&self, other: &Endpoint) -> bool {
        self.root == other.root && self.is_metadata_only == other.is_metadata_only
    }

    /// Key of an object; `None` if a name is invalid.
    pub fn key(&self, namespace: &str, name: &str) -> Option<Key> {
        let key = if self.is_namespaced {
            Key::namespaced(&self.resource, namespace, name)
        } else {
            Key::cluster(&self.resource, name)
        };
        key.ok()
    }

    /// Path of the collection in a namespace; of all objects if that is empty.
    pub fn collection_path(&self, namespace: &str) -> String {
        let mut path = self.root.clone();
        if !namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// Path of an object, or of its subresource.
    pub fn object_path(&self, key: &Key, subresource: &str) -> String {
        let mut path = self.collection_path(key.namespace().unwrap_or_default());
        for word in [key.name(), subresource].into_iter().filter(|word| !word.is_empty()) {
            path.push('/');
            path.push_str(word);
        }
        path
    }

    /// Schema of the stored object, if a subresource supports PUT and no PATCH; `None` for every other.
    pub fn schema_of_put(&self, subresource: &str) -> Option<Struct<'static>> {
        let resource_type = self.built_in?;
        let info = resource_type.info.subresource(subresource)?;
        (!info.verbs.contains(Verb::Patch)).then(|| resource_type.stored_schema.built_in()).flatten()
    }

    /// Sets kind and version of an object.
    pub fn with_type(&self, mut object: Value) -> Value {
        let map = object.make_map();
        map.insert("kind", &*self.kind);
        map.insert("apiVersion", self.api_version.as_str());
        object
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{resource_types, value};

    use super::*;

    #[test]
    fn paths_of_custom_resources_name_their_version() {
        let resource = Resource::new("foos.example.com").unwrap();
        let endpoint = Endpoint::custom(CustomResource {
            resource: resource.clone(),
            group: "example.com".into(),
            version: "v1".into(),
            plural: "foos".into(),
            kind: "Foo".into(),
            is_namespaced: true,
            is_metadata_only: true,
        });
        assert_eq!(endpoint.collection_path(""), "/apis/example.com/v1/foos");
        let key = endpoint.key("a", "x").unwrap();
        assert_eq!(endpoint.object_path(&key, "status"), "/apis/example.com/v1/namespaces/a/foos/x/status");
        let typed = endpoint.with_type(value!({"metadata": {"name": "x"}}));
        assert_eq!((typed.str_at(&["apiVersion"]), typed.str_at(&["kind"])), ("example.com/v1", "Foo"));
        assert!(endpoint.schema_of_put("status").is_none(), "custom resources support PATCH");
    }

    #[test]
    fn paths_of_built_in_resources_begin_with_their_group() {
        let pods = Endpoint::built_in(resource_types::find("", "v1", "pods").unwrap());
        assert_eq!(pods.collection_path("a"), "/api/v1/namespaces/a/pods");
        let namespaces = Endpoint::built_in(resource_types::find("", "v1", "namespaces").unwrap());
        let key = namespaces.key("", "a").unwrap();
        assert_eq!(namespaces.object_path(&key, "finalize"), "/api/v1/namespaces/a/finalize");
        assert!(namespaces.schema_of_put("finalize").is_some() && pods.schema_of_put("status").is_none());
    }
}
