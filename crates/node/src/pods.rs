//! Pods on simulated nodes: one key each.
//!
//! [`Admission`] takes up the pods that are new on a node, and gives those that are not what they get later. It has
//! one key for each node, so that no two pods are given the same. All else is for the key that each pod is of [`Pods`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Key, Time};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::views::pod::{BY_NODE, NEW_BY_NODE, Pod as PodView};
use setpoint_reconcile::{Note, Object, Plan, Planner, Role, Seed, Seen, Watch, World};

use crate::addresses::{self, WITHOUT_ADDRESS_BY_NODE, is_without};
use crate::admission::{Room, refuse};
use crate::attend::{Decided, attend};
use crate::fleet::{FLEET, Fleet, KUBELET, Seat, is_heard, is_played_with};
use crate::images::hash;
use crate::needs::HELD_BY_NAMESPACE;
use crate::resizing::{RESIZES_BY_NODE, is_asking, was_resized};

/// How long after a pod came people are told that there is no address for it: telling changes nothing.
const TELL_WITHIN: Duration = Duration::from_secs(10);

/// Takes up new pods.
pub struct Admission(pub Arc<Fleet>);

impl Planner for Admission {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node-admission"
    }

    fn role(&self) -> Option<Role> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, _: &World) -> Option<String> {
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

    fn plan(&self, key: &Key, world: &World, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(seat) = self.0.running(key.name(), world) else { return plan };
        let new = world.indexed(NEW_BY_NODE.name, key.name());
        let mut new: Vec<_> = new.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let asking = world.indexed(RESIZES_BY_NODE.name, key.name());
        let asking: Vec<_> = asking.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let without = world.indexed(WITHOUT_ADDRESS_BY_NODE.name, key.name());
        new.extend(without.filter_map(|pod| Some((pod, pod.view::<PodView>()?))));
        if new.is_empty() && asking.is_empty() {
            return plan;
        }
        // Who came first is taken up first.
        new.sort_by_key(|(pod, _)| (pod.meta().created(), pod.key()));
        let pods = world.indexed(BY_NODE.name, key.name());
        let pods: Vec<_> = pods.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let mut room = Room::of(&seat, &pods);
        self.resize(asking, &seat, world, &mut room, now, &mut plan);
        let ranges = self.0.pod_ranges(&seat, now);
        if ranges.is_empty() {
            plan.look_again_at(seat.object.meta().created().after(crate::fleet::NETWORK_GRACE));
        }
        let mut taken = taken(&pods);
        for (pod, view) in new {
            // What runs in this process is there already.
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
                // It waits until another gives its address back.
                if !ranges.is_empty() && now.since(pod.committed()) < TELL_WITHIN {
                    plan.notes.push(no_address(pod, &ranges));
                }
                continue;
            };
            taken.extend(found.iter().cloned().map(Cow::from));
            let decided = Decided { addresses: Some(found), ..Decided::default() };
            attend(&self.0, world, &seat, pod, decided, now, &mut plan);
        }
        // What becomes of them is for [`Pods`] to see.
        if !ranges.is_empty() {
            plan.look_again = None;
        }
        plan
    }

    fn keys(&self, _: &World) -> Vec<Key> {
        (0..self.0.count).filter_map(|number| key_of("nodes", "", &self.0.name(number))).collect()
    }
}

