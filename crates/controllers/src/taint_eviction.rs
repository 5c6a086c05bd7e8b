//! Taint eviction: deletes pods that do not tolerate a `NoExecute` taint of their node, at once or when
//! `tolerationSeconds` have passed.
//!
//! The key is the node: one plan decides about all its pods. Toleration starts at `timeAdded` of the taint,
//! and for later pods at their start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Act, Jump, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::node::{Node, Taint};
use setpoint_views::pod::{Pod, TolerationsByKey};
use setpoint_views::{Condition, condition};

use crate::indexes::PODS_BY_NODE;

/// Reason and message of the condition `DisruptionTarget`.
const WHY: (&str, &str) = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");

/// The taint eviction controller.
pub struct TaintEviction;

/// Memo of a node with such taints.
#[derive(Clone, Debug, Default)]
pub struct Tainted {
    /// First observation of taints without `timeAdded`.
    first_seen: BTreeMap<String, Time>,
    /// Pods with a pending eviction.
    waiting: BTreeSet<Key>,
}

impl Planner for TaintEviction {
    type Memo = Tainted;

    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:node-controller".to_owned()
    }

    fn clock_jumped(&self, memo: &mut Tainted, jump: Jump, _: Time) {
        memo.first_seen.values_mut().for_each(|since| *since = jump.shift(*since));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::itself("nodes"), Watch::via("pods", of_pod)];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Tainted>,
        now: Time,
        _: Seed,
    ) -> Plan<Tainted> {
        let mut plan = Plan::default();
        let Some(node) = world.get(key).and_then(|object| object.view::<Node>()) else { return plan };
        let taints: Vec<&Taint> = evicting(node).collect();
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
                match ends_at(object, pod, &taints, &plan.memo) {
                    Some(end) if end <= now => {
                        marks.extend(mark(object, pod, WHY, now));
                        deletes.push(delete(object));
                        evicted.insert(object.key());
                    }
                    Some(end) => {
                        plan.memo.waiting.insert(object.key().clone());
                        plan.look_again_at(end);
                    }
                    None => {}
                }
            }
        }
        let spared = seen.memo.waiting.iter().filter(|pod| !plan.memo.waiting.contains(*pod));
        let spared = spared
            .filter_map(|pod| world.get(pod))
            .filter(|pod| !pod.meta().is_deleted() && !evicted.contains(pod.key()));
        let notes = spared.map(|pod| {
            let message = format!("Cancelling deletion of Pod {}", pod.key().path());
            Subject::of(pod, "v1", "Pod").normal("TaintManagerEviction", message)
        });
        plan.notes.extend(notes.collect::<Vec<_>>());
        plan.stage(marks);
        plan.stage(deletes);
        plan
    }
}

fn evicting(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.taints.iter().filter(|taint| taint.effect == "NoExecute")
}

/// Enqueues the node of a pod if it has such taints.
fn of_pod(object: &Object, world: &WorldReader<'_>, wake: &mut dyn FnMut(Key)) {
    let Some(pod) = object.view::<Pod>().filter(|pod| !pod.spec.node_name.is_empty()) else { return };
    let tainted = |(_, node): (&Object, &Node)| evicting(node).next().is_some();
    if world.view::<Node>("", &pod.spec.node_name).is_some_and(tainted)
        && let Some(key) = key_of("nodes", "", &pod.spec.node_name)
    {
        wake(key);
    }
}

/// Time of a pod's eviction: the epoch if it does not tolerate a taint, `None` if it tolerates all for ever.
fn ends_at(object: &Object, pod: &Pod, taints: &[&Taint], memo: &Tainted) -> Option<Time> {
    let scheduled =
        condition(&pod.status.conditions, "PodScheduled").and_then(|one| one.last_transition_time);
    let came = object.meta().created().max(scheduled.unwrap_or(Time::EPOCH));
    let tolerations = TolerationsByKey::new(&pod.spec.tolerations);
    let end = |taint: &&Taint| {
        let Some(toleration) = tolerations.first(taint) else {
            return Some(Time::EPOCH);
        };
        let seconds = toleration.toleration_seconds?;
        let added = taint.time_added.or_else(|| memo.first_seen.get(&taint.key).copied());
        let patience = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        Some(added.unwrap_or(Time::EPOCH).max(came).after(patience))
    };
    taints.iter().filter_map(end).min()
}

/// Sets the condition `DisruptionTarget` of a pod.
pub(crate) fn mark(object: &Object, pod: &Pod, (reason, message): (&str, &str), now: Time) -> Option<Act> {
    let kind = "DisruptionTarget";
    let known = condition(&pod.status.conditions, kind);
    if known.is_some_and(|known| known.is_true() && known.reason == reason && &*known.message == message) {
        return None;
    }
    let mut new = Condition::new(kind, "True", reason, message, now);
    if let Some(known) = known.filter(|known| known.is_true()) {
        new.last_transition_time = known.last_transition_time;
    }
    let status = value!({"status": {"conditions": (value_of(&[new]))}});
    Some(Write::merge(object, "status", status).strategic().at_any_revision().into())
}

fn delete(pod: &Object) -> Act {
    let message = format!("Marking for deletion Pod {}", pod.key().path());
    let note = Subject::of(pod, "v1", "Pod").normal("TaintManagerEviction", message);
    Act::from(Write::delete(pod)).on_done(note)
}

#[cfg(test)]
mod tests;
