//! What planners read of a PersistentVolumeClaim.

use serde::{Deserialize, Serialize};
use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::{Object, Pairs, View};

use super::pod::Resources;
use super::{Condition, or_default, selector};

/// The annotation that named the class of a claim or volume before there was a field.
pub const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

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
    /// The volume it is bound to, or wants to be.
    pub volume_name: String,
    /// Its storage class.
    pub storage_class_name: Option<String>,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<String>,
    /// How much it asks for.
    pub resources: Resources,
    /// How it is to be used.
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
    /// Which volumes will do; all if it says nothing.
    #[serde(deserialize_with = "some_selector")]
    pub selector: Option<Selector>,
    /// What it is to be filled with.
    pub data_source: Option<Value>,
}

/// How a claim stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    /// How it may be used.
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// How much it has.
    #[serde(deserialize_with = "or_default")]
    pub capacity: Pairs,
    /// How much it was given.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: Pairs,
    /// How far it has come in being given that.
    #[serde(deserialize_with = "or_default")]
    pub allocated_resource_statuses: Pairs,
    /// The class of attributes that it has.
    pub current_volume_attributes_class_name: Option<String>,
    /// The class of attributes that it is being given.
    pub modify_volume_status: Option<ModifyVolumeStatus>,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// The class of attributes that a claim is being given.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    /// Its name.
    pub target_volume_attributes_class_name: String,
}

impl PersistentVolumeClaim {
    /// Its storage class; empty for none.
    #[must_use]
    pub fn class<'a>(&'a self, object: &'a Object) -> &'a str {
        let by_annotation = object.meta().annotations.get(CLASS_ANNOTATION);
        by_annotation.or(self.spec.storage_class_name.as_deref()).unwrap_or_default()
    }

    /// Whether it says which class it wants, and be it none.
    #[must_use]
    pub fn names_class(&self, object: &Object) -> bool {
        object.meta().annotations.get(CLASS_ANNOTATION).is_some() || self.spec.storage_class_name.is_some()
    }

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

fn some_selector<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Selector>, D::Error> {
    // A claim without selector takes any volume, where elsewhere nothing said selects nothing.
    selector(deserializer).map(|selector| Some(selector).filter(|one| !matches!(one, Selector::Nothing)))
}
