//! View of Endpoints.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::or_default;

/// View of an Endpoints object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// As served by the API.
    #[serde(deserialize_with = "or_default")]
    pub subsets: Vec<Value>,
}

impl View for Endpoints {
    const RESOURCE: &'static str = "endpoints";
}
