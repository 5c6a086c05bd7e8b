//! The loop: observes changes, plans keys, sends writes.
//!
//! The [`Engine`] is a state machine without I/O. A shell reports changes ([`Engine::observe`], [`Engine::relist`]),
//! outcomes of writes ([`Engine::complete_write`]), answers of queries ([`Engine::answer_query`]) and the time. Each
//! [`Engine::turn`] returns the writes to send and the latest time of the next turn. In a server the shell is a thread
//! beside the store, in a process of its own it is an HTTP client, in a simulator it is the simulator.
//!
//! - One key is never planned twice at a time, nor before the world shows its own writes.
//! - A panic of a planner fails the plan of one key; other keys are not affected.
//! - A turn is bounded by [`TURN_PLANS_MAX`] plans and [`IN_FLIGHT_WRITES_MAX`] writes.

mod controller_state;
mod event_writes;
mod first_pass;
mod messages;
mod observe;
mod outcomes;
mod plan_progress;
mod query_limiter;
mod resync;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::{Key, Resource, Time};

use crate::clock::Jump;
use crate::events::EventCorrelator;
use crate::plan::{Action, EventRecord, Plan};
use crate::planner::{ALL_RESOURCES, Controller, ErasedMemo, SERVED_LATER, Seed, SoftState, SoftStateMut};
use crate::stats::{ControllerStats, KeyState};
use crate::world::{World, WorldConfig};
use controller_state::ControllerState;
use event_writes::EventWrite;
use first_pass::FirstPassTracker;
use plan_progress::PlanProgress;

pub use first_pass::FirstPassObserver;
pub use messages::{ObservedChange, Turn, WriteId, WriteOutcome, WriteRejection, WriteRequest};
pub(crate) use query_limiter::QueryLimiter;
pub use query_limiter::{ANSWERS_MAX, QUERY_BACKOFF_MAX, QUERY_BACKOFF_MIN, QUERY_TIMEOUT};
pub use resync::{RESYNC, RESYNC_SLICES, RESYNC_WHOLE};
pub use turn::{IN_FLIGHT_WRITES_MAX, TURN_PLANS_MAX};

/// A write that was sent and has no outcome yet.
enum InFlightWrite {
    Action { controller: usize, key: Key, action: Box<SentAction> },
    Event(Box<EventWrite>),
}

/// Action whose write was sent: fields for statistics and own writes, and the Events of the outcome.
struct SentAction {
    verb: &'static str,
    resource: Resource,
    done: Vec<EventRecord>,
    failed: Option<EventRecord>,
}

/// The loop.
pub struct Engine {
    world: World,
    controllers: Vec<ControllerState>,
    /// Indexes of the controller and of its watch, by resource.
    watches: BTreeMap<&'static str, Vec<(usize, usize)>>,
    /// Resources that were added while the loop runs: see [`Engine::add_resource`].
    added: BTreeSet<Resource>,
    in_flight: BTreeMap<WriteId, InFlightWrite>,
    last_write_id: u64,
    event_correlator: EventCorrelator,
    next_resync_at: Option<Time>,
    resync_slice: u32,
    resync_count: u32,
    is_watched_only: bool,
    first_pass: Option<FirstPassTracker>,
    notice: Option<String>,
}

impl Engine {
    /// Creates a loop of these controllers with an empty world.
    #[must_use]
    pub fn new(controllers: Vec<Box<dyn Controller>>, config: WorldConfig) -> Engine {
        let mut watches: BTreeMap<&'static str, Vec<(usize, usize)>> = BTreeMap::new();
        for (i, controller) in controllers.iter().enumerate() {
            for (j, watch) in controller.watches().iter().enumerate() {
                watches.entry(watch.resource).or_default().push((i, j));
            }
        }
        Engine {
            world: World::new(config),
            controllers: controllers.into_iter().map(ControllerState::new).collect(),
            watches,
            added: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            last_write_id: 0,
            event_correlator: EventCorrelator::default(),
            next_resync_at: None,
            resync_slice: 0,
            resync_count: 0,
            is_watched_only: false,
            first_pass: None,
            notice: None,
        }
    }

    /// Adds an observer of the first pass.
    #[must_use]
    pub fn with_first_pass_observer(mut self, observer: Box<dyn FirstPassObserver>) -> Engine {
        self.first_pass = Some(FirstPassTracker::new(observer));
        self
    }

    /// Adds a notice for operators, such as the reason why there are no controllers.
    #[must_use]
    pub fn with_notice(mut self, notice: String) -> Engine {
        self.notice = Some(notice);
        self
    }

    /// Notice for operators.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Restricts the world to watched resources, for controllers that read nothing else.
    #[must_use]
    pub fn with_watched_resources_only(mut self) -> Engine {
        self.is_watched_only = true;
        self
    }

