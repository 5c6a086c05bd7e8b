//! Control plane in one thread: store, pipeline, loop and controllers, on a virtual clock and from one seed.
//!
//! [`Cluster`] injects no faults of its own; it offers the steps between which campaigns do. Start at
//! [`Cluster::settle`], which runs everything that is due.

mod pending_writes;
mod permissions;
mod resource_watch;
mod user_writes;
mod webhooks;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::{Key, Resource, Revision, Time, Value, json, resource_types, value};
use setpoint_reconcile::{
    Controller, Engine, Index, Jump, ObservedChange, Query, Seed, Turn, Write, WriteId, WriteOutcome,
    WriteRequest,
};
use setpoint_runtime::custom;
use setpoint_server::catalog::Catalogs;
use setpoint_server::codec;
use setpoint_server::policies::answer_types;
use setpoint_store::{
    CommitCause, CommitError, CommitResponse, Cursor, Draft, Precondition, Proposal, Retention, Store,
};
use setpoint_views::world_config;

use self::pending_writes::{LoopId, ParkedOutcome, PendingWrite};
use self::permissions::Permissions;
use self::resource_watch::ResourceWatch;
use crate::campaign::path;

pub use pending_writes::AdmissionRecord;
pub use user_writes::UserWrite;
pub use webhooks::{DENYING, LABEL, MIXED, Review, SimulatedWebhooks, Verdict};

/// Turns within which a cluster must settle.
const TURNS_MAX: usize = 10_000;

/// Constructor of a loop's controllers. Called again after each crash.
pub type Controllers = fn() -> (Vec<Box<dyn Controller>>, Vec<Index>);

/// The control plane with its clock and random numbers.
pub struct Cluster {
    /// The store.
    pub store: Store,
    /// Engine of the loop.
    pub engine: Engine,
    /// Virtual time.
    pub now: Time,
    /// Random numbers of the seed.
    pub rng: Rng,
    /// Writes in order, to print with a failure.
    pub history: Vec<String>,
    /// Queries of controllers without an answer: see [`Cluster::reply`].
    pub queries: Vec<(&'static str, Key, Query)>,
    /// `false` to keep no history, for campaigns of many seeds.
    pub keeps_history: bool,
    /// User name of writes that are not the loop's.
    pub user: &'static str,
    /// Last revision that was acknowledged to a writer.
    pub acknowledged: Revision,
    /// Origins of the loop's commits, by revision. The reader clears it.
    pub origins: BTreeMap<Revision, CommitOrigin>,
    /// Admission of the commits while there were webhooks, by revision. The reader clears it.
    pub admissions: BTreeMap<Revision, AdmissionRecord>,
    /// Admission webhooks.
    pub webhooks: SimulatedWebhooks,
    /// Writes that wait for webhooks.
    calling: Vec<PendingWrite>,
    /// Outcomes of writes of parked loops.
    parked_outcomes: Vec<ParkedOutcome>,
    loop_id: LoopId,
    controllers: Controllers,
    /// Resources that the loop watches; empty for all.
    watched: &'static [&'static str],
    watches: Vec<ResourceWatch>,
    outbox: VecDeque<WriteRequest>,
    catalogs: Catalogs,
    permissions: Permissions,
}

/// Origin of a commit of a loop.
#[derive(Clone, Copy, Debug)]
pub struct CommitOrigin {
    /// Revision of the world that it was planned on.
    pub seen: Revision,
    /// `true` if the loop that planned it has stopped since.
    pub is_late: bool,
}

/// Loop that does not run at the moment: see [`Cluster::swap_loop`].
pub struct ParkedLoop {
    engine: Engine,
    loop_id: LoopId,
    controllers: Controllers,
    watched: &'static [&'static str],
    watches: Vec<ResourceWatch>,
    outbox: VecDeque<WriteRequest>,
    queries: Vec<(&'static str, Key, Query)>,
}

impl ParkedLoop {
    /// Shifts its times with the clock.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        self.engine.clock_jumped(jump, now);
    }
}

impl Cluster {
    /// Returns an empty cluster with the namespace `default`.
    ///
    /// # Panics
    /// If the namespace cannot be created.
    #[must_use]
    pub fn new(controllers: Controllers, seed: u64) -> Cluster {
        Cluster::with_store(Store::in_memory(Retention::default()), controllers, seed)
    }

