//! What planners read of a ServiceAccount.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::or_default;

/// A ServiceAccount.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    /// The Secrets that it names.
    #[serde(deserialize_with = "or_default")]
    pub secrets: Vec<SecretName>,
}

impl View for ServiceAccount {
    const RESOURCE: &'static str = "serviceaccounts";
}

/// The name of a Secret.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SecretName {
    /// It.
    pub name: String,
}
