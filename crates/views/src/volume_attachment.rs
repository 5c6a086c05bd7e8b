//! View of a VolumeAttachment.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// View of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    pub spec: VolumeAttachmentSpec,
    pub status: VolumeAttachmentStatus,
}

impl View for VolumeAttachment {
    const RESOURCE: &'static str = "volumeattachments.storage.k8s.io";
}

/// Spec of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSpec {
    pub attacher: String,
    pub node_name: String,
    pub source: VolumeAttachmentSource,
}

/// Volume of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSource {
    /// Absent for an inline volume.
    pub persistent_volume_name: Option<String>,
}

/// Status of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentStatus {
    pub attached: bool,
    pub attach_error: Option<VolumeError>,
}

/// Error of the CSI driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeError {
    pub message: String,
}
