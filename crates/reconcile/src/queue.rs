//! Work queue of a controller: keys that are ready, busy, or wait for a time.
//!
//! - A key is queued once, and is never planned twice at a time. A key that is enqueued while it is busy is planned again
//!   afterwards.
//! - A key is not planned before the world shows its own last writes.
//! - A key whose plan failed waits for its backoff. Changes by other clients end the backoff early; changes by its own
//!   plans, and resyncs, do not.
//! - Ready keys are first in, first out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use setpoint_api::{Key, Resource, Revision, Time};

use crate::planner::SoftState;
use crate::stats::KeyState;
use crate::world::World;

/// Backoff after the first failure.
const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// Maximum backoff.
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Maximum number of conflicts in a row after which the key is planned again at once; the next one backs off.
const CONFLICTS_MAX: u32 = 5;

/// Backoff after this number of failures in a row.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    (BACKOFF_MIN * (1 << doublings)).min(BACKOFF_MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing to do, or waiting for a time.
    Idle,
    /// Queued.
    Ready,
    /// Planned; its writes are in flight.
    Busy,
}

/// Reason to plan a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileReason {
    /// A change that a plan of the key caused, or the answer of its query.
    OwnChange,
    /// A change by another client.
    OtherChange,
    /// A resync: no known change.
    Resync,
}

pub(crate) struct QueueEntry {
    state: State,
    /// Strongest reason since the key became busy.
    requeue: Option<ReconcileReason>,
    enqueued_at: Time,
    /// Time of its timer.
    due: Option<Time>,
    is_backing_off: bool,
    /// Number of failures in a row.
    pub failures: u32,
    /// Number of conflicts in a row.
    conflicts: u32,
    /// `true` if nothing but resyncs enqueued the key.
    is_resync_only: bool,
    /// Latest own write of each resource that the world does not show yet.
    own_writes: Vec<(Resource, Revision)>,
    pub soft: SoftState,
}

impl QueueEntry {
    fn new() -> QueueEntry {
        QueueEntry {
            state: State::Idle,
            requeue: None,
            enqueued_at: Time::EPOCH,
            due: None,
            is_backing_off: false,
            failures: 0,
            conflicts: 0,
            is_resync_only: false,
            own_writes: Vec::new(),
            soft: SoftState::default(),
        }
    }

    /// `true` if dropping the entry loses nothing.
    fn is_blank(&self) -> bool {
        self.state == State::Idle
            && self.due.is_none()
            && self.failures == 0
            && self.own_writes.is_empty()
            && self.soft.memo.is_none()
            && self.soft.answers.is_empty()
            && self.soft.query_limiter.is_empty()
            && self.soft.failure.is_none()
    }

    fn observes_own_writes(&mut self, world: &World) -> bool {
        self.own_writes.retain(|(resource, revision)| world.revision_of(resource) < *revision);
        self.own_writes.is_empty()
    }

    pub fn record_own_write(&mut self, resource: Resource, revision: Revision) {
        match self.own_writes.iter_mut().find(|(other, _)| *other == resource) {
            Some((_, newest)) => *newest = revision.max(*newest),
            None => self.own_writes.push((resource, revision)),
        }
    }
}

/// Result of carrying out a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanResult {
    Done,
    Conflict,
    Failed,
}

/// Key to plan now.
pub(crate) struct QueuedKey {
    pub key: Key,
    pub enqueued_at: Time,
    pub is_resync_only: bool,
}

/// Keys of one controller.
#[derive(Default)]
pub(crate) struct Queue {
    entries: BTreeMap<Key, QueueEntry>,
    ready: VecDeque<Key>,
    /// Ready keys whose own writes the world does not show yet.
    blocked: Vec<Key>,
    timers: BTreeSet<(Time, Key)>,
}

