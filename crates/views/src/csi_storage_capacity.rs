//! View of a CSIStorageCapacity.

use serde::Deserialize;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::deserialize_selector;

/// View of a CSIStorageCapacity: free capacity for volumes of a class in a topology segment.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiStorageCapacity {
    pub storage_class_name: String,
    pub capacity: Option<String>,
    pub maximum_volume_size: Option<String>,
    /// Selects no nodes if absent.
    #[serde(deserialize_with = "deserialize_selector")]
    pub node_topology: Selector,
}

impl View for CsiStorageCapacity {
    const RESOURCE: &'static str = "csistoragecapacities.storage.k8s.io";
}

impl Default for CsiStorageCapacity {
    fn default() -> CsiStorageCapacity {
        CsiStorageCapacity {
            storage_class_name: String::new(),
            capacity: None,
            maximum_volume_size: None,
            node_topology: Selector::Nothing,
        }
    }
}
