//! What planners read of a PersistentVolumeClaim.

use serde::Deserialize;

use super::or_default;
use super::pod::Resources;
use crate::object::{Pairs, View};

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// What is wanted.
    pub spec: ClaimSpec,
    /// How it stands.
    pub status: ClaimStatus,
}

impl View for PersistentVolumeClaim {
    const RESOURCE: &'static str = "persistentvolumeclaims";
}

/// What is wanted of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// Its storage class.
    pub storage_class_name: Option<String>,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<String>,
    /// How much it asks for.
    pub resources: Resources,
}

/// How a claim stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// How much it was given.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Pairs,
    /// The class of attributes that it has.
    pub current_volume_attributes_class_name: Option<String>,
    /// The class of attributes that it is being given.
    pub modify_volume_status: Option<ModifyVolumeStatus>,
}

/// The class of attributes that a claim is being given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    /// Its name.
    pub target_volume_attributes_class_name: String,
}

impl PersistentVolumeClaim {
    /// The classes of attributes that it has, is being given or wants.
    #[must_use]
    pub fn attributes_classes(&self) -> Vec<&str> {
        let target = self.status.modify_volume_status.as_ref();
        let all = [
            self.spec.volume_attributes_class_name.as_deref(),
            self.status.current_volume_attributes_class_name.as_deref(),
            target.map(|target| target.target_volume_attributes_class_name.as_str()),
        ];
        all.into_iter().flatten().filter(|name| !name.is_empty()).collect()
    }
}
