//! Metadata of an update.

use thiserror::Error;

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::quote::Quoted;
use crate::value::Value;

/// The update does not apply to the current object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RevisionError {
    /// The `resourceVersion` of the update is not the current one.
    #[error("the object has been modified; please apply your changes to the latest version and try again")]
    Modified,
    /// The update has no `resourceVersion`, and the kind requires one.
    #[error("metadata.resourceVersion: Invalid value: 0: must be specified for an update")]
    Missing,
    /// The `resourceVersion` is not a number.
    #[error("strconv.ParseUint: parsing {}: {why}", Quoted(.text))]
    Malformed {
        /// Value of the field.
        text: Box<str>,
        /// Reason, in Go's words.
        why: &'static str,
    },
}

impl RevisionError {
    /// Errors of the field, if the response is `Invalid`.
    #[must_use]
    pub fn field_errors(&self) -> Option<ErrorList> {
        let metadata = Path::root("metadata");
        let detail = "must be specified for an update";
        (*self == RevisionError::Missing)
            .then(|| FieldError::invalid(&metadata.child("resourceVersion"), 0_i64, detail).into())
    }
}

/// The object of an update does not have the name of its path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The object has no name.
    #[error("the name of the object ({0} based on URL) was undeterminable: name must be provided")]
    Missing(Box<str>),
    /// The names differ.
    #[error("the name of the object ({object_name}) does not match the name on the URL ({path_name})")]
    Mismatch {
        /// Name in the object.
        object_name: Box<str>,
        /// Name in the path.
        path_name: Box<str>,
    },
}

/// Checks that the object of an update has the name of its path.
///
/// # Errors
/// If it does not.
pub fn check_name(object: &Value, name: &str) -> Result<(), NameError> {
    match super::name(object) {
        "" => Err(NameError::Missing(name.into())),
        object_name if object_name != name => {
            Err(NameError::Mismatch { object_name: object_name.into(), path_name: name.into() })
        }
        _ => Ok(()),
    }
}

/// Checks the `resourceVersion` of `new` against `old`, and sets it if it is missing.
///
/// # Errors
/// If it is not the current one.
pub fn check_revision(
    new: &mut Value,
    old: &Value,
    allows_unconditional_update: bool,
) -> Result<(), RevisionError> {
    let current = super::text(old, "resourceVersion");
    match parse_revision(super::text(new, "resourceVersion"))? {
        0 if allows_unconditional_update => {
            new.ensure_map("metadata").insert("resourceVersion", current);
            Ok(())
        }
        0 => Err(RevisionError::Missing),
        revision if Ok(revision) == parse_revision(current) => Ok(()),
        _ => Err(RevisionError::Modified),
    }
}

fn parse_revision(text: &str) -> Result<u64, RevisionError> {
    let fail = |why| Err(RevisionError::Malformed { text: text.into(), why });
    match text.parse() {
        _ if text.is_empty() => Ok(0),
        _ if !text.bytes().all(|byte| byte.is_ascii_digit()) => fail("invalid syntax"),
        Ok(revision) => Ok(revision),
        Err(_) => fail("value out of range"),
    }
}

/// Resets immutable metadata, and sets omitted fields to their old values.
pub fn keep(new: &mut Value, old: &Value) {
    let old = super::of(old);
    let was = |field: &str| old.and_then(|meta| meta.get(field)).filter(|value| !value.is_null());
    let meta = new.ensure_map("metadata");
    meta.remove("selfLink");
    match was("generation") {
        Some(generation) => drop(meta.insert("generation", generation.clone())),
        None => drop(meta.remove("generation")),
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(time) = was(field) {
            meta.insert(field, time.clone());
        }
    }
    for field in ["uid", "deletionGracePeriodSeconds"] {
        let absent = meta.get(field).is_none_or(|value| value.is_null() || value.as_str() == Some(""));
        if let Some(value) = was(field).filter(|_| absent) {
            meta.insert(field, value.clone());
        }
    }
}

/// Increments the generation if the kind has one and [`Rules::has_new_generation`].
pub fn update_generation(new: &mut Value, old: &Value, rules: &dyn Rules) {
    if rules.has_generation() && rules.has_new_generation(new, old) {
        let next = super::generation(old).saturating_add(1);
        new.ensure_map("metadata").insert("generation", next);
    }
}

/// `true` if the update removed the last finalizer of an object in deletion, which must now be removed.
#[must_use]
pub fn is_released(new: &Value, old: &Value) -> bool {
    super::finalizers(new).is_empty()
        && super::deletion_timestamp(old).is_some()
        && super::grace_seconds(old).unwrap_or(0) == 0
}
