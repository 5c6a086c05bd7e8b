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

use super::{Rollout, Steps, claims};
use crate::owners::Owner;
use crate::pods::{self, Claimed, Seen};
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
    let number: i32 = digits.parse().ok()?;
    // Each ordinal has one name: no leading zeros or signs.
    (number.to_string() == digits && number >= 0).then(|| number.into())
}

/// Claims the pods of a set, by name and selector.
pub(super) fn claim<'a>(world: &'a WorldReader<'a>, owner: &Owner<'a>, selector: &Selector) -> Claimed<'a> {
    let selects = |pod: &Object| {
        ordinal(&owner.object.meta().name, &pod.meta().name).is_some()
            && selector.matches(|name| pod.meta().labels.get(name))
    };
    pods::claim_where(world, owner, selects, |_| true)
}

/// `true` if a pod is running and ready.
pub(super) fn runs(pod: &Pod) -> bool {
    pod.status.phase == "Running" && pod.is_ready()
}

/// Pods of a set by ordinal. Only existing pods take space: `replicas` may be any number.
pub(super) struct Members<'a> {
    /// Ordinals of the set.
    range: Range<i64>,
    /// Pods with such an ordinal.
    pub present: BTreeMap<i64, Seen<'a>>,
    /// Surplus pods, highest ordinal first.
    surplus: Vec<(i64, Seen<'a>)>,
}

