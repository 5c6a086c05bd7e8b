//! Which pods of a StatefulSet go because they are of an old revision: those of the greatest numbers first, and
//! never so many that more cannot serve than the set allows.

use super::members::{Members, REVISION, is_unavailable};
use super::{Rollout, Steps};
use crate::pods::Seen;

/// Deletes pods of an old revision, as many as may go now; they come back as what is wanted.
pub(super) fn replace(rollout: &Rollout<'_>, members: &Members<'_>, steps: &mut Steps) {
    let strategy = &rollout.set.spec.update_strategy;
    if strategy.kind == "OnDelete" {
        return;
    }
    let rolling = strategy.rolling_update.as_ref();
    let first = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    let allowed = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let allowed =
        allowed.and_then(|bound| bound.scaled(rollout.set.spec.replicas, false)).unwrap_or(1).max(1);

    let missing = |pod: &Option<Seen<'_>>| pod.is_none_or(|pod| is_unavailable(rollout, &pod));
    let unavailable = members.wanted.iter().filter(|(_, pod)| missing(pod)).count();
    let mut left = allowed.saturating_sub(i64::try_from(unavailable).unwrap_or(i64::MAX)).max(0);
    let first = usize::try_from(first).unwrap_or(0).min(members.wanted.len());
    for (_, pod) in members.wanted[first..].iter().rev() {
        let Some(pod) = pod else { continue };
        let (object, view) = pod;
        let is_old = object.meta().labels.get(REVISION) != Some(&*rollout.latest.name);
        if !is_old || object.meta().is_deleted() || view.is_finished() {
            continue;
        }
        // Where pods need not wait for each other, one that cannot serve anyway is no loss.
        let costs_nothing = !rollout.is_ordered() && is_unavailable(rollout, pod);
        if !costs_nothing && left == 0 {
            continue;
        }
        left -= i64::from(!costs_nothing);
        steps.pods.push(rollout.delete(object));
    }
}
