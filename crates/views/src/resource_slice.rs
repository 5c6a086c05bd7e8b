//! View of a ResourceSlice.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::node::Taint;
use super::or_default;

/// View of a ResourceSlice: devices of a pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    pub spec: ResourceSliceSpec,
}

impl View for ResourceSlice {
    const RESOURCE: &'static str = "resourceslices.resource.k8s.io";
}

/// Spec of a ResourceSlice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSliceSpec {
    pub driver: String,
    pub pool: ResourcePool,
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<Device>,
}

/// Pool of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourcePool {
    pub name: String,
    /// Slices of an older generation are obsolete.
    pub generation: i64,
}

/// Device of a pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Device {
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}
