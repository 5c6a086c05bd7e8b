//! Status of DeviceTaintRules: progress of the eviction, as a condition.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::{Time, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Action, Object, Plan, WorldReader, Write};
use setpoint_views::device_taint_rule::DeviceTaintRule;
use setpoint_views::pod::Pod;
use setpoint_views::resource_claim::{AllocatedDevice, ResourceClaim};
use setpoint_views::resource_slice::ResourceSlice;
use setpoint_views::{Condition, condition};

use super::{DISRUPTION_TARGET, DeviceTaintEvictionMemo, DeviceTaints, NO_EXECUTE, current_slices, eviction};
use crate::conditions::{is_same, with_condition};

const EVICTION_IN_PROGRESS: &str = "EvictionInProgress";
/// Minimum time between two status writes of one rule.
const STATUS_INTERVAL: Duration = Duration::from_secs(10);

/// Memo of a rule: the pods that it evicts.
#[derive(Clone, Default)]
pub struct RuleProgress {
    /// UIDs of pods that are not yet evicted.
    pending: BTreeSet<Box<str>>,
    /// UIDs of evicted pods that are counted, for as long as they exist.
    counted: BTreeSet<Box<str>>,
    /// Number of evicted pods.
    evicted: usize,
}

/// Plans the status of a rule.
pub(super) fn plan(
    object: &Object,
    rule: &DeviceTaintRule,
    world: &WorldReader<'_>,
    memo: &DeviceTaintEvictionMemo,
    now: Time,
) -> Plan<DeviceTaintEvictionMemo> {
    let mut plan = Plan::<DeviceTaintEvictionMemo>::default();
    let generation = object.meta().generation;
    let existing = condition(&rule.status.conditions, EVICTION_IN_PROGRESS);
    let current = existing.filter(|existing| existing.observed_generation == Some(generation));
    let effect = rule.spec.taint.effect.as_str();
    // Without `NoExecute` the status depends on the rule alone.
    if current.is_some() && effect != NO_EXECUTE {
        return plan;
    }
    let affected = AffectedPods::of(object, rule, world);
    let progress = update_progress(&affected, existing, memo.progress.as_ref(), world);
    let new = in_progress_condition(rule, &affected, &progress, world);
    plan.memo.progress = Some(progress);
    let due =
        current.and_then(|current| current.last_transition_time).map(|since| since.after(STATUS_INTERVAL));
    let is_unchanged = current.is_some_and(|existing| is_same(existing, &new));
    match due {
        _ if is_unchanged => {}
        Some(due) if due > now => plan.requeue_at(due),
        _ => {
            let new =
                Condition { observed_generation: Some(generation), last_transition_time: Some(now), ..new };
            let conditions = with_condition(&rule.status.conditions, new);
            let status = value!({"conditions": (value_of(&conditions))});
            plan.stage([Action::from(Write::status(object, status))]);
        }
    }
    plan
}

/// Pods that a rule affects.
struct AffectedPods<'a> {
    /// Pods to evict; for a rule without effect, pods that it would evict.
    pending: Vec<&'a Object>,
    /// Terminating pods that were evicted for this or another device taint.
    terminating: Vec<&'a Object>,
}

