//! Rolling update of a StatefulSet: deletes pods of an old revision, highest ordinal first, within
//! `maxUnavailable`.

use super::ordinal_pods::{BURST_REPLICAS, OrdinalPods, REVISION, is_unavailable};
use super::{PlannedWrites, StatefulSetRollout};

/// Deletes pods of an old revision, as many as allowed now; they are recreated at the new one.
pub(super) fn rolling_update(
    rollout: &StatefulSetRollout<'_>,
    ordinal_pods: &OrdinalPods<'_>,
    writes: &mut PlannedWrites,
) {
    let strategy = &rollout.set.spec.update_strategy;
    if strategy.kind == "OnDelete" {
        return;
    }
    let rolling = strategy.rolling_update.as_ref();
    let first = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    let allowed = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let allowed =
        allowed.and_then(|bound| bound.scaled(rollout.set.spec.replicas, false)).unwrap_or(1).max(1);

    let available = ordinal_pods.present.values().filter(|pod| !is_unavailable(rollout, pod)).count();
    let unavailable = ordinal_pods.replicas().saturating_sub(i64::try_from(available).unwrap_or(i64::MAX));
    let mut remaining = allowed.saturating_sub(unavailable).max(0);
    let first = rollout.set.spec.ordinals.start.saturating_add(first.max(0));
    let mut deleted = 0;
    for pod in ordinal_pods.present.range(first..).rev().map(|(_, pod)| pod) {
        let (object, view) = pod;
        let is_old = object.meta().labels.get(REVISION) != Some(&*rollout.latest.name);
        if !is_old || object.meta().is_deleted() || view.is_finished() {
            continue;
        }
        // With parallel pod management an unavailable pod is no further loss.
        let is_already_unavailable = !rollout.is_ordered() && is_unavailable(rollout, pod);
        if !is_already_unavailable && remaining == 0 {
            continue;
        }
        if deleted == BURST_REPLICAS {
            writes.deferred += 1;
            continue;
        }
        deleted += 1;
        remaining -= i64::from(!is_already_unavailable);
        writes.pods.push(rollout.delete(object));
    }
}
