//! Event correlator: aggregates, counts and rate-limits Events per source and object.
//!
//! - A repeated Event increments the count of the existing one.
//! - Events of one source and object with one reason and many different messages are aggregated into one.
//! - A source that emits too many Events on one object is limited by a token bucket.
//!
//! The bounds are those of client-go. All state is soft: losing it creates a second Event instead of counting the first.
//!
//! The existence of an Event is unknown while a write of it is in flight. Repetitions wait for the outcome, and are
//! then written as one update. Start at [`EventCorrelator::record`].

mod aggregate;
mod logged_event;

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::{Key, Time};

use crate::clock::Jump;
use crate::int32;
use crate::plan::{EventRecord, EventType, Write};
use crate::planner::key_of;
use aggregate::Aggregate;
use logged_event::LoggedEvent;

/// Number of logged Events above which the least recent half is evicted.
const LOGGED_EVENTS_MAX: usize = 4096;
/// Number of different messages of one reason from which on they are aggregated.
const AGGREGATE_MIN_MESSAGES: u32 = 10;
/// Time without an Event after which an aggregate starts over.
const AGGREGATE_INTERVAL: Duration = Duration::from_secs(600);
/// Size of the token bucket: number of Events that a source may write on one object at once.
const SPAM_BURST: u32 = 25;
/// Time in which the token bucket gains one token.
const SPAM_REFILL_INTERVAL: Duration = Duration::from_secs(300);
/// Time after its last write for which an Event can still exist.
const EVENT_TTL: Duration = Duration::from_secs(3600);
/// Maximum number of retries of a write with an unknown outcome.
const RETRIES_MAX: u32 = 2;

/// Reporter of an Event.
#[derive(Clone, Copy)]
pub(crate) struct Reporter<'a> {
    /// Component that the rate limit applies to.
    pub source: &'static str,
    /// Name of the reporting component in the Event.
    pub name: &'a str,
    /// Node; empty if there is none.
    pub host: &'a str,
}

/// Turns event records into writes of Events.
#[derive(Default)]
pub(crate) struct EventCorrelator {
    spam_records: BTreeMap<SpamKey, SpamRecord>,
    /// Number of logged Events in all records.
    logged_count: usize,
    /// Size after the last eviction.
    len_after_eviction: usize,
}

/// Key of the rate limit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SpamKey {
    source: &'static str,
    event_type: EventType,
    object: Key,
    uid: Box<str>,
}

/// Rate limit and logged Events of one source and object.
struct SpamRecord {
    tokens: u32,
    /// Time of the last refill.
    refilled_at: Time,
    last_event_at: Time,
    aggregates: Vec<Aggregate>,
}

/// Attempt to write a logged Event; identifies it when the outcome arrives.
pub(crate) struct EventAttempt {
    spam_key: SpamKey,
    event: Key,
    /// `true` for a patch of an existing Event.
    is_update: bool,
    /// Time of the Event, so that a retry repeats the same write.
    at: Time,
    retries: u32,
}

/// Outcome of a write of an Event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventOutcome {
    /// The Event exists.
    Exists,
    /// Unknown: the connection broke, or a precondition failed, possibly on another object than the Event.
    Unknown,
    /// The Event does not exist.
    Gone,
    /// Rejected by the API server.
    Rejected,
}

/// Write that follows from the outcome of the last one.
pub(crate) enum FollowUp {
    /// Send this write; the message is the one of a later repetition, if there was one.
    Write(Write, Option<String>),
    /// Record the Event again, with the message of a later repetition if there was one.
    Recreate(Option<String>),
}

impl EventCorrelator {
    /// Returns the write that creates or updates the Event. `None` if it is rate-limited, or waits for the outcome of the
    /// last write.
    pub fn record(
        &mut self,
        reporter: Reporter<'_>,
        record: &EventRecord,
        now: Time,
        nonce: u64,
    ) -> Option<(Write, EventAttempt)> {
        self.evict();
        let object = &record.involved_object;
        let (source, event_type) = (reporter.source, record.event_type);
        let spam_key = SpamKey { source, event_type, object: object.key.clone(), uid: object.uid.clone() };
        let spam_record = self.spam_records.entry(spam_key.clone()).or_insert_with(|| SpamRecord::new(now));
        spam_record.last_event_at = now;
        if !spam_record.try_take_token(now) {
            return None;
        }
        let aggregate = spam_record.aggregate(record, now);
        self.logged_count -= aggregate.record_time(now);
        let message =
            if aggregate.should_aggregate(&record.message) { None } else { Some(record.message.as_str()) };
        if let Some(logged) =
            aggregate.logged_events.iter_mut().find(|logged| logged.message.as_deref() == message)
        {
            logged.count = int32::saturating_increment(logged.count);
            let write = logged.update(&record.message, now)?;
            let event = logged.event.clone();
            return Some((write, EventAttempt { spam_key, event, is_update: true, at: now, retries: 0 }));
        }
        let namespace = object.key.namespace().unwrap_or("default");
        let name = format!("{}.{nonce:x}", object.key.name());
        let event = key_of("events", namespace, &name)?;
        let attempt = EventAttempt { spam_key, event: event.clone(), is_update: false, at: now, retries: 0 };
        let logged = LoggedEvent::new(message.map(Into::into), event, now, aggregate.round);
        let write = logged.create(reporter, record, now);
        aggregate.logged_events.push(logged);
        self.logged_count += 1;
        Some((write, attempt))
    }

