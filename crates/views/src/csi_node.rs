//! View of a CSINode.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::or_default;

/// View of a CSINode.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    pub spec: CsiNodeSpec,
}

impl View for CsiNode {
    const RESOURCE: &'static str = "csinodes.storage.k8s.io";
}

/// Spec of a CSINode.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    #[serde(deserialize_with = "or_default")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// CSI driver on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeDriver {
    pub name: String,
    pub allocatable: Option<VolumeNodeResources>,
}

/// Volume limits of a CSI driver on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeNodeResources {
    /// Maximum number of volumes of the driver on the node; unbounded if absent.
    pub count: Option<i64>,
}
