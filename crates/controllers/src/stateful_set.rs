//! StatefulSet controller: pods with stable names and claims, created and updated in order.
//!
//! The name of a pod is that of the set and an ordinal. It is reused by its replacement, so there are never
//! two pods of one ordinal. [`ordinal_pods`] are the pods by ordinal, [`claims`] their
//! PersistentVolumeClaims, [`rolling_update`] chooses the pods of an old revision to delete.

mod claims;
mod ordinal_pods;
mod rolling_update;

use std::collections::BTreeSet;

use setpoint_api::{Key, Time, Value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::stateful_set::{StatefulSet, StatefulSetStatus};

use crate::owners::{self, Owner};
use crate::pods;
use crate::revisions::{self, Latest, RevisionHistory};
use ordinal_pods::{OrdinalPods, REVISION};

/// Label of revisions with their hash.
const REVISION_HASH_LABEL: &str = "controller.kubernetes.io/hash";
const STATEFUL_SETS: &str = "statefulsets.apps";

/// The StatefulSet controller.
pub struct StatefulSetController;

impl Planner for StatefulSetController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 4] = [
            Watch::primary(STATEFUL_SETS),
            Watch::mapped("pods", enqueue_for_dependent),
            Watch::mapped("controllerrevisions.apps", enqueue_for_dependent),
            Watch::mapped("persistentvolumeclaims", enqueue_for_claim),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(set) = object.view::<StatefulSet>() else { return plan };
        let owner = Owner { object, api_version: "apps/v1", kind: "StatefulSet" };
        let history = RevisionHistory::of(world, &owner, &set.spec.selector);
        let claimed = ordinal_pods::claim_pods(world, &owner, &set.spec.selector);
        if !history.actions.is_empty() || !claimed.actions.is_empty() {
            // The next plan starts from the adoptions and releases.
            plan.stage(history.actions);
            plan.stage(claimed.actions);
            return plan;
        }
        let collisions = set.status.collision_count.unwrap_or(0);
        let latest = history.latest(world, &owner, &set.spec.template.0, REVISION_HASH_LABEL, collisions);
        let rollout =
            StatefulSetRollout { world, owner: &owner, set, history: &history, latest: &latest, now };
        rollout.plan(&mut plan, &claimed.pods);
        plan
    }
}

/// Inputs of a plan of one set.
struct StatefulSetRollout<'a> {
    world: &'a WorldReader<'a>,
    owner: &'a Owner<'a>,
    set: &'a StatefulSet,
    history: &'a RevisionHistory<'a>,
    latest: &'a Latest,
    now: Time,
}

