//! Pods of a StatefulSet by ordinal: creation, deletion and order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use setpoint_api::Value;
use setpoint_api::labels::Selector;
use setpoint_api::value;
use setpoint_reconcile::plan::PLAN_ACTIONS_MAX;
use setpoint_reconcile::{Action, Object, WorldReader, Write};
use setpoint_views::pod::Pod;
use setpoint_views::stateful_set::StatefulSet;

use super::{PlannedWrites, StatefulSetRollout, claims};
use crate::owners::Owner;
use crate::pods::{self, ClaimedPods, PodRef};
use crate::revisions;

/// Label with the revision of a pod.
pub(super) const REVISION: &str = "controller-revision-hash";
/// Label with the name of the pod, for Services that select one.
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Label with the ordinal of a pod.
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// Maximum number of pods that one plan creates, and that it deletes, for parallel pod management. Upstream
/// has no bound here; this is that of a ReplicaSet. The set is planned again at once.
pub const BURST_REPLICAS: usize = 500;

/// Ordinal of a pod; `None` if the name is not one of the set.
pub(super) fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: i32 = digits.parse().ok()?;
    // Each ordinal has one name: no leading zeros or signs.
    (ordinal.to_string() == digits && ordinal >= 0).then(|| ordinal.into())
}

/// Claims the pods of a set, by name and selector.
pub(super) fn claim_pods<'a>(
    world: &'a WorldReader<'a>,
    owner: &Owner<'a>,
    selector: &Selector,
) -> ClaimedPods<'a> {
    let selects = |pod: &Object| {
        ordinal(&owner.object.meta().name, &pod.meta().name).is_some()
            && selector.matches(|name| pod.meta().labels.get(name))
    };
    pods::claim_pods_where(world, owner, selects, |_| true)
}

/// `true` if a pod is running and ready.
pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == "Running" && pod.is_ready()
}

/// Pods of a set by ordinal. Only existing pods take space: `replicas` may be any number.
pub(super) struct OrdinalPods<'a> {
    /// Ordinals of the set.
    range: Range<i64>,
    /// Pods with such an ordinal.
    pub present: BTreeMap<i64, PodRef<'a>>,
    /// Surplus pods, highest ordinal first.
    surplus: Vec<(i64, PodRef<'a>)>,
}

