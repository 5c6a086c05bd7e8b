//! Taint eviction: deletes pods that do not tolerate a `NoExecute` taint of their node, at once or when
//! `tolerationSeconds` have passed.
//!
//! The key is the node: one plan decides about all its pods. Toleration starts at `timeAdded` of the taint,
//! and for later pods at their start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Jump, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::node::{Node, Taint};
use setpoint_views::pod::{Pod, TolerationsByKey};
use setpoint_views::{Condition, condition};

use crate::conditions::is_same;
use crate::indexes::PODS_BY_NODE;

/// Reason and message of the condition `DisruptionTarget`.
const DISRUPTION_TARGET: (&str, &str) =
    ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");

/// The taint eviction controller.
pub struct TaintEviction;

/// Memo of a node with such taints.
#[derive(Clone, Debug, Default)]
pub struct TaintEvictionMemo {
    /// First observation of taints without `timeAdded`.
    first_seen: BTreeMap<String, Time>,
    /// Pods with a pending eviction.
    pending: BTreeSet<Key>,
}

impl Planner for TaintEviction {
    type Memo = TaintEvictionMemo;

    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:node-controller".to_owned()
    }

    fn clock_jumped(&self, memo: &mut TaintEvictionMemo, jump: Jump, _: Time) {
        memo.first_seen.values_mut().for_each(|since| *since = jump.shift(*since));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::primary("nodes"), Watch::mapped("pods", enqueue_for_pod)];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, TaintEvictionMemo>,
        now: Time,
        _: Seed,
    ) -> Plan<TaintEvictionMemo> {
        let mut plan = Plan::default();
        let Some(node) = world.get(key).and_then(|object| object.view::<Node>()) else { return plan };
        let taints: Vec<&Taint> = no_execute_taints(node).collect();
        for taint in taints.iter().filter(|taint| taint.time_added.is_none()) {
            let since = seen.memo.first_seen.get(&taint.key).copied().unwrap_or(now);
            plan.memo.first_seen.insert(taint.key.clone(), since);
        }
        let (mut marks, mut deletes, mut evicted) = (Vec::new(), Vec::new(), BTreeSet::new());
        if !taints.is_empty() {
            for object in world.by_index(PODS_BY_NODE, key.name()) {
                let Some(pod) = object.view::<Pod>().filter(|_| !object.meta().is_deleted()) else {
                    continue;
                };
                match eviction_time(object, pod, &taints, &plan.memo) {
                    Some(end) if end <= now => {
                        marks.extend(set_disruption_target(object, pod, DISRUPTION_TARGET, now));
                        deletes.push(delete(object));
                        evicted.insert(object.key());
                    }
                    Some(end) => {
                        plan.memo.pending.insert(object.key().clone());
                        plan.requeue_at(end);
                    }
                    None => {}
                }
            }
        }
        let canceled = seen.memo.pending.iter().filter(|pod| !plan.memo.pending.contains(*pod));
        let canceled = canceled
            .filter_map(|pod| world.get(pod))
            .filter(|pod| !pod.meta().is_deleted() && !evicted.contains(pod.key()));
        let events = canceled.map(|pod| {
            let message = format!("Cancelling deletion of Pod {}", pod.key().path());
            InvolvedObject::new(pod, "v1", "Pod").normal("TaintManagerEviction", message)
        });
        plan.events.extend(events.collect::<Vec<_>>());
        plan.stage(marks);
        plan.stage(deletes);
        plan
    }
}

fn no_execute_taints(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.taints.iter().filter(|taint| taint.effect == "NoExecute")
}

/// Enqueues the node of a pod if it has such taints.
fn enqueue_for_pod(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(pod) = object.view::<Pod>().filter(|pod| !pod.spec.node_name.is_empty()) else { return };
    let has_no_execute_taint = |(_, node): (&Object, &Node)| no_execute_taints(node).next().is_some();
    if world.view::<Node>("", &pod.spec.node_name).is_some_and(has_no_execute_taint)
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        enqueue(key);
    }
}

/// Time of a pod's eviction: the epoch if it does not tolerate a taint, `None` if it tolerates all forever.
fn eviction_time(object: &Object, pod: &Pod, taints: &[&Taint], memo: &TaintEvictionMemo) -> Option<Time> {
    let scheduled = condition(&pod.status.conditions, "PodScheduled")
        .and_then(|condition| condition.last_transition_time);
    let start = object.meta().created().max(scheduled.unwrap_or(Time::EPOCH));
    let tolerations = TolerationsByKey::new(&pod.spec.tolerations);
    let end = |taint: &&Taint| {
        let Some(toleration) = tolerations.first(taint) else {
            return Some(Time::EPOCH);
        };
        let seconds = toleration.toleration_seconds?;
        let added = taint.time_added.or_else(|| memo.first_seen.get(&taint.key).copied());
        let tolerated = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Some(added.unwrap_or(Time::EPOCH).max(start).after(tolerated))
    };
    taints.iter().filter_map(end).min()
}

/// Sets the condition `DisruptionTarget` of a pod.
pub(crate) fn set_disruption_target(
    object: &Object,
    pod: &Pod,
    (reason, message): (&str, &str),
    now: Time,
) -> Option<Action> {
    let kind = "DisruptionTarget";
    let existing = condition(&pod.status.conditions, kind);
    let mut new = Condition::new(kind, "True", reason, message, now);
    if existing.is_some_and(|existing| is_same(existing, &new)) {
        return None;
    }
    if let Some(existing) = existing.filter(|existing| existing.is_true()) {
        new.last_transition_time = existing.last_transition_time;
    }
    let status = value!({"status": {"conditions": (value_of(&[new]))}});
    Some(Write::merge(object, "status", status).strategic().at_any_revision().into())
}

fn delete(pod: &Object) -> Action {
    let message = format!("Marking for deletion Pod {}", pod.key().path());
    let event = InvolvedObject::new(pod, "v1", "Pod").normal("TaintManagerEviction", message);
    Action::from(Write::delete(pod)).on_done(event)
}

#[cfg(test)]
mod tests;
