//! View of a CSIDriver.

use serde::Deserialize;

use setpoint_reconcile::object::View;

/// View of a CSIDriver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    pub spec: CsiDriverSpec,
}

impl View for CsiDriver {
    const RESOURCE: &'static str = "csidrivers.storage.k8s.io";
}

/// Spec of a CSIDriver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiDriverSpec {
    /// `true` if absent.
    pub attach_required: Option<bool>,
    pub storage_capacity: Option<bool>,
    pub prevent_pod_scheduling_if_missing: Option<bool>,
}
