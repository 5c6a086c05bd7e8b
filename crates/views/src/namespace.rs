//! View of a Namespace.

use serde::{Deserialize, Serialize};
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// View of a Namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub spec: NamespaceSpec,
    pub status: NamespaceStatus,
}

impl View for Namespace {
    const RESOURCE: &'static str = "namespaces";
}

/// Spec of a Namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
}

/// Status of a Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct NamespaceStatus {
    /// `Active` or `Terminating`.
    pub phase: String,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl Namespace {
    /// `true` if objects can be created in it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.status.phase == "Active"
    }
}
