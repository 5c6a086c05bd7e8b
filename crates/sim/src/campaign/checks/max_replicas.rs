//! Upper bound of replicas: a set creates no pod beyond its replicas, and a Deployment scales its sets to no more than
//! its replicas and `maxSurge` together.

use std::collections::BTreeSet;

use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::deployment::Deployment;
use setpoint_views::replica_set::ReplicaSet;
use setpoint_views::replication_controller::ReplicationController;

use super::{Check, CommitContext, ValueHistory, is_active, size};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Check of created pods and scaled sets.
#[derive(Default)]
pub struct MaxReplicas {
    /// Replicas of each set.
    replicas: ValueHistory,
    /// Replicas with surge of each Deployment.
    allowed: ValueHistory,
    /// UIDs of pods with changed owners or labels, which sets may not see for a while, and of objects that a deposed
    /// leader created late.
    exempt: BTreeSet<Box<str>>,
}

/// Replicas of a ReplicaSet or ReplicationController.
pub fn replicas(object: &Object) -> Option<i64> {
    let set = object.view::<ReplicaSet>().map(|set| set.spec.replicas);
    set.or_else(|| object.view::<ReplicationController>().map(|set| set.0.spec.replicas))
}

/// Replicas with surge of a Deployment.
fn max_pods(deployment: &Deployment) -> i64 {
    let replicas = deployment.spec.replicas;
    let rolling = deployment.spec.strategy.rolling_update.as_ref();
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()?.scaled(replicas, true)).unwrap_or(0);
    replicas + surge
}

impl Check for MaxReplicas {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let object = change.object();
        if let Some(number) = change.after.as_ref().and_then(replicas) {
            self.replicas.record(&object.meta().uid, change.revision, number);
        }
        if let Some(deployment) = change.after.as_ref().and_then(|after| after.view::<Deployment>()) {
            self.allowed.record(&object.meta().uid, change.revision, max_pods(deployment));
        }
        // An object that a deposed leader creates late is one too many. Its successor deletes it.
        if change.is_creation() && change.is_late {
            self.exempt.insert(object.meta().uid.clone());
            return Ok(());
        }
        if change.is_of("pods") {
            self.record_exemption(change, marks);
            let makers = ["replicaset-controller", "replication-controller"];
            if change.is_creation() && makers.contains(&&*change.by) {
                return self.check_pod(change, context);
            }
        }
        if change.is_of("replicasets.apps") && &*change.by == "deployment-controller" {
            return self.check_set(change, context, marks);
        }
        Ok(())
    }
}

impl MaxReplicas {
    fn record_exemption(&mut self, change: &CommitChange, marks: &mut CoverageMarks) {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return };
        let (was, is) = (before.meta(), after.meta());
        if was.labels != is.labels || was.owner_references != is.owner_references {
            self.exempt.insert(is.uid.clone());
        }
        match (was.controller(), is.controller()) {
            (None, Some(_)) => marks.record("orphan was adopted"),
            (Some(_), None) => marks.record("pod was released"),
            _ => {}
        }
    }

    /// Sum of the replicas of a Deployment's sets.
    fn total(&self, world: &WorldReader<'_>, uid: &str) -> i64 {
        let sets = world.owned(uid, "replicasets.apps");
        sets.filter(|set| !self.exempt.contains(&set.meta().uid)).filter_map(replicas).sum()
    }

    fn check_pod(&self, change: &CommitChange, context: &CommitContext<'_>) -> Result<(), String> {
        let Some(owner) = change.object().meta().controller() else { return Ok(()) };
        let pods = context.world.owned(&owner.uid, "pods").filter(|pod| is_active(pod));
        let pods = size(pods.filter(|pod| !self.exempt.contains(&pod.meta().uid)).count());
        let max = self.replicas.since(&owner.uid, change.seen).max().unwrap_or(0);
        if pods > max {
            let (kind, name) = (&owner.kind, &owner.name);
            return Err(format!(
                "{kind} {name} has created {} and has {pods} pods, at most {max} are allowed",
                change.key
            ));
        }
        Ok(())
    }

    fn check_set(
        &self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let Some(after) = &change.after else { return Ok(()) };
        let was = change.before.as_ref().and_then(replicas).unwrap_or(0);
        let is = replicas(after).unwrap_or(0);
        let Some(owner) = after.meta().controller().filter(|_| is > was) else { return Ok(()) };
        let total = self.total(context.world, &owner.uid);
        let max = self.allowed.since(&owner.uid, change.seen).max().unwrap_or(0);
        if total > max {
            let name = &owner.name;
            return Err(format!(
                "Deployment {name} has raised {} from {was} to {is}, so that its sets have {total}; at most {max} are allowed",
                change.key
            ));
        }
        let deployment = context.world.get_by_uid(&owner.uid).and_then(|object| object.view::<Deployment>());
        if deployment.is_some_and(|deployment| total > deployment.spec.replicas) {
            marks.record("rollout surged");
        }
        Ok(())
    }
}
