//! Status of a Deployment: counts and conditions, with the reasons and messages of upstream.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::int32;
use setpoint_views::deployment::{Deployment, DeploymentStatus};
use setpoint_views::{Condition, condition};

use super::replica_sets::{OwnedReplicaSet, ReplicaSets};
use crate::conditions::{new_updated_condition, remove_condition, set_condition_by_reason};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
/// Reason of [`PROGRESSING`] when a rollout is complete.
const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// Reason when nothing has progressed for `progressDeadlineSeconds`.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// Kind of step in a plan, as far as it concerns the condition [`PROGRESSING`].
pub(super) enum RolloutStep<'a> {
    /// Creates a set, which may have failed before.
    CreateReplicaSet { set: &'a str, failure: Option<&'a str> },
    /// Scales in proportion; this is no rollout.
    Scale,
    /// Continues the rollout.
    Roll,
}

/// Counts, with the given conditions and `Available`.
pub(super) fn calculate_status(
    sets: &ReplicaSets<'_>,
    conditions: Vec<Condition>,
    now: Time,
) -> DeploymentStatus {
    let sum = |count: fn(&OwnedReplicaSet<'_>) -> i64| int32::saturate(sets.all().map(count).sum());
    let available = sum(|set| set.set.status.available_replicas.unwrap_or(0));
    let mut status = DeploymentStatus {
        observed_generation: sets.owner.object.meta().generation,
        replicas: sum(|set| set.set.status.replicas),
        updated_replicas: sets.new.as_ref().map_or(0, |new| new.set.status.replicas),
        ready_replicas: sum(|set| set.set.status.ready_replicas.unwrap_or(0)),
        available_replicas: available,
        unavailable_replicas: (sum(|set| set.set.spec.replicas) - available).max(0),
        terminating_replicas: terminating_replicas(sets),
        collision_count: sets.deployment.status.collision_count,
        conditions,
    };
    let (status_value, reason, message) = if available >= sets.bounds.min_available() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set_condition_by_reason(
        &mut status.conditions,
        new_updated_condition(AVAILABLE, status_value, reason, message, now),
    );
    status
}

/// Number of terminating pods; `None` if a set does not report it.
fn terminating_replicas(sets: &ReplicaSets<'_>) -> Option<i64> {
    let condition = sets.all().map(|set| &set.set.status);
    let condition = condition.filter(|status| status.observed_generation.is_some());
    condition.map(|status| status.terminating_replicas).sum::<Option<i64>>().map(int32::saturate)
}

/// Computes the status.
pub(super) fn sync_rollout_status(
    sets: &ReplicaSets<'_>,
    step: RolloutStep<'_>,
    now: Time,
) -> DeploymentStatus {
    let spec = &sets.deployment.spec;
    let mut conditions = sets.deployment.status.conditions.clone();
    let has_deadline = has_deadline(sets.deployment);
    if has_deadline {
        set_paused_condition(&mut conditions, spec.paused, now);
    }
    let mut status = calculate_status(sets, conditions, now);
    match step {
        RolloutStep::Scale => {}
        RolloutStep::CreateReplicaSet { set: name, failure } => {
            let new = match failure {
                None => new_updated_condition(
                    PROGRESSING,
                    "True",
                    "NewReplicaSetCreated",
                    &created_message(name),
                    now,
                ),
                Some(error) => {
                    let message = format!("Failed to create new replica set \"{name}\": {error}");
                    new_updated_condition(PROGRESSING, "False", "ReplicaSetCreateError", &message, now)
                }
            };
            if has_deadline {
                set_condition_by_reason(&mut status.conditions, new);
            }
        }
        RolloutStep::Roll => {
            if has_deadline {
                sync_progressing_condition(&mut status, sets, now);
            } else {
                remove_condition(&mut status.conditions, PROGRESSING);
            }
            match replica_failure(sets) {
                Some(failure) => set_condition_by_reason(&mut status.conditions, failure),
                None => remove_condition(&mut status.conditions, REPLICA_FAILURE),
            }
        }
    }
    status
}

fn created_message(name: &str) -> String {
    format!("Created new replica set \"{name}\"")
}

/// `true` if the Deployment has a progress deadline.
fn has_deadline(deployment: &Deployment) -> bool {
    deployment.spec.progress_deadline_seconds.is_some_and(|seconds| seconds != i64::from(i32::MAX))
}

/// Records pause and resumption in the condition, so a pause does not count as lack of progress.
fn set_paused_condition(conditions: &mut Vec<Condition>, paused: bool, now: Time) {
    let reason = condition(conditions, PROGRESSING).map_or("", |condition| condition.reason.as_str());
    let condition = reason == PAUSED;
    if reason == TIMED_OUT || condition == paused {
        return;
    }
    let (reason, message) = if paused {
        (PAUSED, "Deployment is paused")
    } else {
        ("DeploymentResumed", "Deployment is resumed")
    };
    set_condition_by_reason(conditions, new_updated_condition(PROGRESSING, "Unknown", reason, message, now));
}

/// Sets the condition to progressing, complete or timed out.
fn sync_progressing_condition(status: &mut DeploymentStatus, sets: &ReplicaSets<'_>, now: Time) {
    let current = condition(&status.conditions, PROGRESSING).cloned();
    let name = sets.new.as_ref().map(|new| &*new.object.meta().name);
    let subject = match name {
        Some(name) => format!("ReplicaSet \"{name}\""),
        None => format!("Deployment \"{}\"", sets.owner.object.meta().name),
    };
    let was_complete = current.as_ref().is_some_and(|current| current.reason == NEW_REPLICA_SET_AVAILABLE);
    let is_about_new_set = current.as_ref().is_some_and(|current| current.message.starts_with(&subject));
    if was_complete && is_about_new_set && status.replicas == status.updated_replicas {
        return;
    }
    let condition = if is_complete(sets.deployment, status, sets.owner.object.meta().generation) {
        new_updated_condition(
            PROGRESSING,
            "True",
            NEW_REPLICA_SET_AVAILABLE,
            &format!("{subject} has successfully progressed."),
            now,
        )
    } else if is_progressing(&sets.deployment.status, status) {
        new_updated_condition(
            PROGRESSING,
            "True",
            "ReplicaSetUpdated",
            &format!("{subject} is progressing."),
            now,
        )
    } else if let Some(name) = name
        && (current.is_none() || (was_complete && !is_about_new_set))
    {
        // The set exists although its creation was not recorded; the condition is about another set.
        let message = format!("Found new replica set \"{name}\"");
        new_updated_condition(PROGRESSING, "True", "FoundNewReplicaSet", &message, now)
    } else if !was_complete
        && current
            .as_ref()
            .and_then(|condition| times_out_at(sets.deployment, condition))
            .is_some_and(|at| at < now)
    {
        let timed_out = new_updated_condition(
            PROGRESSING,
            "False",
            TIMED_OUT,
            &format!("{subject} has timed out progressing."),
            now,
        );
        return set_condition_by_reason(&mut status.conditions, timed_out);
    } else {
        return;
    };
    // Unlike other conditions, this one is updated for an unchanged reason: each step is progress.
    remove_condition(&mut status.conditions, PROGRESSING);
    let since = current.filter(Condition::is_true).and_then(|current| current.last_transition_time);
    status
        .conditions
        .push(Condition { last_transition_time: since.or(condition.last_transition_time), ..condition });
}

/// `true` if all desired pods, and no others, are updated and available.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus, generation: i64) -> bool {
    let desired = deployment.spec.replicas;
    status.updated_replicas == desired
        && status.replicas == desired
        && status.available_replicas == desired
        && status.observed_generation >= generation
}

