//! View of an EndpointSlice.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::or_default;

/// View of an EndpointSlice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    pub address_type: String,
    /// As served by the API.
    #[serde(deserialize_with = "or_default")]
    pub endpoints: Vec<Value>,
    /// As served by the API.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Value>,
}

impl View for EndpointSlice {
    const RESOURCE: &'static str = "endpointslices.discovery.k8s.io";
}
