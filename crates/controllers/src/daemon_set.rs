//! DaemonSet controller: one pod on every eligible node, and none elsewhere.
//!
//! The target node of a pod is in its node affinity; the scheduler binds it there. [`nodes`] decides which
//! nodes are eligible, [`rolling_update`] which pods are replaced by those of a newer template.

mod nodes;
mod rolling_update;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Action, Jump, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::daemon_set::{DaemonSet, DaemonSetStatus};

use crate::indexes::PODS_BY_NODE;
use crate::owners::{self, Owner};
use crate::placement::{Placement, Tolerations};
use crate::pods;
use crate::revisions::{self, Latest, RevisionHistory};
use nodes::{NodeEligibility, Nodes};

/// Label of revisions and pods with the hash of the template.
const HASH: &str = "controller-revision-hash";
/// Annotation and label with the generation of the template, from before there were revisions. Pods still
/// carry it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const DAEMON_SETS: &str = "daemonsets.apps";
/// Minimum delay before a failed pod is replaced on its node.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// Maximum delay.
const BACKOFF_MAX: Duration = Duration::from_secs(15 * 60);

/// Maximum number of pods that one plan creates, and that it deletes, as upstream's burst. The set is planned
/// again at once.
pub const BURST_REPLICAS: usize = 250;

/// The DaemonSet controller.
pub struct DaemonSetController;

/// Time of the last replacement of a failed pod by node, and the delay of the next one.
type Memo = BTreeMap<String, (Time, Duration)>;

impl Planner for DaemonSetController {
    type Memo = Memo;

    fn name(&self) -> &'static str {
        "daemonset-controller"
    }

    fn user(&self) -> String {
        // The name of the account differs from that of the controller.
        "system:serviceaccount:kube-system:daemon-set-controller".to_owned()
    }

    fn clock_jumped(&self, memo: &mut Memo, jump: Jump, _: Time) {
        memo.values_mut().for_each(|(at, _)| *at = jump.shift(*at));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 4] = [
            Watch::primary(DAEMON_SETS),
            Watch::mapped("pods", enqueue_for_dependent),
            Watch::mapped("controllerrevisions.apps", enqueue_for_dependent),
            Watch::mapped("nodes", enqueue_for_node),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Memo>,
        now: Time,
        _: Seed,
    ) -> Plan<Memo> {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(set) = object.view::<DaemonSet>() else { return plan };
        if set.spec.selector.is_everything() || object.meta().is_deleted() {
            return plan;
        }
        let owner = Owner { object, api_version: "apps/v1", kind: "DaemonSet" };
        let history = RevisionHistory::of(world, &owner, &set.spec.selector);
        let selects = |pod: &Object| set.spec.selector.matches(|name| pod.meta().labels.get(name));
        let claimed = pods::claim_pods_where(world, &owner, selects, |_| true);
        if !history.actions.is_empty() || !claimed.actions.is_empty() {
            // The next plan starts from the adoptions and releases.
            plan.stage(history.actions);
            plan.stage(claimed.actions);
            return plan.with_memo(seen.memo.clone());
        }
        let collisions = set.status.collision_count.unwrap_or(0);
        let latest = history.latest(world, &owner, &set.spec.template.0, HASH, collisions);
        let nodes = Nodes::of(world, set, &claimed.pods);
        let rollout = DaemonSetRollout { owner: &owner, set, history: &history, latest: &latest, nodes, now };
        rollout.plan(&claimed.pods, seen.memo.clone())
    }
}

/// Inputs of a plan of one set.
struct DaemonSetRollout<'a> {
    owner: &'a Owner<'a>,
    set: &'a DaemonSet,
    history: &'a RevisionHistory<'a>,
    latest: &'a Latest,
    nodes: Nodes<'a>,
    now: Time,
}

