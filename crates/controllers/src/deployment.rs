//! Deployment controller: rolls pods from one template to the next, within bounds.
//!
//! Each template has a ReplicaSet, named by the template's hash and annotated with its revision. A plan
//! decides the size of each set: [`sets`] finds the sets, [`sizes`] computes their sizes, [`status`] the
//! status, [`rollback`] handles the deprecated annotation. Sizes are computed from the desired sizes of the
//! sets, and a set never counts as available with more pods than that, so a stale status cannot cause the
//! deletion of too many pods.

mod rollback;
mod sets;
mod sizes;
mod status;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Act, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write, int32};
use setpoint_views::deployment::{Deployment, DeploymentStatus};
use setpoint_views::pod::Pod;

use crate::indexes::ORPHAN_REPLICA_SETS;
use crate::owners::{self, Owner};
use sets::{REVISION, Sets};

const SETS: &str = "replicasets.apps";

/// The Deployment controller.
pub struct DeploymentController;

impl Planner for DeploymentController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "deployment-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::itself(<Deployment as setpoint_reconcile::View>::RESOURCE),
            Watch::via(SETS, of_set),
            Watch::via("pods", of_pod).when(counts_otherwise),
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
        let (claimed, acts) = owners::claim(world, &owner, SETS, ORPHAN_REPLICA_SETS, selects, |_| true);
        if !acts.is_empty() {
            // The next plan starts from the adoptions and releases.
            plan.stage(acts);
            return plan;
        }
        let sets = Sets::of(&owner, deployment, claimed);
        if object.meta().is_deleted() {
            let status = status::counted(&sets, deployment.status.conditions.clone(), now);
            plan.stage(write_status(&sets, status, None));
            return plan;
        }
        if !deployment.spec.paused
            && sets.new.is_some()
            && let Some(revision) = rollback::wanted(object)
        {
            rollback::roll_back(&mut plan, &sets, revision);
            return plan;
        }
        advance(&mut plan, sets, world, seen, now);
        plan
    }
}

/// Plans the next step of the sets.
fn advance(plan: &mut Plan, mut sets: Sets<'_>, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time) {
    let paused = sets.deployment.spec.paused;
    sets.note_revision();
    let scales = paused || sizes::was_scaled(&sets);
    let mut creates = false;
    if scales {
        sizes::scale(&mut sets);
    } else if sets.bounds.is_rolling {
        creates = sets.new.is_none();
        sizes::roll(&mut sets);
    } else {
        let old_run = old_pods_run(&sets, world);
        creates = sizes::recreate(&mut sets, old_run) && sets.new.is_none();
    }
    let missing = creates.then(|| sets.missing());
    let collides = missing.as_ref().is_some_and(|set| {
        let namespace = &*sets.owner.object.meta().namespace;
        world.find(SETS, namespace, &set.name).is_some()
    });
    let missing = missing.filter(|_| !collides);

    let failure =
        seen.failure.filter(|failure| failure.verb == "create" && failure.resource.as_str() == SETS);
    let progress = match &missing {
        Some(set) => status::Progress::Creates { set: &set.name, failure: failure.map(|it| &*it.message) },
        None if scales => status::Progress::Scales,
        None => status::Progress::Rolls,
    };
    let mut status = status::status(&sets, progress, now);
    if collides {
        status.collision_count = Some(int32::saturating_increment(status.collision_count.unwrap_or(0)));
    }
    let is_complete = status::is_complete(sets.deployment, &status, sets.owner.object.meta().generation);
    if let Some(at) = status::deadline(&sets, &status, is_complete) {
        plan.look_again_at(at);
    }
    let revision = missing.as_ref().map_or_else(|| sets.revision(), |set| Some(set.revision.to_string()));
    let mut written = write_status(&sets, status, revision);
    if let Some(set) = missing {
        // The failure is reported before the next attempt, the success after it.
        if failure.is_some() {
            plan.stage(written.take());
        }
        plan.stage([sets.create(set)]);
    }
    plan.stage(written);
    plan.stage(sets.patches());
    if paused || is_complete {
        plan.stage(sets.surplus());
    }
}

/// Writes the status and the revision annotation, if either changes.
fn write_status(sets: &Sets<'_>, status: DeploymentStatus, revision: Option<String>) -> Option<Act> {
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
fn old_pods_run(sets: &Sets<'_>, world: &WorldReader<'_>) -> bool {
    sets.old.iter().any(|old| {
        let pods = world.owned(&old.object.meta().uid, "pods");
        let mut views = pods.filter_map(|pod| pod.view::<Pod>());
        old.set.status.replicas > 0 || views.any(|pod| !pod.is_finished())
    })
}

fn of_set(set: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    owners::wake(
        set,
        world,
        ("Deployment", "deployments.apps"),
        |object| object.view::<Deployment>().map(|view| &view.spec.selector),
        wake,
    );
}

/// Enqueues the Deployment of a pod if it has the strategy `Recreate`: new pods wait for the end of old ones.
fn of_pod(pod: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    let namespace = &*pod.meta().namespace;
    let set = pod.meta().controller().filter(|owner| &*owner.kind == "ReplicaSet");
    let set = set.and_then(|owner| world.find(SETS, namespace, &owner.name));
    let parent = set.and_then(|set| set.meta().controller()).filter(|owner| &*owner.kind == "Deployment");
    if let Some(owner) = parent
        && let Some((object, deployment)) = world.view::<Deployment>(namespace, &owner.name)
        && deployment.spec.strategy.kind == "Recreate"
    {
        wake(object.key().clone());
    }
}

/// `true` if a pod stopped running, or changed its owner: only this lets new pods start.
fn counts_otherwise(before: &Object, after: &Object) -> bool {
    let is_over = |object: &Object| object.view::<Pod>().is_some_and(Pod::is_finished);
    is_over(before) != is_over(after) || before.meta().owner_references != after.meta().owner_references
}

#[cfg(test)]
mod tests;
