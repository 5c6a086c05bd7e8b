//! View of a ResourceSlice.

use std::collections::BTreeMap;

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::QuantityField;
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
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSliceSpec {
    pub driver: String,
    pub pool: ResourcePool,
    pub node_name: Option<String>,
    pub node_selector: Option<Value>,
    pub all_nodes: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<Device>,
    /// `true` if each device selects its nodes.
    pub per_device_node_selection: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub shared_counters: Vec<CounterSet>,
}

/// Pool of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePool {
    pub name: String,
    /// Slices of an older generation are obsolete.
    pub generation: i64,
    /// Number of slices of the pool in this generation.
    pub resource_slice_count: i64,
}

/// Counters that devices of a pool share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CounterSet {
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub counters: BTreeMap<String, Counter>,
}

/// Value of a counter.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Counter {
    pub value: QuantityField,
}

/// Device of a pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub attributes: BTreeMap<String, DeviceAttribute>,
    #[serde(deserialize_with = "or_default")]
    pub capacity: BTreeMap<String, DeviceCapacity>,
    #[serde(deserialize_with = "or_default")]
    pub consumes_counters: Vec<CounterConsumption>,
    pub node_name: Option<String>,
    pub node_selector: Option<Value>,
    pub all_nodes: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
    pub binds_to_node: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub binding_conditions: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub binding_failure_conditions: Vec<String>,
    /// `true` if several requests may share the capacity of the device.
    pub allow_multiple_allocations: Option<bool>,
}

/// Attribute of a device: one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceAttribute {
    pub int: Option<i64>,
    pub bool: Option<bool>,
    pub string: Option<String>,
    /// Semantic version.
    pub version: Option<String>,
}

/// Capacity of a device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceCapacity {
    pub value: QuantityField,
    pub request_policy: Option<CapacityRequestPolicy>,
}

/// Amounts of a capacity that a request may consume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapacityRequestPolicy {
    /// Amount for requests that name none.
    pub default: Option<QuantityField>,
    /// In ascending order.
    #[serde(deserialize_with = "or_default")]
    pub valid_values: Vec<QuantityField>,
    pub valid_range: Option<CapacityRequestPolicyRange>,
}

/// Range of amounts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CapacityRequestPolicyRange {
    pub min: Option<QuantityField>,
    pub max: Option<QuantityField>,
    /// Amounts are multiples of the step above the minimum.
    pub step: Option<QuantityField>,
}

/// Consumption of shared counters by a device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CounterConsumption {
    pub counter_set: String,
    #[serde(deserialize_with = "or_default")]
    pub counters: BTreeMap<String, Counter>,
}
