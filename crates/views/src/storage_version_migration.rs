//! View of a StorageVersionMigration.

use serde::{Deserialize, Serialize};
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// View of a StorageVersionMigration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StorageVersionMigration {
    pub spec: StorageVersionMigrationSpec,
    pub status: StorageVersionMigrationStatus,
}

impl View for StorageVersionMigration {
    const RESOURCE: &'static str = "storageversionmigrations.storagemigration.k8s.io";
}

/// Spec of a StorageVersionMigration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StorageVersionMigrationSpec {
    pub resource: GroupResource,
}

/// Resource in all of its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

/// Status of a StorageVersionMigration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageVersionMigrationStatus {
    /// Objects with a newer revision need no migration.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}
