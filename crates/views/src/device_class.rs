//! View of a DeviceClass.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::or_default;
use super::resource_claim::DeviceSelector;

/// View of a DeviceClass: a category of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClass {
    pub spec: DeviceClassSpec,
}

impl View for DeviceClass {
    const RESOURCE: &'static str = "deviceclasses.resource.k8s.io";
}

/// Spec of a DeviceClass.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClassSpec {
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<DeviceSelector>,
    /// Configuration that is copied into allocations.
    #[serde(deserialize_with = "or_default")]
    pub config: Vec<Value>,
}
