//! What an update does to metadata.

use thiserror::Error;

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::quote::Quoted;
use crate::value::Value;

/// Why an update does not apply to the object as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RevisionError {
    /// The object has another revision than the update expects.
    #[error("the object has been modified; please apply your changes to the latest version and try again")]
    Modified,
    /// The update names no revision, and the kind insists on one.
    #[error("metadata.resourceVersion: Invalid value: 0: must be specified for an update")]
    Missing,
    /// The revision is no number.
    #[error("strconv.ParseUint: parsing {}: {why}", Quoted(.text))]
    Malformed {
        /// What stands there.
        text: Box<str>,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl RevisionError {
    /// The faults of the field, where the answer is that the object is invalid.
    #[must_use]
    pub fn field_errors(&self) -> Option<ErrorList> {
        let metadata = Path::root("metadata");
        let detail = "must be specified for an update";
        (*self == RevisionError::Missing)
            .then(|| FieldError::invalid(&metadata.child("resourceVersion"), 0_i64, detail).into())
    }
}

/// The object of an update is not the one that its path names.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// It has no name.
    #[error("the name of the object ({0} based on URL) was undeterminable: name must be provided")]
    Missing(Box<str>),
    /// It has another name.
    #[error("the name of the object ({said}) does not match the name on the URL ({asked})")]
    Mismatch {
        /// The name in the object.
        said: Box<str>,
        /// The name in the path.
        asked: Box<str>,
    },
}

/// Checks that an update names the object that its path names.
///
/// # Errors
/// If it does not.
pub fn check_name(object: &Value, name: &str) -> Result<(), NameError> {
    match super::name(object) {
        "" => Err(NameError::Missing(name.into())),
        said if said != name => Err(NameError::Mismatch { said: said.into(), asked: name.into() }),
        _ => Ok(()),
    }
}

/// Checks that `new` is meant for `old` as it is now, and lets it name its revision.
///
/// # Errors
/// If it is meant for another revision.
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

/// Puts back what an update may not change, and what it left out.
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

/// Counts the generation up if the kind counts and what is wanted has changed.
pub fn count_generation(new: &mut Value, old: &Value, rules: &dyn Rules) {
    if rules.has_generation() && rules.desire_changed(new, old) {
        let next = super::generation(old).saturating_add(1);
        new.ensure_map("metadata").insert("generation", next);
    }
}

/// Whether the update took the last finalizer from an object that was only waiting for that to go.
#[must_use]
pub fn is_released(new: &Value, old: &Value) -> bool {
    super::finalizers(new).is_empty()
        && super::deletion_timestamp(old).is_some()
        && super::grace_seconds(old).unwrap_or(0) == 0
}