impl Admission {
    /// Gives pods what they ask for, those first that others cannot push aside.
    fn resize<'a>(
        &self,
        mut asking: Vec<(&'a Object, &'a PodView)>,
        seat: &Seat<'_>,
        world: &World,
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

/// A pod that its node has not taken up.
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

/// That one was new is nothing to do any more.
fn is_new_now(_: &Object, after: &Object) -> bool {
    is_new(after)
}

fn of_new(object: &Object, _: &World, wake: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| !pod.spec.node_name.is_empty())
        && is_new(object)
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

/// Whether a pod has given back what it had of its node, or some of it.
fn leaves_room(before: &Object, after: &Object) -> bool {
    let views = before.view::<PodView>().zip(after.view::<PodView>());
    views.is_some_and(|(before, after)| {
        after.is_finished() && !before.is_finished() || was_resized(before, after)
    })
}

/// Whether a pod asks for other resources than it has since it was last written.
fn is_asking_now(before: &Object, after: &Object) -> bool {
    let is_asking = |object: &Object| object.view::<PodView>().is_some_and(|pod| is_asking(object, pod));
    is_asking(after) && (before.meta().generation != after.meta().generation || !is_asking(before))
}

fn of_asking(object: &Object, _: &World, wake: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| is_asking(object, pod))
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

/// One that goes leaves its address and its resources to those that wait for them.
fn of_gone(object: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| !pod.spec.node_name.is_empty())
        && [NEW_BY_NODE.name, RESIZES_BY_NODE.name, WITHOUT_ADDRESS_BY_NODE.name]
            .into_iter()
            .any(|waiting| world.indexed(waiting, &pod.spec.node_name).next().is_some())
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

/// What comes may be all that pods of its namespace wait for before they get their addresses.
fn of_mountable(object: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    for held in world.indexed(HELD_BY_NAMESPACE.name, &object.meta().namespace) {
        let without = held.view::<PodView>().filter(|pod| is_without(held, pod));
        without.and_then(|pod| key_of("nodes", "", &pod.spec.node_name)).into_iter().for_each(&mut *wake);
    }
}

/// The addresses that these pods have.
fn taken<'a>(pods: &[(&'a Object, &'a PodView)]) -> BTreeSet<Cow<'a, str>> {
    let live = pods.iter().map(|(_, pod)| *pod).filter(|pod| !pod.is_finished());
    live.flat_map(|pod| pod.status.pod_ips.iter().map(|ip| Cow::from(ip.ip.as_str()))).collect()
}

/// Looks after pods that their nodes have taken up.
pub struct Pods(pub Arc<Fleet>);

impl Planner for Pods {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node-pods"
    }

    fn role(&self) -> Option<Role> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, world: &World) -> Option<String> {
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

    fn plan(&self, key: &Key, world: &World, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(pod) = object.view::<PodView>() else { return plan };
        let is_deleted = object.meta().is_deleted();
        // What stands for a component does not stop when it is deleted: whoever keeps it makes it anew.
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

    fn keys(&self, world: &World) -> Vec<Key> {
        let nodes = (0..self.0.count).map(|number| self.0.name(number));
        let pods = nodes.flat_map(|node| world.indexed(BY_NODE.name, &node));
        pods.map(|pod| pod.key().clone()).collect()
    }
}

fn of_old(object: &Object, _: &World, wake: &mut dyn FnMut(Key)) {
    let has_node = |pod: &PodView| !pod.spec.node_name.is_empty();
    if object.view::<PodView>().is_some_and(has_node) && !is_new(object) {
        wake(object.key().clone());
    }
}

/// What comes may be what pods of its namespace wait for.
fn of_needed(object: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    for pod in world.indexed(HELD_BY_NAMESPACE.name, &object.meta().namespace) {
        wake(pod.key().clone());
    }
}

/// What people do to a node concerns the pods on it.
fn of_node(node: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    if is_played_with(node) {
        for pod in world.indexed(BY_NODE.name, &node.meta().name) {
            wake(pod.key().clone());
        }
    }
}

/// Whether a node has come to another fleet, or is heard again.
fn returns(before: &Object, after: &Object) -> bool {
    before.meta().annotations.get(FLEET) != after.meta().annotations.get(FLEET)
        || !is_heard(before) && is_heard(after)
}

/// Whoever has a node from now on looks after the pods on it.
fn of_returned(node: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    world.indexed(BY_NODE.name, &node.meta().name).for_each(|pod| wake(pod.key().clone()));
}
