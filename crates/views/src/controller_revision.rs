//! View of a ControllerRevision.

use serde::Deserialize;
use setpoint_api::Value;

use setpoint_reconcile::object::View;

/// View of a ControllerRevision.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    pub revision: i64,
    /// Patch of the workload.
    pub data: Value,
}

impl View for ControllerRevision {
    const RESOURCE: &'static str = "controllerrevisions.apps";
}
