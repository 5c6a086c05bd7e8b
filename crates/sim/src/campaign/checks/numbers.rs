//! Never more pods than wanted: a set makes no pod beyond its replicas, and a Deployment does not give its sets more
//! than its own replicas and what may surge.

use std::collections::BTreeSet;

use setpoint_reconcile::views::deployment::Deployment;
use setpoint_reconcile::views::replica_set::ReplicaSet;
use setpoint_reconcile::views::replication_controller::ReplicationController;
use setpoint_reconcile::{Object, World};

use super::{Check, History, Scene, is_active, size};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// See the module.
#[derive(Default)]
pub struct NeverTooMany {
    /// What each set wanted.
    wanted: History,
    /// The most that each Deployment allowed.
    allowed: History,
    /// Pods that changed hands or labels, so that sets may have lost sight of them for a while; and whatever nobody made
    /// who still acts.
    touched: BTreeSet<Box<str>>,
}

/// How many pods a set wants.
pub fn replicas(object: &Object) -> Option<i64> {
    let set = object.view::<ReplicaSet>().map(|set| set.spec.replicas);
    set.or_else(|| object.view::<ReplicationController>().map(|set| set.0.spec.replicas))
}

/// How many pods a Deployment may have.
fn most(deployment: &Deployment) -> i64 {
    let replicas = deployment.spec.replicas;
    let rolling = deployment.spec.strategy.rolling_update.as_ref();
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()?.scaled(replicas, true)).unwrap_or(0);
    replicas + surge
}

impl Check for NeverTooMany {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let object = change.object();
        if let Some(number) = change.after.as_ref().and_then(replicas) {
            self.wanted.note(&object.meta().uid, change.revision, number);
        }
        if let Some(deployment) = change.after.as_ref().and_then(|after| after.view::<Deployment>()) {
            self.allowed.note(&object.meta().uid, change.revision, most(deployment));
        }
        // What a deposed leader sent comes on top; its successor takes it away again.
        if change.is_creation() && change.is_late {
            self.touched.insert(object.meta().uid.clone());
            return Ok(());
        }
        if change.is_of("pods") {
            self.note_touch(change, marks);
            let makers = ["replicaset-controller", "replication-controller"];
            if change.is_creation() && makers.contains(&&*change.by) {
                return self.judge_pod(change, scene);
            }
        }
        if change.is_of("replicasets.apps") && &*change.by == "deployment-controller" {
            return self.judge_set(change, scene, marks);
        }
        Ok(())
    }
}

impl NeverTooMany {
    fn note_touch(&mut self, change: &Change, marks: &mut Marks) {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return };
        let (was, is) = (before.meta(), after.meta());
        if was.labels != is.labels || was.owner_references != is.owner_references {
            self.touched.insert(is.uid.clone());
        }
        match (was.controller(), is.controller()) {
            (None, Some(_)) => marks.note("orphan was adopted"),
            (Some(_), None) => marks.note("pod was released"),
            _ => {}
        }
    }

    /// How many pods the sets of a Deployment are to have.
    fn total(&self, world: &World, uid: &str) -> i64 {
        let sets = world.owned(uid, "replicasets.apps");
        sets.filter(|set| !self.touched.contains(&set.meta().uid)).filter_map(replicas).sum()
    }

    fn judge_pod(&self, change: &Change, scene: &Scene<'_>) -> Result<(), String> {
        let Some(owner) = change.object().meta().controller() else { return Ok(()) };
        let pods = scene.world.owned(&owner.uid, "pods").filter(|pod| is_active(pod));
        let pods = size(pods.filter(|pod| !self.touched.contains(&pod.meta().uid)).count());
        let most = self.wanted.since(&owner.uid, change.seen).max().unwrap_or(0);
        if pods > most {
            let (kind, name) = (&owner.kind, &owner.name);
            return Err(format!(
                "{kind} {name} has made {} and has {pods} pods, wanted at most {most}",
                change.key
            ));
        }
        Ok(())
    }

    fn judge_set(&self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let Some(after) = &change.after else { return Ok(()) };
        let was = change.before.as_ref().and_then(replicas).unwrap_or(0);
        let is = replicas(after).unwrap_or(0);
        let Some(owner) = after.meta().controller().filter(|_| is > was) else { return Ok(()) };
        let total = self.total(scene.world, &owner.uid);
        let most = self.allowed.since(&owner.uid, change.seen).max().unwrap_or(0);
        if total > most {
            let name = &owner.name;
            return Err(format!(
                "Deployment {name} has raised {} from {was} to {is}, so that its sets have {total}; at most {most} may be",
                change.key
            ));
        }
        let wanted = scene.world.identified(&owner.uid).and_then(|one| one.view::<Deployment>());
        if wanted.is_some_and(|deployment| total > deployment.spec.replicas) {
            marks.note("rollout surged");
        }
        Ok(())
    }
}
