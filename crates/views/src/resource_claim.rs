//! View of a ResourceClaim.

use serde::{Deserialize, Serialize};
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::or_default;
use super::pod::Toleration;

/// View of a ResourceClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    #[serde(deserialize_with = "or_default")]
    pub status: ResourceClaimStatus,
}

impl View for ResourceClaim {
    const RESOURCE: &'static str = "resourceclaims.resource.k8s.io";
}

/// Status of a ResourceClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    pub allocation: Option<AllocationResult>,
    #[serde(deserialize_with = "or_default")]
    pub reserved_for: Vec<ConsumerReference>,
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
#[serde(default)]
pub struct AllocatedDevice {
    pub driver: String,
    pub pool: String,
    pub device: String,
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
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
