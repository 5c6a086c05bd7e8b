//! Planners of pods on simulated nodes.
//!
//! [`Admission`] admits new pods, allocates pod IPs and decides resizes. It has one key per node, so that no
//! two pods get the same resources. [`Pods`] has one key per pod and does everything else.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Key, Time};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Note, Object, Plan, Planner, Role, Seed, Seen, Watch, WorldReader};
use setpoint_views::pod::{BY_NODE, NEW_BY_NODE, Pod as PodView};

use crate::addresses::{self, WITHOUT_ADDRESS_BY_NODE, is_without};
use crate::admission::{Room, refuse};
use crate::attend::{Decided, attend};
use crate::fleet::{FLEET, Fleet, KUBELET, Seat, is_heard, is_played_with};
use crate::images::hash;
use crate::needs::HELD_BY_NAMESPACE;
use crate::resizing::{RESIZES_BY_NODE, is_asking, was_resized};

/// Age of a pod up to which a missing pod IP emits Events: no write marks them as emitted.
const TELL_WITHIN: Duration = Duration::from_secs(10);

/// Admission planner: admits new pods of a node.
pub struct Admission(pub Arc<Fleet>);

impl Planner for Admission {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node-admission"
    }

    fn role(&self) -> Option<Role> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, _: &WorldReader<'_>) -> Option<String> {
        Some(key.name().to_owned())
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::itself("nodes"),
            Watch::via("pods", of_new).when(is_new_now),
            Watch::via("pods", of_gone).when(leaves_room),
            Watch::via("pods", of_asking).when(is_asking_now),
            Watch::via("configmaps", of_mountable),
            Watch::via("secrets", of_mountable),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(seat) = self.0.running(key.name(), world) else { return plan };
        let new = world.by_index(NEW_BY_NODE.name, key.name());
        let mut new: Vec<_> = new.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let asking = world.by_index(RESIZES_BY_NODE.name, key.name());
        let asking: Vec<_> = asking.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let without = world.by_index(WITHOUT_ADDRESS_BY_NODE.name, key.name());
        new.extend(without.filter_map(|pod| Some((pod, pod.view::<PodView>()?))));
        if new.is_empty() && asking.is_empty() {
            return plan;
        }
        // Pods are admitted in the order of their creation.
        new.sort_by_key(|(pod, _)| (pod.meta().created(), pod.key()));
        let pods = world.by_index(BY_NODE.name, key.name());
        let pods: Vec<_> = pods.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let mut room = Room::of(&seat, &pods);
        self.resize(asking, &seat, world, &mut room, now, &mut plan);
        let ranges = self.0.pod_ranges(&seat, now);
        if ranges.is_empty() {
            plan.look_again_at(seat.object.meta().created().after(crate::fleet::NETWORK_GRACE));
        }
        let mut taken = taken(&pods);
        for (pod, view) in new {
            // Components of this process are already running, so they are not subject to admission.
            if is_new(pod)
                && self.0.component(pod).is_none()
                && let Err(refusal) = room.admit(pod, view)
            {
                refuse(pod, &refusal, now).into_iter().for_each(|act| plan.act(act));
                continue;
            }
            let found = if view.spec.host_network {
                Some(Vec::new())
            } else {
                addresses::free(&ranges, &taken, hash(&pod.meta().uid))
            };
            let Some(found) = found else {
                // The pod waits until another pod releases its address.
                if !ranges.is_empty() && now.since(pod.commit_time()) < TELL_WITHIN {
                    plan.notes.push(no_address(pod, &ranges));
                }
                continue;
            };
            taken.extend(found.iter().cloned().map(Cow::from));
            let decided = Decided { addresses: Some(found), ..Decided::default() };
            attend(&self.0, world, &seat, pod, decided, now, &mut plan);
        }
        // [`Pods`] requeues the admitted pods itself.
        if !ranges.is_empty() {
            plan.look_again = None;
        }
        plan
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        (0..self.0.count).filter_map(|number| key_of("nodes", "", &self.0.name(number))).collect()
    }
}

impl Admission {
    /// Decides pending resizes, pods of higher priority first.
    fn resize<'a>(
        &self,
        mut asking: Vec<(&'a Object, &'a PodView)>,
        seat: &Seat<'_>,
        world: &WorldReader<'_>,
        room: &mut Room<'_>,
        now: Time,
        plan: &mut Plan,
    ) {
        asking.sort_by_key(|(pod, view)| {
            (std::cmp::Reverse(view.spec.priority.unwrap_or(0)), pod.meta().created(), pod.key())
        });
        for (pod, view) in asking {
            let decided = Decided { resize: Some(room.resize(pod, view)), ..Decided::default() };
            attend(&self.0, world, seat, pod, decided, now, plan);
        }
    }
}

/// `true` if the node has not admitted the pod yet.
fn is_new(object: &Object) -> bool {
    !object.meta().is_deleted() && object.view::<PodView>().is_some_and(PodView::is_new)
}

