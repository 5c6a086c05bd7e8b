//! Planners of pods on simulated nodes.
//!
//! [`PodAdmission`] admits new pods, allocates pod IPs and decides resizes. It has one key per node, so that no
//! two pods get the same resources. [`Pods`] has one key per pod and does everything else.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Key, Time};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{
    ClientIdentity, EventRecord, Object, Plan, Planner, Seed, Seen, Watch, WorldReader,
};
use setpoint_views::pod::{BY_NODE, NEW_BY_NODE, Pod as PodView};

use crate::admission::{AdmissionState, reject_pod};
use crate::allocation::{PENDING_RESIZES_BY_NODE, has_changed_allocation, has_pending_resize};
use crate::fleet::{FLEET_ANNOTATION, Fleet, KUBELET, NodeRef, has_simulation_annotations, is_reachable};
use crate::images::stable_hash;
use crate::pod_ips::{WITHOUT_IP_BY_NODE, allocate_ips, is_waiting_for_ip};
use crate::pod_sync::{AdmissionDecision, sync_pod};
use crate::references::WAITING_FOR_REFERENCES_BY_NAMESPACE;

/// Age of a pod up to which a missing pod IP emits Events: no write marks them as emitted.
const EVENT_WINDOW: Duration = Duration::from_secs(10);

/// Admission planner: admits new pods of a node.
pub struct PodAdmission(pub Arc<Fleet>);

impl Planner for PodAdmission {
    type Memo = ();

    fn name(&self) -> &'static str {
        "node-admission"
    }

    fn identity(&self) -> Option<ClientIdentity> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, _: &WorldReader<'_>) -> Option<String> {
        Some(key.name().to_owned())
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 6] = [
            Watch::primary("nodes"),
            Watch::mapped("pods", enqueue_node_of_new_pod).when(is_still_new),
            Watch::mapped("pods", enqueue_node_of_removed_pod).when(releases_resources),
            Watch::mapped("pods", enqueue_node_of_resize).when(requests_resize),
            Watch::mapped("configmaps", enqueue_nodes_of_waiting_pods),
            Watch::mapped("secrets", enqueue_nodes_of_waiting_pods),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(node) = self.0.running_node(key.name(), world) else { return plan };
        let new = world.by_index(NEW_BY_NODE.name, key.name());
        let mut new: Vec<_> = new.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let resizing = world.by_index(PENDING_RESIZES_BY_NODE.name, key.name());
        let resizing: Vec<_> = resizing.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let waiting_for_ip = world.by_index(WITHOUT_IP_BY_NODE.name, key.name());
        new.extend(waiting_for_ip.filter_map(|pod| Some((pod, pod.view::<PodView>()?))));
        if new.is_empty() && resizing.is_empty() {
            return plan;
        }
        // Pods are admitted in the order of their creation.
        new.sort_by_key(|(pod, _)| (pod.meta().created(), pod.key()));
        let pods = world.by_index(BY_NODE.name, key.name());
        let pods: Vec<_> = pods.filter_map(|pod| Some((pod, pod.view::<PodView>()?))).collect();
        let mut state = AdmissionState::new(&node, &pods);
        self.resize(resizing, &node, world, &mut state, now, &mut plan);
        let pod_cidrs = self.0.pod_cidrs_of(&node, now);
        if pod_cidrs.is_empty() {
            plan.requeue_at(node.object.meta().created().after(crate::fleet::POD_CIDR_TIMEOUT));
        }
        let mut used_ips = used_ips(&pods);
        for (pod, view) in new {
            // Components of this process are already running, so they are not subject to admission.
            if is_new(pod)
                && self.0.component(pod).is_none()
                && let Err(rejection) = state.admit(pod, view)
            {
                reject_pod(pod, &rejection, now).into_iter().for_each(|act| plan.push(act));
                continue;
            }
            let pod_ips = if view.spec.host_network {
                Some(Vec::new())
            } else {
                allocate_ips(&pod_cidrs, &used_ips, stable_hash(&pod.meta().uid))
            };
            let Some(pod_ips) = pod_ips else {
                // The pod waits until another pod releases its address.
                if !pod_cidrs.is_empty() && now.since(pod.commit_time()) < EVENT_WINDOW {
                    plan.events.push(no_ip_event(pod, &pod_cidrs));
                }
                continue;
            };
            used_ips.extend(pod_ips.iter().cloned().map(Cow::from));
            let decision = AdmissionDecision { pod_ips: Some(pod_ips), ..AdmissionDecision::default() };
            sync_pod(&self.0, world, &node, pod, decision, now, &mut plan);
        }
        // [`Pods`] requeues the admitted pods itself.
        if !pod_cidrs.is_empty() {
            plan.requeue_at = None;
        }
        plan
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        (0..self.0.count).filter_map(|number| key_of("nodes", "", &self.0.node_name(number))).collect()
    }
}

impl PodAdmission {
    /// Decides pending resizes, pods of higher priority first.
    fn resize<'a>(
        &self,
        mut resizing: Vec<(&'a Object, &'a PodView)>,
        node: &NodeRef<'_>,
        world: &WorldReader<'_>,
        state: &mut AdmissionState<'_>,
        now: Time,
        plan: &mut Plan,
    ) {
        resizing.sort_by_key(|(pod, view)| {
            (std::cmp::Reverse(view.spec.priority.unwrap_or(0)), pod.meta().created(), pod.key())
        });
        for (pod, view) in resizing {
            let decision =
                AdmissionDecision { resize: Some(state.resize(pod, view)), ..AdmissionDecision::default() };
            sync_pod(&self.0, world, node, pod, decision, now, plan);
        }
    }
}

