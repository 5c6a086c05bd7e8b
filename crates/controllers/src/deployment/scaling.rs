//! Sizes of the ReplicaSets of a Deployment: proportional scaling, rolling update and Recreate.

use std::cmp::Reverse;

use setpoint_views::IntOrString;
use setpoint_views::deployment::DeploymentSpec;

use super::replica_sets::{DESIRED_REPLICAS, MAX_REPLICAS, OwnedReplicaSet, ReplicaSets};

/// Bounds of the deployment strategy.
#[derive(Clone, Copy)]
pub(super) struct RolloutBounds {
    /// Desired number of pods.
    pub replicas: i64,
    /// `true` for the strategy `RollingUpdate`.
    pub is_rolling: bool,
    /// Resolved `maxSurge`.
    surge: i64,
    /// Resolved `maxUnavailable`.
    unavailable: i64,
}

impl RolloutBounds {
    pub fn of(spec: &DeploymentSpec) -> RolloutBounds {
        let replicas = spec.replicas;
        let is_rolling = spec.strategy.kind != "Recreate";
        let rolling = spec.strategy.rolling_update.as_ref().filter(|_| is_rolling);
        let scaled = |bound: Option<&IntOrString>, round_up| {
            bound.and_then(|bound| bound.scaled(replicas, round_up)).unwrap_or(0)
        };
        let surge = scaled(rolling.and_then(|rolling| rolling.max_surge.as_ref()), true);
        let unavailable = scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), false);
        // With both bounds zero the rollout could not proceed. An unavailable pod is safer than a surge pod,
        // for which there may be no room.
        let is_stuck = is_rolling && surge == 0 && unavailable == 0;
        let unavailable = unavailable.max(i64::from(is_stuck)).min(replicas);
        RolloutBounds { replicas, is_rolling, surge, unavailable }
    }

    /// Maximum number of pods.
    pub fn max_replicas(&self) -> i64 {
        self.replicas + self.surge
    }

    /// Minimum number of available pods.
    pub fn min_available(&self) -> i64 {
        self.replicas - self.unavailable
    }
}

/// `true` if `spec.replicas` has changed since the sets were last scaled. The sets are then scaled in
/// proportion before the rollout continues. Only rolling updates have a proportion to keep.
pub(super) fn is_scaling_event(sets: &ReplicaSets<'_>) -> bool {
    let active = || sets.all().filter(|owned| owned.replicas > 0);
    let replicas = sets.bounds.replicas;
    let scaled = active()
        .any(|owned| owned.annotation_number(DESIRED_REPLICAS).is_some_and(|desired| desired != replicas));
    scaled && (sets.bounds.is_rolling || active().count() == 1)
}

/// Distributes a changed number of pods among the sets in proportion to their sizes.
pub(super) fn scale(sets: &mut ReplicaSets<'_>) {
    let bounds = sets.bounds;
    let new_is_saturated = sets.new.as_ref().is_some_and(|new| is_saturated(new, &bounds));
    let active = sets.active_mut().count();
    if active <= 1 {
        let target = match active {
            1 => sets.active_mut().next(),
            _ => sets.new.as_mut().or(sets.old.last_mut()),
        };
        if let Some(target) = target {
            target.scale_to(bounds.replicas, &bounds);
        }
    } else if new_is_saturated {
        for old in sets.old.iter_mut().filter(|old| old.replicas > 0) {
            old.scale_to(0, &bounds);
        }
    } else if bounds.is_rolling {
        let replicas_before = sets.deployment.status.replicas;
        scale_proportionally(sets.active_mut().collect(), &bounds, replicas_before);
    }
}

/// `true` if a set has all desired pods available, and was scaled to the current `spec.replicas`.
fn is_saturated(set: &OwnedReplicaSet<'_>, bounds: &RolloutBounds) -> bool {
    let desired = bounds.replicas;
    let available = set.set.status.available_replicas.unwrap_or(0);
    set.replicas == desired
        && set.annotation_number(DESIRED_REPLICAS) == Some(desired)
        && available == desired
}

