//! What planners read of a DeviceTaintRule.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::node::Taint;
use super::{Condition, or_default};

/// A DeviceTaintRule: a taint for all devices that match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceTaintRule {
    /// What is wanted.
    pub spec: RuleSpec,
    /// How it stands.
    #[serde(deserialize_with = "or_default")]
    pub status: RuleStatus,
}

impl View for DeviceTaintRule {
    const RESOURCE: &'static str = "devicetaintrules.resource.k8s.io";
}

/// A taint, and for which devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleSpec {
    /// For which devices; for none if it says nothing.
    pub device_selector: Option<DeviceSelector>,
    /// The taint.
    pub taint: Taint,
}

/// Which devices: each part that is said must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    /// Their driver.
    pub driver: Option<String>,
    /// Their pool.
    pub pool: Option<String>,
    /// Their name in the pool.
    pub device: Option<String>,
}

/// How a rule stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RuleStatus {
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl DeviceTaintRule {
    /// Whether it is for a device.
    #[must_use]
    pub fn matches(&self, driver: &str, pool: &str, device: &str) -> bool {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        self.spec.device_selector.as_ref().is_some_and(|wanted| {
            fits(&wanted.driver, driver) && fits(&wanted.pool, pool) && fits(&wanted.device, device)
        })
    }
}
