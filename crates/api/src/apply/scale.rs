//! Owners of the `scale` subresource, which shows one field of its parent as a field of its own.
//!
//! For a write to `scale`, the owners of the parent's replicas become owners of `.spec.replicas` of the `Scale`; after
//! it, what has changed among them is carried over to the parent.

use super::field_set::{FieldSet, Path};
use super::managers::{Entry, Managers};

#[cfg(test)]
mod tests;

/// The version of the `Scale`.
pub const SCALE_VERSION: &str = "autoscaling/v1";

/// Where a parent has its replicas, by version. A version without the field has none.
pub type ReplicasPaths<'a> = [(&'a str, Option<Path>)];

fn replicas_in_scale() -> Path {
    Path::of_fields(&["spec", "replicas"])
}

fn path_in<'a>(paths: &'a ReplicasPaths<'_>, version: &str) -> Option<&'a Option<Path>> {
    paths.iter().find(|(own, _)| *own == version).map(|(_, path)| path)
}

/// The owners of a `Scale`, from those of its parent.
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

/// The owners of a parent in `version`, after its `Scale` was written and has these owners.
///
/// Who no longer owns the replicas of the `Scale` loses those of the parent; who has come to own them gets an entry in
/// the version of the parent, which has no time. Entries in versions that are not known are dropped.
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
