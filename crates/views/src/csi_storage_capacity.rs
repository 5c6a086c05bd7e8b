//! What planners read of a CSIStorageCapacity.

use serde::Deserialize;
use setpoint_api::labels::Selector;
use setpoint_reconcile::object::View;

use super::selector;

/// A CSIStorageCapacity: how much room a driver has for volumes of a class, as seen from some nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiStorageCapacity {
    /// The class.
    pub storage_class_name: String,
    /// How much there is in all.
    pub capacity: Option<String>,
    /// How large one volume can be.
    pub maximum_volume_size: Option<String>,
    /// The nodes, by their labels; none if it does not say.
    #[serde(deserialize_with = "selector")]
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
