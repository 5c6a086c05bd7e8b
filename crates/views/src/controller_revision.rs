//! What planners read of a ControllerRevision.

use serde::Deserialize;
use setpoint_api::Value;

use setpoint_reconcile::object::View;

/// What a workload wanted at one time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    /// Its number: the higher, the later it was wanted.
    pub revision: i64,
    /// What was wanted, as a patch of the workload.
    pub data: Value,
}

impl View for ControllerRevision {
    const RESOURCE: &'static str = "controllerrevisions.apps";
}