    /// Returns a cluster on an empty store.
    ///
    /// # Panics
    /// If the namespace `default` cannot be created.
    #[must_use]
    pub fn with_store(store: Store, controllers: Controllers, seed: u64) -> Cluster {
        let (list, indexes) = controllers();
        let mut cluster = Cluster {
            permissions: Permissions::new(&store),
            store,
            engine: Engine::new(list, world_config(indexes)),
            now: Time::from_seconds(1_800_000_000),
            rng: Rng::with_seed(seed),
            history: Vec::new(),
            queries: Vec::new(),
            keeps_history: true,
            user: "user",
            acknowledged: Revision::ZERO,
            origins: BTreeMap::new(),
            admissions: BTreeMap::new(),
            webhooks: SimulatedWebhooks::default(),
            calling: Vec::new(),
            parked_outcomes: Vec::new(),
            loop_id: LoopId::default(),
            controllers,
            watched: &[],
            watches: Vec::new(),
            outbox: VecDeque::new(),
            catalogs: Catalogs::default(),
        };
        cluster.start_watches();
        cluster.create("namespaces", "", value!({"metadata": {"name": "default"}}));
        cluster
    }

    fn start_watches(&mut self) {
        let is_watched = |resource: &&setpoint_api::Resource| {
            self.watched.is_empty() || self.watched.contains(&resource.as_str())
        };
        self.watches = resource_types::stored()
            .map(|stored| &stored.resource)
            .filter(is_watched)
            .map(ResourceWatch::new)
            .collect();
        // Definitions come first: events of a custom resource are delivered after those of its definition.
        self.watches.sort_by_key(|watch| watch.resource.as_str() != custom::DEFINITIONS);
        self.mend_watches();
    }

    /// Lists again the resources whose watch is broken, and watches them.
    pub fn mend_watches(&mut self) {
        for watch in &mut self.watches {
            if watch.cursor.is_none() {
                watch.list(&self.store, &mut self.engine, self.now);
            }
        }
        self.observe();
    }

    /// Breaks one of the watches: its events are lost until the next list.
    pub fn break_watch(&mut self) {
        let number = self.rng.usize(..self.watches.len());
        self.watches[number].cursor = None;
    }

    /// Delivers some of the last events again, in random order.
    pub fn repeat_events(&mut self) {
        let mut events: Vec<ObservedChange> =
            self.watches.iter().flat_map(|watch| watch.delivered.iter().cloned()).collect();
        self.rng.shuffle(&mut events);
        events.truncate(self.rng.usize(..=events.len()));
        for observed in events {
            self.engine.observe(observed, self.now);
        }
    }

    /// Delivers some events of some resources. May repair broken watches.
    pub fn observe_some(&mut self) {
        for number in 0..self.watches.len() {
            let events = 1 << self.rng.u32(..4);
            let skips = self.rng.u8(..4) == 0;
            let mends = self.rng.u8(..3) == 0;
            let watch = &mut self.watches[number];
            if watch.cursor.is_none() && mends {
                watch.list(&self.store, &mut self.engine, self.now);
            } else if !skips {
                watch.deliver(&self.store, &mut self.engine, self.now, events);
            }
        }
        self.follow_definitions();
        // The world is complete up to the watch that lags most.
        let positions = self.watches.iter().map(|watch| watch.cursor.as_ref().map(Cursor::position));
        if let Some(revision) =
            positions.collect::<Option<Vec<_>>>().and_then(|positions| positions.into_iter().min())
        {
            self.engine.reach(revision);
        }
    }

    /// Kills the loop and starts a new one without memory. Unsent writes are lost.
    pub fn crash(&mut self) {
        self.stop();
        self.start_watches();
    }

    /// Crashes the loop after a number of steps; see [`Cluster::run_steps`]. With each number from 0, a test crashes it
    /// between any two writes.
    pub fn crash_after(&mut self, steps: usize) {
        self.run_steps(steps, |_| ());
        self.crash();
    }

    /// Crashes the loop after a number of steps, and simulates the nodes before each turn.
    pub fn crash_after_with_pods(&mut self, steps: usize) {
        self.run_steps(steps, Cluster::run_pods);
        self.crash();
    }

    /// Runs a number of steps. A step is one write or, if no write is planned, one turn: `before_turn`, then observing
    /// and planning.
    ///
    /// For a loop that plans two writes, one step ends before the first of them, two between them, and three after them.
    pub fn run_steps(&mut self, steps: usize, mut before_turn: impl FnMut(&mut Cluster)) {
        for _ in 0..steps {
            if !self.perform() {
                before_turn(self);
                self.observe();
                self.plan();
            }
        }
    }

