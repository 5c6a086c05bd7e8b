//! Deletion of an object: immediate removal, or a deletion timestamp until grace period and finalizers are
//! done.
//!
//! An object is removed at once unless it has a grace period (a node must stop the pod first) or finalizers.
//! The propagation policy is recorded as a finalizer too, so that the garbage collector finds it in the
//! object.

use std::time::Duration;

use thiserror::Error;

use super::options::DeleteOptions;
use super::{deletion_timestamp, finalizers, generation, grace_seconds};
use crate::names::metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use crate::rfc3339::{self, Seconds};
use crate::time::Time;
use crate::value::Value;

/// Default propagation policy of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GarbagePolicy {
    /// Dependents are deleted: most kinds.
    #[default]
    DeleteDependents,
    /// Dependents are orphaned.
    OrphanDependents,
    /// The propagation policy is ignored, because objects have no dependents: events.
    Unsupported,
}

/// Result of a delete request.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// The object is already in deletion, and this request changes nothing.
    Pending,
    /// The object stays with a deletion timestamp until its grace period and finalizers are done.
    Mark(Value),
    /// The object is removed; holds its final state.
    Remove(Value),
}

/// A precondition of the delete does not hold. The response is a conflict on the kind, not on the resource.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PreconditionError {
    /// The UID differs.
    #[error(
        "the UID in the precondition ({expected}) does not match the UID in record ({found}). The object might have been deleted and then recreated"
    )]
    Uid {
        /// UID of the precondition.
        expected: Box<str>,
        /// UID of the object.
        found: Box<str>,
    },
    /// The `resourceVersion` differs.
    #[error(
        "the ResourceVersion in the precondition ({expected}) does not match the ResourceVersion in record ({found}). The object might have been modified"
    )]
    ResourceVersion {
        /// `resourceVersion` of the precondition.
        expected: Box<str>,
        /// `resourceVersion` of the object.
        found: Box<str>,
    },
}

impl PreconditionError {
    /// Message of upstream's storage layer, which is used for namespaces. The conflict is then on the
    /// resource.
    #[must_use]
    pub fn store_message(&self) -> String {
        let (what, expected, found) = match self {
            PreconditionError::Uid { expected, found } => ("UID", expected, found),
            PreconditionError::ResourceVersion { expected, found } => ("ResourceVersion", expected, found),
        };
        format!("Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}")
    }
}

impl GarbagePolicy {
    /// Default propagation policy of a kind in its GA version.
    #[must_use]
    pub fn of(group: &str, kind: &str) -> GarbagePolicy {
        match (group, kind) {
            ("" | "events.k8s.io", "Event") => GarbagePolicy::Unsupported,
            ("", "ReplicationController") | ("batch", "Job") => GarbagePolicy::OrphanDependents,
            _ => GarbagePolicy::DeleteDependents,
        }
    }
}

/// `true` if the response to a delete that removed the object is the object; for other kinds it is a
/// `Status`.
#[must_use]
pub fn returns_deleted_object(group: &str, kind: &str) -> bool {
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
pub(crate) fn check_preconditions(
    object: &Value,
    options: &DeleteOptions<'_>,
) -> Result<(), PreconditionError> {
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

/// Applies a delete with valid options. `grace_seconds` is the grace period that the kind derives from the
/// options; `None` for kinds without graceful deletion.
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
    /// The kind or the state of the object does not allow a grace period.
    No,
    /// A grace period is running, and the request does not shorten it.
    Pending,
    /// A grace period of so many seconds begins, or is shortened to them.
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
    let Some(mut requested) =
        options.grace_period_seconds.map(at_least).filter(|requested| *requested < running)
    else {
        return Graceful::Pending;
    };
    let deleted_at = rfc3339::parse(deleted_at).unwrap_or(now);
    let mut ends_at = deleted_at.before(seconds(running)).after(seconds(requested));
    if ends_at < now {
        ends_at = now;
        requested = requested.min(1);
    }
    let meta = object.ensure_map("metadata");
    meta.insert("deletionTimestamp", Seconds(ends_at).to_string());
    meta.insert("deletionGracePeriodSeconds", requested);
    Graceful::Marked(requested)
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

/// Sets the deletion timestamp of an object that waits only for its finalizers.
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

/// Records the propagation policy as a finalizer.
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

/// Finalizer of the propagation policy: from the options, else the existing finalizer, else the default of
/// the kind.
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
