//! Sizes of the ReplicaSets of a Deployment: proportional scaling, rolling update and Recreate.

use std::cmp::Reverse;

use setpoint_views::IntOrString;
use setpoint_views::deployment::DeploymentSpec;

use super::sets::{DESIRED, MAX, Member, Sets};

/// Bounds of the deployment strategy.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Desired number of pods.
    pub replicas: i64,
    /// `true` for the strategy `RollingUpdate`.
    pub is_rolling: bool,
    /// Resolved `maxSurge`.
    surge: i64,
    /// Resolved `maxUnavailable`.
    unavailable: i64,
}

impl Bounds {
    pub fn of(spec: &DeploymentSpec) -> Bounds {
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
        let stuck = is_rolling && surge == 0 && unavailable == 0;
        let unavailable = unavailable.max(i64::from(stuck)).min(replicas);
        Bounds { replicas, is_rolling, surge, unavailable }
    }

    /// Maximum number of pods.
    pub fn most(&self) -> i64 {
        self.replicas + self.surge
    }

    /// Minimum number of available pods.
    pub fn least_available(&self) -> i64 {
        self.replicas - self.unavailable
    }
}

/// `true` if `spec.replicas` has changed since the sets were last scaled. The sets are then scaled in
/// proportion before the rollout continues. Only rolling updates have a proportion to keep.
pub(super) fn was_scaled(sets: &Sets<'_>) -> bool {
    let active = || sets.all().filter(|member| member.replicas > 0);
    let wanted = sets.bounds.replicas;
    let scaled = active().any(|member| member.noted(DESIRED).is_some_and(|desired| desired != wanted));
    scaled && (sets.bounds.is_rolling || active().count() == 1)
}

/// Distributes a changed number of pods among the sets in proportion to their sizes.
pub(super) fn scale(sets: &mut Sets<'_>) {
    let bounds = sets.bounds;
    let new_is_full = sets.new.as_ref().is_some_and(|new| is_full(new, &bounds));
    let active = sets.active_mut().count();
    if active <= 1 {
        let only = match active {
            1 => sets.active_mut().next(),
            _ => sets.new.as_mut().or(sets.old.last_mut()),
        };
        if let Some(only) = only {
            only.resize(bounds.replicas, &bounds);
        }
    } else if new_is_full {
        for old in sets.old.iter_mut().filter(|old| old.replicas > 0) {
            old.resize(0, &bounds);
        }
    } else if bounds.is_rolling {
        let replicas_before = sets.deployment.status.replicas;
        share_out(sets.active_mut().collect(), &bounds, replicas_before);
    }
}

/// `true` if a set has all desired pods available, and was scaled to the current `spec.replicas`.
fn is_full(set: &Member<'_>, bounds: &Bounds) -> bool {
    let wanted = bounds.replicas;
    let available = set.set.status.available_replicas.unwrap_or(0);
    set.replicas == wanted && set.noted(DESIRED) == Some(wanted) && available == wanted
}

fn share_out(mut active: Vec<&mut Member<'_>>, bounds: &Bounds, replicas_before: i64) {
    let total: i64 = active.iter().map(|member| member.replicas).sum();
    let allowed = if bounds.replicas > 0 { bounds.most() } else { 0 };
    let to_add = allowed - total;
    // Largest first. Of equal sizes, newer sets grow first and older sets shrink first.
    if to_add > 0 {
        active.sort_by_key(|member| (Reverse(member.replicas), Reverse(member.age())));
    } else {
        active.sort_by_key(|member| (Reverse(member.replicas), member.age()));
    }
    let mut added = 0;
    let mut shares = Vec::with_capacity(active.len());
    for member in &active {
        let share = share(member, bounds, replicas_before);
        let left = to_add - added;
        let share = if to_add > 0 { share.min(left) } else { share.max(left) };
        shares.push(if left == 0 { 0 } else { share });
        added += shares.last().copied().unwrap_or(0);
    }
    if let Some(first) = shares.first_mut() {
        *first += to_add - added;
    }
    for (member, share) in active.into_iter().zip(shares) {
        member.resize((member.replicas + share).max(0), bounds);
    }
}

/// Change of a set's size that keeps its proportion.
fn share(member: &Member<'_>, bounds: &Bounds, replicas_before: i64) -> i64 {
    let size = member.replicas;
    if bounds.replicas == 0 {
        return -size;
    }
    let most_before = member.noted(MAX).filter(|most| *most > 0).unwrap_or(replicas_before);
    if most_before == 0 {
        return 0;
    }
    // Rounded to the nearest integer. The product of the sizes can exceed 64 bits.
    let (whole, most, before) = (i128::from(size), i128::from(bounds.most()), i128::from(most_before));
    i64::try_from((2 * whole * most + before) / (2 * before)).unwrap_or(i64::MAX).saturating_sub(size)
}

/// Rolling update: scales the new set up within `maxSurge`, and the old sets down within `maxUnavailable`.
pub(super) fn roll(sets: &mut Sets<'_>) {
    let bounds = sets.bounds;
    let room = bounds.most() - sets.total();
    let size = sets.new.as_ref().map_or(0, |new| new.replicas);
    let grown =
        if size > bounds.replicas { bounds.replicas } else { size + room.min(bounds.replicas - size).max(0) };
    match &mut sets.new {
        Some(new) if grown != size => new.resize(grown, &bounds),
        Some(_) => {}
        None => sets.created_size = grown,
    }
    shrink_old(sets, &bounds, grown);
}

fn shrink_old(sets: &mut Sets<'_>, bounds: &Bounds, new_size: i64) {
    let new_available = sets.new.as_ref().map_or(0, Member::available);
    let spare = sets.total() - bounds.least_available() - (new_size - new_available);
    // Unhealthy pods first: they would block the rollout for ever.
    let mut left = spare.max(0);
    for old in &mut sets.old {
        let unhealthy = (old.replicas - old.available()).min(left);
        if unhealthy > 0 {
            left -= unhealthy;
            old.resize(old.replicas - unhealthy, bounds);
        }
    }
    let available: i64 = sets.old.iter().map(Member::available).sum::<i64>() + new_available;
    // At most the rest of the spare pods, because no set has more available pods than pods.
    let mut left = available - bounds.least_available();
    for old in &mut sets.old {
        let fewer = old.replicas.min(left);
        if fewer > 0 {
            left -= fewer;
            old.resize(old.replicas - fewer, bounds);
        }
    }
}

/// Recreate: scales the old sets to zero, and the new set up once no old pod runs. Returns `true` in the
/// second case.
pub(super) fn recreate(sets: &mut Sets<'_>, old_pods_run: bool) -> bool {
    let bounds = sets.bounds;
    let mut old_are_empty = true;
    for old in sets.old.iter_mut().filter(|old| old.replicas > 0) {
        old.resize(0, &bounds);
        old_are_empty = false;
    }
    let may_start = old_are_empty && !old_pods_run;
    if may_start {
        match &mut sets.new {
            Some(new) if new.replicas != bounds.replicas => new.resize(bounds.replicas, &bounds),
            Some(_) => {}
            None => sets.created_size = bounds.replicas,
        }
    }
    may_start
}
