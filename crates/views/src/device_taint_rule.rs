//! View of a DeviceTaintRule.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::node::Taint;
use super::{Condition, or_default};

/// View of a DeviceTaintRule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceTaintRule {
    pub spec: DeviceTaintRuleSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: DeviceTaintRuleStatus,
}

impl View for DeviceTaintRule {
    const RESOURCE: &'static str = "devicetaintrules.resource.k8s.io";
}

/// Spec of a DeviceTaintRule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaintRuleSpec {
    /// Selects no devices if absent.
    pub device_selector: Option<DeviceTaintSelector>,
    pub taint: Taint,
}

/// Selector of devices: every field that is set must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceTaintSelector {
    pub driver: Option<String>,
    pub pool: Option<String>,
    pub device: Option<String>,
}

/// Status of a DeviceTaintRule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceTaintRuleStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl DeviceTaintRule {
    /// `true` if the selector matches a device.
    #[must_use]
    pub fn matches(&self, driver: &str, pool: &str, device: &str) -> bool {
        let matches =
            |field: &Option<String>, actual: &str| field.as_deref().is_none_or(|expected| expected == actual);
        self.spec.device_selector.as_ref().is_some_and(|selector| {
            matches(&selector.driver, driver)
                && matches(&selector.pool, pool)
                && matches(&selector.device, device)
        })
    }
}
