//! What planners read of an EndpointSlice.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::or_default;

/// An EndpointSlice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// The sort of its addresses.
    pub address_type: String,
    /// Its endpoints, as the API shows them.
    #[serde(deserialize_with = "or_default")]
    pub endpoints: Vec<Value>,
    /// Their ports, as the API shows them.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Value>,
}

impl View for EndpointSlice {
    const RESOURCE: &'static str = "endpointslices.discovery.k8s.io";
}
