//! Managers of the `scale` subresource, whose `.spec.replicas` is a field of the parent.
//!
//! For a write to `scale`, the owners of the parent's replicas become owners of `.spec.replicas` of the
//! `Scale`; afterwards, changes among them are carried over to the parent.

use super::field_set::{FieldPath, FieldSet};
use super::managers::{Entry, Managers};

#[cfg(test)]
mod tests;

/// Version of the `Scale`.
pub const SCALE_VERSION: &str = "autoscaling/v1";

/// Path of the replicas in a parent, by version; `None` for a version without the field.
pub type ReplicasPaths<'a> = [(&'a str, Option<FieldPath>)];

fn replicas_in_scale() -> FieldPath {
    FieldPath::from_fields(&["spec", "replicas"])
}

fn path_in<'a>(paths: &'a ReplicasPaths<'_>, version: &str) -> Option<&'a Option<FieldPath>> {
    paths.iter().find(|(own, _)| *own == version).map(|(_, path)| path)
}

/// Managers of a `Scale`, derived from those of its parent.
#[must_use]
pub fn to_scale(parent: &Managers, paths: &ReplicasPaths<'_>) -> Managers {
    let mut scale = Managers::default();
    for entry in parent.entries() {
        let Some(Some(path)) = path_in(paths, &entry.api_version) else { continue };
        if entry.fields.has(path) {
            scale.put(Entry {
                api_version: SCALE_VERSION.into(),
                fields: FieldSet::from_paths(&[replicas_in_scale()]).into(),
                ..entry.clone()
            });
        }
    }
    scale
}

/// Managers of a parent in `version` after a write of its `Scale`, which has these managers.
///
/// A manager that no longer owns the replicas of the `Scale` loses those of the parent; a new owner gets an
/// entry in the version of the parent, without a time. Entries in unknown versions are dropped.
#[must_use]
pub fn to_parent(parent: &Managers, scale: &Managers, version: &str, paths: &ReplicasPaths<'_>) -> Managers {
    let is_same = |a: &Entry, b: &Entry| {
        a.manager == b.manager && a.operation == b.operation && a.subresource == b.subresource
    };
    let mut kept: Vec<&Entry> = Vec::new();
    let mut result = Managers::default();
    for entry in parent.entries() {
        let Some(path) = path_in(paths, &entry.api_version) else { continue };
        let mut entry = entry.clone();
        if let Some(path) = path
            && entry.fields.has(path)
        {
            match scale.entries().iter().find(|own| is_same(own, &entry)) {
                Some(own) => kept.push(own),
                None => entry.fields.change(|set| set.subtract(&FieldSet::from_paths([path]))),
            }
        }
        if !entry.fields.is_empty() {
            result.put(entry);
        }
    }
    let Some(Some(path)) = path_in(paths, version) else { return result };
    let in_scale = replicas_in_scale();
    for entry in scale.entries() {
        if entry.fields.has(&in_scale) && !kept.iter().any(|own| is_same(own, entry)) {
            result.put(Entry {
                api_version: version.into(),
                fields: FieldSet::from_paths([path]).into(),
                time: parent.get(&entry.id()).and_then(|own| own.time.clone()),
                ..entry.clone()
            });
        }
    }
    result
}
