//! What a create does to metadata.

use thiserror::Error;

use crate::names::generate::generated_name;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::Value;

/// What only the server says about a new object.
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// What a new object gets from outside.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// When it is made.
    pub now: Time,
    /// Its uid.
    pub uid: &'a str,
    /// Chance, for a name made from `generateName`.
    pub entropy: u64,
}

/// The object names another namespace than the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the namespace of the provided object does not match the namespace sent on the request")]
pub struct NamespaceMismatch;

/// A new object names a revision, as if it were an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("resourceVersion should not be set on objects to be created")]
pub struct RevisionOnCreate;

/// Checks that a new object does not pass for an old one.
///
/// # Errors
/// If it names a revision.
pub fn ensure_new(object: &Value) -> Result<(), RevisionOnCreate> {
    if matches!(super::text(object, "resourceVersion"), "" | "0") { Ok(()) } else { Err(RevisionOnCreate) }
}

/// Drops what a client may not say about a new object.
pub fn wipe(object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_map_mut) {
        for field in SYSTEM_FIELDS {
            meta.remove(field);
        }
    }
}

/// Sets the namespace to that of the request, which is empty for kinds of the cluster.
///
/// # Errors
/// If the object names another one.
pub fn ensure_namespace(object: &mut Value, namespace: &str) -> Result<(), NamespaceMismatch> {
    let said = super::namespace(object);
    if said == namespace {
        Ok(())
    } else if said.is_empty() {
        object.ensure_map("metadata").insert("namespace", namespace);
        Ok(())
    } else if namespace.is_empty() {
        object.ensure_map("metadata").remove("namespace");
        Ok(())
    } else {
        Err(NamespaceMismatch)
    }
}

/// Writes what the server says about a new object: uid, time, a name where only its beginning is given, and the
/// first generation where the kind counts them.
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
