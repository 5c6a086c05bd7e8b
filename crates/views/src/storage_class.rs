//! View of a StorageClass.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::{Object, View};

use super::or_default;

const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// View of a StorageClass.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    pub provisioner: String,
    pub reclaim_policy: String,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: String,
    #[serde(deserialize_with = "or_default")]
    pub mount_options: Vec<Value>,
    /// All topologies if empty.
    #[serde(deserialize_with = "or_default")]
    pub allowed_topologies: Vec<Value>,
}

impl View for StorageClass {
    const RESOURCE: &'static str = "storageclasses.storage.k8s.io";
}

impl StorageClass {
    /// `true` if claims are bound only once a pod uses them.
    #[must_use]
    pub fn is_wait_for_first_consumer(&self) -> bool {
        self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// `true` if the object is annotated as the default class.
    #[must_use]
    pub fn is_default(object: &Object) -> bool {
        DEFAULT_ANNOTATIONS.iter().any(|name| object.meta().annotations.get(name) == Some("true"))
    }
}
