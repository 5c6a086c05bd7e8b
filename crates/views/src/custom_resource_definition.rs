//! View of a CustomResourceDefinition.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// View of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinition {
    pub spec: CustomResourceDefinitionSpec,
}

impl View for CustomResourceDefinition {
    const RESOURCE: &'static str = "customresourcedefinitions.apiextensions.k8s.io";
}

/// Spec of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinitionSpec {
    pub group: String,
    pub names: CustomResourceDefinitionNames,
    /// `Namespaced` or `Cluster`.
    pub scope: String,
    pub versions: Vec<CustomResourceDefinitionVersion>,
}

/// Names of a custom resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinitionNames {
    pub kind: String,
}

/// Version of a custom resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinitionVersion {
    pub name: String,
    pub served: bool,
}

impl CustomResourceDefinition {
    /// `true` if the version is served.
    #[must_use]
    pub fn serves(&self, version: &str) -> bool {
        self.spec.versions.iter().any(|defined| defined.served && defined.name == version)
    }
}