impl<'a> OrdinalPods<'a> {
    pub fn of(set: &StatefulSet, pods: &[PodRef<'a>]) -> OrdinalPods<'a> {
        let start = set.spec.ordinals.start;
        let range = start..start.saturating_add(set.spec.replicas);
        let (mut present, mut surplus) = (BTreeMap::new(), Vec::new());
        for pod in pods {
            // The ordinal was validated when the pod was claimed; the name ends in it.
            let ordinal = pod.0.meta().name.rsplit_once('-').and_then(|(_, digits)| digits.parse().ok());
            let Some(ordinal) = ordinal else { continue };
            if range.contains(&ordinal) {
                present.insert(ordinal, *pod);
            } else {
                surplus.push((ordinal, *pod));
            }
        }
        surplus.sort_by_key(|(ordinal, _)| Reverse(*ordinal));
        OrdinalPods { range, present, surplus }
    }

    /// Number of ordinals of the set.
    pub fn replicas(&self) -> i64 {
        self.range.end.saturating_sub(self.range.start).max(0)
    }

    /// Number of ordinals without a pod.
    fn missing_count(&self) -> i64 {
        self.replicas().saturating_sub(i64::try_from(self.present.len()).unwrap_or(i64::MAX))
    }

    /// Ordinals in order, with their pods. Of those without a pod it yields the first `missing`. It takes as
    /// many steps as it has items.
    fn in_order(&self, missing: usize) -> impl Iterator<Item = (i64, Option<PodRef<'a>>)> {
        let mut present = self.present.iter().map(|(ordinal, pod)| (*ordinal, *pod)).peekable();
        let (mut next, end, mut remaining) = (self.range.start, self.range.end, missing);
        std::iter::from_fn(move || {
            if remaining == 0 {
                return present.next().map(|(ordinal, pod)| (ordinal, Some(pod)));
            }
            if next >= end {
                return None;
            }
            let ordinal = next;
            next += 1;
            let pod = present.next_if(|(other, _)| *other == ordinal).map(|(_, pod)| pod);
            remaining -= usize::from(pod.is_none());
            Some((ordinal, pod))
        })
    }

    /// First unavailable pod: it may be deleted although others wait for all to be healthy.
    fn first_unavailable(&self, rollout: &StatefulSetRollout<'_>) -> Option<i64> {
        let surplus = self.surplus.iter().rev().map(|(ordinal, pod)| (*ordinal, Some(*pod)));
        let mut all = self.in_order(1).chain(surplus);
        all.find(|(_, pod)| pod.is_none_or(|pod| is_unavailable(rollout, &pod))).map(|(ordinal, _)| ordinal)
    }
}

/// `true` if a pod does not count as available.
pub(super) fn is_unavailable(rollout: &StatefulSetRollout<'_>, (object, pod): &PodRef<'_>) -> bool {
    object.meta().is_deleted() || !pod.is_available(rollout.set.spec.min_ready_seconds, rollout.now)
}

/// Maximum number of pods that one plan creates: [`BURST_REPLICAS`], or fewer if their claims would fill half
/// of the plan.
fn max_creations(rollout: &StatefulSetRollout<'_>) -> usize {
    let claims = rollout.set.spec.volume_claim_templates.len().max(1);
    (PLAN_ACTIONS_MAX / 2 / claims).clamp(1, BURST_REPLICAS)
}

/// Creates missing pods and deletes surplus ones, at most [`BURST_REPLICAS`] of either. Returns `true` if
/// pods of an old revision can be replaced.
pub(super) fn manage(
    rollout: &StatefulSetRollout<'_>,
    ordinal_pods: &OrdinalPods<'_>,
    writes: &mut PlannedWrites,
) -> bool {
    let max_creations = max_creations(rollout);
    for (ordinal, pod) in ordinal_pods.in_order(max_creations) {
        if writes.prerequisites.len() > PLAN_ACTIONS_MAX {
            // The plan is full, and nothing that follows would fit.
            return false;
        }
        let is_healthy = match pod {
            Some(pod) => manage_pod(rollout, ordinal, &pod, writes),
            None => {
                create_pod(rollout, ordinal, writes);
                false
            }
        };
        if !is_healthy && rollout.is_ordered() {
            return false;
        }
    }
    writes.deferred +=
        usize::try_from(ordinal_pods.missing_count()).unwrap_or(usize::MAX).saturating_sub(max_creations);
    for (ordinal, (pod, _)) in &ordinal_pods.surplus {
        writes.prerequisites.extend(claims::sync_retention(rollout, *ordinal, pod));
    }
    let first_unavailable = ordinal_pods.first_unavailable(rollout);
    let mut deleted = 0;
    for (ordinal, pod) in &ordinal_pods.surplus {
        let (object, view) = pod;
        let can_delete = first_unavailable == Some(*ordinal)
            || (is_running_and_ready(view) && !is_unavailable(rollout, pod));
        if !object.meta().is_deleted() && (can_delete || !rollout.is_ordered()) {
            if deleted < BURST_REPLICAS {
                writes.pods.push(rollout.delete(object));
                deleted += 1;
            } else {
                writes.deferred += 1;
            }
        }
        if rollout.is_ordered() {
            return false;
        }
    }
    true
}

/// Plans an existing pod. Returns `true` if the next pod need not wait for it.
fn manage_pod(
    rollout: &StatefulSetRollout<'_>,
    ordinal: i64,
    pod: &PodRef<'_>,
    writes: &mut PlannedWrites,
) -> bool {
    let (object, view) = pod;
    if view.is_finished() {
        if !object.meta().is_deleted() {
            writes.pods.push(rollout.delete(object));
        }
        return false;
    }
    if view.status.phase == "Pending" {
        writes.prerequisites.extend(claims::create_missing(rollout, ordinal));
    }
    let is_healthy = is_running_and_ready(view) && !is_unavailable(rollout, pod);
    if is_healthy || !rollout.is_ordered() {
        writes.prerequisites.extend(claims::sync_retention(rollout, ordinal, object));
        writes.prerequisites.extend(set_identity_labels(rollout, ordinal, object));
    }
    is_healthy
}

/// Sets the identity labels of a pod, if they are missing.
fn set_identity_labels(rollout: &StatefulSetRollout<'_>, ordinal: i64, pod: &Object) -> Option<Action> {
    let name = &*pod.meta().name;
    if pod.meta().labels.get(POD_NAME) == Some(name) {
        return None;
    }
    let mut patch = Value::map();
    let labels = patch.ensure_map("metadata").ensure_map("labels");
    labels.insert(POD_NAME, name);
    labels.insert(POD_INDEX, ordinal.to_string());
    let action = Write::merge(pod, "", patch).into();
    Some(rollout.with_events(action, ["Update", "SuccessfulUpdate", "FailedUpdate"], name))
}

/// Creates a pod, after its claims. It waits for claims of its name that are being deleted.
fn create_pod(rollout: &StatefulSetRollout<'_>, ordinal: i64, writes: &mut PlannedWrites) {
    if claims::are_terminating(rollout, ordinal) {
        return;
    }
    writes.prerequisites.extend(claims::create_missing(rollout, ordinal));
    let name = format!("{}-{ordinal}", rollout.owner.object.meta().name);
    let action =
        Write::create("pods", &rollout.owner.object.meta().namespace, new_pod(rollout, ordinal, &name));
    writes.pods.push(rollout.with_events(
        action.into(),
        ["Create", "SuccessfulCreate", "FailedCreate"],
        &name,
    ));
}

/// New pod, of the revision of its ordinal.
fn new_pod(rollout: &StatefulSetRollout<'_>, ordinal: i64, name: &str) -> Value {
    let spec = &rollout.set.spec;
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let is_at_current_revision = match rolling {
        Some(rolling) => ordinal < spec.ordinals.start.saturating_add(rolling.partition.unwrap_or(0)),
        None if spec.update_strategy.kind == "RollingUpdate" => {
            ordinal < spec.ordinals.start.saturating_add(rollout.set.status.current_replicas)
        }
        None => false,
    };
    let current = rollout.history.find_by_name(rollout.current_revision()).filter(|_| is_at_current_revision);
    let mut pod = match current {
        Some((_, revision)) => pods::from_template(&revisions::template_of(revision), rollout.owner),
        None => pods::from_template(&spec.template.0, rollout.owner),
    };
    let revision = current.map_or(&*rollout.latest.name, |(object, _)| &*object.meta().name);
    let metadata = pod.ensure_map("metadata");
    metadata.insert("name", name);
    let labels = metadata.ensure_map("labels");
    labels.insert(POD_NAME, name);
    labels.insert(POD_INDEX, ordinal.to_string());
    labels.insert(REVISION, revision);
    let own: Vec<(String, String)> = claims::names(rollout, ordinal).collect();
    let spec = pod.ensure_map("spec");
    spec.insert("hostname", name);
    spec.insert("subdomain", rollout.set.spec.service_name.as_str());
    let others = spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
    let names: BTreeSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    let others: Vec<Value> =
        others.iter().filter(|volume| !names.contains(volume.str_at(&["name"]))).cloned().collect();
    let volumes = own.iter().map(|(volume, claim)| {
        value!({"name": (volume.as_str()), "persistentVolumeClaim": {"claimName": (claim.as_str())}})
    });
    let volumes: Vec<Value> = volumes.chain(others).collect();
    if !volumes.is_empty() {
        spec.insert("volumes", volumes);
    }
    pod
}