impl<'a> AffectedPods<'a> {
    fn of(object: &'a Object, rule: &DeviceTaintRule, world: &'a WorldReader<'a>) -> AffectedPods<'a> {
        let mut affected = AffectedPods { pending: Vec::new(), terminating: Vec::new() };
        if !matches!(rule.spec.taint.effect.as_str(), NO_EXECUTE | "None") {
            return affected;
        }
        let mut seen = BTreeSet::new();
        let mut taints = DeviceTaints::new(world, Some(object));
        for (claim, view) in world.views::<ResourceClaim>() {
            if !view.devices().any(|device| selects_device(rule, device)) {
                continue;
            }
            for consumer in view.status.reserved_for.iter().filter(|consumer| consumer.is_pod()) {
                let Some((found, pod)) = world.view::<Pod>(&claim.meta().namespace, &consumer.name) else {
                    continue;
                };
                if !seen.insert(found.key()) {
                    continue;
                }
                let eviction = eviction(found, pod, world, &mut taints);
                if !eviction.is_some_and(|eviction| eviction.rules.contains(&*object.meta().uid)) {
                    continue;
                }
                let has_disruption_target = condition(&pod.status.conditions, "DisruptionTarget")
                    .is_some_and(|target| target.is_true() && target.reason == DISRUPTION_TARGET.0);
                match found.meta().is_deleted() {
                    false if !pod.is_finished() => affected.pending.push(found),
                    true if has_disruption_target => affected.terminating.push(found),
                    _ => {}
                }
            }
        }
        affected
    }
}

fn selects_device(rule: &DeviceTaintRule, device: &AllocatedDevice) -> bool {
    rule.matches(&device.driver, &device.pool, &device.device)
}

/// Updates the progress. Without a memo, the count in the last condition is the base.
fn update_progress(
    affected: &AffectedPods<'_>,
    existing: Option<&Condition>,
    before: Option<&RuleProgress>,
    world: &WorldReader<'_>,
) -> RuleProgress {
    let uids = |pods: &[&Object]| pods.iter().map(|pod| pod.meta().uid.clone()).collect::<BTreeSet<_>>();
    let (pending, terminating) = (uids(&affected.pending), uids(&affected.terminating));
    let Some(before) = before else {
        return RuleProgress {
            pending,
            counted: terminating,
            evicted: existing.map_or(0, |existing| parse_evicted(&existing.message)),
        };
    };
    let is_gone = |uid: &str| world.get_by_uid(uid).is_none();
    let gone: BTreeSet<Box<str>> = before.pending.iter().filter(|uid| is_gone(uid)).cloned().collect();
    let new = terminating.union(&gone).filter(|uid| !before.counted.contains(*uid)).count();
    // Deleted pods can be dropped: they never become pending again.
    RuleProgress { pending, counted: terminating, evicted: before.evicted + new }
}

/// Parses the number of evicted pods in a message.
fn parse_evicted(message: &str) -> usize {
    let words: Vec<&str> = message.split(' ').collect();
    let at = words.iter().position(|word| *word == "evicted").filter(|at| *at >= 2);
    let is_count = |at: &usize| words[at + 1..].starts_with(&["since", "starting"]);
    at.filter(is_count).and_then(|at| words[at - 2].parse().ok()).unwrap_or(0)
}

/// Condition of a rule, without its transition time.
fn in_progress_condition(
    rule: &DeviceTaintRule,
    affected: &AffectedPods<'_>,
    progress: &RuleProgress,
    world: &WorldReader<'_>,
) -> Condition {
    let pods = affected.pending.len();
    let namespaces: BTreeSet<&str> = affected.pending.iter().map(|pod| &*pod.meta().namespace).collect();
    let namespaces = match namespaces.len() {
        1 => "1 namespace".to_owned(),
        many => format!("{many} different namespaces"),
    };
    let (status, reason, mut message) = match rule.spec.taint.effect.as_str() {
        NO_EXECUTE if pods == 1 => {
            ("True", "PodsPendingEviction", format!("1 pod needs to be evicted in {namespaces}."))
        }
        NO_EXECUTE if pods > 1 => {
            ("True", "PodsPendingEviction", format!("{pods} pods need to be evicted in {namespaces}."))
        }
        NO_EXECUTE if progress.evicted > 0 => ("False", "Completed", String::new()),
        NO_EXECUTE => ("False", "NotStarted", String::new()),
        "None" => {
            let (published, allocated) = count_devices(rule, world);
            let message = format!(
                "{} published {} selected. {} allocated {} selected. {} would be evicted in {namespaces} if the effect \
                 was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an \
                 update.",
                published,
                plural("device", published),
                allocated,
                plural("device", allocated),
                format_args!("{pods} {}", plural("pod", pods)),
            );
            ("False", "NoEffect", message)
        }
        _ => ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.".to_owned()),
    };
    if progress.evicted > 0 {
        let gap = if message.is_empty() { "" } else { " " };
        let count = progress.evicted;
        let pods = plural("pod", count);
        message = format!("{message}{gap}{count} {pods} evicted since starting the controller.");
    }
    Condition {
        kind: EVICTION_IN_PROGRESS.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    }
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// Number of devices that a rule selects: published ones, and allocated ones.
fn count_devices(rule: &DeviceTaintRule, world: &WorldReader<'_>) -> (usize, usize) {
    let pools: BTreeSet<(&str, &str)> = world
        .views::<ResourceSlice>()
        .map(|(_, slice)| (slice.spec.driver.as_str(), slice.spec.pool.name.as_str()))
        .collect();
    let published = pools.iter().map(|(driver, pool)| {
        let devices = current_slices(world, driver, pool).into_iter().flat_map(|slice| &slice.spec.devices);
        devices.filter(|device| rule.matches(driver, pool, &device.name)).count()
    });
    let claims = world.views::<ResourceClaim>();
    let allocated =
        claims.flat_map(|(_, claim)| claim.devices()).filter(|device| selects_device(rule, device));
    (published.sum(), allocated.count())
}