impl StatefulSetRollout<'_> {
    fn plan(&self, plan: &mut Plan, pods: &[pods::PodRef<'_>]) {
        let is_deleted = self.owner.object.meta().is_deleted();
        if !is_deleted {
            plan.stage(self.latest.action.clone());
        }
        let status = self.status(pods);
        if status != self.set.status {
            plan.stage([Action::from(Write::status(self.owner.object, value_of(&status)))]);
        }
        pods::requeue_when_available(plan, pods, self.set.spec.min_ready_seconds, self.now);
        if is_deleted {
            return;
        }
        let ordinal_pods = OrdinalPods::of(self.set, pods);
        let mut writes = PlannedWrites::default();
        if ordinal_pods::manage(self, &ordinal_pods, &mut writes) {
            rolling_update::rolling_update(self, &ordinal_pods, &mut writes);
        }
        plan.defer(writes.deferred);
        plan.stage(writes.prerequisites);
        plan.stage(writes.pods);
        let mut used: BTreeSet<&str> = [&*self.latest.name, self.current_revision()].into();
        used.extend(pods.iter().filter_map(|(pod, _)| pod.meta().labels.get(REVISION)));
        plan.stage(revisions::truncate_history(self.history, &used, self.set.spec.revision_history_limit));
    }

    /// Revision before the current rollout.
    fn current_revision(&self) -> &str {
        let name = &*self.set.status.current_revision;
        if self.history.find_by_name(name).is_some() { name } else { &self.latest.name }
    }

    fn status(&self, pods: &[pods::PodRef<'_>]) -> StatefulSetStatus {
        let current = self.current_revision();
        let count = |is: &dyn Fn(&pods::PodRef<'_>) -> bool| {
            i64::try_from(pods.iter().filter(|pod| is(pod)).count()).unwrap_or(i64::MAX)
        };
        let min_ready = self.set.spec.min_ready_seconds;
        let has_revision = |(object, _): &pods::PodRef<'_>, revision: &str| {
            !object.meta().is_deleted() && object.meta().labels.get(REVISION) == Some(revision)
        };
        let mut status = StatefulSetStatus {
            observed_generation: self.owner.object.meta().generation,
            replicas: count(&|_| true),
            ready_replicas: count(&|(_, pod)| ordinal_pods::is_running_and_ready(pod)),
            current_replicas: count(&|pod| has_revision(pod, current)),
            updated_replicas: count(&|pod| has_revision(pod, &self.latest.name)),
            available_replicas: count(&|(_, pod)| {
                ordinal_pods::is_running_and_ready(pod) && pod.is_available(min_ready, self.now)
            }),
            current_revision: current.to_owned(),
            update_revision: self.latest.name.clone(),
            collision_count: Some(self.latest.collisions),
            conditions: self.set.status.conditions.clone(),
        };
        let desired = self.set.spec.replicas;
        if [status.updated_replicas, status.ready_replicas, status.replicas] == [desired; 3] {
            status.current_replicas = status.updated_replicas;
            status.current_revision.clone_from(&status.update_revision);
        }
        status
    }

    /// `true` for `OrderedReady`: pods are created and deleted one after the other.
    fn is_ordered(&self) -> bool {
        self.set.spec.pod_management_policy != "Parallel"
    }

    fn subject(&self) -> InvolvedObject {
        self.owner.subject()
    }

    /// Deletes a pod, with an Event.
    fn delete(&self, pod: &Object) -> Action {
        self.with_events(
            Write::delete(pod).into(),
            ["Delete", "SuccessfulDelete", "FailedDelete"],
            &pod.meta().name,
        )
    }

    /// Action on a pod with Events of its outcome.
    fn with_events(&self, action: Action, [verb, done, failed]: [&'static str; 3], pod: &str) -> Action {
        let subject = self.subject();
        let operation = format!("{verb} Pod {pod} in StatefulSet {}", self.owner.object.meta().name);
        action
            .on_done(subject.normal(done, format!("{operation} successful")))
            .on_failed(subject.warning(failed, format!("{operation} failed error: {{error}}")))
    }
}

/// Writes of a plan, in two stages.
#[derive(Default)]
struct PlannedWrites {
    /// Writes that precede the creation of pods, or do not depend on it.
    prerequisites: Vec<Action>,
    /// Creations and deletions of pods.
    pods: Vec<Action>,
    /// Number of pods that the next plans create or delete.
    deferred: usize,
}

fn enqueue_for_dependent(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    owners::enqueue_owners(
        object,
        world,
        ("StatefulSet", STATEFUL_SETS),
        |object| object.view::<StatefulSet>().map(|set| &set.spec.selector),
        enqueue,
    );
}

/// Enqueues the set of a claim, by the claim's name.
fn enqueue_for_claim(claim: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let name = &*claim.meta().name;
    for object in world.in_namespace(STATEFUL_SETS, &claim.meta().namespace) {
        let Some(set) = object.view::<StatefulSet>() else { continue };
        let named_by = |template: &Value| {
            let rest = name.strip_prefix(template.str_at(&["metadata", "name"]));
            let rest = rest.and_then(|rest| rest.strip_prefix('-')).and_then(|rest| {
                rest.strip_prefix(&*object.meta().name).and_then(|rest| rest.strip_prefix('-'))
            });
            rest.is_some_and(|ordinal| ordinal.parse::<u32>().is_ok())
        };
        if set.spec.volume_claim_templates.iter().any(named_by) {
            enqueue(object.key().clone());
        }
    }
}

#[cfg(test)]
mod tests;
