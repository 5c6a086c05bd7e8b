//! Writes of Events: sends what the event correlator decides, and hands the outcomes back to it.

use std::sync::Arc;

use setpoint_api::{Key, Time};

use super::controller_state::node_user;
use super::{Engine, InFlightWrite, Turn, WriteOutcome, WriteRequest, reconciler_tag};
use crate::events::{EventAttempt, EventOutcome, FollowUp, Reporter};
use crate::plan::{EventRecord, Write};

/// An Event that is being written.
pub(super) struct EventWrite {
    controller: usize,
    record: EventRecord,
    /// Node that reports the Event.
    host: Option<String>,
    reconciler: Arc<str>,
    attempt: EventAttempt,
}

impl Engine {
    /// Records an Event of a controller's key.
    pub(super) fn record_event(
        &mut self,
        controller: usize,
        key: &Key,
        record: EventRecord,
        now: Time,
        turn: &mut Turn,
    ) {
        let state = &self.controllers[controller];
        let host = state.controller.node(key, &self.world.reader());
        let reconciler: Arc<str> =
            reconciler_tag(state.controller.name(), &record.involved_object.key).into();
        self.correlate_event(controller, record, host, reconciler, now, turn);
    }

    fn correlate_event(
        &mut self,
        controller: usize,
        record: EventRecord,
        host: Option<String>,
        reconciler: Arc<str>,
        now: Time,
        turn: &mut Turn,
    ) {
        // Names of Events only have to be unique, which the time and a counter ensure.
        let nonce = now.0.unsigned_abs().wrapping_mul(1000).wrapping_add(self.last_write_id % 1000);
        let source = self.controllers[controller].controller.source();
        let reporter = reporter_of(source, &record, host.as_deref());
        let Some((write, attempt)) = self.event_correlator.record(reporter, &record, now, nonce) else {
            return;
        };
        self.send_event(EventWrite { controller, record, host, reconciler, attempt }, write, turn);
    }

    fn send_event(&mut self, event_write: EventWrite, write: Write, turn: &mut Turn) {
        let id = self.next_write_id();
        let state = &self.controllers[event_write.controller];
        let user = event_write.host.as_deref().map_or_else(|| Arc::clone(&state.user), node_user);
        let (manager, seen) = (state.controller.manager(), self.world.revision());
        let reconciler = Arc::clone(&event_write.reconciler);
        turn.writes.push(WriteRequest { id, write, user, manager, reconciler, seen });
        self.in_flight.insert(id, InFlightWrite::Event(Box::new(event_write)));
    }

    /// Takes in the outcome of an Event's write, and sends the write that follows from it: a retry, an update that was
    /// recorded meanwhile, or a new Event in place of a deleted one.
    pub(super) fn complete_event_write(
        &mut self,
        mut event_write: EventWrite,
        outcome: &WriteOutcome,
        now: Time,
        turn: &mut Turn,
    ) {
        let outcome = match outcome {
            WriteOutcome::Gone => EventOutcome::Gone,
            WriteOutcome::Rejected(_) => EventOutcome::Rejected,
            WriteOutcome::Done { .. } => EventOutcome::Exists,
            // A create conflicts if the Event exists, but also if its namespace has just changed.
            WriteOutcome::Conflict | WriteOutcome::Lost { .. } => EventOutcome::Unknown,
        };
        let source = self.controllers[event_write.controller].controller.source();
        let reporter = reporter_of(source, &event_write.record, event_write.host.as_deref());
        let attempt = &mut event_write.attempt;
        match self.event_correlator.complete(reporter, &event_write.record, attempt, outcome) {
            Some(FollowUp::Write(write, message)) => {
                // Should this Event be gone, this is the message of the Event that replaces it.
                if let Some(message) = message {
                    event_write.record.message = message;
                }
                self.send_event(event_write, write, turn);
            }
            Some(FollowUp::Recreate(message)) => {
                let EventWrite { controller, mut record, host, reconciler, .. } = event_write;
                record.message = message.unwrap_or(record.message);
                self.correlate_event(controller, record, host, reconciler, now, turn);
            }
            None => {}
        }
    }
}

fn reporter_of<'a>(source: &'static str, record: &'a EventRecord, host: Option<&'a str>) -> Reporter<'a> {
    let name = record.reporter.as_deref().unwrap_or(source);
    Reporter { source, name, host: host.unwrap_or_default() }
}