/// `true` if the node has not admitted the pod yet.
fn is_new(object: &Object) -> bool {
    !object.meta().is_deleted() && object.view::<PodView>().is_some_and(PodView::is_new)
}

fn no_ip_event(pod: &Object, pod_cidrs: &[String]) -> EventRecord {
    let message = format!(
        "Failed to create pod sandbox: failed to allocate: no IP addresses available in range set: {}",
        pod_cidrs.join(",")
    );
    InvolvedObject::new(pod, "v1", "Pod").warning("FailedCreatePodSandBox", message)
}

/// A pod that only was new before the change needs no admission.
fn is_still_new(_: &Object, after: &Object) -> bool {
    is_new(after)
}

fn enqueue_node_of_new_pod(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| !pod.spec.node_name.is_empty())
        && is_new(object)
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        enqueue(key);
    }
}

/// `true` if the change of the pod released resources of its node.
fn releases_resources(before: &Object, after: &Object) -> bool {
    let views = before.view::<PodView>().zip(after.view::<PodView>());
    views.is_some_and(|(before, after)| {
        after.is_finished() && !before.is_finished() || has_changed_allocation(before, after)
    })
}

/// `true` if the change of the pod requests a resize.
fn requests_resize(before: &Object, after: &Object) -> bool {
    let has_pending_resize =
        |object: &Object| object.view::<PodView>().is_some_and(|pod| has_pending_resize(object, pod));
    has_pending_resize(after)
        && (before.meta().generation != after.meta().generation || !has_pending_resize(before))
}

fn enqueue_node_of_resize(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| has_pending_resize(object, pod))
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        enqueue(key);
    }
}

/// A removed pod releases its address and resources to pods that wait for them.
fn enqueue_node_of_removed_pod(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if let Some(pod) = object.view::<PodView>().filter(|pod| !pod.spec.node_name.is_empty())
        && [NEW_BY_NODE.name, PENDING_RESIZES_BY_NODE.name, WITHOUT_IP_BY_NODE.name]
            .into_iter()
            .any(|waiting| world.by_index(waiting, &pod.spec.node_name).next().is_some())
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        enqueue(key);
    }
}

/// Enqueues nodes with pods that may only wait for this ConfigMap or Secret before they get an address.
fn enqueue_nodes_of_waiting_pods(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for waiting in world.by_index(WAITING_FOR_REFERENCES_BY_NAMESPACE.name, &object.meta().namespace) {
        let waiting_for_ip = waiting.view::<PodView>().filter(|pod| is_waiting_for_ip(waiting, pod));
        waiting_for_ip
            .and_then(|pod| key_of("nodes", "", &pod.spec.node_name))
            .into_iter()
            .for_each(&mut *enqueue);
    }
}

/// Returns the IPs of pods that are not finished.
fn used_ips<'a>(pods: &[(&'a Object, &'a PodView)]) -> BTreeSet<Cow<'a, str>> {
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

    fn identity(&self) -> Option<ClientIdentity> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, world: &WorldReader<'_>) -> Option<String> {
        Some(world.get(key)?.view::<PodView>()?.spec.node_name.clone())
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 5] = [
            Watch::mapped("pods", enqueue_admitted_pod),
            Watch::mapped("nodes", enqueue_pods_of_simulated_node),
            Watch::mapped("nodes", enqueue_pods_of_node).when(becomes_reachable),
            Watch::mapped("configmaps", enqueue_waiting_pods),
            Watch::mapped("secrets", enqueue_waiting_pods),
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
        if let Some(node) = self.0.running_node(&pod.spec.node_name, world) {
            sync_pod(&self.0, world, &node, object, AdmissionDecision::default(), now, &mut plan);
        }
        plan
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let nodes = (0..self.0.count).map(|number| self.0.node_name(number));
        let pods = nodes.flat_map(|node| world.by_index(BY_NODE.name, &node));
        pods.map(|pod| pod.key().clone()).collect()
    }
}

fn enqueue_admitted_pod(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let has_node = |pod: &PodView| !pod.spec.node_name.is_empty();
    if object.view::<PodView>().is_some_and(has_node) && !is_new(object) {
        enqueue(object.key().clone());
    }
}

/// Enqueues pods of the namespace that wait for a ConfigMap or Secret.
fn enqueue_waiting_pods(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for pod in world.by_index(WAITING_FOR_REFERENCES_BY_NAMESPACE.name, &object.meta().namespace) {
        enqueue(pod.key().clone());
    }
}

/// Enqueues the pods of a changed node that has simulation annotations.
fn enqueue_pods_of_simulated_node(node: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if has_simulation_annotations(node) {
        for pod in world.by_index(BY_NODE.name, &node.meta().name) {
            enqueue(pod.key().clone());
        }
    }
}

/// `true` if the node moved to another fleet, or became reachable again.
fn becomes_reachable(before: &Object, after: &Object) -> bool {
    before.meta().annotations.get(FLEET_ANNOTATION) != after.meta().annotations.get(FLEET_ANNOTATION)
        || !is_reachable(before) && is_reachable(after)
}

/// Enqueues all pods of a node that this fleet just got.
fn enqueue_pods_of_node(node: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    world.by_index(BY_NODE.name, &node.meta().name).for_each(|pod| enqueue(pod.key().clone()));
}
