//! Which keys of a controller wait for what.
//!
//! A key is in the queue once and is never planned twice at a time. A key whose plan failed waits out its
//! backoff, unless somebody else changes its world; what its own plans change never cuts the backoff short. A
//! key is not planned before the world shows its own last writes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use setpoint_api::{Key, Resource, Revision, Time};

use crate::planner::SoftState;
use crate::stats::KeyState;
use crate::world::World;

/// The first wait after a failure.
pub const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// The longest.
pub const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// How many conflicts in a row are met by planning at once; the next one backs off.
pub const CONFLICTS_MAX: u32 = 5;

/// How long to wait after so many failures in a row.
#[must_use]
pub fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    (BACKOFF_MIN * (1 << doublings)).min(BACKOFF_MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing to do, or waiting for a time.
    Idle,
    /// In the line.
    Ready,
    /// Planned; its writes are on their way.
    Busy,
}

/// ReconcileReason a key is enqueued_at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileReason {
    /// Its world changed by its own hand.
    OwnChange,
    /// Its world changed by someone else's.
    OtherChange,
    /// Nothing is known to have changed.
    Resync,
}

pub(crate) struct Entry {
    state: State,
    again: Option<ReconcileReason>,
    enqueued_at: Time,
    due: Option<Time>,
    backing_off: bool,
    pub failures: u32,
    pub conflicts: u32,
    is_resync_only: bool,
    own_writes: Vec<(Resource, Revision)>,
    pub soft: SoftState,
}

impl Entry {
    fn new() -> Entry {
        Entry {
            state: State::Idle,
            again: None,
            enqueued_at: Time::EPOCH,
            due: None,
            backing_off: false,
            failures: 0,
            conflicts: 0,
            is_resync_only: false,
            own_writes: Vec::new(),
            soft: SoftState::default(),
        }
    }

    /// Whether forgetting it would lose nothing.
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

