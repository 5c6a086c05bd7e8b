//! Device taint eviction: deletes pods that use devices with a `NoExecute` taint, at once or after the
//! toleration ends.
//!
//! A device is tainted by its driver in a ResourceSlice, or by users in a DeviceTaintRule. The key of a pod
//! checks the devices of the claims that are reserved for it. The key of a rule reports the progress of its
//! eviction, at most every ten seconds; for a rule without effect it reports once what the rule would evict.

mod rule_status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::{Key, Time};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::device_taint_rule::DeviceTaintRule;
use setpoint_views::node::Taint;
use setpoint_views::pod::Pod;
use setpoint_views::resource_claim::{AllocatedDevice, ResourceClaim};
use setpoint_views::resource_slice::ResourceSlice;

use crate::indexes::{DEVICE_CLAIMS_BY_POOL, DEVICE_SLICES_BY_POOL, PODS_BY_DEVICE_CLAIM, path};
use crate::taint_eviction::set_disruption_target;

const NO_EXECUTE: &str = "NoExecute";
/// Reason and message of the condition `DisruptionTarget`.
const DISRUPTION_TARGET: (&str, &str) =
    ("DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint");
const EVENT_REASON: &str = "DeviceTaintManagerEviction";

/// The device taint eviction controller.
pub struct DeviceTaintEviction;

/// Memo of a pod or a rule.
#[derive(Clone, Default)]
pub struct DeviceTaintEvictionMemo {
    /// `true` if the eviction of the pod was pending.
    is_eviction_pending: bool,
    /// Progress of a rule.
    progress: Option<rule_status::RuleProgress>,
}

impl Planner for DeviceTaintEviction {
    type Memo = DeviceTaintEvictionMemo;

    fn name(&self) -> &'static str {
        "device-taint-eviction-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 4] = [
            Watch::mapped(Pod::RESOURCE, enqueue_for_pod),
            Watch::mapped(ResourceClaim::RESOURCE, enqueue_for_claim),
            Watch::mapped(ResourceSlice::RESOURCE, enqueue_for_slice),
            Watch::mapped(DeviceTaintRule::RESOURCE, enqueue_for_rule),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let has_claims = |(_, pod): &(&Object, &Pod)| !pod.spec.resource_claims.is_empty();
        let pods = world.views::<Pod>().filter(has_claims).map(|(object, _)| object);
        pods.chain(world.all(DeviceTaintRule::RESOURCE)).map(|object| object.key().clone()).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, DeviceTaintEvictionMemo>,
        now: Time,
        _: Seed,
    ) -> Plan<DeviceTaintEvictionMemo> {
        let Some(object) = world.get(key) else { return Plan::default() };
        if let Some(rule) = object.view::<DeviceTaintRule>() {
            return rule_status::plan(object, rule, world, &seen.memo, now);
        }
        let pod = object.view::<Pod>().filter(|pod| !object.meta().is_deleted() && !pod.is_finished());
        pod.map(|pod| plan_pod(object, pod, world, &seen.memo, now)).unwrap_or_default()
    }
}

fn plan_pod(
    object: &Object,
    pod: &Pod,
    world: &WorldReader<'_>,
    memo: &DeviceTaintEvictionMemo,
    now: Time,
) -> Plan<DeviceTaintEvictionMemo> {
    let mut plan = Plan::<DeviceTaintEvictionMemo>::default();
    let subject = InvolvedObject::new(object, "v1", "Pod");
    match eviction(object, pod, world, &mut DeviceTaints::new(world, None)) {
        Some(eviction) if eviction.at <= now => {
            plan.stage(set_disruption_target(object, pod, DISRUPTION_TARGET, now));
            let event = subject.normal(EVENT_REASON, "Marking for deletion");
            plan.stage([Action::from(Write::delete(object)).on_done(event)]);
        }
        Some(eviction) => {
            plan.memo.is_eviction_pending = true;
            plan.requeue_at(eviction.at);
        }
        None if memo.is_eviction_pending => {
            plan.events.push(subject.normal(EVENT_REASON, "Cancelling deletion"))
        }
        None => {}
    }
    plan
}

/// Time of a pod's eviction, and the rules that cause it.
struct Eviction<'a> {
    at: Time,
    rules: BTreeSet<&'a str>,
}

/// Computes the eviction of a pod, if any.
fn eviction<'a>(
    object: &Object,
    pod: &Pod,
    world: &WorldReader<'_>,
    taints: &mut DeviceTaints<'a>,
) -> Option<Eviction<'a>> {
    if pod.spec.node_name.is_empty() {
        return None;
    }
    let meta = object.meta();
    let mut found: Option<Eviction<'a>> = None;
    for (name, is_generated) in pod.device_claims() {
        let claim = world.view::<ResourceClaim>(&meta.namespace, name);
        let used = claim.filter(|(claim, view)| {
            view.is_reserved_for(&meta.uid) && (!is_generated || claim.meta().is_controlled_by(&meta.uid))
        });
        for device in used.iter().flat_map(|(_, view)| view.devices()) {
            for (taint, rule) in taints.taints_of(device) {
                let Some(at) = toleration_end(device, taint) else { continue };
                let found = found.get_or_insert(Eviction { at, rules: BTreeSet::new() });
                found.at = found.at.min(at);
                found.rules.extend(rule);
            }
        }
    }
    found
}

/// Taint that evicts pods, and the UID of its rule, if it comes from one.
type DeviceTaint<'a> = (&'a Taint, Option<&'a str>);
/// Driver, pool and device that a rule selects; `None` selects all.
type SelectorKey<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

