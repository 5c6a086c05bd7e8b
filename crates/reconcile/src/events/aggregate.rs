//! Aggregates: Events that differ only in their message.

use setpoint_api::Time;

use super::logged_event::LoggedEvent;
use super::{AGGREGATE_INTERVAL, AGGREGATE_MIN_MESSAGES, EVENT_TTL};
use crate::clock::Jump;
use crate::plan::EventRecord;

/// Logged Events of one source, object, field path and reason.
///
/// Example with [`AGGREGATE_MIN_MESSAGES`] = 10: the messages `try 0` to `try 8` are logged as nine Events. `try 9` and
/// later ones are counted in a tenth, combined Event, whose message is `(combined from similar events): ` and the latest
/// one. `try 3` still increments its own Event. After [`AGGREGATE_INTERVAL`] without an Event a new round begins, in
/// which nine more messages get an Event of their own.
pub(super) struct Aggregate {
    field_path: Box<str>,
    reason: &'static str,
    last_event_at: Time,
    /// Number of times that it started over.
    pub round: u32,
    pub logged_events: Vec<LoggedEvent>,
}

impl Aggregate {
    pub fn new(record: &EventRecord, now: Time) -> Aggregate {
        Aggregate {
            field_path: record.involved_object.field_path.as_str().into(),
            reason: record.reason,
            last_event_at: now,
            round: 0,
            logged_events: Vec::with_capacity(1),
        }
    }

    pub fn matches(&self, record: &EventRecord) -> bool {
        self.reason == record.reason && *self.field_path == *record.involved_object.field_path
    }

    /// Records the time of an Event. After [`AGGREGATE_INTERVAL`] without an Event a new round begins, and expired Events
    /// are dropped unless a write of them is in flight. Returns the number of dropped Events.
    pub fn record_time(&mut self, now: Time) -> usize {
        let before = self.logged_events.len();
        if now.since(self.last_event_at) > AGGREGATE_INTERVAL {
            self.round = self.round.wrapping_add(1);
            self.logged_events
                .retain(|logged| logged.is_in_flight || now.since(logged.last_event_at) <= EVENT_TTL);
        }
        self.last_event_at = now;
        before - self.logged_events.len()
    }

    /// `true` if an Event with this message is counted in the combined Event. Messages that have an Event of their own in
    /// this round keep it.
    pub fn should_aggregate(&mut self, message: &str) -> bool {
        let existing =
            self.logged_events.iter().position(|logged| logged.message.as_deref() == Some(message));
        if existing.is_some_and(|index| self.logged_events[index].round == self.round) {
            return false;
        }
        // Counts logged Events instead of messages, so that messages of deleted Events do not count forever.
        let is_separate = |logged: &&LoggedEvent| logged.message.is_some() && logged.round == self.round;
        if self.logged_events.iter().filter(is_separate).count() + 1 >= AGGREGATE_MIN_MESSAGES as usize {
            return true;
        }
        if let Some(index) = existing {
            self.logged_events[index].round = self.round;
        }
        false
    }

    pub fn clock_jumped(&mut self, jump: Jump) {
        self.last_event_at = jump.shift(self.last_event_at);
        for logged in &mut self.logged_events {
            logged.last_event_at = jump.shift(logged.last_event_at);
        }
    }
}
