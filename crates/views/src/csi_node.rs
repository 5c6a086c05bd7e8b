//! What planners read of a CSINode.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::or_default;

/// What the drivers of a node can do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    /// What they say.
    pub spec: CsiNodeSpec,
}

impl View for CsiNode {
    const RESOURCE: &'static str = "csinodes.storage.k8s.io";
}

/// What drivers say of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// The drivers.
    #[serde(deserialize_with = "or_default")]
    pub drivers: Vec<Driver>,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Driver {
    /// Its name.
    pub name: String,
    /// What it can do there.
    pub allocatable: Option<Allocatable>,
}

/// What a driver can do on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocatable {
    /// How many volumes it can have there; as many as are wanted if it does not say.
    pub count: Option<i64>,
}