/// Taints of devices that evict pods. Pools are read when the first of their devices is looked up.
struct DeviceTaints<'a> {
    world: &'a WorldReader<'a>,
    pools: BTreeMap<(String, String), BTreeMap<&'a str, Vec<&'a Taint>>>,
    rules: BTreeMap<SelectorKey<'a>, Vec<DeviceTaint<'a>>>,
}

impl<'a> DeviceTaints<'a> {
    /// Taints of a world. The rule `dry_run` is evaluated as if it had effect.
    fn new(world: &'a WorldReader<'a>, dry_run: Option<&Object>) -> DeviceTaints<'a> {
        let mut rules: BTreeMap<SelectorKey<'a>, Vec<DeviceTaint<'a>>> = BTreeMap::new();
        for (object, rule) in world.views::<DeviceTaintRule>() {
            let is_dry_run = dry_run.is_some_and(|dry_run| dry_run.key() == object.key());
            let Some(selector) = &rule.spec.device_selector else { continue };
            if rule.spec.taint.effect == NO_EXECUTE || is_dry_run {
                let selected =
                    (selector.driver.as_deref(), selector.pool.as_deref(), selector.device.as_deref());
                rules.entry(selected).or_default().push((&rule.spec.taint, Some(&object.meta().uid)));
            }
        }
        DeviceTaints { world, pools: BTreeMap::new(), rules }
    }

    /// Taints of a device: its own, then those of rules.
    fn taints_of(&mut self, device: &AllocatedDevice) -> Vec<DeviceTaint<'a>> {
        let world = self.world;
        let pool = self.pools.entry((device.driver.clone(), device.pool.clone())).or_insert_with(|| {
            let mut pool: BTreeMap<&'a str, Vec<&'a Taint>> = BTreeMap::new();
            let current = current_slices(world, &device.driver, &device.pool);
            for found in current.into_iter().flat_map(|slice| &slice.spec.devices) {
                let taints = found.taints.iter().filter(|taint| taint.effect == NO_EXECUTE);
                pool.entry(&found.name).or_default().extend(taints);
            }
            pool
        });
        let own = pool.get(&*device.device).into_iter().flatten().map(|taint| (*taint, None));
        let mut all: Vec<DeviceTaint<'a>> = own.collect();
        let any_or = |name| [None, Some(name)];
        for driver in any_or(&*device.driver) {
            for pool in any_or(&*device.pool) {
                for device in any_or(&*device.device) {
                    all.extend(self.rules.get(&(driver, pool, device)).into_iter().flatten());
                }
            }
        }
        all
    }
}

/// Slices of a pool's latest generation.
fn current_slices<'a>(world: &'a WorldReader<'a>, driver: &str, pool: &str) -> Vec<&'a ResourceSlice> {
    let slices = world.by_index(DEVICE_SLICES_BY_POOL, &path(driver, pool));
    let mut slices: Vec<&ResourceSlice> = slices.filter_map(|object| object.view()).collect();
    let last = slices.iter().map(|slice| slice.spec.pool.generation).max();
    slices.retain(|slice| Some(slice.spec.pool.generation) == last);
    slices
}

/// End of the claim's toleration of a taint; `None` if it tolerates the taint forever.
fn toleration_end(device: &AllocatedDevice, taint: &Taint) -> Option<Time> {
    // A rule on trial is evaluated as `NoExecute`.
    let taint = Taint { effect: NO_EXECUTE.to_owned(), ..taint.clone() };
    let added = taint.time_added.unwrap_or(Time::EPOCH);
    let matching = device
        .tolerations
        .iter()
        .filter(|toleration| toleration.effect == NO_EXECUTE && toleration.tolerates(&taint));
    let mut min_seconds: Option<i64> = None;
    for toleration in matching {
        let seconds = toleration.toleration_seconds?.max(0);
        min_seconds = Some(min_seconds.map_or(seconds, |min_seconds| min_seconds.min(seconds)));
    }
    Some(added.after(Duration::from_secs(u64::try_from(min_seconds.unwrap_or(0)).unwrap_or(0))))
}

/// Enqueues a pod with claims, and the rules that evict pods.
fn enqueue_for_pod(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if object.view::<Pod>().is_some_and(|pod| !pod.spec.resource_claims.is_empty()) {
        enqueue(object.key().clone());
        enqueue_rules(world, enqueue);
    }
}

/// Enqueues the pods that a claim is reserved for, and the rules that evict pods.
fn enqueue_for_claim(claim: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    enqueue_users(claim, world, enqueue);
    enqueue_rules(world, enqueue);
}

fn enqueue_users(claim: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let meta = claim.meta();
    let consumers = claim.view::<ResourceClaim>().into_iter().flat_map(|claim| &claim.status.reserved_for);
    for consumer in consumers.filter(|consumer| consumer.is_pod()) {
        key_of("pods", &meta.namespace, &consumer.name).into_iter().for_each(&mut *enqueue);
    }
    for pod in world.by_index(PODS_BY_DEVICE_CLAIM, &path(&meta.namespace, &meta.name)) {
        enqueue(pod.key().clone());
    }
}

fn enqueue_rules(world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for (object, rule) in world.views::<DeviceTaintRule>() {
        if rule.spec.taint.effect == NO_EXECUTE {
            enqueue(object.key().clone());
        }
    }
}

fn enqueue_for_slice(slice: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(view) = slice.view::<ResourceSlice>() else { return };
    for claim in world.by_index(DEVICE_CLAIMS_BY_POOL, &path(&view.spec.driver, &view.spec.pool.name)) {
        enqueue_users(claim, world, enqueue);
    }
}

/// Enqueues the pods of all claims: a rule may concern every claim, and rules change seldom.
fn enqueue_for_rule(rule: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    enqueue(rule.key().clone());
    for claim in world.all(ResourceClaim::RESOURCE) {
        enqueue_users(claim, world, enqueue);
    }
}

#[cfg(test)]
mod tests;
