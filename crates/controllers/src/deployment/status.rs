//! Status of a Deployment: counts and conditions, with the reasons and messages of upstream.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::int32;
use setpoint_views::deployment::{Deployment, DeploymentStatus};
use setpoint_views::{Condition, condition};

use super::sets::{Member, Sets};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// Reason of [`PROGRESSING`] when a rollout is complete.
const DONE: &str = "NewReplicaSetAvailable";
/// Reason when nothing has progressed for `progressDeadlineSeconds`.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// Kind of step in a plan, as far as it concerns the condition [`PROGRESSING`].
pub(super) enum Progress<'a> {
    /// Creates a set, which may have failed before.
    Creates { set: &'a str, failure: Option<&'a str> },
    /// Scales in proportion; this is no rollout.
    Scales,
    /// Continues the rollout.
    Rolls,
}

/// Counts, with the given conditions and `Available`.
pub(super) fn counted(sets: &Sets<'_>, conditions: Vec<Condition>, now: Time) -> DeploymentStatus {
    let sum = |count: fn(&Member<'_>) -> i64| int32::saturate(sets.all().map(count).sum());
    let available = sum(|set| set.set.status.available_replicas.unwrap_or(0));
    let mut status = DeploymentStatus {
        observed_generation: sets.owner.object.meta().generation,
        replicas: sum(|set| set.set.status.replicas),
        updated_replicas: sets.new.as_ref().map_or(0, |new| new.set.status.replicas),
        ready_replicas: sum(|set| set.set.status.ready_replicas.unwrap_or(0)),
        available_replicas: available,
        unavailable_replicas: (sum(|set| set.set.spec.replicas) - available).max(0),
        terminating_replicas: terminating(sets),
        collision_count: sets.deployment.status.collision_count,
        conditions,
    };
    let (is_so, reason, message) = if available >= sets.bounds.least_available() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set(&mut status.conditions, known(AVAILABLE, is_so, reason, message, now));
    status
}

/// Number of terminating pods; `None` if a set does not report it.
fn terminating(sets: &Sets<'_>) -> Option<i64> {
    let said = sets.all().map(|set| &set.set.status);
    let said = said.filter(|status| status.observed_generation.is_some());
    said.map(|status| status.terminating_replicas).sum::<Option<i64>>().map(int32::saturate)
}

/// Computes the status.
pub(super) fn status(sets: &Sets<'_>, progress: Progress<'_>, now: Time) -> DeploymentStatus {
    let spec = &sets.deployment.spec;
    let mut conditions = sets.deployment.status.conditions.clone();
    let has_deadline = has_deadline(sets.deployment);
    if has_deadline {
        note_pause(&mut conditions, spec.paused, now);
    }
    let mut status = counted(sets, conditions, now);
    match progress {
        Progress::Scales => {}
        Progress::Creates { set: name, failure } => {
            let made = match failure {
                None => known(PROGRESSING, "True", "NewReplicaSetCreated", &created(name), now),
                Some(error) => {
                    let message = format!("Failed to create new replica set \"{name}\": {error}");
                    known(PROGRESSING, "False", "ReplicaSetCreateError", &message, now)
                }
            };
            if has_deadline {
                set(&mut status.conditions, made);
            }
        }
        Progress::Rolls => {
            if has_deadline {
                judge(&mut status, sets, now);
            } else {
                status.conditions.retain(|condition| condition.kind != PROGRESSING);
            }
            match failure(sets) {
                Some(failure) => set(&mut status.conditions, failure),
                None => status.conditions.retain(|condition| condition.kind != REPLICA_FAILURE),
            }
        }
    }
    status
}

fn created(name: &str) -> String {
    format!("Created new replica set \"{name}\"")
}

/// `true` if the Deployment has a progress deadline.
fn has_deadline(deployment: &Deployment) -> bool {
    deployment.spec.progress_deadline_seconds.is_some_and(|seconds| seconds != i64::from(i32::MAX))
}

/// Records pause and resumption in the condition, so a pause does not count as lack of progress.
fn note_pause(conditions: &mut Vec<Condition>, paused: bool, now: Time) {
    let reason = condition(conditions, PROGRESSING).map_or("", |condition| condition.reason.as_str());
    let said = reason == PAUSED;
    if reason == TIMED_OUT || said == paused {
        return;
    }
    let (reason, message) = if paused {
        (PAUSED, "Deployment is paused")
    } else {
        ("DeploymentResumed", "Deployment is resumed")
    };
    set(conditions, known(PROGRESSING, "Unknown", reason, message, now));
}

/// Sets the condition to progressing, complete or timed out.
fn judge(status: &mut DeploymentStatus, sets: &Sets<'_>, now: Time) {
    let current = condition(&status.conditions, PROGRESSING).cloned();
    let name = sets.new.as_ref().map(|new| &*new.object.meta().name);
    let what = match name {
        Some(name) => format!("ReplicaSet \"{name}\""),
        None => format!("Deployment \"{}\"", sets.owner.object.meta().name),
    };
    let was_done = current.as_ref().is_some_and(|current| current.reason == DONE);
    let is_about_this = current.as_ref().is_some_and(|current| current.message.starts_with(&what));
    if was_done && is_about_this && status.replicas == status.updated_replicas {
        return;
    }
    let said = if is_complete(sets.deployment, status, sets.owner.object.meta().generation) {
        known(PROGRESSING, "True", DONE, &format!("{what} has successfully progressed."), now)
    } else if has_moved(&sets.deployment.status, status) {
        known(PROGRESSING, "True", "ReplicaSetUpdated", &format!("{what} is progressing."), now)
    } else if let Some(name) = name
        && (current.is_none() || (was_done && !is_about_this))
    {
        // The set exists although its creation was not recorded; the condition is about another set.
        let message = format!("Found new replica set \"{name}\"");
        known(PROGRESSING, "True", "FoundNewReplicaSet", &message, now)
    } else if !was_done
        && current.as_ref().and_then(|it| timeout(sets.deployment, it)).is_some_and(|at| at < now)
    {
        let timed_out =
            known(PROGRESSING, "False", TIMED_OUT, &format!("{what} has timed out progressing."), now);
        return set(&mut status.conditions, timed_out);
    } else {
        return;
    };
    // Unlike other conditions, this one is updated for an unchanged reason: each step is progress.
    status.conditions.retain(|condition| condition.kind != PROGRESSING);
    let since = current.filter(Condition::is_true).and_then(|current| current.last_transition_time);
    status.conditions.push(Condition { last_transition_time: since.or(said.last_transition_time), ..said });
}

/// `true` if all desired pods, and no others, are updated and available.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus, generation: i64) -> bool {
    let wanted = deployment.spec.replicas;
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= generation
}

