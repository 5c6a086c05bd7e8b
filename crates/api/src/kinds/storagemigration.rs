//! Kinds of the group `storagemigration.k8s.io`.

pub mod storage_version_migration;

use super::Rules;

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    match kind {
        "StorageVersionMigration" => Some(&storage_version_migration::StorageVersionMigration),
        _ => None,
    }
}
