//! What planners read of a CSIDriver.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// A CSIDriver: what a driver of volumes needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// What it needs.
    pub spec: CsiDriverSpec,
}

impl View for CsiDriver {
    const RESOURCE: &'static str = "csidrivers.storage.k8s.io";
}

/// What a driver of volumes needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// Whether its volumes must be attached to a node before they are mounted; they must if it says nothing.
    pub attach_required: Option<bool>,
    /// Whether it says how much room it has where, and pods are to be placed by that.
    pub storage_capacity: Option<bool>,
    /// Whether pods with its volumes must not be placed where it is not.
    pub prevent_pod_scheduling_if_missing: Option<bool>,
}