fn is_progressing(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    after.updated_replicas > before.updated_replicas
        || old(after) < old(before)
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

/// Time at which a rollout with this condition times out.
fn times_out_at(deployment: &Deployment, progressing: &Condition) -> Option<Time> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    let since = progressing.last_update_time.or(progressing.last_transition_time)?;
    Some(since.after(Duration::from_secs(seconds.unsigned_abs())))
}

/// Time to check the progress deadline.
pub(super) fn progress_check_at(
    sets: &ReplicaSets<'_>,
    status: &DeploymentStatus,
    is_complete: bool,
) -> Option<Time> {
    let current = condition(&status.conditions, PROGRESSING)?;
    let waits = has_deadline(sets.deployment) && !is_complete && !sets.deployment.spec.paused;
    if !waits || [TIMED_OUT, NEW_REPLICA_SET_AVAILABLE].contains(&current.reason.as_str()) {
        return None;
    }
    // Times in a status are whole seconds; one more second makes sure that the deadline has passed.
    times_out_at(sets.deployment, current).map(|at| at.after(Duration::from_secs(1)))
}

/// `ReplicaFailure` of the sets; that of the new set takes precedence.
fn replica_failure(sets: &ReplicaSets<'_>) -> Option<Condition> {
    let failure_of =
        |set: &OwnedReplicaSet<'_>| condition(&set.set.status.conditions, REPLICA_FAILURE).cloned();
    let failure = sets.new.iter().chain(&sets.old).find_map(failure_of)?;
    Some(Condition { last_update_time: failure.last_transition_time, ..failure })
}
