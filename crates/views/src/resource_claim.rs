//! What planners read of a ResourceClaim.

use serde::{Deserialize, Serialize};
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use super::or_default;
use super::pod::Toleration;

/// A ResourceClaim: a wish for devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// How it stands.
    #[serde(deserialize_with = "or_default")]
    pub status: ResourceClaimStatus,
}

impl View for ResourceClaim {
    const RESOURCE: &'static str = "resourceclaims.resource.k8s.io";
}

/// How a wish for devices stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// What it got.
    pub allocation: Option<Allocation>,
    /// Who may use it.
    #[serde(deserialize_with = "or_default")]
    pub reserved_for: Vec<Consumer>,
}

/// Who may use devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Consumer {
    /// The group of its resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Its resource.
    pub resource: String,
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
}

impl Consumer {
    /// Whether it is a pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.api_group.is_empty() && self.resource == "pods"
    }
}

/// What a wish for devices got.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocation {
    /// The devices.
    pub devices: AllocatedDevices,
    /// The nodes that can reach them; all if it does not say.
    pub node_selector: Option<Value>,
}

/// The devices that a wish got.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatedDevices {
    /// One by one.
    #[serde(deserialize_with = "or_default")]
    pub results: Vec<AllocatedDevice>,
}

/// A device that a wish got.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatedDevice {
    /// Its driver.
    pub driver: String,
    /// The pool that it is in.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
    /// What is put up with.
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
}

impl ResourceClaim {
    /// Whether somebody of this identity may use it.
    #[must_use]
    pub fn is_reserved_for(&self, uid: &str) -> bool {
        self.status.reserved_for.iter().any(|consumer| consumer.uid == uid)
    }

    /// The devices that it got.
    pub fn devices(&self) -> impl Iterator<Item = &AllocatedDevice> {
        self.status.allocation.iter().flat_map(|allocation| &allocation.devices.results)
    }
}
