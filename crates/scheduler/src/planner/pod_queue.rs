//! Selection of the pods that a plan attempts, in scheduling order: by priority, and cheap pods before costly ones of the
//! same priority.

use setpoint_reconcile::WorldReader;
use setpoint_views::pod::Pod;

use super::scheduling_cycle::SchedulingCycle;
use crate::cache::PodId;
use crate::cost::{COSTLY_MIN, DEFERRED_PLANS_MAX, PLAN_COST_MAX};
use crate::plugins::volumes;
use crate::plugins::volumes::node_terms::TermSize;

/// Pods that one plan attempts, so that a pod of higher priority that arrives later need not wait long.
const PODS_PER_PLAN_MAX: usize = 500;

/// Pod that a plan attempts, or whose nomination it takes into account.
pub(super) struct QueuedPod {
    pub id: PodId,
    pub priority: i64,
    /// `true` if the plan attempts it.
    pub is_due: bool,
}

impl SchedulingCycle<'_> {
    /// Returns the pods to attempt and the nominated pods, in scheduling order.
    pub(super) fn select_pods(&mut self) -> Vec<QueuedPod> {
        let now = self.now;
        self.cache.requeue_by_hints();
        let mut states = self.cache.queue.values().filter_map(|id| Some(self.cache.pod(*id)?.queue_state));
        // Without any other due pod, pods with an exact hint need not finish their backoff.
        let skips_backoff = !states.any(|state| state.is_none_or(|state| state.next_attempt_at() <= now));
        let ids: Vec<(i64, PodId)> = self.cache.queue.iter().map(|(key, id)| (key.0.0, *id)).collect();
        let (mut pods, mut costly, mut due) = (Vec::new(), Vec::new(), 0);
        for (priority, id) in ids {
            if costly.first().is_some_and(|(one, _): &(QueuedPod, u64)| one.priority != priority)
                && self.add_costly_pods(&mut pods, &mut costly)
            {
                // Pods of lower priority must not overtake the deferred ones.
                due = PODS_PER_PLAN_MAX;
            }
            let Some(info) = self.cache.pod(id) else { continue };
            let mut is_due = info.queue_state.is_none_or(|state| {
                state.next_attempt_at() <= now
                    || (skips_backoff && state.has_exact_hint && !state.must_back_off)
            });
            if is_due && due == PODS_PER_PLAN_MAX {
                self.plan.requeue_at(now);
                is_due = false;
                if self.cache.nominated_count == 0 {
                    break;
                }
            }
            let nominated_node = self.nominated_node(id);
            if let Some(node) = nominated_node {
                self.nominated_pods.entry(node).or_default().push(id);
            }
            let cost = if is_due { self.attempt_cost(id) } else { 0 };
            let one = QueuedPod { id, priority, is_due };
            if cost > COSTLY_MIN {
                costly.push((one, cost));
                continue;
            }
            due += usize::from(is_due);
            if is_due || nominated_node.is_some() {
                pods.push(one);
            }
        }
        self.add_costly_pods(&mut pods, &mut costly);
        pods
    }

    /// Adds the costly pods of one priority behind the cheap ones, up to a total cost. Beside cheap pods, none is added
    /// until it was deferred for [`DEFERRED_PLANS_MAX`] plans. Returns `true` if some are deferred.
    fn add_costly_pods(&mut self, pods: &mut Vec<QueuedPod>, costly: &mut Vec<(QueuedPod, u64)>) -> bool {
        if costly.is_empty() {
            return false;
        }
        let is_alone = !pods.iter().any(|one| one.is_due);
        let mut budget = PLAN_COST_MAX;
        let mut is_first = is_alone || self.cache.deferred_plans >= DEFERRED_PLANS_MAX;
        let mut can_add = is_first;
        let mut has_deferred = false;
        for (one, cost) in costly.drain(..) {
            can_add &= is_first || cost <= budget;
            is_first = false;
            budget = budget.saturating_sub(cost);
            has_deferred |= !can_add;
            if can_add || self.nominated_node(one.id).is_some() {
                pods.push(QueuedPod { is_due: can_add, ..one });
            }
        }
        if has_deferred {
            self.plan.requeue_at(self.now);
        }
        let counts = has_deferred && !is_alone && self.cache.deferred_plans < DEFERRED_PLANS_MAX;
        self.cache.deferred_plans = if counts { self.cache.deferred_plans + 1 } else { 0 };
        has_deferred
    }

    /// Estimated steps of an attempt.
    fn attempt_cost(&self, id: PodId) -> u64 {
        let info = self.cache.pod(id);
        let entry = info.and_then(|info| self.cache.signatures[info.signature as usize].as_ref());
        let Some(entry) = entry else { return 0 };
        let own = if entry.results.is_some() {
            entry.cost.of_retry()
        } else {
            entry.cost.on_nodes(self.cache.node_count)
        };
        let own = own.saturating_add(entry.device_cost);
        if entry.signature.claims.is_empty() {
            return own;
        }
        // Volumes are searched in every attempt: see `SchedulingCycle::attempt`.
        let claims = volumes::count_unbound_claims(&entry.signature, self.world);
        let large = *self.large_volumes.get_or_init(|| volumes::measure_large_volumes(self.world));
        own.saturating_add(volume_steps(claims, self.world, self.cache.node_count, large))
    }

    /// Node that a pod is nominated to: from its queue state, or from its status before the first attempt.
    pub(super) fn nominated_node(&self, id: PodId) -> Option<usize> {
        let info = self.cache.pod(id).filter(|info| !info.is_bound)?;
        if let Some(state) = info.queue_state {
            return state.nominated_node;
        }
        let name = &info.object.view::<Pod>()?.status.nominated_node_name;
        if name.is_empty() { None } else { self.cache.node_numbers.get(name.as_str()).copied() }
    }
}

/// Steps of the search for volumes, as far as they exceed the usual: one claim, and volumes with small node affinity.
fn volume_steps(claims: usize, world: &WorldReader<'_>, nodes: usize, large: TermSize) -> u64 {
    let to_u64 = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let scanned = if claims > 1 { world.count("persistentvolumes") } else { 0 };
    let compared = large.conditions.saturating_mul(to_u64(nodes)).saturating_add(to_u64(scanned));
    let parsed = if claims > 0 { large.values } else { 0 };
    to_u64(claims).saturating_mul(compared).saturating_add(parsed)
}