impl Queue {
    pub fn enqueue(&mut self, key: Key, reason: ReconcileReason, now: Time) {
        let entry = self.entries.entry(key.clone()).or_insert_with(QueueEntry::new);
        match entry.state {
            State::Ready => entry.is_resync_only &= reason == ReconcileReason::Resync,
            State::Busy => {
                let is_stronger = match entry.requeue {
                    None => true,
                    Some(ReconcileReason::OtherChange) => false,
                    Some(ReconcileReason::OwnChange | ReconcileReason::Resync) => {
                        reason != ReconcileReason::Resync
                    }
                };
                if is_stronger {
                    entry.requeue = Some(reason);
                }
            }
            State::Idle if entry.is_backing_off && reason != ReconcileReason::OtherChange => {}
            State::Idle => {
                // If its timer is due as well, the resync did not find a gap.
                let is_due = entry.due.is_some_and(|due| due <= now);
                entry.is_resync_only = reason == ReconcileReason::Resync && !is_due;
                self.push_ready(key, now);
            }
        }
    }

    fn push_ready(&mut self, key: Key, now: Time) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(due) = entry.due.take() {
            self.timers.remove(&(due, key.clone()));
        }
        entry.state = State::Ready;
        entry.is_backing_off = false;
        entry.enqueued_at = now;
        self.ready.push_back(key);
    }

    /// Makes the keys ready whose timers are due, and checks blocked keys again.
    pub fn promote_due(&mut self, now: Time) {
        while let Some((due, _)) = self.timers.first()
            && *due <= now
        {
            let Some((due, key)) = self.timers.pop_first() else { break };
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.due = None;
                entry.is_resync_only = false;
            }
            self.push_ready(key, due);
        }
        self.ready.extend(self.blocked.drain(..));
    }

    /// Returns the next key to plan, which becomes busy.
    pub fn pop(&mut self, world: &World) -> Option<QueuedKey> {
        while let Some(key) = self.ready.pop_front() {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if !entry.observes_own_writes(world) {
                self.blocked.push(key);
                continue;
            }
            entry.state = State::Busy;
            return Some(QueuedKey {
                enqueued_at: entry.enqueued_at,
                is_resync_only: entry.is_resync_only,
                key,
            });
        }
        None
    }

    /// `true` if the key has any state.
    pub fn has(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    pub fn entry(&mut self, key: &Key) -> &mut QueueEntry {
        self.entries.entry(key.clone()).or_insert_with(QueueEntry::new)
    }

    /// Finishes a plan: requeues the key, sets its timer, or drops its entry. Returns `true` if there were more than
    /// [`CONFLICTS_MAX`] conflicts in a row.
    pub fn finish(&mut self, key: &Key, result: PlanResult, requeue_at: Option<Time>, now: Time) -> bool {
        let entry = self.entry(key);
        entry.state = State::Idle;
        let requeue = entry.requeue.take();
        let mut is_contended = false;
        match result {
            PlanResult::Done => {
                entry.failures = 0;
                entry.conflicts = 0;
            }
            PlanResult::Conflict => {
                entry.conflicts += 1;
                is_contended = entry.conflicts > CONFLICTS_MAX;
            }
            PlanResult::Failed => {}
        }
        let has_failed = is_contended || result == PlanResult::Failed;
        if has_failed {
            entry.conflicts = 0;
            entry.failures += 1;
        }
        if has_failed && requeue != Some(ReconcileReason::OtherChange) {
            let due = now.after(backoff(entry.failures));
            entry.is_backing_off = true;
            self.set_timer(key, due);
        } else if requeue.is_some() || result == PlanResult::Conflict {
            // If the plan is to be requeued by now anyway, the resync did not find a gap.
            let is_due = requeue_at.is_some_and(|due| due <= now);
            entry.is_resync_only =
                requeue == Some(ReconcileReason::Resync) && result != PlanResult::Conflict && !is_due;
            self.push_ready(key.clone(), now);
        } else if let Some(due) = requeue_at {
            self.set_timer(key, due);
        } else if entry.is_blank() {
            self.entries.remove(key);
        }
        is_contended
    }

    /// Enqueues every key that waits for a time, and drops queries and answers: their times are those of the clock before
    /// the step. A busy key is planned again afterwards.
    pub fn clock_jumped(&mut self, now: Time) {
        self.timers.clear();
        let mut due = Vec::new();
        for (key, entry) in &mut self.entries {
            entry.soft.clear_queries();
            match entry.state {
                State::Idle if entry.due.take().is_some() => due.push(key.clone()),
                State::Idle => {}
                State::Ready => entry.enqueued_at = now,
                State::Busy => entry.requeue = Some(ReconcileReason::OtherChange),
            }
            entry.is_resync_only = false;
        }
        for key in due {
            self.push_ready(key, now);
        }
    }

    /// Soft states of all keys.
    pub fn soft_states(&mut self) -> impl Iterator<Item = &mut SoftState> {
        self.entries.values_mut().map(|entry| &mut entry.soft)
    }

    /// Enqueues a key at a time, unless it is enqueued before.
    fn set_timer(&mut self, key: &Key, due: Time) {
        self.entry(key).due = Some(due);
        self.timers.insert((due, key.clone()));
    }

    /// Time of the first timer.
    pub fn next_due(&self) -> Option<Time> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// `true` if a key can be planned now.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Number of ready keys, including those that wait for their own writes.
    pub fn depth(&self) -> usize {
        self.ready.len() + self.blocked.len()
    }

    /// Number of keys that are ready, busy or backing off.
    pub fn unsettled(&self) -> usize {
        self.entries.values().filter(|entry| entry.state != State::Idle || entry.is_backing_off).count()
    }

    /// Drops all soft state, as a crash does.
    pub fn drop_soft_state(&mut self) {
        for entry in self.entries.values_mut() {
            entry.soft = SoftState::default();
        }
    }

    /// States of all keys that have any.
    pub fn states(&self) -> impl Iterator<Item = KeyState> {
        self.entries.iter().map(|(key, entry)| KeyState {
            key: key.clone(),
            failures: entry.failures,
            next: entry.due,
            last_error: entry.soft.failure.as_ref().map(|failure| failure.message.clone()),
            waiting_writes: 0,
            deferred_writes: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::cluster(&Resource::new("things").unwrap(), name).unwrap()
    }

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    #[test]
    fn backoff_doubles_from_5_ms_to_5_min() {
        assert_eq!(backoff(1), Duration::from_millis(5));
        assert_eq!(backoff(2), Duration::from_millis(10));
        assert_eq!(backoff(17), BACKOFF_MAX);
        assert_eq!(backoff(u32::MAX), BACKOFF_MAX);
    }

    #[test]
    fn resync_of_a_key_with_another_reason_is_not_a_gap() {
        let (mut queue, world) = (Queue::default(), World::default());
        let is_gap = |queue: &mut Queue| queue.pop(&world).unwrap().is_resync_only;
        queue.enqueue(key("a"), ReconcileReason::Resync, at(0));
        assert!(is_gap(&mut queue));
        queue.finish(&key("a"), PlanResult::Done, Some(at(5)), at(1));
        queue.enqueue(key("a"), ReconcileReason::Resync, at(5));
        assert!(!is_gap(&mut queue), "the timer was due");
        queue.enqueue(key("a"), ReconcileReason::OwnChange, at(6));
        queue.enqueue(key("a"), ReconcileReason::Resync, at(6));
        queue.finish(&key("a"), PlanResult::Done, None, at(7));
        assert!(!is_gap(&mut queue), "its own write enqueued it");
        queue.enqueue(key("a"), ReconcileReason::Resync, at(8));
        queue.finish(&key("a"), PlanResult::Conflict, None, at(9));
        assert!(!is_gap(&mut queue), "the conflict requeued it");
        queue.enqueue(key("a"), ReconcileReason::Resync, at(10));
        queue.finish(&key("a"), PlanResult::Done, Some(at(10)), at(10));
        assert!(!is_gap(&mut queue), "its plan requeued it at once");
        queue.enqueue(key("a"), ReconcileReason::Resync, at(11));
        queue.finish(&key("a"), PlanResult::Done, Some(at(20)), at(11));
        assert!(is_gap(&mut queue), "its plan requeues it only later");
    }

    #[test]
    fn key_is_queued_once_and_never_planned_twice_at_a_time() {
        let (mut queue, world) = (Queue::default(), World::default());
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(0));
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(1));
        let popped = queue.pop(&world).unwrap();
        assert_eq!(popped.enqueued_at, at(0));
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(2));
        assert!(queue.pop(&world).is_none(), "planned while busy");
        queue.finish(&key("a"), PlanResult::Done, None, at(3));
        assert!(queue.pop(&world).is_some(), "the change in between was lost");
        queue.finish(&key("a"), PlanResult::Done, None, at(4));
        assert!(queue.pop(&world).is_none());
        assert!(queue.entries.is_empty(), "an idle key costs memory");
    }

    #[test]
    fn only_changes_by_other_clients_end_a_backoff_early() {
        let (mut queue, world) = (Queue::default(), World::default());
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(0));
        queue.pop(&world).unwrap();
        queue.finish(&key("a"), PlanResult::Failed, None, at(0));
        queue.enqueue(key("a"), ReconcileReason::OwnChange, at(1));
        queue.enqueue(key("a"), ReconcileReason::Resync, at(1));
        queue.promote_due(at(4));
        assert!(queue.pop(&world).is_none());
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(4));
        queue.pop(&world).expect("change by another client");
        queue.finish(&key("a"), PlanResult::Failed, None, at(4));
        assert_eq!(queue.next_due(), Some(at(14)), "the backoff doubles");
        queue.promote_due(at(14));
        assert!(queue.pop(&world).is_some());
    }

    #[test]
    fn key_backs_off_after_more_than_five_conflicts_in_a_row() {
        let (mut queue, world) = (Queue::default(), World::default());
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(0));
        for _ in 0..CONFLICTS_MAX {
            queue.pop(&world).unwrap();
            assert!(!queue.finish(&key("a"), PlanResult::Conflict, None, at(0)));
        }
        queue.pop(&world).unwrap();
        assert!(queue.finish(&key("a"), PlanResult::Conflict, None, at(0)), "contention");
        assert!(queue.pop(&world).is_none());
        assert_eq!(queue.next_due(), Some(at(5)));
    }

    #[test]
    fn clock_jump_enqueues_every_waiting_key_once() {
        let (mut queue, world) = (Queue::default(), World::default());
        for name in ["failed", "scheduled", "busy"] {
            queue.enqueue(key(name), ReconcileReason::OtherChange, at(0));
            queue.pop(&world).unwrap();
        }
        queue.finish(&key("failed"), PlanResult::Failed, None, at(0));
        queue.finish(&key("scheduled"), PlanResult::Done, Some(at(3_600_000)), at(0));
        queue.clock_jumped(at(-7_200_000));
        assert_eq!(queue.next_due(), None);
        let mut planned: Vec<Key> =
            std::iter::from_fn(|| queue.pop(&world)).map(|popped| popped.key).collect();
        planned.sort();
        assert_eq!(planned, [key("failed"), key("scheduled")]);
        queue.finish(&key("busy"), PlanResult::Done, Some(at(3_600_000)), at(-7_200_000));
        assert_eq!(queue.pop(&world).map(|popped| popped.key), Some(key("busy")));
        queue.finish(&key("failed"), PlanResult::Failed, None, at(-7_200_000));
        assert_eq!(queue.next_due(), Some(at(-7_200_000 + 10)), "the backoff keeps growing");
    }

    #[test]
    fn key_waits_until_the_world_shows_its_own_writes() {
        let (mut queue, mut world) = (Queue::default(), World::default());
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(0));
        queue.pop(&world).unwrap();
        queue.entry(&key("a")).record_own_write(Resource::new("pods").unwrap(), Revision(9));
        queue.finish(&key("a"), PlanResult::Done, None, at(0));
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(1));
        assert!(queue.pop(&world).is_none());
        world.advance_to(Revision(9));
        queue.promote_due(at(1));
        assert!(queue.pop(&world).is_some());
    }
}
