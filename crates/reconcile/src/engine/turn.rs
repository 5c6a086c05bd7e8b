//! Turns: plans the keys that are due, and sends the writes of plans in batches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use setpoint_api::{Key, Time};

use super::plan_progress::PlanProgress;
use super::{Engine, InFlightWrite, SentAction, Turn, WriteRequest, reconciler_tag};
use crate::plan::{Action, Plan};
use crate::planner::{ErasedMemo, Failure, Seed, SoftStateMut};
use crate::queue::{PlanResult, QueuedKey};

/// Maximum number of keys planned in one turn, so that changes and outcomes are taken in between.
pub const TURN_PLANS_MAX: usize = 256;
/// Number of in-flight writes above which every plan sends one write at a time. It keeps a turn short however many plans
/// are large.
pub const IN_FLIGHT_WRITES_MAX: usize = 4096;

impl Engine {
    /// Plans the keys that are due. Returns the writes to send, the queries to answer, and the time of the next turn.
    pub fn turn(&mut self, now: Time, seed: Seed) -> Turn {
        let mut turn = Turn::default();
        self.resync(now);
        for state in &mut self.controllers {
            state.queue.promote_due(now);
            state.stats.peak_queue_depth = state.stats.peak_queue_depth.max(state.queue.depth());
        }
        let depths = self.controllers.iter().map(|state| state.queue.depth());
        if self.first_pass.as_mut().is_some_and(|first_pass| first_pass.begin_turn(depths)) {
            self.first_pass = None;
        }
        let mut plans = 0;
        // Round-robin over the controllers, so that a long queue does not delay other controllers.
        while plans < TURN_PLANS_MAX {
            let before = plans;
            for controller in 0..self.controllers.len() {
                let state = &mut self.controllers[controller];
                if let Some(queued) = state.queue.pop(&self.world) {
                    if let Some(first_pass) = &mut self.first_pass {
                        first_pass.begin_plan(controller, state.controller.name(), &queued.key);
                    }
                    self.plan(controller, queued, now, Seed(seed.draw(plans as u64)), &mut turn);
                    plans += 1;
                }
            }
            if plans == before {
                break;
            }
        }
        let dues = self.controllers.iter().filter_map(|state| state.queue.next_due());
        turn.next_turn_at = dues.chain(self.next_resync_at).min();
        if self.controllers.iter().any(|state| state.queue.has_ready()) {
            turn.next_turn_at = Some(now);
        }
        turn
    }

    fn plan(&mut self, controller: usize, queued: QueuedKey, now: Time, seed: Seed, turn: &mut Turn) {
        let state = &mut self.controllers[controller];
        let QueuedKey { key, enqueued_at, is_resync_only } = queued;
        state.stats.plans += 1;
        state.stats.record_lag(now.since(enqueued_at));
        let entry = state.queue.entry(&key);
        if entry.failures > 0 {
            state.stats.retries += 1;
        }
        let (planner, world) = (&state.controller, &self.world);
        let reader = world.reader_for(&key);
        let soft = SoftStateMut(&mut entry.soft);
        let planned = catch_unwind(AssertUnwindSafe(|| planner.plan_any(&key, &reader, soft, now, seed)));
        state.reads = state.reads.and(reader.reads());
        let planned = planned.map(|mut plan| {
            plan.truncate();
            plan
        });
        let Ok(Plan { stages, events, mut queries, mut requeue_at, deferred, memo: ErasedMemo(memo) }) =
            planned
        else {
            state.stats.panics += 1;
            entry.soft.failure = Some(Failure {
                verb: "plan",
                resource: key.resource().clone(),
                reason: "Panic".to_owned(),
                message: format!("{} panicked", state.controller.name()),
                at: now,
            });
            state.queue.finish(&key, PlanResult::Failed, None, now);
            return;
        };
        entry.soft.memo = memo;
        queries.retain(|query| match entry.soft.query_limiter.try_send(&query.id, now) {
            Ok(()) => true,
            Err(retry_at) => {
                requeue_at = Some(requeue_at.map_or(retry_at, |planned| planned.min(retry_at)));
                false
            }
        });
        // Without an action nothing would change until then, and the key would keep the loop busy.
        if deferred > 0 && stages.iter().any(|stage| !stage.is_empty()) {
            state.stats.truncated_plans += 1;
            requeue_at = Some(requeue_at.map_or(now, |planned| planned.min(now)));
        }
        let progress = PlanProgress::new(stages, deferred, requeue_at, world.revision());
        let is_quiet = progress.is_finished() && events.is_empty() && queries.is_empty();
        if is_quiet && world.get(&key).is_none() {
            entry.soft.clear_queries();
        }
        if is_quiet {
            state.non_quiet_keys.remove(&key);
        } else {
            state.non_quiet_keys.insert(key.clone());
        }
        state.stats.quiet += u64::from(is_quiet);
        state.stats.resync_gaps += u64::from(is_resync_only && !is_quiet);
        let name = state.controller.name();
        turn.queries.extend(queries.into_iter().map(|query| (name, key.clone(), query)));
        state.progress.insert(key.clone(), progress);
        for event in events {
            self.record_event(controller, &key, event, now, turn);
        }
        self.send_next_batch(controller, &key, now, turn);
    }

    /// Sends the next batch of a plan, or finishes the plan.
    pub(super) fn send_next_batch(&mut self, controller: usize, key: &Key, now: Time, turn: &mut Turn) {
        let state = &mut self.controllers[controller];
        let Some(progress) = state.progress.get_mut(key) else { return };
        if progress.in_flight > 0 {
            return;
        }
        let room = IN_FLIGHT_WRITES_MAX.saturating_sub(self.in_flight.len());
        let (batch, seen) = (progress.next_batch(room), progress.seen);
        if batch.is_empty() {
            let (result, requeue_at) = (progress.result(), progress.requeue_at);
            state.progress.remove(key);
            if result == PlanResult::Done {
                state.queue.entry(key).soft.failure = None;
            }
            state.stats.contentions += u64::from(state.queue.finish(key, result, requeue_at, now));
            return;
        }
        let reconciler: Arc<str> = reconciler_tag(state.controller.name(), key).into();
        let (user, manager) = (state.user_for(key, &self.world), state.controller.manager());
        for Action { write, done, failed } in batch {
            let id = self.next_write_id();
            let action = SentAction { verb: write.verb(), resource: write.resource().clone(), done, failed };
            let in_flight = InFlightWrite::Action { controller, key: key.clone(), action: Box::new(action) };
            self.in_flight.insert(id, in_flight);
            let (user, reconciler) = (Arc::clone(&user), Arc::clone(&reconciler));
            turn.writes.push(WriteRequest { id, write, user, manager, reconciler, seen });
        }
    }
}
