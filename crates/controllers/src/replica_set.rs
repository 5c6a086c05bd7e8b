//! ReplicaSet controller: maintains the desired number of pods of one template.
//!
//! Adopts orphans that match the selector, and releases pods that no longer do. The status is what was
//! observed, before the changes of the plan.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Key, Time};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::replica_set::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};
use setpoint_views::resource_quota::ResourceQuota;
use setpoint_views::{Condition, condition};

use crate::indexes::PODS_BY_NODE;
use crate::owners::{self, Owner};
use crate::{pods, quota_headroom};

/// Condition of failed creations and deletions.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Maximum number of pods that one plan creates or deletes, as upstream's burst. The set is planned again at
/// once.
pub const BURST_REPLICAS: usize = 500;

/// Kind of pod set: ReplicaSet or ReplicationController.
pub(crate) struct PodSetKind {
    /// Group and version.
    pub api_version: &'static str,
    /// Name of the kind.
    pub name: &'static str,
    /// Resource of the kind.
    pub resource: &'static str,
    /// View of its objects.
    pub view: fn(&Object) -> Option<&ReplicaSet>,
    /// `true` if its status counts terminating pods.
    pub counts_terminating: bool,
}

const KIND: PodSetKind = PodSetKind {
    api_version: "apps/v1",
    name: "ReplicaSet",
    resource: <ReplicaSet as View>::RESOURCE,
    view: Object::view::<ReplicaSet>,
    counts_terminating: true,
};

/// The ReplicaSet controller.
pub struct ReplicaSetController;

impl Planner for ReplicaSetController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "replicaset-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary(KIND.resource),
            Watch::mapped("pods", enqueue_for_pod),
            Watch::mapped(ResourceQuota::RESOURCE, enqueue_for_quota).when(quota_headroom::admits_more),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        KIND.plan(key, world, seen, now)
    }
}

fn enqueue_for_pod(pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    KIND.enqueue(pod, world, enqueue);
}

fn enqueue_for_quota(quota: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    KIND.enqueue_rejected(quota, world, enqueue);
}

impl PodSetKind {
    /// Plans a set of this kind.
    pub fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(set) = (self.view)(object) else { return plan };
        let owner = Owner { object, api_version: self.api_version, kind: self.name };
        let claimed = pods::claim_pods(world, &owner, &set.spec.selector);
        let (active, inactive): (Vec<_>, Vec<_>) = claimed.pods.into_iter().partition(pods::is_active);
        let terminating = inactive.iter().filter(|(pod, _)| pod.meta().is_deleted()).count();
        let terminating = self.counts_terminating.then_some(terminating);

        let failure = seen.failure.filter(|failure| failure.resource.as_str() == "pods");
        let failure = failure.map(|failure| (failure.verb, failure.message.as_str()));
        let status = calculate_status(object, set, &active, terminating, failure, now);
        if status != set.status {
            plan.stage([Action::from(Write::status(object, value_of(&status)))]);
        }
        plan.stage(claimed.actions);
        if !object.meta().is_deleted() {
            manage_replicas(&mut plan, &owner, &set.spec, active.clone(), world);
        }
        pods::requeue_when_available(&mut plan, &active, set.spec.min_ready_seconds, now);
        plan
    }

    /// Enqueues the sets of this kind in the namespace of a quota whose pods could not be created.
    pub fn enqueue_rejected(&self, quota: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
        for object in world.in_namespace(self.resource, &quota.meta().namespace) {
            let conditions = (self.view)(object).map(|set| &set.status.conditions[..]).unwrap_or_default();
            if condition(conditions, REPLICA_FAILURE).is_some() {
                enqueue(object.key().clone());
            }
        }
    }

    /// Enqueues the sets of this kind that a pod concerns.
    pub fn enqueue(&self, pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
        owners::enqueue_owners(
            pod,
            world,
            (self.name, self.resource),
            |object| (self.view)(object).map(|set| &set.spec.selector),
            enqueue,
        );
    }
}