    /// Handles the outcome of an attempt. Returns the write that follows from it.
    pub fn complete(
        &mut self,
        reporter: Reporter<'_>,
        record: &EventRecord,
        attempt: &mut EventAttempt,
        outcome: EventOutcome,
    ) -> Option<FollowUp> {
        let spam_record = self.spam_records.get_mut(&attempt.spam_key)?;
        for aggregate in &mut spam_record.aggregates {
            let logged_events = &mut aggregate.logged_events;
            let Some(index) = logged_events.iter().position(|logged| logged.event == attempt.event) else {
                continue;
            };
            match outcome {
                EventOutcome::Unknown if attempt.retries < RETRIES_MAX => {
                    return Some(logged_events[index].retry(reporter, record, attempt));
                }
                // If the Event does not exist after all, the next update finds it gone.
                EventOutcome::Exists | EventOutcome::Unknown => return logged_events[index].confirm(attempt),
                EventOutcome::Gone | EventOutcome::Rejected => {}
            }
            let logged = logged_events.swap_remove(index);
            self.logged_count -= 1;
            // Events expire, and users delete them. A create that fails would fail again.
            if outcome == EventOutcome::Gone && attempt.is_update {
                spam_record.tokens += 1;
                return Some(FollowUp::Recreate(logged.pending.map(|update| update.message)));
            }
        }
        None
    }

    /// Bounds memory: if there are too many records, drops the least recent half, except those with a write in flight.
    /// If most are in flight, few can be dropped, so the next eviction waits until there are half as many more.
    /// Otherwise every record would scan all of them.
    fn evict(&mut self) {
        if self.len() < LOGGED_EVENTS_MAX.max(self.len_after_eviction + self.len_after_eviction / 2) {
            return;
        }
        let middle = median(self.spam_records.values().map(|record| record.last_event_at));
        self.spam_records.retain(|_, record| {
            record.last_event_at > middle || record.logged_events().any(|logged| logged.is_in_flight)
        });
        self.logged_count = self.spam_records.values().map(|record| record.logged_events().count()).sum();
        self.len_after_eviction = self.len();
    }

    /// Shifts all times by a step of the clock, so that ages stay the same.
    pub fn clock_jumped(&mut self, jump: Jump) {
        for record in self.spam_records.values_mut() {
            record.refilled_at = jump.shift(record.refilled_at);
            record.last_event_at = jump.shift(record.last_event_at);
            for aggregate in &mut record.aggregates {
                aggregate.clock_jumped(jump);
            }
        }
    }

    fn len(&self) -> usize {
        self.spam_records.len().max(self.logged_count)
    }
}

impl SpamRecord {
    fn new(now: Time) -> SpamRecord {
        SpamRecord { tokens: SPAM_BURST, refilled_at: now, last_event_at: now, aggregates: Vec::new() }
    }

    fn logged_events(&self) -> impl Iterator<Item = &LoggedEvent> {
        self.aggregates.iter().flat_map(|aggregate| &aggregate.logged_events)
    }

    fn try_take_token(&mut self, now: Time) -> bool {
        let earned = now.since(self.refilled_at).as_secs() / SPAM_REFILL_INTERVAL.as_secs();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(SPAM_BURST);
            self.tokens = self.tokens.saturating_add(earned).min(SPAM_BURST);
            self.refilled_at = now;
        }
        let has_token = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        has_token
    }

    fn aggregate(&mut self, record: &EventRecord, now: Time) -> &mut Aggregate {
        let position = self.aggregates.iter().position(|aggregate| aggregate.matches(record));
        let index = position.unwrap_or_else(|| {
            self.aggregates.push(Aggregate::new(record, now));
            self.aggregates.len() - 1
        });
        &mut self.aggregates[index]
    }
}

fn median(times: impl Iterator<Item = Time>) -> Time {
    let mut times: Vec<Time> = times.collect();
    let middle = times.len() / 2;
    *times.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests;
