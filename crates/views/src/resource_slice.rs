//! What planners read of a ResourceSlice.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::node::Taint;
use super::or_default;

/// A ResourceSlice: some of the devices of a pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    /// What is there.
    pub spec: SliceSpec,
}

impl View for ResourceSlice {
    const RESOURCE: &'static str = "resourceslices.resource.k8s.io";
}

/// Some of the devices of a pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SliceSpec {
    /// Their driver.
    pub driver: String,
    /// The pool.
    pub pool: Pool,
    /// The devices.
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<Device>,
}

/// A pool of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// How often it was made anew: older slices do not count.
    pub generation: i64,
}

/// A device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// What keeps pods away from it.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}
