//! Deployment controller: rolls pods from one template to the next, within bounds.
//!
//! Each template has a ReplicaSet, named by the template's hash and annotated with its revision. A plan
//! decides the size of each set: [`replica_sets`] finds the sets, [`scaling`] computes their sizes,
//! [`status`] the status, [`rollback`] handles the deprecated annotation. Sizes are computed from the desired
//! sizes of the sets, and a set never counts as available with more pods than that, so a stale status cannot
//! cause the deletion of too many pods.

mod replica_sets;
mod rollback;
mod scaling;
mod status;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write, int32};
use setpoint_views::deployment::{Deployment, DeploymentStatus};
use setpoint_views::pod::Pod;

use crate::indexes::ORPHAN_REPLICA_SETS;
use crate::owners::{self, Owner};
use replica_sets::{REVISION, ReplicaSets};

const REPLICA_SETS: &str = "replicasets.apps";

/// The Deployment controller.
pub struct DeploymentController;

impl Planner for DeploymentController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary(<Deployment as setpoint_reconcile::View>::RESOURCE),
            Watch::mapped(REPLICA_SETS, enqueue_for_set),
            Watch::mapped("pods", enqueue_for_pod).when(has_stopped_or_moved),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(deployment) = object.view::<Deployment>() else { return plan };
        if deployment.spec.selector.is_everything() {
            return plan;
        }
        let owner = Owner { object, api_version: "apps/v1", kind: "Deployment" };
        let selects = |set: &Object| deployment.spec.selector.matches(|name| set.meta().labels.get(name));
        let (claimed, actions) =
            owners::claim_objects(world, &owner, REPLICA_SETS, ORPHAN_REPLICA_SETS, selects, |_| true);
        if !actions.is_empty() {
            // The next plan starts from the adoptions and releases.
            plan.stage(actions);
            return plan;
        }
        let sets = ReplicaSets::of(&owner, deployment, claimed);
        if object.meta().is_deleted() {
            let status = status::calculate_status(&sets, deployment.status.conditions.clone(), now);
            plan.stage(write_status(&sets, status, None));
            return plan;
        }
        if !deployment.spec.paused
            && sets.new.is_some()
            && let Some(revision) = rollback::rollback_to(object)
        {
            rollback::roll_back(&mut plan, &sets, revision);
            return plan;
        }
        sync_deployment(&mut plan, sets, world, seen, now);
        plan
    }
}

/// Plans the next step of the sets.
fn sync_deployment(
    plan: &mut Plan,
    mut sets: ReplicaSets<'_>,
    world: &WorldReader<'_>,
    seen: &Seen<'_, ()>,
    now: Time,
) {
    let paused = sets.deployment.spec.paused;
    sets.set_new_annotations();
    let is_scaling = paused || scaling::is_scaling_event(&sets);
    let mut is_creating = false;
    if is_scaling {
        scaling::scale(&mut sets);
    } else if sets.bounds.is_rolling {
        is_creating = sets.new.is_none();
        scaling::roll_out_rolling(&mut sets);
    } else {
        let old_pods_running = has_old_pods_running(&sets, world);
        is_creating = scaling::roll_out_recreate(&mut sets, old_pods_running) && sets.new.is_none();
    }
    let new_set = is_creating.then(|| sets.new_replica_set());
    let has_collision = new_set.as_ref().is_some_and(|set| {
        let namespace = &*sets.owner.object.meta().namespace;
        world.find(REPLICA_SETS, namespace, &set.name).is_some()
    });
    let new_set = new_set.filter(|_| !has_collision);

    let failure =
        seen.failure.filter(|failure| failure.verb == "create" && failure.resource.as_str() == REPLICA_SETS);
    let step = match &new_set {
        Some(set) => status::RolloutStep::CreateReplicaSet {
            set: &set.name,
            failure: failure.map(|failure| &*failure.message),
        },
        None if is_scaling => status::RolloutStep::Scale,
        None => status::RolloutStep::Roll,
    };
    let mut status = status::sync_rollout_status(&sets, step, now);
    if has_collision {
        status.collision_count = Some(int32::saturating_increment(status.collision_count.unwrap_or(0)));
    }
    let is_complete = status::is_complete(sets.deployment, &status, sets.owner.object.meta().generation);
    if let Some(at) = status::progress_check_at(&sets, &status, is_complete) {
        plan.requeue_at(at);
    }
    let revision = new_set.as_ref().map_or_else(|| sets.revision(), |set| Some(set.revision.to_string()));
    let mut written = write_status(&sets, status, revision);
    if let Some(set) = new_set {
        // The failure is reported before the next attempt, the success after it.
        if failure.is_some() {
            plan.stage(written.take());
        }
        plan.stage([sets.create(set)]);
    }
    plan.stage(written);
    plan.stage(sets.patches());
    if paused || is_complete {
        plan.stage(sets.cleanup());
    }
}

/// Writes the status and the revision annotation, if either changes.
fn write_status(
    sets: &ReplicaSets<'_>,
    status: DeploymentStatus,
    revision: Option<String>,
) -> Option<Action> {
    let object = sets.owner.object;
    let revision = revision.filter(|revision| object.meta().annotations.get(REVISION) != Some(revision));
    if status == sets.deployment.status && revision.is_none() {
        return None;
    }
    let mut patch = value!({"status": (value_of(&status))});
    if let Some(revision) = revision {
        let annotations = Value::Map([(REVISION, Value::from(revision))].into_iter().collect());
        patch.ensure_map("metadata").insert("annotations", annotations);
    }
    Some(Write::merge(object, "status", patch).into())
}

/// `true` if pods of old sets still run, or the status of a set counts some.
fn has_old_pods_running(sets: &ReplicaSets<'_>, world: &WorldReader<'_>) -> bool {
    sets.old.iter().any(|old| {
        let pods = world.owned(&old.object.meta().uid, "pods");
        let mut views = pods.filter_map(|pod| pod.view::<Pod>());
        old.set.status.replicas > 0 || views.any(|pod| !pod.is_finished())
    })
}

fn enqueue_for_set(set: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    owners::enqueue_owners(
        set,
        world,
        ("Deployment", "deployments.apps"),
        |object| object.view::<Deployment>().map(|view| &view.spec.selector),
        enqueue,
    );
}

/// Enqueues the Deployment of a pod if it has the strategy `Recreate`: new pods wait for the end of old ones.
fn enqueue_for_pod(pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let namespace = &*pod.meta().namespace;
    let set = pod.meta().controller().filter(|owner| &*owner.kind == "ReplicaSet");
    let set = set.and_then(|owner| world.find(REPLICA_SETS, namespace, &owner.name));
    let parent = set.and_then(|set| set.meta().controller()).filter(|owner| &*owner.kind == "Deployment");
    if let Some(owner) = parent
        && let Some((object, deployment)) = world.view::<Deployment>(namespace, &owner.name)
        && deployment.spec.strategy.kind == "Recreate"
    {
        enqueue(object.key().clone());
    }
}

/// `true` if a pod stopped running, or changed its owner: only this lets new pods start.
fn has_stopped_or_moved(before: &Object, after: &Object) -> bool {
    let is_finished = |object: &Object| object.view::<Pod>().is_some_and(Pod::is_finished);
    is_finished(before) != is_finished(after)
        || before.meta().owner_references != after.meta().owner_references
}

#[cfg(test)]
mod tests;
