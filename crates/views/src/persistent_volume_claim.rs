//! View of a PersistentVolumeClaim.

use serde::{Deserialize, Serialize};
use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::{Object, Pairs, View};

use super::pod::ResourceRequirements;
use super::{Condition, deserialize_selector, or_default};

/// Deprecated annotation with the storage class of a claim or volume; it overrides the field.
pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// View of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    pub spec: PersistentVolumeClaimSpec,
    pub status: PersistentVolumeClaimStatus,
}

impl View for PersistentVolumeClaim {
    const RESOURCE: &'static str = "persistentvolumeclaims";
}

/// Spec of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
    /// Volume that the claim is bound to, or requests by name.
    pub volume_name: String,
    pub storage_class_name: Option<String>,
    pub volume_attributes_class_name: Option<String>,
    pub resources: ResourceRequirements,
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
    /// All volumes match if absent.
    #[serde(deserialize_with = "deserialize_optional_selector")]
    pub selector: Option<Selector>,
    pub data_source: Option<Value>,
}

/// Status of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub capacity: Pairs,
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Pairs,
    #[serde(deserialize_with = "or_default")]
    pub allocated_resource_statuses: Pairs,
    pub current_volume_attributes_class_name: Option<String>,
    pub modify_volume_status: Option<ModifyVolumeStatus>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// Volume attributes class that is being applied.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    pub target_volume_attributes_class_name: String,
}

impl PersistentVolumeClaim {
    /// Returns its storage class; empty if none.
    #[must_use]
    pub fn class<'a>(&'a self, object: &'a Object) -> &'a str {
        let by_annotation = object.meta().annotations.get(CLASS_ANNOTATION);
        by_annotation.or(self.spec.storage_class_name.as_deref()).unwrap_or_default()
    }

    /// `true` if a storage class is set, even an empty one: the default class is not assigned.
    #[must_use]
    pub fn has_class(&self, object: &Object) -> bool {
        object.meta().annotations.get(CLASS_ANNOTATION).is_some() || self.spec.storage_class_name.is_some()
    }

    /// Volume attributes classes: requested, current and being applied.
    #[must_use]
    pub fn attributes_classes(&self) -> Vec<&str> {
        let target = self.status.modify_volume_status.as_ref();
        let classes = [
            self.spec.volume_attributes_class_name.as_deref(),
            self.status.current_volume_attributes_class_name.as_deref(),
            target.map(|target| target.target_volume_attributes_class_name.as_str()),
        ];
        classes.into_iter().flatten().filter(|name| !name.is_empty()).collect()
    }
}

fn deserialize_optional_selector<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Selector>, D::Error> {
    // An absent selector matches any volume here, and nothing elsewhere.
    deserialize_selector(deserializer)
        .map(|selector| Some(selector).filter(|selector| !matches!(selector, Selector::Nothing)))
}
