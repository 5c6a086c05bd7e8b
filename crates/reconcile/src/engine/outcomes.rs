//! Outcomes of writes and answers of queries.

use setpoint_api::{Key, Time, Value};

use super::{ANSWERS_MAX, Engine, InFlightWrite, Turn, WriteId, WriteOutcome, WriteRejection};
use crate::plan::EventRecord;
use crate::planner::QueryAnswer;
use crate::queue::{PlanResult, ReconcileReason};

impl Engine {
    /// Takes in the outcome of a write, and adds the next batch of its plan to the turn.
    pub fn complete_write(&mut self, id: WriteId, outcome: WriteOutcome, now: Time, turn: &mut Turn) {
        let Some(write) = self.in_flight.remove(&id) else { return };
        let (controller, key, action) = match write {
            InFlightWrite::Action { controller, key, action } => (controller, key, *action),
            InFlightWrite::Event(event_write) => {
                self.complete_event_write(*event_write, &outcome, now, turn);
                return;
            }
        };
        let state = &mut self.controllers[controller];
        let Some(progress) = state.progress.get_mut(&key) else { return };
        progress.in_flight -= 1;
        let mut events = Vec::new();
        match outcome {
            WriteOutcome::Done { revision, name } => {
                state.stats.writes += 1;
                state.queue.entry(&key).record_own_write(action.resource, revision);
                events.extend(action.done.into_iter().map(|event| fill(event, "{name}", &name)));
            }
            // A delete of an object that is gone has reached its goal.
            WriteOutcome::Gone if action.verb == "delete" => {}
            WriteOutcome::Gone | WriteOutcome::Conflict => {
                state.stats.conflicts += 1;
                progress.stop(PlanResult::Conflict);
            }
            WriteOutcome::Lost { by } => {
                progress.stop(PlanResult::Failed);
                state.queue.entry(&key).record_own_write(action.resource.clone(), by);
                state.record_failure(&key, &action, "Unknown", "the connection broke", now);
            }
            WriteOutcome::Rejected(WriteRejection { reason, message }) => {
                progress.stop(PlanResult::Failed);
                state.record_failure(&key, &action, &reason, &message, now);
                events.extend(action.failed.map(|event| fill(event, "{error}", &message)));
            }
        }
        for event in events {
            self.record_event(controller, &key, event, now, turn);
        }
        self.send_next_batch(controller, &key, now, turn);
    }

    /// Takes in the answer of a query, or the error of its handler. A query that failed is sent again only after a
    /// backoff, however often the planner repeats it; see [`super::QUERY_BACKOFF_MAX`].
    pub fn answer_query(
        &mut self,
        controller: &str,
        key: &Key,
        id: &str,
        answer: Result<Value, String>,
        now: Time,
    ) {
        let found = self.controllers.iter_mut().find(|state| state.controller.name() == controller);
        let Some(state) = found else { return };
        let soft = &mut state.queue.entry(key).soft;
        soft.query_limiter.complete(id, answer.is_err(), now);
        soft.answers.insert(id.to_owned(), QueryAnswer { answer, at: now });
        if soft.answers.len() > ANSWERS_MAX
            && let Some((oldest, _)) = soft.answers.iter().min_by_key(|(_, answer)| answer.at)
        {
            let oldest = oldest.clone();
            soft.answers.remove(&oldest);
        }
        // The key itself sent the query, so the answer does not end the backoff of a rejected write.
        state.queue.enqueue(key.clone(), ReconcileReason::OwnChange, now);
    }
}

fn fill(mut event: EventRecord, placeholder: &str, text: &str) -> EventRecord {
    event.message = event.message.replace(placeholder, text);
    event
}
