//! View of a ServiceAccount.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::or_default;

/// View of a ServiceAccount.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    #[serde(deserialize_with = "or_default")]
    pub secrets: Vec<SecretReference>,
}

impl View for ServiceAccount {
    const RESOURCE: &'static str = "serviceaccounts";
}

/// Reference to a Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    pub name: String,
}
