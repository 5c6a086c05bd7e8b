//! What planners read of a StorageClass.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::{Object, View};

use super::or_default;

const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// A StorageClass.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Who makes its volumes.
    pub provisioner: String,
    /// What becomes of them after their claims.
    pub reclaim_policy: String,
    /// Whether a volume is made at once or for the first pod that uses it.
    pub volume_binding_mode: String,
    /// How its volumes are mounted.
    #[serde(deserialize_with = "or_default")]
    pub mount_options: Vec<Value>,
    /// Where its volumes can be; anywhere if it does not say.
    #[serde(deserialize_with = "or_default")]
    pub allowed_topologies: Vec<Value>,
}

impl View for StorageClass {
    const RESOURCE: &'static str = "storageclasses.storage.k8s.io";
}

impl StorageClass {
    /// Whether a claim waits for the first pod that uses it.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Whether claims that name no class get it.
    #[must_use]
    pub fn is_default(object: &Object) -> bool {
        DEFAULT_ANNOTATIONS.iter().any(|name| object.meta().annotations.get(name) == Some("true"))
    }
}
