//! What planners read of a StorageVersionMigration, and what they write of its status.

use serde::{Deserialize, Serialize};
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// A StorageVersionMigration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StorageVersionMigration {
    /// What is wanted.
    pub spec: MigrationSpec,
    /// How it stands.
    pub status: MigrationStatus,
}

impl View for StorageVersionMigration {
    const RESOURCE: &'static str = "storageversionmigrations.storagemigration.k8s.io";
}

/// What is wanted of a migration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MigrationSpec {
    /// Whose objects are to be written anew.
    pub resource: GroupResource,
}

/// A resource, whatever its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupResource {
    /// Its group.
    pub group: String,
    /// Its name.
    pub resource: String,
}

/// How a migration stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MigrationStatus {
    /// Objects that are newer than this are as they should be.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
