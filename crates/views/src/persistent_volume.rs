//! View of a PersistentVolume.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::{Object, Pairs, View};

use super::or_default;
use super::persistent_volume_claim::CLASS_ANNOTATION;

/// View of a PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub spec: PersistentVolumeSpec,
    pub status: PersistentVolumeStatus,
}

impl View for PersistentVolume {
    const RESOURCE: &'static str = "persistentvolumes";
}

/// Spec of a PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    #[serde(deserialize_with = "or_default")]
    pub capacity: Pairs,
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// Claim that the volume is bound to or reserved for.
    pub claim_ref: Option<ClaimReference>,
    pub persistent_volume_reclaim_policy: String,
    pub storage_class_name: String,
    pub volume_attributes_class_name: Option<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
    pub csi: Option<CsiPersistentVolumeSource>,
    pub host_path: Option<Value>,
    pub node_affinity: Option<Value>,
}

/// CSI volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiPersistentVolumeSource {
    pub driver: String,
    pub volume_handle: String,
}

/// Reference to a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    pub namespace: String,
    pub name: String,
    /// Empty if any claim of the name matches.
    pub uid: String,
}

/// Status of a PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: String,
}

impl PersistentVolume {
    /// Returns its storage class; empty if none.
    #[must_use]
    pub fn class<'a>(&'a self, object: &'a Object) -> &'a str {
        object.meta().annotations.get(CLASS_ANNOTATION).unwrap_or(&self.spec.storage_class_name)
    }

    /// `true` if it is bound to the claim or reserved for it.
    #[must_use]
    pub fn is_for(&self, claim: &Object) -> bool {
        let meta = claim.meta();
        self.spec.claim_ref.as_ref().is_some_and(|bound| {
            bound.name == *meta.name
                && bound.namespace == *meta.namespace
                && (bound.uid.is_empty() || bound.uid == *meta.uid)
        })
    }
}
