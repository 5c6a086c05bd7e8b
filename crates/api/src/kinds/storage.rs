//! Kinds of the group `storage.k8s.io`.

pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod storage_class;
pub mod volume_attachment;
pub mod volume_attributes_class;

use super::{Rules, check};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::Value;

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 << 10;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "StorageClass" => &storage_class::StorageClass,
        "CSIDriver" => &csi_driver::CsiDriver,
        "CSINode" => &csi_node::CsiNode,
        "CSIStorageCapacity" => &csi_storage_capacity::CsiStorageCapacity,
        "VolumeAttachment" => &volume_attachment::VolumeAttachment,
        "VolumeAttributesClass" => &volume_attributes_class::VolumeAttributesClass,
        _ => return None,
    })
}

/// Validates the driver parameters of a class.
fn check_parameters(errors: &mut ErrorList, path: &Path<'_>, object: &Value) {
    let parameters = check::text_entries(object, "parameters");
    if parameters.len() > PARAMETERS_MAX {
        return errors.push(FieldError::too_long(path, PARAMETERS_MAX));
    }
    let mut bytes = 0;
    for (key, value) in parameters {
        if key.is_empty() {
            errors.push(FieldError::invalid(path, key, "field can not be empty."));
        }
        bytes += key.len() + value.len();
    }
    if bytes > PARAMETERS_BYTES_MAX {
        errors.push(FieldError::too_long(path, PARAMETERS_BYTES_MAX));
    }
}
