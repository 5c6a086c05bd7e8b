//! ResourceQuota: its status says which limits are in force, and what is used of them.
//!
//! What objects use is worked out by [`setpoint_reconcile::quota`], as at admission, which raises what is used in the
//! moment in which it admits an object. So this controller is needed to count what was there before a limit, and to
//! take back what shrank or went. It writes only on the quota that it saw, and takes nothing back while objects may
//! have been admitted that it does not see yet: what is used is never less than what there is.

use std::time::Duration;

use setpoint_api::{Key, Map, Time, Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::quota::{self, Usage, amounts};
use setpoint_reconcile::views::resource_quota::ResourceQuota;
use setpoint_reconcile::{Jump, Object, Plan, Planner, Seed, Seen, View, Watch, World, Write};

/// How many pods a namespace has at the least in which counting is spread out.
const MANY_PODS: usize = 1000;
/// How long to let pass for each pod before it is counted again, where there are many.
const REST: Duration = Duration::from_micros(20);
/// How long to wait for what was charged to show.
const PATIENCE: Duration = Duration::from_secs(1);

/// The controller.
pub struct ResourceQuotaController;

impl Planner for ResourceQuotaController {
    /// When it last counted.
    type Memo = Option<Time>;

    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn clock_jumped(&self, memo: &mut Option<Time>, jump: Jump, _: Time) {
        *memo = memo.map(|at| jump.shift(at));
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::itself(ResourceQuota::RESOURCE), Watch::via("*", of_object)];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &World,
        seen: &Seen<'_, Option<Time>>,
        now: Time,
        _: Seed,
    ) -> Plan<Option<Time>> {
        let mut plan = Plan { memo: seen.memo, ..Plan::default() };
        let Some(object) = world.get(key) else { return plan };
        let Some(quota) = object.view::<ResourceQuota>() else { return plan };
        let hard = amounts(&quota.spec.hard);
        let in_force = hard == amounts(&quota.status.hard);
        let namespace = &object.meta().namespace;
        let pods = if quota.spec.counts("pods") { world.in_namespace("pods", namespace).count() } else { 0 };
        if pods >= MANY_PODS
            && in_force
            && let Some(at) = seen.memo.map(|at| at.after(REST * u32::try_from(pods).unwrap_or(u32::MAX)))
            && at > now
        {
            plan.look_again_at(at);
            return plan;
        }
        plan.memo = Some(now);
        let known = amounts(&quota.status.used);
        // What nothing is known of stays as somebody else may have counted it.
        let mut used = known.clone();
        used.retain(|name, _| hard.contains_key(name));
        for (name, amount) in quota::used(world, namespace, &quota.spec, now) {
            let known = known.get(&name).copied();
            if known.is_none_or(|known| amount < known) && !is_whole(world, &name, object) {
                plan.look_again_at(now.after(PATIENCE));
                // What was made before a limit is in force is charged to nobody, so it must all have been seen.
                if known.is_none() {
                    return plan;
                }
                continue;
            }
            used.insert(name, amount);
        }
        if !in_force || used != known {
            let status = value!({
                "hard": (written(&hard, &quota.status.hard)),
                "used": (written(&used, &quota.status.used)),
            });
            plan.stage([Write::status(object, status).into()]);
        }
        if let Some(end) = next_end(world, namespace, now).filter(|_| pods > 0) {
            plan.look_again_at(end);
        }
        plan
    }
}

/// Whether the world shows everything that was charged to a limit of the quota as it is seen.
fn is_whole(world: &World, name: &str, quota: &Object) -> bool {
    let mut counted = world.resources().filter(|resource| quota::is_counted_of(name, resource.as_str()));
    counted.all(|resource| world.revision_of(resource) >= quota.revision())
}

/// An object concerns the quotas of its namespace that count objects of its resource.
fn of_object(object: &Object, world: &World, wake: &mut dyn FnMut(Key)) {
    let Some(namespace) = object.key().namespace() else { return };
    for quota in world.in_namespace(ResourceQuota::RESOURCE, namespace) {
        let counts = |quota: &ResourceQuota| quota.spec.counts(object.key().resource().as_str());
        if quota.view::<ResourceQuota>().is_some_and(counts) {
            wake(quota.key().clone());
        }
    }
}

/// When the grace of the next deleted pod runs out, after which it uses nothing though it is still there.
fn next_end(world: &World, namespace: &str, now: Time) -> Option<Time> {
    let ends = world.in_namespace("pods", namespace).filter_map(|pod| {
        let grace = u64::try_from(pod.meta().deletion_grace_period_seconds?).ok()?;
        let end = pod.meta().deletion_timestamp?.after(Duration::from_secs(grace));
        Some(end.after(Duration::from_micros(1)))
    });
    ends.filter(|end| *end > now).min()
}

/// Amounts to write in the place of others, which go if they are not among them.
fn written(amounts: &Usage, before: &Pairs) -> Value {
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
