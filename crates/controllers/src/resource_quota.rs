//! ResourceQuota controller: maintains the enforced limits and the usage in the status.
//!
//! Usage is computed by [`setpoint_views::quota`], as at admission, which charges the usage in the commit
//! that creates an object. This controller counts objects that are older than a limit, and releases usage of
//! objects that shrank or were deleted. It writes only to the version of the quota that it saw, and releases
//! nothing while admitted objects may not be visible yet: the recorded usage is never below the actual usage.

use std::time::Duration;

use setpoint_api::{Key, Map, Time, Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::{Jump, Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::custom_resource_definition::{CustomResourceDefinition, custom_resource};
use setpoint_views::quota::{self, Usage, amounts};
use setpoint_views::resource_quota::ResourceQuota;

/// Number of pods in a namespace from which on recounts are rate-limited.
const RATE_LIMITED_PODS_MIN: usize = 1000;
/// Minimum time between two counts, per pod in the namespace.
const COUNT_DELAY_PER_POD: Duration = Duration::from_micros(20);
/// Interval of checks while charged objects are not visible yet.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The ResourceQuota controller.
pub struct ResourceQuotaController;

impl Planner for ResourceQuotaController {
    /// Time of the last count.
    type Memo = Option<Time>;

    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn clock_jumped(&self, memo: &mut Option<Time>, jump: Jump, _: Time) {
        *memo = memo.map(|at| jump.shift(at));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary(ResourceQuota::RESOURCE),
            Watch::mapped("*", enqueue_for_object),
            Watch::mapped(CustomResourceDefinition::RESOURCE, enqueue_for_definition)
                .when(is_established_now),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Option<Time>>,
        now: Time,
        _: Seed,
    ) -> Plan<Option<Time>> {
        let mut plan = Plan { memo: seen.memo, ..Plan::default() };
        let Some(object) = world.get(key) else { return plan };
        let Some(quota) = object.view::<ResourceQuota>() else { return plan };
        let hard = amounts(&quota.spec.hard);
        let is_enforced = hard == amounts(&quota.status.hard);
        let namespace = &object.meta().namespace;
        let pods = if quota.spec.counts("pods") { world.in_namespace("pods", namespace).count() } else { 0 };
        if pods >= RATE_LIMITED_PODS_MIN
            && is_enforced
            && let Some(at) =
                seen.memo.map(|at| at.after(COUNT_DELAY_PER_POD * u32::try_from(pods).unwrap_or(u32::MAX)))
            && at > now
        {
            plan.requeue_at(at);
            return plan;
        }
        plan.memo = Some(now);
        let recorded = amounts(&quota.status.used);
        // Unknown resources keep the usage that another controller may have set.
        let mut used = recorded.clone();
        used.retain(|name, _| hard.contains_key(name));
        for (name, amount) in quota::namespace_usage(world, namespace, &quota.spec, now) {
            let recorded = recorded.get(&name).copied();
            if recorded.is_none_or(|recorded| amount < recorded)
                && !has_observed_charges(world, &name, object)
            {
                plan.requeue_at(now.after(RECHECK_INTERVAL));
                // Objects older than a limit were not charged, so all of them must be visible.
                if recorded.is_none() {
                    return plan;
                }
                continue;
            }
            used.insert(name, amount);
        }
        if !is_enforced || used != recorded {
            let status = value!({
                "hard": (replacement_patch(&hard, &quota.status.hard)),
                "used": (replacement_patch(&used, &quota.status.used)),
            });
            plan.stage([Write::status(object, status).into()]);
        }
        if let Some(end) = next_grace_period_end(world, namespace, now).filter(|_| pods > 0) {
            plan.requeue_at(end);
        }
        plan
    }
}

/// `true` if the world shows all objects that were charged to the quota as it is seen.
fn has_observed_charges(world: &WorldReader<'_>, name: &str, quota: &Object) -> bool {
    let mut counted = world.resources().filter(|resource| quota::is_charged_by(name, resource.as_str()));
    counted.all(|resource| world.revision_of(resource) >= quota.revision())
}

/// Enqueues the quotas in the namespace of an object that count its resource.
fn enqueue_for_object(object: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(namespace) = object.key().namespace() else { return };
    for quota in world.in_namespace(ResourceQuota::RESOURCE, namespace) {
        let counts = |quota: &ResourceQuota| quota.spec.counts(object.key().resource().as_str());
        if quota.view::<ResourceQuota>().is_some_and(counts) {
            enqueue(quota.key().clone());
        }
    }
}

/// `true` if a definition was established: its objects are counted from then on.
fn is_established_now(before: &Object, after: &Object) -> bool {
    custom_resource(before).is_none() && custom_resource(after).is_some()
}

/// Enqueues the quotas that count a custom resource.
fn enqueue_for_definition(definition: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for (object, quota) in world.views::<ResourceQuota>() {
        if quota.spec.counts(&definition.meta().name) {
            enqueue(object.key().clone());
        }
    }
}

/// End of the next grace period of a deleted pod, from which on it uses nothing although it still exists.
fn next_grace_period_end(world: &WorldReader<'_>, namespace: &str, now: Time) -> Option<Time> {
    let ends = world.in_namespace("pods", namespace).filter_map(|pod| {
        let grace = u64::try_from(pod.meta().deletion_grace_period_seconds?).ok()?;
        let end = pod.meta().deletion_timestamp?.after(Duration::from_secs(grace));
        Some(end.after(Duration::from_micros(1)))
    });
    ends.filter(|end| *end > now).min()
}

/// Merge patch that replaces the amounts; amounts that are gone become `null`.
fn replacement_patch(amounts: &Usage, before: &Pairs) -> Value {
    let mut map = Map::new();
    for (name, _) in before.iter().filter(|(name, _)| !amounts.contains_key(*name)) {
        map.insert(name, Value::Null);
    }
    for (name, amount) in amounts {
        map.insert(name.as_str(), amount.to_string());
    }
    Value::Map(map)
}

#[cfg(test)]
mod tests;
