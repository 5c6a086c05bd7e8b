//! What a delete does to an object: mark it and wait, or remove it.
//!
//! An object goes at once unless somebody has to do something first: a node that must stop a pod within its
//! grace period, or whoever put a finalizer on it. What shall become of dependents is written down as a
//! finalizer too, so that garbage collection sees it in the object.

use std::time::Duration;

use thiserror::Error;

use super::options::DeleteOptions;
use super::{deletion_timestamp, finalizers, generation, grace_seconds};
use crate::names::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use crate::rfc3339::{self, Seconds};
use crate::time::Time;
use crate::value::Value;

/// What becomes of dependents if nobody says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GarbagePolicy {
    /// They go too: most kinds.
    #[default]
    DeleteDependents,
    /// They stay.
    OrphanDependents,
    /// There are none, whatever anybody says: events.
    Unsupported,
}

/// What a delete comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// It is being deleted already, and this delete changes nothing.
    Pending,
    /// It stays, marked as deleted, until what it waits for has happened.
    Mark(Value),
    /// It goes, and this is the last that is seen of it.
    Remove(Value),
}

/// The object is not the one that the delete is meant for. The answer is a conflict, on the kind and not on the
/// resource.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PreconditionError {
    /// It has another uid.
    #[error(
        "the UID in the precondition ({expected}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
    )]
    Uid {
        /// The uid that the delete names.
        expected: Box<str>,
        /// The uid of the object.
        found: Box<str>,
    },
    /// It has another revision.
    #[error(
        "the ResourceVersion in the precondition ({expected}) does not match the ResourceVersion in record ({found}). The object might have been modified"
    )]
    ResourceVersion {
        /// The revision that the delete names.
        expected: Box<str>,
        /// The revision of the object.
        found: Box<str>,
    },
}

impl PreconditionError {
    /// The same in the words of the store, which namespaces use. The conflict is then on the resource.
    #[must_use]
    pub fn in_words_of_the_store(&self) -> String {
        let (what, expected, found) = match self {
            PreconditionError::Uid { expected, found } => ("UID", expected, found),
            PreconditionError::ResourceVersion { expected, found } => ("ResourceVersion", expected, found),
        };
        format!("Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}")
    }
}

impl GarbagePolicy {
    /// What becomes of the dependents of objects of a kind, in its GA version, if nobody says.
    #[must_use]
    pub fn of(group: &str, kind: &str) -> GarbagePolicy {
        match (group, kind) {
            ("" | "events.k8s.io", "Event") => GarbagePolicy::Unsupported,
            ("", "ReplicationController") | ("batch", "Job") => GarbagePolicy::OrphanDependents,
            _ => GarbagePolicy::DeleteDependents,
        }
    }
}

/// Whether the answer to a delete that removed an object is the object; for other kinds it is a status.
#[must_use]
pub fn answers_with_object(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        (
            "",
            "Namespace"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
        ) | (
            "resource.k8s.io",
            "DeviceClass" | "DeviceTaintRule" | "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice"
        ) | (
            "storage.k8s.io",
            "CSIDriver" | "CSINode" | "StorageClass" | "VolumeAttachment" | "VolumeAttributesClass"
        )
    )
}

/// Checks the preconditions of a delete.
///
/// # Errors
/// If the object does not meet them.
pub fn check_preconditions(object: &Value, options: &DeleteOptions<'_>) -> Result<(), PreconditionError> {
    let found = super::text(object, "uid");
    if let Some(expected) = options.uid.filter(|uid| *uid != found) {
        return Err(PreconditionError::Uid { expected: expected.into(), found: found.into() });
    }
    let found = super::text(object, "resourceVersion");
    if let Some(expected) = options.resource_version.filter(|revision| *revision != found) {
        return Err(PreconditionError::ResourceVersion { expected: expected.into(), found: found.into() });
    }
    Ok(())
}

/// Decides what a delete with valid options comes to. `grace_seconds` is what the kind makes of the options:
/// nothing for all kinds but those that go gracefully.
///
/// # Errors
/// If the object does not meet the preconditions.
pub fn delete(
    mut object: Value,
    options: &DeleteOptions<'_>,
    policy: GarbagePolicy,
    grace_seconds: Option<i64>,
    now: Time,
) -> Result<Deletion, PreconditionError> {
    check_preconditions(&object, options)?;
    let grace = match mark_graceful(&mut object, options, grace_seconds, now) {
        Graceful::Pending => return Ok(Deletion::Pending),
        Graceful::Marked(seconds) => Some(seconds),
        Graceful::No => None,
    };
    set_finalizers(&mut object, options, policy);
    let waits = !finalizers(&object).is_empty();
    Ok(match grace {
        None if waits => {
            mark_now(&mut object, now);
            Deletion::Mark(object)
        }
        Some(seconds) if waits || seconds > 0 => Deletion::Mark(object),
        _ => Deletion::Remove(object),
    })
}

