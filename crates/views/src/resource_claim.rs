//! View of a ResourceClaim.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::View;

use super::pod::Toleration;
use super::{Condition, QuantityField, deserialize_time, or_default};

/// View of a ResourceClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    pub spec: ResourceClaimSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ResourceClaimStatus,
}

impl View for ResourceClaim {
    const RESOURCE: &'static str = "resourceclaims.resource.k8s.io";
}

/// Spec of a ResourceClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaimSpec {
    #[serde(deserialize_with = "or_default")]
    pub devices: DeviceClaim,
}

/// Requested devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<DeviceRequest>,
    #[serde(deserialize_with = "or_default")]
    pub constraints: Vec<DeviceConstraint>,
    /// Configuration that is copied into the allocation, with the names of its requests.
    #[serde(deserialize_with = "or_default")]
    pub config: Vec<Value>,
}

/// Request for devices: either `exactly` or `first_available`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    pub name: String,
    pub exactly: Option<ClassRequest>,
    /// Alternatives in the order of preference.
    #[serde(deserialize_with = "or_default")]
    pub first_available: Vec<ClassRequest>,
}

/// Request for devices of a class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassRequest {
    /// Name of an alternative; empty for `exactly`.
    pub name: String,
    pub device_class_name: String,
    #[serde(deserialize_with = "or_default")]
    pub selectors: Vec<DeviceSelector>,
    /// `ExactCount` or `All`.
    pub allocation_mode: String,
    pub count: i64,
    pub admin_access: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Value>,
    pub capacity: Option<CapacityRequirements>,
}

/// Capacities that a request consumes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CapacityRequirements {
    #[serde(deserialize_with = "or_default")]
    pub requests: BTreeMap<String, QuantityField>,
}

/// Selector of devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    pub cel: Option<CelSelector>,
}

/// Selector in CEL.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CelSelector {
    pub expression: String,
}

/// Constraint on the devices of some requests; on all if `requests` is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceConstraint {
    #[serde(deserialize_with = "or_default")]
    pub requests: Vec<String>,
    pub match_attribute: Option<String>,
    pub distinct_attribute: Option<String>,
}

/// Status of a ResourceClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    pub allocation: Option<AllocationResult>,
    #[serde(deserialize_with = "or_default")]
    pub reserved_for: Vec<ConsumerReference>,
    #[serde(deserialize_with = "or_default")]
    pub devices: Vec<AllocatedDeviceStatus>,
}

/// State of an allocated device, as its driver reports it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatedDeviceStatus {
    pub driver: String,
    pub pool: String,
    pub device: String,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// Reference to a consumer of a ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    pub resource: String,
    pub name: String,
    pub uid: String,
}

impl ConsumerReference {
    /// `true` if the consumer is a pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == "pods"
    }
}

/// Allocation of a ResourceClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationResult {
    pub devices: DeviceAllocationResult,
    /// All nodes if absent.
    pub node_selector: Option<Value>,
    /// Start of the wait for binding conditions.
    #[serde(deserialize_with = "deserialize_time")]
    pub allocation_timestamp: Option<Time>,
}

/// Allocated devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceAllocationResult {
    #[serde(deserialize_with = "or_default")]
    pub results: Vec<AllocatedDevice>,
}

/// Allocated device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    /// Name of the request; `request/alternative` for an alternative.
    pub request: String,
    pub driver: String,
    pub pool: String,
    pub device: String,
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
    /// `true` if the device may also be allocated to others.
    pub admin_access: Option<bool>,
    /// Set if the device is shared.
    #[serde(rename = "shareID")]
    pub share_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub consumed_capacity: BTreeMap<String, QuantityField>,
    /// Conditions that the driver sets before the pod is bound.
    #[serde(deserialize_with = "or_default")]
    pub binding_conditions: Vec<String>,
    /// Conditions that release the device if the driver sets one of them.
    #[serde(deserialize_with = "or_default")]
    pub binding_failure_conditions: Vec<String>,
}

impl ResourceClaim {
    /// `true` if a consumer of this UID is in `reservedFor`.
    #[must_use]
    pub fn is_reserved_for(&self, uid: &str) -> bool {
        self.status.reserved_for.iter().any(|consumer| consumer.uid == uid)
    }

    /// Allocated devices; none before the claim is allocated.
    pub fn devices(&self) -> impl Iterator<Item = &AllocatedDevice> {
        self.status.allocation.iter().flat_map(|allocation| &allocation.devices.results)
    }
}