fn no_address(pod: &Object, ranges: &[String]) -> Note {
    let message = format!(
        "Failed to create pod sandbox: failed to allocate: no IP addresses available in range set: {}",
        ranges.join(",")
    );
    Subject::of(pod, "v1", "Pod").warning("FailedCreatePodSandBox", message)
}

/// A pod that only was new before the change needs no admission.
fn is_new_now(_: &Object, after: &Object) -> bool {
    is_new(after)
}

fn of_new(object: &Object, _: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| !pod.spec.node_name.is_empty())
        && is_new(object)
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

/// `true` if the change of the pod released resources of its node.
fn leaves_room(before: &Object, after: &Object) -> bool {
    let views = before.view::<PodView>().zip(after.view::<PodView>());
    views.is_some_and(|(before, after)| {
        after.is_finished() && !before.is_finished() || was_resized(before, after)
    })
}

/// `true` if the change of the pod requests a resize.
fn is_asking_now(before: &Object, after: &Object) -> bool {
    let is_asking = |object: &Object| object.view::<PodView>().is_some_and(|pod| is_asking(object, pod));
    is_asking(after) && (before.meta().generation != after.meta().generation || !is_asking(before))
}

fn of_asking(object: &Object, _: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| is_asking(object, pod))
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

/// A removed pod releases its address and resources to pods that wait for them.
fn of_gone(object: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| !pod.spec.node_name.is_empty())
        && [NEW_BY_NODE.name, RESIZES_BY_NODE.name, WITHOUT_ADDRESS_BY_NODE.name]
            .into_iter()
            .any(|waiting| world.by_index(waiting, &pod.spec.node_name).next().is_some())
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

/// Enqueues nodes with pods that may only wait for this ConfigMap or Secret before they get an address.
fn of_mountable(object: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    for held in world.by_index(HELD_BY_NAMESPACE.name, &object.meta().namespace) {
        let without = held.view::<PodView>().filter(|pod| is_without(held, pod));
        without.and_then(|pod| key_of("nodes", "", &pod.spec.node_name)).into_iter().for_each(&mut *wake);
    }
}

/// Returns the IPs of pods that are not finished.
fn taken<'a>(pods: &[(&'a Object, &'a PodView)]) -> BTreeSet<Cow<'a, str>> {
    let live = pods.iter().map(|(_, pod)| *pod).filter(|pod| !pod.is_finished());
    live.flat_map(|pod| pod.status.pod_ips.iter().map(|ip| Cow::from(ip.ip.as_str()))).collect()
}

/// Pod planner: syncs the admitted pods of simulated nodes.
pub struct Pods(pub Arc<Fleet>);

impl Planner for Pods {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node-pods"
    }

    fn role(&self) -> Option<Role> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, world: &WorldReader<'_>) -> Option<String> {
        Some(world.get(key)?.view::<PodView>()?.spec.node_name.clone())
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 5] = [
            Watch::via("pods", of_old),
            Watch::via("nodes", of_node),
            Watch::via("nodes", of_returned).when(returns),
            Watch::via("configmaps", of_needed),
            Watch::via("secrets", of_needed),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(pod) = object.view::<PodView>() else { return plan };
        let is_deleted = object.meta().is_deleted();
        // Deleting the mirror pod of a component does not stop the component; [`crate::control_plane`]
        // recreates the pod.
        if is_new(object)
            || pod.is_finished() && !is_deleted
            || is_deleted && self.0.component(object).is_some()
        {
            return plan;
        }
        if let Some(seat) = self.0.running(&pod.spec.node_name, world) {
            attend(&self.0, world, &seat, object, Decided::default(), now, &mut plan);
        }
        plan
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let nodes = (0..self.0.count).map(|number| self.0.name(number));
        let pods = nodes.flat_map(|node| world.by_index(BY_NODE.name, &node));
        pods.map(|pod| pod.key().clone()).collect()
    }
}

fn of_old(object: &Object, _: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    let has_node = |pod: &PodView| !pod.spec.node_name.is_empty();
    if object.view::<PodView>().is_some_and(has_node) && !is_new(object) {
        wake(object.key().clone());
    }
}

/// Enqueues pods of the namespace that wait for a ConfigMap or Secret.
fn of_needed(object: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    for pod in world.by_index(HELD_BY_NAMESPACE.name, &object.meta().namespace) {
        wake(pod.key().clone());
    }
}

/// Enqueues the pods of a changed node that has simulation annotations.
fn of_node(node: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    if is_played_with(node) {
        for pod in world.by_index(BY_NODE.name, &node.meta().name) {
            wake(pod.key().clone());
        }
    }
}

/// `true` if the node moved to another fleet, or became reachable again.
fn returns(before: &Object, after: &Object) -> bool {
    before.meta().annotations.get(FLEET) != after.meta().annotations.get(FLEET)
        || !is_heard(before) && is_heard(after)
}

/// Enqueues all pods of a node that this fleet just got.
fn of_returned(node: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    world.by_index(BY_NODE.name, &node.meta().name).for_each(|pod| wake(pod.key().clone()));
}