    fn sees_own_writes(&mut self, world: &World) -> bool {
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

/// How a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanResult {
    Done,
    Conflict,
    Failed,
}

/// A key to be planned now.
pub(crate) struct QueuedKey {
    pub key: Key,
    pub enqueued_at: Time,
    pub is_resync_only: bool,
}

/// The keys of one controller.
#[derive(Default)]
pub(crate) struct Queue {
    entries: BTreeMap<Key, Entry>,
    ready: VecDeque<Key>,
    /// Keys in the line whose own writes the world does not show yet.
    held: Vec<Key>,
    timers: BTreeSet<(Time, Key)>,
}

impl Queue {
    pub fn enqueue(&mut self, key: Key, reason: ReconcileReason, now: Time) {
        let entry = self.entries.entry(key.clone()).or_insert_with(Entry::new);
        match entry.state {
            State::Ready => entry.is_resync_only &= reason == ReconcileReason::Resync,
            State::Busy => {
                let is_stronger = match entry.again {
                    None => true,
                    Some(ReconcileReason::OtherChange) => false,
                    Some(ReconcileReason::OwnChange | ReconcileReason::Resync) => {
                        reason != ReconcileReason::Resync
                    }
                };
                if is_stronger {
                    entry.again = Some(reason);
                }
            }
            State::Idle if entry.backing_off && reason != ReconcileReason::OtherChange => {}
            State::Idle => {
                // Its own timer would have enqueued_at it at this moment.
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
        entry.backing_off = false;
        entry.enqueued_at = now;
        self.ready.push_back(key);
    }

    /// Puts into the line what is due, and what may see its own writes by now.
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
        self.ready.extend(self.held.drain(..));
    }

    /// The next key to plan.
    pub fn pop(&mut self, world: &World) -> Option<QueuedKey> {
        while let Some(key) = self.ready.pop_front() {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if !entry.sees_own_writes(world) {
                self.held.push(key);
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

    /// Whether there is anything to say about a key.
    pub fn has(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    pub fn entry(&mut self, key: &Key) -> &mut Entry {
        self.entries.entry(key.clone()).or_insert_with(Entry::new)
    }

    /// Takes the end of a plan: back into the line, onto a timer, or out of sight. Says whether conflicts have
    /// become contention.
    pub fn finish(&mut self, key: &Key, end: PlanResult, requeue_at: Option<Time>, now: Time) -> bool {
        let entry = self.entry(key);
        entry.state = State::Idle;
        let again = entry.again.take();
        let mut contention = false;
        match end {
            PlanResult::Done => {
                entry.failures = 0;
                entry.conflicts = 0;
            }
            PlanResult::Conflict => {
                entry.conflicts += 1;
                contention = entry.conflicts > CONFLICTS_MAX;
            }
            PlanResult::Failed => {}
        }
        let failed = contention || end == PlanResult::Failed;
        if failed {
            entry.conflicts = 0;
            entry.failures += 1;
        }
        if failed && again != Some(ReconcileReason::OtherChange) {
            let due = now.after(backoff(entry.failures));
            entry.backing_off = true;
            self.set_timer(key, due);
        } else if again.is_some() || end == PlanResult::Conflict {
            // What the plan itself wanted to be looked at by now, its timer would have enqueued_at.
            let is_due = requeue_at.is_some_and(|due| due <= now);
            entry.is_resync_only =
                again == Some(ReconcileReason::Resync) && end != PlanResult::Conflict && !is_due;
            self.push_ready(key.clone(), now);
        } else if let Some(due) = requeue_at {
            self.set_timer(key, due);
        } else if entry.is_blank() {
            self.entries.remove(key);
        }
        contention
    }

    /// Plans every key anew that waits for a time, and forgets when questions may be repeated: the times were those of
    /// another clock. A key whose plan is under way is planned again after it.
    pub fn clock_jumped(&mut self, now: Time) {
        self.timers.clear();
        let mut due = Vec::new();
        for (key, entry) in &mut self.entries {
            entry.soft.clear_queries();
            match entry.state {
                State::Idle if entry.due.take().is_some() => due.push(key.clone()),
                State::Idle => {}
                State::Ready => entry.enqueued_at = now,
                State::Busy => entry.again = Some(ReconcileReason::OtherChange),
            }
            entry.is_resync_only = false;
        }
        for key in due {
            self.push_ready(key, now);
        }
    }

    /// The keys about which anything is remembered, with that.
    pub fn soft_states(&mut self) -> impl Iterator<Item = &mut SoftState> {
        self.entries.values_mut().map(|entry| &mut entry.soft)
    }

    /// Looks at a key again at a time, if nothing wakes it before.
    fn set_timer(&mut self, key: &Key, due: Time) {
        self.entry(key).due = Some(due);
        self.timers.insert((due, key.clone()));
    }

    /// When the next key is due.
    pub fn next_due(&self) -> Option<Time> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Whether keys are in the line that can be planned.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many keys are in the line.
    pub fn depth(&self) -> usize {
        self.ready.len() + self.held.len()
    }

    /// How many keys have not come to rest: in the line, planned, or waiting out a failure.
    pub fn unsettled(&self) -> usize {
        self.entries.values().filter(|entry| entry.state != State::Idle || entry.backing_off).count()
    }

    /// Forgets all soft state, as a crash does.
    pub fn drop_soft_state(&mut self) {
        for entry in self.entries.values_mut() {
            entry.soft = SoftState::default();
        }
    }

    /// How the keys stand about which there is anything to say.
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
    fn what_a_timer_a_conflict_or_an_own_change_wakes_is_no_gap_that_a_resync_found() {
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
        assert!(!is_gap(&mut queue), "its own write woke it");
        queue.enqueue(key("a"), ReconcileReason::Resync, at(8));
        queue.finish(&key("a"), PlanResult::Conflict, None, at(9));
        assert!(!is_gap(&mut queue), "the conflict woke it");
        queue.enqueue(key("a"), ReconcileReason::Resync, at(10));
        queue.finish(&key("a"), PlanResult::Done, Some(at(10)), at(10));
        assert!(!is_gap(&mut queue), "its plan wanted to look again at once");
        queue.enqueue(key("a"), ReconcileReason::Resync, at(11));
        queue.finish(&key("a"), PlanResult::Done, Some(at(20)), at(11));
        assert!(is_gap(&mut queue), "its plan wanted to look again only later");
    }

    #[test]
    fn a_key_is_in_the_line_once_and_is_never_planned_twice_at_a_time() {
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
    fn only_somebody_elses_change_cuts_the_backoff_short() {
        let (mut queue, world) = (Queue::default(), World::default());
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(0));
        queue.pop(&world).unwrap();
        queue.finish(&key("a"), PlanResult::Failed, None, at(0));
        queue.enqueue(key("a"), ReconcileReason::OwnChange, at(1));
        queue.enqueue(key("a"), ReconcileReason::Resync, at(1));
        queue.promote_due(at(4));
        assert!(queue.pop(&world).is_none());
        queue.enqueue(key("a"), ReconcileReason::OtherChange, at(4));
        queue.pop(&world).expect("someone else's change");
        queue.finish(&key("a"), PlanResult::Failed, None, at(4));
        assert_eq!(queue.next_due(), Some(at(14)), "the second failure waits twice as long");
        queue.promote_due(at(14));
        assert!(queue.pop(&world).is_some());
    }

    #[test]
    fn conflicts_are_planned_at_once_five_times_and_then_back_off() {
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
    fn a_clock_jump_plans_every_waiting_key_once() {
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
        assert_eq!(queue.next_due(), Some(at(-7_200_000 + 10)), "the backoff goes on growing");
    }

    #[test]
    fn a_key_waits_until_the_world_shows_its_own_writes() {
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