    /// Kills the loop. Nothing runs until [`Cluster::crash`] starts a new one. Writes that wait for webhooks continue.
    pub fn stop(&mut self) {
        self.detach_writes();
        let (list, indexes) = (self.controllers)();
        self.engine = Engine::new(list, world_config(indexes));
        self.outbox.clear();
        self.queries.clear();
        self.watches.clear();
    }

    /// Returns another loop for the same store, stopped. It watches these resources; all if there are none.
    #[must_use]
    pub fn new_parked_loop(controllers: Controllers, watched: &'static [&'static str]) -> ParkedLoop {
        let (list, indexes) = controllers();
        let engine = Engine::new(list, world_config(indexes));
        let (watches, outbox, queries) = (Vec::new(), VecDeque::new(), Vec::new());
        ParkedLoop { engine, loop_id: LoopId::default(), controllers, watched, watches, outbox, queries }
    }

    /// Exchanges the running loop with a parked one.
    pub fn swap_loop(&mut self, other: &mut ParkedLoop) {
        std::mem::swap(&mut self.engine, &mut other.engine);
        std::mem::swap(&mut self.controllers, &mut other.controllers);
        std::mem::swap(&mut self.watched, &mut other.watched);
        std::mem::swap(&mut self.watches, &mut other.watches);
        std::mem::swap(&mut self.outbox, &mut other.outbox);
        std::mem::swap(&mut self.queries, &mut other.queries);
        std::mem::swap(&mut self.loop_id, &mut other.loop_id);
        self.deliver_parked_outcomes();
    }

    /// Sets the clock and notifies the loop.
    pub fn set_clock(&mut self, to: Time) -> Jump {
        let jump = Jump::between(self.now, to);
        self.now = to;
        self.shift_calls(jump);
        self.engine.clock_jumped(jump, to);
        jump
    }

    /// Delivers all events.
    pub fn observe(&mut self) {
        for watch in &mut self.watches {
            watch.deliver(&self.store, &mut self.engine, self.now, usize::MAX);
        }
        self.follow_definitions();
        if self.watches.iter().all(|watch| watch.cursor.is_some()) {
            self.engine.reach(self.store.snapshot().revision());
        }
    }

    /// Delivers all events of one resource.
    pub fn observe_only(&mut self, resource: &str) {
        for watch in self.watches.iter_mut().filter(|watch| watch.resource.as_str() == resource) {
            watch.deliver(&self.store, &mut self.engine, self.now, usize::MAX);
        }
        self.follow_definitions();
    }

    /// Plans the keys that are due. Returns the time of the next turn.
    pub fn plan(&mut self) -> Option<Time> {
        let turn = self.engine.turn(self.now, Seed(self.rng.u64(..)));
        self.outbox.extend(turn.writes);
        self.queries.extend(turn.queries);
        turn.next_turn_at
    }

    /// Queues the writes of a turn, for tests that run the turn themselves in order to answer its queries.
    pub fn send(&mut self, turn: Turn) {
        self.outbox.extend(turn.writes);
    }

    /// Answers all queries of controllers. Returns their number.
    pub fn reply(&mut self, answer: impl Fn(&Query) -> Result<Value, String>) -> usize {
        let queries = std::mem::take(&mut self.queries);
        for (name, key, query) in &queries {
            self.engine.answer_query(name, key, &query.id, answer(query), self.now);
        }
        queries.len()
    }

    /// Answers the queries that the store can answer; all others fail. Returns their number.
    pub fn reply_from_store(&mut self) -> usize {
        let snapshot = self.store.snapshot();
        self.reply(|query| match query.target {
            "policy-types" => Ok(answer_types(&query.question, &snapshot)),
            _ => Err("not available in a simulation".to_owned()),
        })
    }

    /// Performs the next planned write. Returns `false` if there is none.
    pub fn perform(&mut self) -> bool {
        let Some(request) = self.outbox.pop_front() else { return false };
        let id = request.id;
        if let Some(outcome) = self.write(request, false) {
            self.answer(id, outcome);
        }
        true
    }

    /// Performs the first planned write that matches. Returns `false` if there is none.
    pub fn perform_first(&mut self, matches: impl Fn(&WriteRequest) -> bool) -> bool {
        let Some(at) = self.outbox.iter().position(matches) else { return false };
        let Some(request) = self.outbox.remove(at) else { return false };
        self.outbox.push_front(request);
        self.perform()
    }

    /// Loses the first planned write that matches before it arrives. Returns `false` if there is none.
    pub fn lose_first(&mut self, matches: impl Fn(&WriteRequest) -> bool) -> bool {
        let Some(at) = self.outbox.iter().position(matches) else { return false };
        let Some(request) = self.outbox.remove(at) else { return false };
        self.outbox.push_front(request);
        self.lose_write();
        true
    }

    /// Takes the planned writes, as if they were in flight.
    pub fn take_writes(&mut self) -> Vec<WriteRequest> {
        self.outbox.drain(..).collect()
    }

    /// Performs a write that was in flight when its loop stopped. Returns `true` if it succeeded; `None` if it waits
    /// for webhooks.
    pub fn deliver_late(&mut self, request: &WriteRequest) -> Option<bool> {
        let outcome = self.write_detached(request.clone())?;
        Some(matches!(outcome, WriteOutcome::Done { .. }))
    }

    /// Performs the next write and keeps it queued, as if the response was lost unnoticed. It will be performed again.
    pub fn perform_without_response(&mut self) {
        if let Some(request) = self.outbox.front().cloned() {
            self.write_unanswered(request);
        }
    }

    /// Next planned write.
    #[must_use]
    pub fn next_write(&self) -> Option<&WriteRequest> {
        self.outbox.front()
    }

    /// Performs the next write and loses the response: the loop sees a broken connection.
    pub fn lose_response(&mut self) {
        if let Some(request) = self.outbox.front().cloned() {
            match self.write(request, true) {
                Some(_) => self.lose_write(),
                // The connection breaks when the webhooks have answered.
                None => drop(self.outbox.pop_front()),
            }
        }
    }

    /// Loses the next write before it arrives: the loop sees a broken connection.
    pub fn lose_write(&mut self) {
        if let Some(request) = self.outbox.pop_front() {
            let by = self.store.snapshot().revision();
            self.answer(request.id, WriteOutcome::Lost { by });
        }
    }

    fn answer(&mut self, id: WriteId, outcome: WriteOutcome) {
        let mut turn = Turn::default();
        self.engine.complete_write(id, outcome, self.now, &mut turn);
        self.outbox.extend(turn.writes);
    }

    fn commit(&mut self, proposal: Proposal) -> Result<CommitResponse, CommitError> {
        let committed = self.store.commit(proposal)?;
        self.acknowledged = committed.revision;
        Ok(committed)
    }

    fn record_history(&mut self, request: &WriteRequest, outcome: &WriteOutcome) {
        let target = match &request.write {
            Write::Create { resource, .. } => resource.to_string(),
            Write::CreateEvent(new_event) => new_event.key.to_string(),
            Write::Patch { key, patch, .. } | Write::Apply { key, config: patch, .. } => {
                format!("{key} {}", json::to_text(patch))
            }
            Write::Delete { key, .. } | Write::Post { key, .. } => key.to_string(),
        };
        let (by, verb, seen) = (&request.reconciler, request.write.verb(), request.seen);
        self.history.push(format!("{by}, seen {seen}: {verb} {target}: {outcome:?}"));
    }

    /// Observes, plans and writes until nothing is due at this time.
    ///
    /// # Panics
    /// If the cluster does not settle.
    pub fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            self.poll_webhooks();
            self.observe();
            let next_turn_at = self.plan();
            let mut wrote = false;
            while self.perform() {
                wrote = true;
            }
            if !wrote && next_turn_at.is_none_or(|next_turn_at| next_turn_at > self.now) {
                return;
            }
        }
        panic!(
            "the cluster did not settle within {TURNS_MAX} turns: {:?}",
            self.engine.gaps(self.now, Seed(0))
        );
    }

    /// Advances the clock by a span and runs everything that is due on the way.
    pub fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        loop {
            self.settle();
            let next_turn_at = self.plan().into_iter().chain(self.next_answer_at()).min();
            match next_turn_at.filter(|next_turn_at| *next_turn_at <= end) {
                Some(next_turn_at) => self.now = next_turn_at.max(self.now),
                None => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// Stores an object as it is, or removes it: for states that no request leads to.
    ///
    /// # Panics
    /// If the resource or the path is invalid, or the store fails.
    pub fn put_stored(&mut self, resource: &str, path: &str, object: Option<&Value>) -> Revision {
        let resource = setpoint_api::Resource::new(resource).expect("a resource");
        let key = Key::from_path(&resource, path).expect("a path");
        let cause = CommitCause { user: self.user.to_owned(), ..CommitCause::default() };
        let proposal = Proposal::new(cause, self.now);
        let proposal = match object {
            Some(object) => proposal.put(key, Precondition::Any, Draft::new(json::to_vec(object))),
            None => proposal.delete(key, Precondition::Any),
        };
        self.commit(proposal).expect("the store accepts the commit").revision
    }

    /// Returns an object as it is stored.
    #[must_use]
    pub fn get(&self, resource: &str, path: &str) -> Option<Value> {
        let key = Key::from_path(&self.find_resource(resource), path).ok()?;
        self.store.snapshot().get(&key).map(codec::object)
    }

    /// Returns all objects of a resource.
    #[must_use]
    pub fn list(&self, resource: &str) -> Vec<Value> {
        let snapshot = self.store.snapshot();
        let table = snapshot.table(&self.find_resource(resource));
        table.into_iter().flat_map(|table| table.iter()).map(codec::object).collect()
    }

    /// Simulates the nodes: pending pods run and are ready, terminating pods are removed.
    pub fn run_pods(&mut self) {
        for pod in self.list("pods") {
            self.run_pod(&pod);
        }
    }

    /// Simulates the nodes as [`Cluster::run_pods`], for some of the pods. Some others fail.
    pub fn run_some_pods(&mut self) {
        for pod in self.list("pods") {
            match self.rng.u8(..16) {
                0..8 => self.run_pod(&pod),
                8 => {
                    let failed = value!({"status": {"phase": "Failed", "conditions": []}});
                    let _ = self.patch("pods", &path(&pod), "status", failed);
                }
                _ => {}
            }
        }
    }

    /// Simulates the node of one pod as [`Cluster::run_pods`].
    pub fn run_pod(&mut self, pod: &Value) {
        if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
            let _ = self.delete("pods", &path(pod), &value!({"gracePeriodSeconds": 0}));
        } else if pod.str_at(&["status", "phase"]) == "Pending" {
            let now = setpoint_api::rfc3339::Seconds(self.now).to_string();
            let ready = value!({"type": "Ready", "status": "True", "lastTransitionTime": (now)});
            let status = value!({"status": {"phase": "Running", "conditions": [(ready)]}});
            let _ = self.patch("pods", &path(pod), "status", status);
        }
    }

    /// Settles the loop and simulates the nodes until neither has work.
    pub fn settle_with_pods(&mut self) {
        for _ in 0..TURNS_MAX {
            self.settle();
            let before = self.store.snapshot().revision();
            self.run_pods();
            if self.store.snapshot().revision() == before {
                return;
            }
        }
    }

    /// Checks that no controller has anything to write.
    ///
    /// # Panics
    /// If a controller has something to write.
    pub fn assert_quiet(&mut self) {
        self.observe();
        let gaps = self.engine.gaps(self.now, Seed(self.rng.u64(..)));
        assert!(gaps.is_empty(), "not quiet: {gaps:#?}");
    }
}

impl Cluster {
    /// Continues on a store that was reopened. Writes that wait for webhooks are lost.
    pub fn reopen(&mut self, store: Store) {
        self.permissions = Permissions::new(&store);
        self.store = store;
        self.catalogs = Catalogs::default();
        self.webhooks.forget_store();
        self.calling.clear();
        self.parked_outcomes.clear();
    }

    /// `true` if objects of a resource can be written: it is built in, or its definition is established.
    #[must_use]
    pub fn serves(&self, resource: &str) -> bool {
        let resource = Resource::new(resource).expect("a resource");
        self.catalogs.of(&self.store.snapshot()).storage_type(&resource).is_some()
    }

    /// Name of a resource in keys. A custom one may have no definition.
    fn find_resource(&self, resource: &str) -> Resource {
        let resource = Resource::new(resource).expect("a resource");
        let is_known =
            resource_types::storage_type(&resource).is_some() || resource.as_str().contains(".example.");
        assert!(is_known || self.serves(resource.as_str()), "unknown resource {resource}");
        resource
    }
}

/// Parses JSON text.
///
/// # Panics
/// If the text is not JSON.
#[must_use]
pub fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}