/// Creates missing pods, or deletes surplus ones, at most [`BURST_REPLICAS`] at a time.
fn manage_replicas(
    plan: &mut Plan,
    owner: &Owner<'_>,
    spec: &ReplicaSetSpec,
    mut active: Vec<pods::PodRef<'_>>,
    world: &WorldReader<'_>,
) {
    let desired = usize::try_from(spec.replicas).unwrap_or(0);
    if active.len() <= desired {
        let missing = desired - active.len();
        if missing > 0 {
            let new = pods::create(pods::from_template(&spec.template.0, owner), owner);
            plan.stage_at_most(BURST_REPLICAS, std::iter::repeat_n(new, missing));
        }
        return;
    }
    let related_per_node = related_per_node(owner, &active, world);
    active.sort_by_cached_key(|pod| {
        pods::deletion_order(pod, related_per_node.get(pod.1.spec.node_name.as_str()).copied().unwrap_or(0))
    });
    let surplus = active[..active.len() - desired].iter().map(|(pod, _)| pods::delete(pod, owner));
    plan.stage_at_most(BURST_REPLICAS, surplus);
}

/// Active pods of the set and its siblings per node: nodes with more of them lose pods first.
fn related_per_node<'a>(
    owner: &Owner<'_>,
    active: &[pods::PodRef<'a>],
    world: &WorldReader<'_>,
) -> BTreeMap<&'a str, usize> {
    let siblings: BTreeSet<&str> = match owner.object.meta().controller() {
        Some(parent) => world.owned(&parent.uid, "replicasets.apps").map(|set| &*set.meta().uid).collect(),
        None => [&*owner.object.meta().uid].into(),
    };
    let is_of_sibling =
        |pod: &Object| pod.meta().controller().is_some_and(|owner| siblings.contains(&*owner.uid));
    let nodes = active.iter().map(|(_, pod)| pod.spec.node_name.as_str()).filter(|node| !node.is_empty());
    let mut related_per_node = BTreeMap::new();
    for node in nodes {
        related_per_node.entry(node).or_insert_with(|| {
            let pods = world.by_index(PODS_BY_NODE, node).filter_map(|pod| Some((pod, pod.view()?)));
            pods.filter(pods::is_active).filter(|(pod, _)| is_of_sibling(pod)).count()
        });
    }
    related_per_node
}

/// Computes the status.
fn calculate_status(
    object: &Object,
    set: &ReplicaSet,
    active: &[pods::PodRef<'_>],
    terminating: Option<usize>,
    failure: Option<(&str, &str)>,
    now: Time,
) -> ReplicaSetStatus {
    let labels = set.spec.template.0.at(&["metadata", "labels"]).and_then(setpoint_api::Value::as_map);
    let is_fully_labeled = |pod: &Object| {
        labels.is_none_or(|labels| {
            labels.iter().all(|(name, value)| pod.meta().labels.get(name) == value.as_str())
        })
    };
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    // Counts of zero are omitted, except `replicas`.
    let nonzero = |number: usize| (number > 0).then(|| count(number));
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: nonzero(active.iter().filter(|(pod, _)| is_fully_labeled(pod)).count()),
        ready_replicas: nonzero(active.iter().filter(|(_, pod)| pod.is_ready()).count()),
        available_replicas: nonzero(
            active.iter().filter(|(_, pod)| pod.is_available(set.spec.min_ready_seconds, now)).count(),
        ),
        terminating_replicas: terminating.map(count),
        observed_generation: Some(object.meta().generation),
        conditions: update_conditions(&set.status.conditions, failure, now),
    }
}

/// Conditions with or without the failure, whose message stays while pods fail.
fn update_conditions(before: &[Condition], failure: Option<(&str, &str)>, now: Time) -> Vec<Condition> {
    let others = before.iter().filter(|condition| condition.kind != REPLICA_FAILURE).cloned();
    let existing = condition(before, REPLICA_FAILURE).cloned();
    let failed = failure.map(|(verb, message)| {
        let reason = if verb == "delete" { "FailedDelete" } else { "FailedCreate" };
        existing.unwrap_or_else(|| Condition::new(REPLICA_FAILURE, "True", reason, message, now))
    });
    others.chain(failed).collect()
}

#[cfg(test)]
mod tests;
