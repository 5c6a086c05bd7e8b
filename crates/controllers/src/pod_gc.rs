//! Pod garbage collector: deletes pods of missing nodes, deleted pods that were never bound, and terminated
//! pods above a threshold.
//!
//! Each pod is a key. One more key, which names no pod, stands for the number of terminated pods.

use std::time::Duration;

use setpoint_api::{Key, Time, Value, rfc3339, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Jump, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::pod::Pod;

use crate::indexes::{PODS_BY_NODE, TERMINATED_PODS};

/// Time for which a node must be missing before its pods are deleted.
const QUARANTINE: Duration = Duration::from_secs(40);
/// Minimum interval between two counts of terminated pods.
const COUNT_INTERVAL: Duration = Duration::from_secs(20);
/// Default number of terminated pods to keep.
pub const TERMINATED_THRESHOLD: usize = 12_500;
/// Taint of a node that is out of service.
pub(crate) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Name in the key for all terminated pods.
const TERMINATED_KEY: &str = "terminated";

/// The pod garbage collector.
pub struct PodGcController {
    /// Maximum number of terminated pods to keep (0 keeps all).
    pub terminated_threshold: usize,
}

impl Planner for PodGcController {
    /// Of a pod, the time since which its node is missing; of the key for terminated pods, the time of the
    /// last count.
    type Memo = Option<Time>;

    fn name(&self) -> &'static str {
        "pod-garbage-collector"
    }

    fn clock_jumped(&self, memo: &mut Option<Time>, jump: Jump, _: Time) {
        *memo = memo.map(|since| jump.shift(since));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] =
            [Watch::mapped(Pod::RESOURCE, enqueue_for_pod), Watch::mapped("nodes", enqueue_for_node)];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let pods = world
            .all(Pod::RESOURCE)
            .filter(|pod| pod.view().is_some_and(|view| may_be_orphaned(pod, view, world)));
        let pods = pods.map(|pod| pod.key().clone());
        pods.chain(key_of(Pod::RESOURCE, "", TERMINATED_KEY)).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Option<Time>>,
        now: Time,
        _: Seed,
    ) -> Plan<Option<Time>> {
        if key.namespace().is_none() {
            return self.plan_terminated(world, seen.memo, now);
        }
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(pod) = object.view::<Pod>() else { return plan };
        let is_deleted = object.meta().is_deleted();
        if pod.spec.node_name.is_empty() {
            if is_deleted {
                force_delete(object, pod, None, now, &mut plan);
            }
            return plan;
        }
        match world.find("nodes", "", &pod.spec.node_name) {
            Some(node) if is_deleted && is_out_of_service(node) => {
                force_delete(object, pod, None, now, &mut plan)
            }
            Some(_) => {}
            None => {
                let since = seen.memo.unwrap_or(now);
                plan.memo = Some(since);
                let end = since.after(QUARANTINE);
                if end > now {
                    plan.requeue_at(end);
                } else {
                    force_delete(object, pod, Some("PodGC: node no longer exists"), now, &mut plan);
                }
            }
        }
        plan
    }
}

impl PodGcController {
    /// Deletes terminated pods above the threshold: evicted ones first, then the oldest.
    fn plan_terminated(
        &self,
        world: &WorldReader<'_>,
        counted: Option<Time>,
        now: Time,
    ) -> Plan<Option<Time>> {
        let mut plan = Plan { memo: counted, ..Plan::default() };
        if self.terminated_threshold == 0 {
            return plan;
        }
        // Counting is not cheap, and pods terminate all the time.
        if let Some(next) = counted.map(|counted| counted.after(COUNT_INTERVAL)).filter(|next| *next > now) {
            plan.requeue_at(next);
            return plan;
        }
        plan.memo = Some(now);
        let excess = world.by_index(TERMINATED_PODS, "").count().saturating_sub(self.terminated_threshold);
        if excess == 0 {
            return plan;
        }
        let mut terminated: Vec<(&Object, &Pod)> =
            world.by_index(TERMINATED_PODS, "").filter_map(|pod| Some((pod, pod.view()?))).collect();
        terminated.sort_by_cached_key(|(object, pod)| {
            let is_evicted = pod.status.phase == "Failed" && pod.status.reason == "Evicted";
            (!is_evicted, object.meta().created(), object.meta().name.clone())
        });
        let to_delete = terminated.iter().take(excess).filter(|(pod, _)| !is_finalizing(pod));
        plan.stage(to_delete.map(|(pod, _)| Action::from(Write::delete(pod).with_grace_period(0))));
        if plan.deferred > 0 {
            // The rest is planned at once, not at the next count.
            plan.memo = None;
        }
        plan
    }
}

