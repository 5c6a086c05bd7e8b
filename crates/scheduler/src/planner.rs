//! Planner of the scheduler: one key, whose plan runs a scheduling cycle over the queue.
//!
//! This file maps changes of the world to that key. Start at `scheduling_cycle` for what a plan does.

mod failed_bindings;
mod pod_queue;
mod prebind;
mod scheduling_cycle;
mod status;

use std::sync::LazyLock;

use setpoint_api::{Key, Time};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Jump, Object, Plan, Planner, Seed, Seen, Watch, WorldReader};
use setpoint_views::pod::{ContainerStatus, Pod};

use crate::cache::SchedulerCache;
use crate::profile::Profile;
use scheduling_cycle::SchedulingCycle;

/// Name of the leader election Lease, and of the component.
pub const LEASE: &str = "kube-scheduler";
/// `schedulerName` of pods that do not set one, and reporter of their Events.
pub(crate) const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// The scheduler.
pub struct Scheduler {
    profiles: Vec<Profile>,
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler { profiles: vec![Profile::new(DEFAULT_SCHEDULER_NAME)] }
    }
}

impl Scheduler {
    /// Returns a scheduler for the pods of some profiles.
    #[must_use]
    pub fn new(profiles: Vec<Profile>) -> Scheduler {
        Scheduler { profiles }
    }

    /// Returns the profile of a `schedulerName`.
    fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| *profile.name == *name)
    }

    /// `true` if this scheduler is to find a node for a pod without one.
    fn is_responsible_for(&self, object: &Object, pod: &Pod) -> bool {
        !object.meta().is_deleted()
            && pod.spec.scheduling_gates.is_empty()
            && self.profile(&pod.spec.scheduler_name).is_some()
    }
}

impl Planner for Scheduler {
    type Memo = SchedulerCache;

    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn user(&self) -> String {
        "system:kube-scheduler".to_owned()
    }

    fn manager(&self) -> &'static str {
        "kube-scheduler"
    }

    fn source(&self) -> &'static str {
        DEFAULT_SCHEDULER_NAME
    }

    fn clock_jumped(&self, memo: &mut SchedulerCache, jump: Jump, _: Time) {
        let states = memo.pods.iter_mut().flatten().filter_map(|info| info.queue_state.as_mut());
        states.for_each(|state| state.shift_times(jump));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 13] = [
            Watch::mapped("nodes", enqueue),
            Watch::mapped("pods", enqueue_for_pod),
            Watch::mapped("persistentvolumes", enqueue),
            Watch::mapped("persistentvolumeclaims", enqueue),
            Watch::mapped("storageclasses.storage.k8s.io", enqueue),
            Watch::mapped("csinodes.storage.k8s.io", enqueue),
            Watch::mapped("csidrivers.storage.k8s.io", enqueue),
            Watch::mapped("csistoragecapacities.storage.k8s.io", enqueue),
            Watch::mapped("resourceclaims.resource.k8s.io", enqueue),
            Watch::mapped("resourceslices.resource.k8s.io", enqueue),
            Watch::mapped("deviceclasses.resource.k8s.io", enqueue),
            Watch::mapped("devicetaintrules.resource.k8s.io", enqueue),
            Watch::mapped("volumeattachments.storage.k8s.io", enqueue_on_delete),
        ];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        scheduler_key().into_iter().collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, SchedulerCache>,
        now: Time,
        seed: Seed,
    ) -> Plan<SchedulerCache> {
        let seen = Seen { memo: seen.memo.clone(), answers: seen.answers, failure: seen.failure };
        self.plan_owning(key, world, seen, now, seed)
    }

    fn plan_owning(
        &self,
        _: &Key,
        world: &WorldReader<'_>,
        seen: Seen<'_, SchedulerCache>,
        now: Time,
        seed: Seed,
    ) -> Plan<SchedulerCache> {
        SchedulingCycle::new(self, world, seen, now, seed).plan()
    }
}

/// The only key: that of the Lease.
fn scheduler_key() -> Option<Key> {
    static KEY: LazyLock<Option<Key>> =
        LazyLock::new(|| key_of("leases.coordination.k8s.io", "kube-system", LEASE));
    KEY.clone()
}

fn enqueue(_: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    scheduler_key().into_iter().for_each(enqueue);
}

fn enqueue_on_delete(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if world.get(object.key()).is_none() {
        scheduler_key().into_iter().for_each(enqueue);
    }
}

/// Enqueues the key if the pod has no node, is new on its node, leaves it, or counts differently for other pods. Most
/// status updates of running pods change nothing for the scheduler.
fn enqueue_for_pod(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(pod) = object.view::<Pod>() else { return };
    let is_relevant =
        pod.spec.node_name.is_empty() || pod.status.phase == "Pending" || pod.is_finished() || {
            let now = world.get(object.key()).filter(|now| !now.meta().is_deleted());
            now.is_none_or(|now| has_scheduling_change(object, pod, now))
        };
    if is_relevant {
        scheduler_key().into_iter().for_each(enqueue);
    }
}

/// `true` if labels, spec or allocated resources of a pod changed.
fn has_scheduling_change(was: &Object, pod: &Pod, now: &Object) -> bool {
    let has_same_resources = |one: &ContainerStatus, other: &ContainerStatus| {
        one.allocated_resources == other.allocated_resources
            && one.resources.requests == other.resources.requests
    };
    let is_same = |now: &Pod| {
        let (was, now) = (&pod.status.container_statuses, &now.status.container_statuses);
        was.len() == now.len() && was.iter().zip(now).all(|(one, other)| has_same_resources(one, other))
    };
    was.revision() != now.revision()
        && (was.meta().labels != now.meta().labels
            || was.meta().generation != now.meta().generation
            || now.view::<Pod>().is_some_and(|now| !is_same(now)))
}

#[cfg(test)]
mod tests;
