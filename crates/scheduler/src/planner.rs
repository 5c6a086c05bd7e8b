//! The planner: the line of pods that want a node, and what is written about them.

mod desk;
mod status;

use std::sync::LazyLock;

use setpoint_api::{Key, Time};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::views::pod::{ContainerStatus, Pod};
use setpoint_reconcile::{Jump, Object, Plan, Planner, Seed, Seen, Watch, World};

use crate::cache::Cache;
use crate::profile::Profile;
use desk::Desk;

/// The name of the Lease of whoever schedules, which is also that of the component.
pub const LEASE: &str = "kube-scheduler";
/// Who speaks in Events, and the scheduler name of pods that do not say.
pub const NAME: &str = "default-scheduler";

/// The scheduler.
pub struct Scheduler {
    profiles: Vec<Profile>,
}

impl Default for Scheduler {
    fn default() -> Scheduler {
        Scheduler { profiles: vec![Profile::named(NAME)] }
    }
}

impl Scheduler {
    /// A scheduler for pods that ask for one of these.
    #[must_use]
    pub fn new(profiles: Vec<Profile>) -> Scheduler {
        Scheduler { profiles }
    }

    /// The profile of a scheduler name, if it is ours.
    fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| *profile.name == *name)
    }

    /// Whether a pod that has no node is to get one from us.
    fn wants(&self, object: &Object, pod: &Pod) -> bool {
        !object.meta().is_deleted()
            && pod.spec.scheduling_gates.is_empty()
            && self.profile(&pod.spec.scheduler_name).is_some()
    }
}

impl Planner for Scheduler {
    type Memo = Cache;

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
        NAME
    }

    fn clock_jumped(&self, memo: &mut Cache, jump: Jump, _: Time) {
        let waiting = memo.pods.iter_mut().flatten().filter_map(|entry| entry.waiting.as_mut());
        waiting.for_each(|waiting| waiting.clock_jumped(jump));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 10] = [
            Watch::via("nodes", wake),
            Watch::via("pods", of_pod),
            Watch::via("persistentvolumes", wake),
            Watch::via("persistentvolumeclaims", wake),
            Watch::via("storageclasses.storage.k8s.io", wake),
            Watch::via("csinodes.storage.k8s.io", wake),
            Watch::via("csidrivers.storage.k8s.io", wake),
            Watch::via("csistoragecapacities.storage.k8s.io", wake),
            Watch::via("resourceclaims.resource.k8s.io", wake),
            Watch::via("volumeattachments.storage.k8s.io", wake_if_gone),
        ];
        &WATCHES
    }

    fn keys(&self, _: &World) -> Vec<Key> {
        only_key().into_iter().collect()
    }

    fn plan(&self, key: &Key, world: &World, seen: &Seen<'_, Cache>, now: Time, seed: Seed) -> Plan<Cache> {
        let seen = Seen { memo: seen.memo.clone(), answers: seen.answers, failure: seen.failure };
        self.plan_owning(key, world, seen, now, seed)
    }

    fn plan_owning(
        &self,
        _: &Key,
        world: &World,
        seen: Seen<'_, Cache>,
        now: Time,
        seed: Seed,
    ) -> Plan<Cache> {
        Desk::new(self, world, seen, now, seed).plan()
    }
}

/// The one key: that of the Lease.
fn only_key() -> Option<Key> {
    static KEY: LazyLock<Option<Key>> =
        LazyLock::new(|| key_of("leases.coordination.k8s.io", "kube-system", LEASE));
    KEY.clone()
}

fn wake(_: &Object, _: &World, wake: &mut dyn FnMut(Key)) {
    only_key().into_iter().for_each(wake);
}

fn wake_if_gone(object: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    if world.get(object.key()).is_none() {
        only_key().into_iter().for_each(wake);
    }
}

/// A pod concerns us when it has no node, when it leaves one, when it is new there, and when others may judge it
/// otherwise: what else it does on its node is its own affair.
fn of_pod(object: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    let Some(pod) = object.view::<Pod>() else { return };
    let concerns = pod.spec.node_name.is_empty() || pod.status.phase == "Pending" || pod.is_finished() || {
        let now = world.get(object.key()).filter(|now| !now.meta().is_deleted());
        now.is_none_or(|now| counts_otherwise(object, pod, now))
    };
    if concerns {
        only_key().into_iter().for_each(wake);
    }
}

/// Whether a pod has other labels by now, or may take more or less of its node.
fn counts_otherwise(was: &Object, pod: &Pod, now: &Object) -> bool {
    let has = |one: &ContainerStatus, other: &ContainerStatus| {
        one.allocated_resources == other.allocated_resources
            && one.resources.requests == other.resources.requests
    };
    let is_same = |now: &Pod| {
        let (was, now) = (&pod.status.container_statuses, &now.status.container_statuses);
        was.len() == now.len() && was.iter().zip(now).all(|(one, other)| has(one, other))
    };
    was.revision() != now.revision()
        && (was.meta().labels != now.meta().labels
            || was.meta().generation != now.meta().generation
            || now.view::<Pod>().is_some_and(|now| !is_same(now)))
}

#[cfg(test)]
mod tests;
