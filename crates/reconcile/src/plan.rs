//! Plans: the writes, Events and queries of one key, as data.
//!
//! A [`Plan`] is a list of stages. The actions of a stage are sent in batches of 1, 2, 4 … so that a rejection stops the
//! plan early. The next stage starts when all actions are committed. A failure or a conflict drops the rest, and the key
//! is planned again. Every write carries its precondition, and every action the Events of its outcome.
//!
//! A plan is bounded whatever the spec of an object is: [`Plan::stage`] takes at most [`PLAN_ACTIONS_MAX`] actions and
//! does not read the iterator beyond that, and the loop truncates stages that were built otherwise. The number of actions
//! that are left out is in [`Plan::deferred`], and the key is planned again as soon as the plan is carried out.

mod event_record;
mod write;

use serde::Serialize;
use setpoint_api::{Time, Value};

use crate::to_value::to_value;

pub use event_record::{EventRecord, EventType, InvolvedObject};
pub use write::{MergePatchType, Write};

/// Maximum number of actions in a plan, over all stages. It bounds memory per key, and the time for which one key delays
/// others. Larger than every bound of a single controller in upstream (500 pods at a time).
pub const PLAN_ACTIONS_MAX: usize = 2000;
/// Maximum number of Events of a plan; the event correlator would drop most of them anyway.
pub const PLAN_EVENTS_MAX: usize = 500;

/// Result of planning one key.
#[derive(Clone, Debug)]
pub struct Plan<M = ()> {
    /// Actions, one stage after the other.
    pub stages: Vec<Vec<Action>>,
    /// Events to record, whatever the outcome of the stages.
    pub events: Vec<EventRecord>,
    /// Queries to answer before the next plan.
    pub queries: Vec<Query>,
    /// Time to plan the key again even if nothing changes.
    pub requeue_at: Option<Time>,
    /// Lower bound of the number of actions that are left for the next plan, because this one is full. If it is not 0,
    /// the key is planned again as soon as this plan is carried out.
    pub deferred: u64,
    /// State for the next plan of the key. It may be lost.
    pub memo: M,
}

impl<M: Default> Default for Plan<M> {
    fn default() -> Plan<M> {
        let (stages, events, queries) = (Vec::new(), Vec::new(), Vec::new());
        Plan { stages, events, queries, requeue_at: None, deferred: 0, memo: M::default() }
    }
}

impl<M> Plan<M> {
    /// `true` if there is nothing to do: no action, no Event, no query.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.stages.iter().all(Vec::is_empty) && self.events.is_empty() && self.queries.is_empty()
    }

    /// Number of actions, over all stages.
    #[must_use]
    pub fn actions(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }

    /// Adds a stage, unless there are no actions. If the plan is full, the rest of the iterator is not read, and neither
    /// the rest of this stage nor any later stage is carried out before the key is planned again.
    pub fn stage(&mut self, actions: impl IntoIterator<Item = Action>) {
        self.stage_at_most(PLAN_ACTIONS_MAX, actions);
    }

    /// Like [`Plan::stage`], with a bound of its own.
    pub fn stage_at_most(&mut self, max: usize, actions: impl IntoIterator<Item = Action>) {
        let mut actions = actions.into_iter();
        let room = PLAN_ACTIONS_MAX.saturating_sub(self.actions()).min(max);
        let taken: Vec<Action> = actions.by_ref().take(room).collect();
        if !taken.is_empty() {
            self.stages.push(taken);
        }
        if actions.next().is_some() {
            self.defer(actions.size_hint().0.saturating_add(1));
        }
    }

    /// Adds to the number of deferred actions.
    pub fn defer(&mut self, actions: usize) {
        self.deferred = self.deferred.saturating_add(actions as u64);
    }

    /// Adds an action to the last stage.
    pub fn push(&mut self, action: impl Into<Action>) {
        match self.stages.last_mut() {
            Some(stage) => stage.push(action.into()),
            None => self.stages.push(vec![action.into()]),
        }
    }

    /// Truncates the plan to its bounds, and counts the actions that are left out.
    pub fn truncate(&mut self) {
        let mut room = PLAN_ACTIONS_MAX;
        let mut left_out = 0;
        for stage in &mut self.stages {
            left_out += stage.len().saturating_sub(room);
            stage.truncate(room);
            room -= stage.len();
        }
        self.defer(left_out);
        self.events.truncate(PLAN_EVENTS_MAX);
        self.queries.truncate(crate::engine::ANSWERS_MAX);
    }

    /// Plans the key again at a time, or earlier if that is planned already.
    pub fn requeue_at(&mut self, time: Time) {
        self.requeue_at = Some(self.requeue_at.map_or(time, |planned| planned.min(time)));
    }

    /// Replaces the memo.
    pub fn with_memo<N>(self, memo: N) -> Plan<N> {
        let Plan { stages, events, queries, requeue_at, deferred, .. } = self;
        Plan { stages, events, queries, requeue_at, deferred, memo }
    }
}

/// A write, with the Events of its outcome.
#[derive(Clone, Debug)]
pub struct Action {
    /// The write.
    pub write: Write,
    /// Events if it is committed. `{name}` stands for the name of the written object.
    pub done: Vec<EventRecord>,
    /// Event if it is rejected. `{error}` stands for the message of the API server.
    pub failed: Option<EventRecord>,
}

impl Action {
    /// Adds an Event for the case that the write is committed.
    #[must_use]
    pub fn on_done(mut self, event: EventRecord) -> Action {
        self.done.push(event);
        self
    }

    /// Sets the Event for the case that the write is rejected.
    #[must_use]
    pub fn on_failed(mut self, event: EventRecord) -> Action {
        self.failed = Some(event);
        self
    }
}

impl From<Write> for Action {
    fn from(write: Write) -> Action {
        Action { write, done: Vec::new(), failed: None }
    }
}

/// Serializes a struct to a value. Absent options become `null`, which removes the field in a merge patch.
#[must_use]
pub fn value_of(part: &impl Serialize) -> Value {
    to_value(part).unwrap_or_default()
}

/// Query for a fact outside the API: a metric, a signature. The next plan finds the answer in [`crate::Seen`].
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Name of the query handler.
    pub target: &'static str,
    /// Id, unique among the queries of a key.
    pub id: String,
    /// Parameters of the query.
    pub question: Value,
}