/// `true` if the pod is deleted and only waits for its finalizers.
fn is_finalizing(pod: &Object) -> bool {
    pod.meta().is_deleted() && pod.meta().deletion_grace_period_seconds == Some(0)
}

/// Sets the phase `Failed` unless the pod is terminated, and deletes it with a grace period of zero.
fn force_delete(object: &Object, pod: &Pod, message: Option<&str>, now: Time, plan: &mut Plan<Option<Time>>) {
    if !pod.is_finished() {
        let mut status = value!({"phase": "Failed"});
        if let Some(message) = message {
            let time = rfc3339::Seconds(now).to_string();
            let target = value!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": (message),
                "lastTransitionTime": (time),
            });
            status.make_map().insert("conditions", Value::List(vec![target]));
        }
        let patch = value!({"status": (status)});
        plan.stage([Action::from(Write::merge(object, "status", patch).strategic().at_any_revision())]);
    }
    if !is_finalizing(object) {
        plan.stage([Action::from(Write::delete(object).with_grace_period(0))]);
    }
}

/// `true` if a node is not ready and has the out-of-service taint.
fn is_out_of_service(node: &Object) -> bool {
    let node = node.value();
    let list =
        |path: &[&str]| node.at(path).and_then(Value::as_list).map(<[Value]>::to_vec).unwrap_or_default();
    let is_ready =
        |condition: &Value| condition.str_at(&["type"]) == "Ready" && condition.str_at(&["status"]) == "True";
    let is_out_of_service_taint = |taint: &Value| taint.str_at(&["key"]) == OUT_OF_SERVICE;
    !list(&["status", "conditions"]).iter().any(is_ready)
        && list(&["spec", "taints"]).iter().any(is_out_of_service_taint)
}

/// Enqueues a pod that has a node or was deleted, and the key for terminated pods if the pod is terminated.
fn enqueue_for_pod(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(pod) = object.view::<Pod>() else { return };
    if may_be_orphaned(object, pod, world) {
        enqueue(object.key().clone());
    }
    if pod.is_finished()
        && let Some(key) = key_of(Pod::RESOURCE, "", TERMINATED_KEY)
    {
        enqueue(key);
    }
}

/// `true` if a pod may be orphaned: it was deleted, or its node does not exist.
fn may_be_orphaned(object: &Object, pod: &Pod, world: &WorldReader<'_>) -> bool {
    let node = pod.spec.node_name.as_str();
    object.meta().is_deleted() || !node.is_empty() && world.find("nodes", "", node).is_none()
}

/// Enqueues the pods of a node that is deleted or out of service.
fn enqueue_for_node(node: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    // Nodes are written often, so the encoded bytes are searched before they are decoded.
    let mentions_taint =
        || node.bytes().windows(OUT_OF_SERVICE.len()).any(|part| part == OUT_OF_SERVICE.as_bytes());
    if world.get(node.key()).is_some() && !mentions_taint() {
        return;
    }
    for pod in world.by_index(PODS_BY_NODE, &node.meta().name) {
        enqueue(pod.key().clone());
    }
}

#[cfg(test)]
mod tests;
