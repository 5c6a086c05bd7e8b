//! What planners read of a CustomResourceDefinition.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// A CustomResourceDefinition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinition {
    /// What is wanted.
    pub spec: DefinitionSpec,
}

impl View for CustomResourceDefinition {
    const RESOURCE: &'static str = "customresourcedefinitions.apiextensions.k8s.io";
}

/// What a definition defines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionSpec {
    /// The group.
    pub group: String,
    /// The names.
    pub names: DefinitionNames,
    /// `Namespaced` or `Cluster`.
    pub scope: String,
    /// The versions.
    pub versions: Vec<DefinitionVersion>,
}

/// What the objects are called.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionNames {
    /// Their kind.
    pub kind: String,
}

/// A version of a custom resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DefinitionVersion {
    /// Its name.
    pub name: String,
    /// Whether it is served.
    pub served: bool,
}

impl CustomResourceDefinition {
    /// Whether a version is served.
    #[must_use]
    pub fn serves(&self, version: &str) -> bool {
        self.spec.versions.iter().any(|one| one.served && one.name == version)
    }
}
