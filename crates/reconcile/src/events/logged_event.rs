//! Logged Events: Events that were written, with their count.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Time, Value};

use super::{EventAttempt, FollowUp, Reporter};
use crate::new_event::NewEvent;
use crate::plan::{EventRecord, MergePatchType, Write};

/// An Event that was written.
pub(super) struct LoggedEvent {
    /// Message; `None` for the combined Event of an aggregate.
    pub message: Option<Box<str>>,
    pub event: Key,
    pub count: i64,
    pub last_event_at: Time,
    /// Round of its aggregate in which it was last written.
    pub round: u32,
    pub is_in_flight: bool,
    /// Last repetition since the in-flight write.
    pub pending: Option<Box<PendingUpdate>>,
}

/// Repetition that waits for the outcome of a write.
pub(super) struct PendingUpdate {
    pub message: String,
    at: Time,
}

impl LoggedEvent {
    /// An Event whose create is in flight.
    pub fn new(message: Option<Box<str>>, event: Key, now: Time, round: u32) -> LoggedEvent {
        LoggedEvent { message, event, count: 1, last_event_at: now, round, is_in_flight: true, pending: None }
    }

    /// Message of the Event in the API.
    fn full_message(&self, message: &str) -> String {
        match self.message {
            Some(_) => message.to_owned(),
            None => format!("(combined from similar events): {message}"),
        }
    }

    /// Returns the patch for a repetition; `None` if it has to wait for the in-flight write.
    pub fn update(&mut self, message: &str, now: Time) -> Option<Write> {
        self.last_event_at = now;
        if self.is_in_flight {
            self.pending = Some(Box::new(PendingUpdate { message: message.to_owned(), at: now }));
            return None;
        }
        self.is_in_flight = true;
        Some(self.patch(message, now))
    }

    /// Returns the write that creates the Event.
    pub fn create(&self, reporter: Reporter<'_>, record: &EventRecord, at: Time) -> Write {
        Write::CreateEvent(Box::new(NewEvent {
            key: self.event.clone(),
            involved_object: record.involved_object.clone(),
            event_type: record.event_type,
            reason: record.reason,
            message: self.full_message(&record.message),
            action: record.action,
            reporter: reporter.name.into(),
            host: reporter.host.into(),
            at,
        }))
    }

    fn patch(&self, message: &str, at: Time) -> Write {
        let patch = [
            ("count", Value::from(self.count)),
            ("lastTimestamp", Value::from(Seconds(at).to_string())),
            ("message", Value::from(self.full_message(message))),
        ];
        Write::Patch {
            key: self.event.clone(),
            subresource: "",
            patch_type: MergePatchType::Merge,
            patch: Value::Map(patch.into_iter().collect()),
            uid: None,
            revision: None,
        }
    }

    /// Confirms that the Event exists. Returns the pending update.
    pub fn confirm(&mut self, attempt: &mut EventAttempt) -> Option<FollowUp> {
        attempt.retries = 0;
        let follow_up = self.take_pending(attempt);
        self.is_in_flight = follow_up.is_some();
        follow_up
    }

    /// Returns the write of the pending update.
    fn take_pending(&mut self, attempt: &mut EventAttempt) -> Option<FollowUp> {
        let PendingUpdate { message, at } = *self.pending.take()?;
        attempt.is_update = true;
        attempt.at = at;
        Some(FollowUp::Write(self.patch(&message, at), Some(message)))
    }

    /// Repeats a write with an unknown outcome. A create is repeated unchanged, under the same name, so that there are
    /// never two Events; an update is repeated with the latest message.
    pub fn retry(
        &mut self,
        reporter: Reporter<'_>,
        record: &EventRecord,
        attempt: &mut EventAttempt,
    ) -> FollowUp {
        attempt.retries += 1;
        if !attempt.is_update {
            return FollowUp::Write(self.create(reporter, record, attempt.at), None);
        }
        let pending = self.take_pending(attempt);
        pending.unwrap_or_else(|| FollowUp::Write(self.patch(&record.message, attempt.at), None))
    }
}
