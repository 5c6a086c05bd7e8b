//! Metadata of a create.

use thiserror::Error;

use crate::names::generate::generated_name;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::Value;

/// Fields of a new object that only the server sets.
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// Inputs for the metadata of a new object.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// Creation timestamp.
    pub now: Time,
    /// UID of the object.
    pub uid: &'a str,
    /// Entropy for a name generated from `generateName`.
    pub entropy: u64,
}

/// The namespace of the object differs from that of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the namespace of the provided object does not match the namespace sent on the request")]
pub struct NamespaceMismatch;

/// The object of a create has a `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("resourceVersion should not be set on objects to be created")]
pub struct RevisionOnCreate;

/// Checks that the object of a create has no `resourceVersion`.
///
/// # Errors
/// If it has one.
pub fn ensure_new(object: &Value) -> Result<(), RevisionOnCreate> {
    if matches!(super::text(object, "resourceVersion"), "" | "0") { Ok(()) } else { Err(RevisionOnCreate) }
}

/// Clears the fields of a new object that only the server may set.
pub fn clear_system_fields(object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_map_mut) {
        for field in SYSTEM_FIELDS {
            meta.remove(field);
        }
    }
}

/// Sets the namespace to that of the request, which is empty for cluster-scoped kinds.
///
/// # Errors
/// If the object has another one.
pub fn ensure_namespace(object: &mut Value, namespace: &str) -> Result<(), NamespaceMismatch> {
    let found = super::namespace(object);
    if found == namespace {
        Ok(())
    } else if found.is_empty() {
        object.ensure_map("metadata").insert("namespace", namespace);
        Ok(())
    } else if namespace.is_empty() {
        object.ensure_map("metadata").remove("namespace");
        Ok(())
    } else {
        Err(NamespaceMismatch)
    }
}

/// Sets UID, creation timestamp, a name generated from `generateName` if it has none, and generation 1 if the
/// kind has one.
pub fn stamp(object: &mut Value, stamp: &Stamp<'_>, has_generation: bool) {
    let name = match (super::name(object), super::text(object, "generateName")) {
        ("", prefix) if !prefix.is_empty() => Some(generated_name(prefix, stamp.entropy)),
        _ => None,
    };
    let meta = object.ensure_map("metadata");
    if let Some(name) = name {
        meta.insert("name", name);
    }
    meta.insert("uid", stamp.uid);
    meta.insert("creationTimestamp", Seconds(stamp.now).to_string());
    if has_generation {
        meta.insert("generation", 1_i64);
    }
}