fn scale_proportionally(
    mut active: Vec<&mut OwnedReplicaSet<'_>>,
    bounds: &RolloutBounds,
    replicas_before: i64,
) {
    let total: i64 = active.iter().map(|owned| owned.replicas).sum();
    let allowed = if bounds.replicas > 0 { bounds.max_replicas() } else { 0 };
    let to_add = allowed - total;
    // Largest first. Of equal sizes, newer sets grow first and older sets shrink first.
    if to_add > 0 {
        active.sort_by_key(|owned| (Reverse(owned.replicas), Reverse(owned.creation_order())));
    } else {
        active.sort_by_key(|owned| (Reverse(owned.replicas), owned.creation_order()));
    }
    let mut added = 0;
    let mut shares = Vec::with_capacity(active.len());
    for owned in &active {
        let share = proportional_change(owned, bounds, replicas_before);
        let remaining = to_add - added;
        let share = if to_add > 0 { share.min(remaining) } else { share.max(remaining) };
        shares.push(if remaining == 0 { 0 } else { share });
        added += shares.last().copied().unwrap_or(0);
    }
    if let Some(first) = shares.first_mut() {
        *first += to_add - added;
    }
    for (owned, share) in active.into_iter().zip(shares) {
        owned.scale_to((owned.replicas + share).max(0), bounds);
    }
}

/// Change of a set's size that keeps its proportion.
fn proportional_change(owned: &OwnedReplicaSet<'_>, bounds: &RolloutBounds, replicas_before: i64) -> i64 {
    let size = owned.replicas;
    if bounds.replicas == 0 {
        return -size;
    }
    let most_before =
        owned.annotation_number(MAX_REPLICAS).filter(|most| *most > 0).unwrap_or(replicas_before);
    if most_before == 0 {
        return 0;
    }
    // Rounded to the nearest integer. The product of the sizes can exceed 64 bits.
    let (whole, most, before) =
        (i128::from(size), i128::from(bounds.max_replicas()), i128::from(most_before));
    i64::try_from((2 * whole * most + before) / (2 * before)).unwrap_or(i64::MAX).saturating_sub(size)
}

/// Rolling update: scales the new set up within `maxSurge`, and the old sets down within `maxUnavailable`.
pub(super) fn roll_out_rolling(sets: &mut ReplicaSets<'_>) {
    let bounds = sets.bounds;
    let room = bounds.max_replicas() - sets.total();
    let size = sets.new.as_ref().map_or(0, |new| new.replicas);
    let grown =
        if size > bounds.replicas { bounds.replicas } else { size + room.min(bounds.replicas - size).max(0) };
    match &mut sets.new {
        Some(new) if grown != size => new.scale_to(grown, &bounds),
        Some(_) => {}
        None => sets.created_replicas = grown,
    }
    scale_down_old(sets, &bounds, grown);
}

fn scale_down_old(sets: &mut ReplicaSets<'_>, bounds: &RolloutBounds, new_size: i64) {
    let new_available = sets.new.as_ref().map_or(0, OwnedReplicaSet::available);
    let spare = sets.total() - bounds.min_available() - (new_size - new_available);
    // Unhealthy pods first: they would block the rollout forever.
    let mut remaining = spare.max(0);
    for old in &mut sets.old {
        let unhealthy = (old.replicas - old.available()).min(remaining);
        if unhealthy > 0 {
            remaining -= unhealthy;
            old.scale_to(old.replicas - unhealthy, bounds);
        }
    }
    let available: i64 = sets.old.iter().map(OwnedReplicaSet::available).sum::<i64>() + new_available;
    // At most the rest of the spare pods, because no set has more available pods than pods.
    let mut remaining = available - bounds.min_available();
    for old in &mut sets.old {
        let to_remove = old.replicas.min(remaining);
        if to_remove > 0 {
            remaining -= to_remove;
            old.scale_to(old.replicas - to_remove, bounds);
        }
    }
}

/// Recreate: scales the old sets to zero, and the new set up once no old pod runs. Returns `true` in the
/// second case.
pub(super) fn roll_out_recreate(sets: &mut ReplicaSets<'_>, has_old_pods_running: bool) -> bool {
    let bounds = sets.bounds;
    let mut old_are_empty = true;
    for old in sets.old.iter_mut().filter(|old| old.replicas > 0) {
        old.scale_to(0, &bounds);
        old_are_empty = false;
    }
    let can_start = old_are_empty && !has_old_pods_running;
    if can_start {
        match &mut sets.new {
            Some(new) if new.replicas != bounds.replicas => new.scale_to(bounds.replicas, &bounds),
            Some(_) => {}
            None => sets.created_replicas = bounds.replicas,
        }
    }
    can_start
}
