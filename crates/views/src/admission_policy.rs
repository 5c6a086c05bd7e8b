//! View of a ValidatingAdmissionPolicy.

use serde::Deserialize;
use setpoint_reconcile::object::View;

/// View of a ValidatingAdmissionPolicy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ValidatingAdmissionPolicy {
    pub status: AdmissionPolicyStatus,
}

impl View for ValidatingAdmissionPolicy {
    const RESOURCE: &'static str = "validatingadmissionpolicies.admissionregistration.k8s.io";
}

/// Status of a ValidatingAdmissionPolicy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionPolicyStatus {
    /// Generation that was observed last; 0 before the first.
    pub observed_generation: i64,
}
