//! Quota usage of ResourceClaims: the devices of each class that a claim may get.

use std::collections::BTreeMap;

use setpoint_api::quantity::Quantity;

use super::Usage;
use crate::resource_claim::{ClassRequest, ResourceClaim};

/// Suffix of the quota resource name of a device class.
const CLASS_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
/// Largest number of devices of a request for all that match.
const DEVICES_MAX: i64 = 32;

/// `true` if ResourceClaims are charged to the quota resource name.
pub(super) fn is_charged_by_claims(name: &str) -> bool {
    name.ends_with(CLASS_SUFFIX)
}

/// Adds the devices of a claim. Of alternatives the largest number for each class counts.
pub(super) fn add_usage(claim: &ResourceClaim, usage: &mut Usage) {
    for request in &claim.spec.devices.requests {
        let mut devices: BTreeMap<&str, i64> = BTreeMap::new();
        // A request has either alternatives or `exactly`.
        let exactly = request.exactly.iter().filter(|_| request.first_available.is_empty());
        for alternative in request.first_available.iter().chain(exactly) {
            let most = devices.entry(&alternative.device_class_name).or_default();
            *most = (*most).max(count(alternative));
        }
        for (class, count) in devices {
            let sum = usage.entry(format!("{class}{CLASS_SUFFIX}"));
            *sum.or_insert_with(|| Quantity::from(0_i64)) += Quantity::from(count);
        }
    }
}

fn count(request: &ClassRequest) -> i64 {
    match request.allocation_mode.as_str() {
        "ExactCount" => request.count,
        "All" => DEVICES_MAX,
        _ => 0,
    }
}