impl<'a> Members<'a> {
    pub fn of(set: &StatefulSet, pods: &[Seen<'a>]) -> Members<'a> {
        let start = set.spec.ordinals.start;
        let range = start..start.saturating_add(set.spec.replicas);
        let (mut present, mut surplus) = (BTreeMap::new(), Vec::new());
        for pod in pods {
            // The ordinal was validated when the pod was claimed; the name ends in it.
            let number = pod.0.meta().name.rsplit_once('-').and_then(|(_, digits)| digits.parse().ok());
            let Some(number) = number else { continue };
            if range.contains(&number) {
                present.insert(number, *pod);
            } else {
                surplus.push((number, *pod));
            }
        }
        surplus.sort_by_key(|(number, _)| Reverse(*number));
        Members { range, present, surplus }
    }

    /// Number of ordinals of the set.
    pub fn wanted(&self) -> i64 {
        self.range.end.saturating_sub(self.range.start).max(0)
    }

    /// Number of ordinals without a pod.
    fn missing(&self) -> i64 {
        self.wanted().saturating_sub(i64::try_from(self.present.len()).unwrap_or(i64::MAX))
    }

    /// Ordinals in order, with their pods. Of those without a pod it yields the first `missing`. It takes as
    /// many steps as it has items.
    fn in_order(&self, missing: usize) -> impl Iterator<Item = (i64, Option<Seen<'a>>)> {
        let mut present = self.present.iter().map(|(number, pod)| (*number, *pod)).peekable();
        let (mut next, end, mut left) = (self.range.start, self.range.end, missing);
        std::iter::from_fn(move || {
            if left == 0 {
                return present.next().map(|(number, pod)| (number, Some(pod)));
            }
            if next >= end {
                return None;
            }
            let number = next;
            next += 1;
            let pod = present.next_if(|(other, _)| *other == number).map(|(_, pod)| pod);
            left -= usize::from(pod.is_none());
            Some((number, pod))
        })
    }

    /// First unavailable pod: it may be deleted although others wait for all to be healthy.
    fn first_unavailable(&self, rollout: &Rollout<'_>) -> Option<i64> {
        let surplus = self.surplus.iter().rev().map(|(number, pod)| (*number, Some(*pod)));
        let mut all = self.in_order(1).chain(surplus);
        all.find(|(_, pod)| pod.is_none_or(|pod| is_unavailable(rollout, &pod))).map(|(number, _)| number)
    }
}

/// `true` if a pod does not count as available.
pub(super) fn is_unavailable(rollout: &Rollout<'_>, (object, pod): &Seen<'_>) -> bool {
    object.meta().is_deleted() || !pod.is_available(rollout.set.spec.min_ready_seconds, rollout.now)
}

/// Maximum number of pods that one plan creates: [`BURST_REPLICAS`], or fewer if their claims would fill half
/// of the plan.
fn burst(rollout: &Rollout<'_>) -> usize {
    let claims = rollout.set.spec.volume_claim_templates.len().max(1);
    (PLAN_ACTIONS_MAX / 2 / claims).clamp(1, BURST_REPLICAS)
}

/// Creates missing pods and deletes surplus ones, at most [`BURST_REPLICAS`] of either. Returns `true` if
/// pods of an old revision can be replaced.
pub(super) fn keep(rollout: &Rollout<'_>, members: &Members<'_>, steps: &mut Steps) -> bool {
    let burst = burst(rollout);
    for (number, pod) in members.in_order(burst) {
        if steps.before.len() > PLAN_ACTIONS_MAX {
            // The plan is full, and nothing that follows would fit.
            return false;
        }
        let is_well = match pod {
            Some(pod) => keep_one(rollout, number, &pod, steps),
            None => {
                make(rollout, number, steps);
                false
            }
        };
        if !is_well && rollout.is_ordered() {
            return false;
        }
    }
    steps.deferred += usize::try_from(members.missing()).unwrap_or(usize::MAX).saturating_sub(burst);
    for (number, (pod, _)) in &members.surplus {
        steps.before.extend(claims::retain(rollout, *number, pod));
    }
    let first_unavailable = members.first_unavailable(rollout);
    let mut deleted = 0;
    for (number, pod) in &members.surplus {
        let (object, view) = pod;
        let may_go = first_unavailable == Some(*number) || (runs(view) && !is_unavailable(rollout, pod));
        if !object.meta().is_deleted() && (may_go || !rollout.is_ordered()) {
            if deleted < BURST_REPLICAS {
                steps.pods.push(rollout.delete(object));
                deleted += 1;
            } else {
                steps.deferred += 1;
            }
        }
        if rollout.is_ordered() {
            return false;
        }
    }
    true
}

/// Plans an existing pod. Returns `true` if the next pod need not wait for it.
fn keep_one(rollout: &Rollout<'_>, number: i64, pod: &Seen<'_>, steps: &mut Steps) -> bool {
    let (object, view) = pod;
    if view.is_finished() {
        if !object.meta().is_deleted() {
            steps.pods.push(rollout.delete(object));
        }
        return false;
    }
    if view.status.phase == "Pending" {
        steps.before.extend(claims::missing(rollout, number));
    }
    let is_well = runs(view) && !is_unavailable(rollout, pod);
    if is_well || !rollout.is_ordered() {
        steps.before.extend(claims::retain(rollout, number, object));
        steps.before.extend(name(rollout, number, object));
    }
    is_well
}

/// Sets the identity labels of a pod, if they are missing.
fn name(rollout: &Rollout<'_>, number: i64, pod: &Object) -> Option<Action> {
    let name = &*pod.meta().name;
    if pod.meta().labels.get(POD_NAME) == Some(name) {
        return None;
    }
    let mut patch = Value::map();
    let labels = patch.ensure_map("metadata").ensure_map("labels");
    labels.insert(POD_NAME, name);
    labels.insert(POD_INDEX, number.to_string());
    let act = Write::merge(pod, "", patch).into();
    Some(rollout.told(act, ["Update", "SuccessfulUpdate", "FailedUpdate"], name))
}

/// Creates a pod, after its claims. It waits for claims of its name that are being deleted.
fn make(rollout: &Rollout<'_>, number: i64, steps: &mut Steps) {
    if claims::are_going(rollout, number) {
        return;
    }
    steps.before.extend(claims::missing(rollout, number));
    let name = format!("{}-{number}", rollout.owner.object.meta().name);
    let act = Write::create("pods", &rollout.owner.object.meta().namespace, new(rollout, number, &name));
    steps.pods.push(rollout.told(act.into(), ["Create", "SuccessfulCreate", "FailedCreate"], &name));
}

/// New pod, of the revision of its ordinal.
fn new(rollout: &Rollout<'_>, number: i64, name: &str) -> Value {
    let spec = &rollout.set.spec;
    let rolling = spec.update_strategy.rolling_update.as_ref();
    let stays = match rolling {
        Some(rolling) => number < spec.ordinals.start.saturating_add(rolling.partition.unwrap_or(0)),
        None if spec.update_strategy.kind == "RollingUpdate" => {
            number < spec.ordinals.start.saturating_add(rollout.set.status.current_replicas)
        }
        None => false,
    };
    let current = rollout.past.named(rollout.current_revision()).filter(|_| stays);
    let mut pod = match current {
        Some((_, revision)) => pods::from_template(&revisions::template(revision), rollout.owner),
        None => pods::from_template(&spec.template.0, rollout.owner),
    };
    let revision = current.map_or(&*rollout.latest.name, |(object, _)| &*object.meta().name);
    let metadata = pod.ensure_map("metadata");
    metadata.insert("name", name);
    let labels = metadata.ensure_map("labels");
    labels.insert(POD_NAME, name);
    labels.insert(POD_INDEX, number.to_string());
    labels.insert(REVISION, revision);
    let own: Vec<(String, String)> = claims::names(rollout, number).collect();
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
