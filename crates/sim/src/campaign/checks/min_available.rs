//! Lower bound of available pods, in calm runs: when a Deployment scales a set down, enough of the currently available
//! pods remain.

use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::deployment::Deployment;
use setpoint_views::replica_set::ReplicaSet;

use super::max_replicas::replicas;
use super::{Check, CommitContext, ValueHistory, is_active, pod, size};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Check of scaled sets.
#[derive(Default)]
pub struct MinAvailable {
    /// Minimum available pods of each Deployment.
    allowed: ValueHistory,
}

/// Minimum available pods of a Deployment.
fn min_available(deployment: &Deployment) -> i64 {
    let replicas = deployment.spec.replicas;
    if deployment.spec.strategy.kind != "RollingUpdate" {
        return 0;
    }
    let rolling = deployment.spec.strategy.rolling_update.as_ref();
    let part = |number: Option<i64>| number.unwrap_or(0);
    let missing =
        part(rolling.and_then(|strategy| strategy.max_unavailable.as_ref()?.scaled(replicas, false)));
    let surge = part(rolling.and_then(|strategy| strategy.max_surge.as_ref()?.scaled(replicas, true)));
    // With both bounds at 0 no rollout could proceed, so one pod may be unavailable.
    replicas - if missing == 0 && surge == 0 { 1 } else { missing }
}

/// Available pods that remain if a set is scaled to `replicas`: unavailable ones are deleted first.
fn serving(world: &WorldReader<'_>, set: &Object, replicas: i64, context: &CommitContext<'_>) -> i64 {
    let min_ready_seconds = set.view::<ReplicaSet>().map_or(0, |set| set.spec.min_ready_seconds);
    let pods = world.owned(&set.meta().uid, "pods").filter(|pod| is_active(pod));
    let serving =
        pods.filter(|object| pod(object).is_some_and(|pod| pod.is_available(min_ready_seconds, context.now)));
    size(serving.count()).min(replicas)
}

impl Check for MinAvailable {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let uid = &change.object().meta().uid;
        if let Some(deployment) = change.after.as_ref().and_then(|after| after.view::<Deployment>()) {
            self.allowed.record(uid, change.revision, min_available(deployment));
        }
        if !context.calm || !change.is_of("replicasets.apps") || &*change.by != "deployment-controller" {
            return Ok(());
        }
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return Ok(()) };
        let (was, is) = (replicas(before).unwrap_or(0), replicas(after).unwrap_or(0));
        let Some(owner) = after.meta().controller().filter(|_| is < was) else { return Ok(()) };
        let sets: Vec<&Object> = context.world.owned(&owner.uid, "replicasets.apps").collect();
        let count = |own: i64| -> i64 {
            let replicas_of =
                |set: &Object| if set.key() == &change.key { own } else { replicas(set).unwrap_or(0) };
            sets.iter().map(|set| serving(context.world, set, replicas_of(set), context)).sum()
        };
        let (before, after) = (count(was), count(is));
        let min = self.allowed.since(&owner.uid, change.seen).min().unwrap_or(0);
        marks.record("rollout scaled down");
        if after < before && after < min {
            let name = &owner.name;
            return Err(format!(
                "Deployment {name} has lowered {} from {was} to {is}: {after} of {before} pods stay available, at least {min} are required",
                change.key
            ));
        }
        Ok(())
    }
}