impl DaemonSetRollout<'_> {
    fn plan(&self, pods: &[pods::PodRef<'_>], mut memo: Memo) -> Plan<Memo> {
        let mut plan = Plan::default();
        plan.stage(self.latest.action.clone());
        let status = self.status();
        if status != self.set.status {
            plan.stage([Action::from(Write::status(self.owner.object, value_of(&status)))]);
        }
        pods::requeue_when_available(&mut plan, pods, self.set.spec.min_ready_seconds, self.now);
        memo.retain(|_, (at, _)| self.now.since(*at) < BACKOFF_MAX * 2);
        let mut changes = DaemonPodChanges::default();
        nodes::manage(self, &mut changes, &mut memo, &mut plan);
        if changes.is_empty() && self.set.spec.update_strategy.kind == "RollingUpdate" {
            // Counts are valid only when every node has its pod.
            rolling_update::rolling_update(self, &mut changes);
        }
        for waiting in [changes.nodes_needing_pods.len(), changes.pods_to_delete.len()] {
            plan.defer(waiting.saturating_sub(BURST_REPLICAS));
        }
        let deletions = changes.pods_to_delete.into_iter().take(BURST_REPLICAS);
        let deletions = deletions.map(|pod| pods::delete(pod, self.owner));
        let creations = changes.nodes_needing_pods.iter().take(BURST_REPLICAS);
        let creations = creations.map(|node| pods::create(self.new_pod(node), self.owner));
        plan.stage(creations.chain(deletions));
        let hashes: BTreeSet<&str> = pods.iter().filter_map(|(pod, _)| pod.meta().labels.get(HASH)).collect();
        let mut used: BTreeSet<&str> = [&*self.latest.name].into();
        used.extend(self.history.all.iter().filter_map(|(revision, _)| {
            let meta = revision.meta();
            hashes.contains(meta.labels.get(HASH)?).then_some(&*meta.name)
        }));
        plan.stage(revisions::truncate_history(self.history, &used, self.set.spec.revision_history_limit));
        plan.with_memo(memo)
    }

    fn status(&self) -> DaemonSetStatus {
        let mut status = DaemonSetStatus {
            observed_generation: self.owner.object.meta().generation,
            collision_count: match self.latest.collisions {
                0 => self.set.status.collision_count,
                collisions => Some(collisions),
            },
            conditions: self.set.status.conditions.clone(),
            ..DaemonSetStatus::default()
        };
        for node_pods in self.nodes.by_node.values() {
            let Some((_, eligibility)) = node_pods.node else { continue };
            let first = node_pods.pods.first();
            if eligibility != NodeEligibility::ShouldRun {
                status.number_misscheduled += i64::from(first.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = first else { continue };
            status.current_number_scheduled += 1;
            status.number_ready += i64::from(pod.1.is_ready());
            status.number_available += i64::from(self.is_available(pod));
            status.updated_number_scheduled += i64::from(self.is_latest(pod));
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        status
    }

    fn is_available(&self, (_, pod): &pods::PodRef<'_>) -> bool {
        pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// `true` if a pod is of the latest template.
    fn is_latest(&self, (pod, _): &pods::PodRef<'_>) -> bool {
        pod.meta().labels.get(HASH) == Some(&self.latest.hash)
    }

    /// New pod for a node.
    fn new_pod(&self, node: &str) -> Value {
        let mut template = self.set.spec.template.0.clone();
        let spec = template.ensure_map("spec");
        spec.insert("tolerations", nodes::tolerations(&self.set.spec.template.0));
        let term = value!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [(node)]}]});
        let required = spec
            .ensure_map("affinity")
            .ensure_map("nodeAffinity")
            .ensure_map("requiredDuringSchedulingIgnoredDuringExecution");
        required.insert("nodeSelectorTerms", value!([(term)]));
        let labels = template.ensure_map("metadata").ensure_map("labels");
        labels.insert(HASH, &*self.latest.hash);
        if let Some(generation) = self.owner.object.meta().annotations.get(TEMPLATE_GENERATION) {
            labels.insert("pod-template-generation", generation);
        }
        pods::from_template(&template, self.owner)
    }
}

/// Creations and deletions of a plan.
#[derive(Default)]
struct DaemonPodChanges<'a> {
    /// Nodes that get a pod.
    nodes_needing_pods: Vec<&'a str>,
    /// Pods to delete.
    pods_to_delete: Vec<&'a Object>,
}

impl DaemonPodChanges<'_> {
    fn is_empty(&self) -> bool {
        self.nodes_needing_pods.is_empty() && self.pods_to_delete.is_empty()
    }
}

fn enqueue_for_dependent(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    owners::enqueue_owners(
        object,
        world,
        ("DaemonSet", DAEMON_SETS),
        |object| object.view::<DaemonSet>().map(|set| &set.spec.selector),
        enqueue,
    );
}

/// Enqueues the sets that should have a pod on a node and have none, or the other way round. Most changes of
/// a node, such as heartbeats, concern no set.
fn enqueue_for_node(node: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let is_gone = world.get(node.key()).is_none();
    for (object, set) in world.views::<DaemonSet>() {
        let tolerations = nodes::tolerations(&set.spec.template.0);
        let placement = Placement::of(set.spec.template.0.get("spec").unwrap_or(&Value::Null));
        let should_run = NodeEligibility::of(set, &placement, &Tolerations::of(&tolerations), node)
            == NodeEligibility::ShouldRun;
        let mut on_node = world.by_index(PODS_BY_NODE, &node.meta().name);
        let has_pod = on_node.any(|pod| pod.meta().is_controlled_by(&object.meta().uid));
        if is_gone || should_run != has_pod || set.status.number_misscheduled > 0 {
            enqueue(object.key().clone());
        }
    }
}

#[cfg(test)]
mod tests;
