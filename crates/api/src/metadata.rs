//! Object metadata: the fields that the server sets, and their validation.
//!
//! [`create`] and [`update`] prepare the metadata of a write, [`delete`] applies a deletion, [`validate`]
//! validates metadata, and [`options`] validates request options. All are pure functions: time, UIDs and
//! entropy are arguments.
//!
//! A create calls [`create::clear_system_fields`], [`create::ensure_namespace`], [`owners::deduplicate`],
//! admission, [`create::stamp`], the preparation of the kind, [`validate::create`], [`create::ensure_new`].
//! An update calls [`create::ensure_namespace`], [`update::check_name`], [`update::check_revision`],
//! [`update::keep`], the preparation of the kind, [`update::update_generation`], [`validate::update`], and
//! finally [`update::is_released`].

pub mod create;
pub mod delete;
pub mod options;
pub mod owners;
pub mod update;
pub mod validate;

#[cfg(test)]
mod tests;

use crate::value::{Map, Value};

/// Returns the metadata of an object.
#[must_use]
pub fn of(object: &Value) -> Option<&Map> {
    object.get("metadata").and_then(Value::as_map)
}

/// String field of the metadata; empty if it is missing.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    of(object).and_then(|meta| meta.get_str(field)).unwrap_or_default()
}

/// Name of the object.
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// Namespace of the object; empty if it is cluster-scoped.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.generation`; 0 for kinds without one.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    of(object).and_then(|meta| meta.get("generation")).and_then(Value::as_i64).unwrap_or(0)
}

/// Value of one entry of `field`, which is `labels` or `annotations`.
#[must_use]
pub fn entry<'a>(object: &'a Value, field: &str, key: &str) -> Option<&'a str> {
    of(object)?.get(field)?.as_map()?.get_str(key)
}

/// Finalizers of the object.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    texts(of(object).and_then(|meta| meta.get("finalizers")))
}

/// `metadata.deletionTimestamp`; `None` if the object is not in deletion.
#[must_use]
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    of(object)?.get_str("deletionTimestamp")
}

fn grace_seconds(object: &Value) -> Option<i64> {
    of(object)?.get("deletionGracePeriodSeconds")?.as_i64()
}

/// Strings of a list.
pub(crate) fn texts(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

/// Entries of a map of strings, such as labels.
pub(crate) fn pairs(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    entries.map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}
