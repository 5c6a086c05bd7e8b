//! What planners read of a VolumeAttachment.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// A VolumeAttachment: a volume that should be on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    /// What is wanted.
    pub spec: AttachmentSpec,
    /// How it stands.
    pub status: AttachmentStatus,
}

impl View for VolumeAttachment {
    const RESOURCE: &'static str = "volumeattachments.storage.k8s.io";
}

/// What is wanted of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    /// The driver that attaches it.
    pub attacher: String,
    /// The node.
    pub node_name: String,
    /// The volume.
    pub source: AttachmentSource,
}

/// The volume of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    /// Its name; nothing if the volume stands in the attachment itself.
    pub persistent_volume_name: Option<String>,
}

/// How an attachment stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentStatus {
    /// Whether the volume is on the node.
    pub attached: bool,
    /// Why it is not.
    pub attach_error: Option<VolumeError>,
}

/// What a driver could not do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeError {
    /// In words.
    pub message: String,
}
