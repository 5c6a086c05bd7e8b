//! What planners read of Endpoints.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::or_default;

/// Endpoints.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Addresses and ports, as the API shows them.
    #[serde(deserialize_with = "or_default")]
    pub subsets: Vec<Value>,
}

impl View for Endpoints {
    const RESOURCE: &'static str = "endpoints";
}
