//! Never fewer pods that serve than a Deployment allows, as long as nothing but the controllers moves pods: what a
//! Deployment takes from its sets leaves enough of those that serve now.

use setpoint_reconcile::views::deployment::Deployment;
use setpoint_reconcile::views::replica_set::ReplicaSet;
use setpoint_reconcile::{Object, World};

use super::numbers::replicas;
use super::{Check, History, Scene, is_active, pod, size};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// See the module.
#[derive(Default)]
pub struct NeverTooFew {
    /// The fewest that each Deployment allowed.
    allowed: History,
}

/// How many pods of a Deployment must serve.
fn fewest(deployment: &Deployment) -> i64 {
    let replicas = deployment.spec.replicas;
    if deployment.spec.strategy.kind != "RollingUpdate" {
        return 0;
    }
    let rolling = deployment.spec.strategy.rolling_update.as_ref();
    let part = |number: Option<i64>| number.unwrap_or(0);
    let missing = part(rolling.and_then(|one| one.max_unavailable.as_ref()?.scaled(replicas, false)));
    let surge = part(rolling.and_then(|one| one.max_surge.as_ref()?.scaled(replicas, true)));
    // Two bounds of zero would let nothing move, so that one may be missing.
    replicas - if missing == 0 && surge == 0 { 1 } else { missing }
}

/// How many pods of a set will still serve when it has as many as `wanted`: those that do not go first.
fn serving(world: &World, set: &Object, wanted: i64, scene: &Scene<'_>) -> i64 {
    let patience = set.view::<ReplicaSet>().map_or(0, |set| set.spec.min_ready_seconds);
    let pods = world.owned(&set.meta().uid, "pods").filter(|pod| is_active(pod));
    let serving = pods.filter(|one| pod(one).is_some_and(|pod| pod.is_available(patience, scene.now)));
    size(serving.count()).min(wanted)
}

impl Check for NeverTooFew {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let uid = &change.object().meta().uid;
        if let Some(deployment) = change.after.as_ref().and_then(|after| after.view::<Deployment>()) {
            self.allowed.note(uid, change.revision, fewest(deployment));
        }
        if !scene.calm || !change.is_of("replicasets.apps") || &*change.by != "deployment-controller" {
            return Ok(());
        }
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return Ok(()) };
        let (was, is) = (replicas(before).unwrap_or(0), replicas(after).unwrap_or(0));
        let Some(owner) = after.meta().controller().filter(|_| is < was) else { return Ok(()) };
        let sets: Vec<&Object> = scene.world.owned(&owner.uid, "replicasets.apps").collect();
        let count = |own: i64| -> i64 {
            let wanted =
                |set: &Object| if set.key() == &change.key { own } else { replicas(set).unwrap_or(0) };
            sets.iter().map(|set| serving(scene.world, set, wanted(set), scene)).sum()
        };
        let (before, after) = (count(was), count(is));
        let fewest = self.allowed.since(&owner.uid, change.seen).min().unwrap_or(0);
        marks.note("rollout took pods away");
        if after < before && after < fewest {
            let name = &owner.name;
            return Err(format!(
                "Deployment {name} has lowered {} from {was} to {is}: {after} of {before} go on serving, {fewest} must",
                change.key
            ));
        }
        Ok(())
    }
}
