//! What planners read of a PersistentVolume.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::{Object, Pairs, View};

use super::or_default;
use super::persistent_volume_claim::CLASS_ANNOTATION;

/// A PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// What is wanted.
    pub spec: VolumeSpec,
    /// How it stands.
    pub status: VolumeStatus,
}

impl View for PersistentVolume {
    const RESOURCE: &'static str = "persistentvolumes";
}

/// What is wanted of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// How much it holds.
    #[serde(deserialize_with = "or_default")]
    pub capacity: Pairs,
    /// How it may be used.
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    /// The claim it is bound to, or kept for.
    pub claim_ref: Option<ClaimRef>,
    /// What becomes of it after its claim.
    pub persistent_volume_reclaim_policy: String,
    /// Its storage class.
    pub storage_class_name: String,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
    /// Its driver, if that is one of the node's plugins.
    pub csi: Option<Csi>,
    /// The directory of a node that it is.
    pub host_path: Option<Value>,
    /// The nodes that can reach it.
    pub node_affinity: Option<Value>,
}

/// A volume of a driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Csi {
    /// The driver.
    pub driver: String,
    /// What the driver calls the volume.
    pub volume_handle: String,
}

/// The claim of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity; empty if any of the name will do.
    pub uid: String,
}

/// How a volume stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    pub phase: String,
}

impl PersistentVolume {
    /// Its storage class; empty for none.
    #[must_use]
    pub fn class<'a>(&'a self, object: &'a Object) -> &'a str {
        object.meta().annotations.get(CLASS_ANNOTATION).unwrap_or(&self.spec.storage_class_name)
    }

    /// Whether it is bound to a claim, or kept for it.
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
