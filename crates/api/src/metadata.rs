//! The metadata that every object has: what the server says in it, and what it refuses.
//!
//! [`create`] and [`update`] are what happens to metadata before an object is written, [`delete`] decides what a
//! deletion does to it, [`validate`] finds what is wrong with it, and [`options`] finds what is wrong with the
//! options of a request. All are functions of their arguments: time, uids and chance come in from outside.
//!
//! The order for a create is [`create::wipe`], [`create::ensure_namespace`], [`owners::deduplicate`], admission,
//! [`create::stamp`], the kind's preparation, [`validate::create`], [`create::ensure_new`]. For an update it is
//! [`create::ensure_namespace`], [`update::check_name`], [`update::check_revision`], [`update::keep`], the kind's
//! preparation, [`update::count_generation`], [`validate::update`], and at last [`update::is_released`].

pub mod create;
pub mod delete;
pub mod options;
pub mod owners;
pub mod update;
pub mod validate;

#[cfg(test)]
mod tests;

use crate::value::{Map, Value};

/// The metadata of an object.
#[must_use]
pub fn of(object: &Value) -> Option<&Map> {
    object.get("metadata").and_then(Value::as_map)
}

/// A text of the metadata; empty where there is none.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    of(object).and_then(|meta| meta.get_str(field)).unwrap_or_default()
}

/// The name.
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// The namespace; empty for an object of the cluster.
#[must_use]
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// How often what is wanted has changed; 0 where nobody counts.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    of(object).and_then(|meta| meta.get("generation")).and_then(Value::as_i64).unwrap_or(0)
}

/// One label or annotation; `field` says which.
#[must_use]
pub fn entry<'a>(object: &'a Value, field: &str, key: &str) -> Option<&'a str> {
    of(object)?.get(field)?.as_map()?.get_str(key)
}

/// The finalizers.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    texts(of(object).and_then(|meta| meta.get("finalizers")))
}

/// When the object was deleted, or will be; nothing if it was not.
#[must_use]
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    of(object)?.get_str("deletionTimestamp")
}

fn grace_seconds(object: &Value) -> Option<i64> {
    of(object)?.get("deletionGracePeriodSeconds")?.as_i64()
}

/// The texts of a list.
pub(crate) fn texts(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

/// The texts of a map of texts, such as labels.
pub(crate) fn pairs(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    entries.map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}