    /// `true` if changes of the resource must be reported.
    #[must_use]
    pub fn follows(&self, resource: &Resource) -> bool {
        !self.is_watched_only
            || [ALL_RESOURCES, resource.as_str()].iter().any(|watched| self.watches.contains_key(watched))
    }

    /// `true` if changes of every resource that is added later must be reported.
    #[must_use]
    pub fn follows_added(&self) -> bool {
        !self.is_watched_only
            || [ALL_RESOURCES, SERVED_LATER].iter().any(|watched| self.watches.contains_key(watched))
    }

    /// Resources that controllers watch by name.
    pub fn watched_resources(&self) -> impl Iterator<Item = &'static str> {
        self.watches.keys().copied().filter(|resource| ![ALL_RESOURCES, SERVED_LATER].contains(resource))
    }

    /// Adds a resource that is served from now on, before its first list.
    pub fn add_resource(&mut self, resource: &Resource) {
        self.added.insert(resource.clone());
    }

    /// The world as observed so far.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    fn next_write_id(&mut self) -> WriteId {
        self.last_write_id += 1;
        WriteId(self.last_write_id)
    }

    /// Handles a step of the clock, or the end of a suspension; `now` is the time after it. Enqueues every key with a
    /// timer, since its time may have passed or may never come. Ages of local observations do not change.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        for state in &mut self.controllers {
            state.queue.clock_jumped(now);
            for soft in state.queue.soft_states() {
                if let Some(failure) = &mut soft.failure {
                    failure.at = jump.shift(failure.at);
                }
                if let Some(memo) = &mut soft.memo {
                    state.controller.clock_jumped_any(memo, jump, now);
                }
            }
        }
        self.event_correlator.clock_jumped(jump);
        if let Some(due) = &mut self.next_resync_at {
            *due = jump.shift(*due);
        }
    }

    /// Drops all soft state: memos and answers of queries. The simulator calls it at random.
    pub fn drop_soft_state(&mut self) {
        for state in &mut self.controllers {
            state.queue.drop_soft_state();
        }
    }

    /// Number of keys of all controllers that are queued, being carried out, or backing off.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.controllers.iter().map(|state| state.queue.unsettled()).sum()
    }

    /// Name, queue depth and statistics of each controller.
    pub fn stats(&self) -> impl Iterator<Item = (&'static str, usize, &ControllerStats)> {
        self.controllers.iter().map(|state| (state.controller.name(), state.queue.depth(), &state.stats))
    }

    /// States of the keys of a controller that have any state.
    #[must_use]
    pub fn keys(&self, controller: &str) -> Vec<KeyState> {
        let found = self.controllers.iter().find(|state| state.controller.name() == controller);
        let states = found.into_iter().flat_map(|state| {
            state.queue.states().map(|key_state| {
                let progress = state.progress.get(&key_state.key);
                KeyState {
                    waiting_writes: progress.map_or(0, PlanProgress::waiting),
                    deferred_writes: progress.map_or(0, |progress| progress.deferred),
                    ..key_state
                }
            })
        });
        states.collect()
    }

    /// Plans every key of every controller, and returns the actions of the plans that have any. Sends nothing; for tests.
    #[must_use]
    pub fn gaps(&self, now: Time, seed: Seed) -> Vec<(&'static str, Key, Vec<Action>)> {
        let mut gaps = Vec::new();
        self.try_plans(now, seed, &mut |name, key, plan| {
            let actions: Vec<Action> = plan.stages.into_iter().flatten().collect();
            if !actions.is_empty() {
                gaps.push((name, key, actions));
            }
        });
        gaps
    }

    /// Plans every key of every controller, and passes the unmodified plans to `visit`. Sends nothing; for tests.
    pub fn try_plans(
        &self,
        now: Time,
        seed: Seed,
        visit: &mut dyn FnMut(&'static str, Key, Plan<ErasedMemo>),
    ) {
        for state in &self.controllers {
            for key in state.controller.keys(&self.world.reader()) {
                let mut soft = SoftState::default();
                let plan =
                    state.controller.plan_any(&key, &self.world.reader(), SoftStateMut(&mut soft), now, seed);
                visit(state.controller.name(), key, plan);
            }
        }
    }
}

/// Controller and key as the reconciler of a commit's cause: `replicaset-controller replicasets.apps/shop/web`.
fn reconciler_tag(name: &str, key: &Key) -> String {
    format!("{name} {key}")
}

/// `true` if a tag names this controller and key; compares without an allocation.
fn is_caused_by(tag: &str, name: &str, key: &Key) -> bool {
    tag.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).is_some_and(|rest| {
        rest.strip_prefix(key.resource().as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(key.path())
    })
}

#[cfg(test)]
mod tests;
