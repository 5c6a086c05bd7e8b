//! What planners read of a Namespace.

use serde::{Deserialize, Serialize};
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// A Namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// What is wanted.
    pub spec: NamespaceSpec,
    /// How it stands.
    pub status: NamespaceStatus,
}

impl View for Namespace {
    const RESOURCE: &'static str = "namespaces";
}

/// What is wanted of a Namespace.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    /// Who must be done with it before it goes.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
}

/// How a Namespace stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct NamespaceStatus {
    /// `Active` or `Terminating`.
    pub phase: String,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl Namespace {
    /// Whether things may be made in it.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.status.phase == "Active"
    }
}