fn has_moved(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

/// Time at which a rollout with this condition times out.
fn timeout(deployment: &Deployment, progressing: &Condition) -> Option<Time> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    let since = progressing.last_update_time.or(progressing.last_transition_time)?;
    Some(since.after(Duration::from_secs(seconds.unsigned_abs())))
}

/// Time to check the progress deadline.
pub(super) fn deadline(sets: &Sets<'_>, status: &DeploymentStatus, is_complete: bool) -> Option<Time> {
    let current = condition(&status.conditions, PROGRESSING)?;
    let waits = has_deadline(sets.deployment) && !is_complete && !sets.deployment.spec.paused;
    if !waits || [TIMED_OUT, DONE].contains(&current.reason.as_str()) {
        return None;
    }
    // Times in a status are whole seconds; one more second makes sure that the deadline has passed.
    timeout(sets.deployment, current).map(|at| at.after(Duration::from_secs(1)))
}

/// `ReplicaFailure` of the sets; that of the new set takes precedence.
fn failure(sets: &Sets<'_>) -> Option<Condition> {
    let of = |set: &Member<'_>| condition(&set.set.status.conditions, REPLICA_FAILURE).cloned();
    let failure = sets.new.iter().chain(&sets.old).find_map(of)?;
    Some(Condition { last_update_time: failure.last_transition_time, ..failure })
}

/// Condition with `lastUpdateTime`, as Deployments have it.
fn known(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Condition {
    Condition { last_update_time: Some(now), ..Condition::new(kind, status, reason, message, now) }
}

/// Sets a condition. If status and reason are equal, the existing one stays.
fn set(conditions: &mut Vec<Condition>, mut new: Condition) {
    if let Some(known) = condition(conditions, &new.kind)
        && known.status == new.status
    {
        if known.reason == new.reason {
            return;
        }
        new.last_transition_time = known.last_transition_time;
    }
    conditions.retain(|condition| condition.kind != new.kind);
    conditions.push(new);
}
