//! View of a ValidatingAdmissionPolicy: what its type check depends on.

use serde::Deserialize;
use setpoint_api::Value;
use setpoint_reconcile::object::View;

use crate::or_default;

/// View of a ValidatingAdmissionPolicy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ValidatingAdmissionPolicy {
    pub spec: AdmissionPolicySpec,
    pub status: AdmissionPolicyStatus,
}

impl View for ValidatingAdmissionPolicy {
    const RESOURCE: &'static str = "validatingadmissionpolicies.admissionregistration.k8s.io";
}

/// Spec of a ValidatingAdmissionPolicy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionPolicySpec {
    #[serde(deserialize_with = "or_default")]
    pub match_constraints: AdmissionPolicyMatch,
    pub param_kind: Option<AdmissionPolicyParamKind>,
    /// Composed variables.
    pub variables: Value,
    /// Validations.
    pub validations: Value,
}

/// Requests that a policy matches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionPolicyMatch {
    #[serde(deserialize_with = "or_default")]
    pub resource_rules: Vec<AdmissionPolicyRule>,
}

/// Resources that a policy matches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionPolicyRule {
    #[serde(deserialize_with = "or_default")]
    pub api_groups: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default")]
    pub api_versions: Vec<Box<str>>,
    #[serde(deserialize_with = "or_default")]
    pub resources: Vec<Box<str>>,
}

/// Kind of the parameters of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionPolicyParamKind {
    pub api_version: Box<str>,
    pub kind: Box<str>,
}

/// Status of a ValidatingAdmissionPolicy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionPolicyStatus {
    /// Generation that was observed last; 0 before the first.
    pub observed_generation: i64,
    #[serde(deserialize_with = "or_default")]
    pub type_checking: AdmissionPolicyTypeChecking,
}

/// Result of the type check of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionPolicyTypeChecking {
    /// Warnings, as stored.
    pub expression_warnings: Value,
}
