//! View of a CustomResourceDefinition. Schemas are skipped: they can have a megabyte, and no planner reads them.

use serde::{Deserialize, Serialize};
use setpoint_api::{Resource, resources};
use setpoint_reconcile::object::{Object, View};

use crate::{Condition, condition, or_default};

pub use setpoint_api::kinds::apiextensions::definition::CLEANUP_FINALIZER;

/// Annotation with the approval of an API in a protected group.
pub const APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";

/// View of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinition {
    pub spec: CustomResourceDefinitionSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: CustomResourceDefinitionStatus,
}

impl View for CustomResourceDefinition {
    const RESOURCE: &'static str = "customresourcedefinitions.apiextensions.k8s.io";

    fn shrink(&mut self) {
        self.spec.versions.shrink_to_fit();
        self.status.conditions.shrink_to_fit();
    }
}

/// Spec of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinitionSpec {
    pub group: Box<str>,
    pub names: CustomResourceDefinitionNames,
    /// `Namespaced` or `Cluster`.
    pub scope: Box<str>,
    #[serde(deserialize_with = "or_default")]
    pub versions: Vec<CustomResourceDefinitionVersion>,
    pub preserve_unknown_fields: bool,
    #[serde(deserialize_with = "or_default")]
    pub conversion: CustomResourceConversion,
}

/// Names of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinitionNames {
    pub plural: Box<str>,
    #[serde(skip_serializing_if = "crate::is_empty")]
    pub singular: Box<str>,
    #[serde(deserialize_with = "or_default", serialize_with = "crate::serialize_unless_empty")]
    pub short_names: Vec<Box<str>>,
    pub kind: Box<str>,
    #[serde(skip_serializing_if = "crate::is_empty")]
    pub list_kind: Box<str>,
    #[serde(deserialize_with = "or_default", serialize_with = "crate::serialize_unless_empty")]
    pub categories: Vec<Box<str>>,
}

/// Version of a custom resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinitionVersion {
    pub name: Box<str>,
    pub served: bool,
    pub storage: bool,
    #[serde(deserialize_with = "or_default")]
    pub subresources: CustomResourceSubresources,
}

/// Subresources of a version.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceSubresources {
    pub scale: Option<Box<CustomResourceSubresourceScale>>,
}

/// Paths of the scale of a custom resource: field names after dots, as `.spec.replicas`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceSubresourceScale {
    pub spec_replicas_path: Box<str>,
    pub status_replicas_path: Box<str>,
    /// Path of a selector in its text form.
    pub label_selector_path: Option<Box<str>>,
}

/// Conversion between versions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceConversion {
    pub webhook: Option<Box<WebhookConversion>>,
}

/// Webhook of a conversion.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookConversion {
    #[serde(deserialize_with = "or_default")]
    pub client_config: ConversionClientConfig,
}

/// Client configuration of a conversion webhook.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConversionClientConfig {
    /// CA certificates in base64 of PEM.
    #[serde(deserialize_with = "or_default")]
    pub ca_bundle: Box<str>,
}

/// Status of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinitionStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    #[serde(deserialize_with = "or_default")]
    pub accepted_names: CustomResourceDefinitionNames,
    #[serde(deserialize_with = "or_default")]
    pub stored_versions: Vec<Box<str>>,
}

impl CustomResourceDefinition {
    /// `true` if the version is served.
    #[must_use]
    pub fn serves(&self, version: &str) -> bool {
        self.spec.versions.iter().any(|defined| defined.served && *defined.name == *version)
    }

    /// `true` if the condition of a type has the status `True`.
    #[must_use]
    pub fn has_condition(&self, kind: &str) -> bool {
        condition(&self.status.conditions, kind).is_some_and(Condition::is_true)
    }

    /// `true` if objects of the resource can exist: it stays established until it is removed.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.has_condition("Established")
    }

    /// `true` if the resource is namespaced.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        &*self.spec.scope == "Namespaced"
    }

    /// Storage version.
    #[must_use]
    pub fn storage_version(&self) -> Option<&CustomResourceDefinitionVersion> {
        self.spec.versions.iter().find(|version| version.storage)
    }

    /// Version for requests of the loop: the storage version, which needs no conversion; if it is not served, the first
    /// version that is.
    #[must_use]
    pub fn request_version(&self) -> Option<&CustomResourceDefinitionVersion> {
        let storage = self.storage_version().filter(|version| version.served);
        storage.or_else(|| self.spec.versions.iter().find(|version| version.served))
    }

    /// `true` if a version has a scale.
    #[must_use]
    pub fn has_scale(&self) -> bool {
        self.spec.versions.iter().any(|version| version.subresources.scale.is_some())
    }
}

/// Returns the custom resource of an established CustomResourceDefinition: the resource whose objects a loop follows.
/// `None` if it is not established, or if a built-in resource has the same name; a definition never replaces that.
#[must_use]
pub fn custom_resource(object: &Object) -> Option<(Resource, &CustomResourceDefinition)> {
    let definition = object.view::<CustomResourceDefinition>().filter(|view| view.is_established())?;
    if is_built_in(definition) {
        return None;
    }
    // A CustomResourceDefinition is named after its resource.
    Some((Resource::new(&object.meta().name).ok()?, definition))
}

/// `true` if a built-in resource has the name of the custom one.
#[must_use]
pub fn is_built_in(definition: &CustomResourceDefinition) -> bool {
    let CustomResourceDefinitionSpec { group, names, .. } = &definition.spec;
    resources::all().iter().any(|info| *info.group == **group && *info.plural == *names.plural)
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Revision, Time};

    use super::*;

    fn object(name: &str, text: &str) -> Object {
        let key = Key::cluster(&Resource::new(CustomResourceDefinition::RESOURCE).unwrap(), name).unwrap();
        let text = format!(r#"{{"metadata":{{"name":"{name}"}},{text}}}"#);
        Object::read(key, Revision(1), Time::EPOCH, text).unwrap()
    }

    #[test]
    fn view_has_names_versions_and_conditions_and_skips_schemas() {
        let text = r#""spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},
            "versions":[{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}},
            {"name":"v2","served":false,"storage":true,"subresources":{"status":{},"scale":
            {"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}}}]},
            "status":{"conditions":[{"type":"Established","status":"True"}],"storedVersions":["v2"],
            "acceptedNames":{"plural":"foos","kind":"Foo"}}"#;
        let object = object("foos.example.com", text);
        let (resource, definition) = custom_resource(&object).unwrap();
        assert_eq!(resource.as_str(), "foos.example.com");
        assert!(definition.serves("v1") && !definition.serves("v2") && definition.has_scale());
        assert_eq!(&*definition.request_version().unwrap().name, "v1", "the storage version is not served");
        assert_eq!(&*definition.storage_version().unwrap().name, "v2");
    }

    #[test]
    fn resources_without_established_definition_and_built_in_ones_are_not_custom() {
        let established = r#""status":{"conditions":[{"type":"Established","status":"True"}]}"#;
        let spec = |group: &str, plural: &str| {
            format!(r#""spec":{{"group":"{group}","scope":"Namespaced","names":{{"plural":"{plural}"}}}}"#)
        };
        let built_in = object("deployments.apps", &format!("{},{established}", spec("apps", "deployments")));
        assert!(custom_resource(&built_in).is_none());
        let pending = object("foos.example.com", &spec("example.com", "foos"));
        assert!(custom_resource(&pending).is_none());
    }
}