enum Graceful {
    /// The kind or the state of the object does not allow for a grace period.
    No,
    /// A grace period is running, and no shorter one is asked for.
    Pending,
    /// A grace period begins, or is cut to these seconds.
    Marked(i64),
}

fn mark_graceful(
    object: &mut Value,
    options: &DeleteOptions<'_>,
    period: Option<i64>,
    now: Time,
) -> Graceful {
    let at_least = |seconds: i64| if seconds < 0 { 1 } else { seconds };
    let Some(period) = period.map(at_least) else { return Graceful::No };
    let Some(deleted_at) = deletion_timestamp(object) else {
        let generation = generation(object);
        let meta = object.ensure_map("metadata");
        meta.insert("deletionTimestamp", Seconds(now.after(seconds(period))).to_string());
        meta.insert("deletionGracePeriodSeconds", period);
        if generation > 0 {
            meta.insert("generation", generation + 1);
        }
        return Graceful::Marked(period);
    };
    let running = match grace_seconds(object).map(at_least) {
        None | Some(0) => return Graceful::No,
        Some(running) => running,
    };
    let Some(mut asked) = options.grace_period_seconds.map(at_least).filter(|asked| *asked < running) else {
        return Graceful::Pending;
    };
    let deleted_at = rfc3339::parse(deleted_at).unwrap_or(now);
    let mut ends_at = deleted_at.before(seconds(running)).after(seconds(asked));
    if ends_at < now {
        ends_at = now;
        asked = asked.min(1);
    }
    let meta = object.ensure_map("metadata");
    meta.insert("deletionTimestamp", Seconds(ends_at).to_string());
    meta.insert("deletionGracePeriodSeconds", asked);
    Graceful::Marked(asked)
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

/// Marks an object as deleted that waits for its finalizers alone.
fn mark_now(object: &mut Value, now: Time) {
    let deleted_at = deletion_timestamp(object).and_then(|text| rfc3339::parse(text).ok());
    let generation = generation(object);
    let meta = object.ensure_map("metadata");
    if deleted_at.is_none() && generation > 0 {
        meta.insert("generation", generation + 1);
    }
    if deleted_at.is_none_or(|at| at > now) {
        meta.insert("deletionTimestamp", Seconds(now).to_string());
    }
    meta.insert("deletionGracePeriodSeconds", 0_i64);
}

/// Writes down as a finalizer what shall become of dependents.
fn set_finalizers(object: &mut Value, options: &DeleteOptions<'_>, policy: GarbagePolicy) {
    let old = finalizers(object);
    let wanted = dependents_finalizer(&old, options, policy);
    let is_ours = |name: &str| matches!(name, FINALIZER_ORPHAN | FINALIZER_FOREGROUND);
    let ours = old.iter().filter(|name| is_ours(name));
    if ours.clone().all(|name| Some(*name) == wanted) && ours.count().min(1) == usize::from(wanted.is_some())
    {
        return;
    }
    let others = old.iter().copied().filter(|name| !is_ours(name));
    let new: Vec<Value> = others.chain(wanted).map(Value::from).collect();
    let meta = object.ensure_map("metadata");
    if new.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers", new);
    }
}

/// The finalizer that says what shall become of dependents: the options decide, then the finalizer that is
/// there, then the kind.
fn dependents_finalizer(
    old: &[&str],
    options: &DeleteOptions<'_>,
    policy: GarbagePolicy,
) -> Option<&'static str> {
    if policy == GarbagePolicy::Unsupported {
        return None;
    }
    if let Some(orphan) = options.orphan_dependents {
        return orphan.then_some(FINALIZER_ORPHAN);
    }
    match options.propagation_policy {
        Some("Orphan") => return Some(FINALIZER_ORPHAN),
        Some("Foreground") => return Some(FINALIZER_FOREGROUND),
        Some("Background") => return None,
        _ => {}
    }
    for name in old {
        match *name {
            FINALIZER_ORPHAN => return Some(FINALIZER_ORPHAN),
            FINALIZER_FOREGROUND => return Some(FINALIZER_FOREGROUND),
            _ => {}
        }
    }
    (policy == GarbagePolicy::OrphanDependents).then_some(FINALIZER_ORPHAN)
}
