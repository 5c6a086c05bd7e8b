//! The whole control plane in one thread: the store, the pipeline, the loop and its controllers, on a clock of our
//! own, from one seed.
//!
//! [`Cluster`] has no faults of its own making; what it does is the product's doing. Campaigns put faults between
//! its steps.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::decode::decode;
use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::patch::PatchType;
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::status::Status;
use setpoint_api::{Key, Revision, Time, Value, json, value};
use setpoint_reconcile::{
    Ask, Controller, Engine, Index, Jump, Observed, Outcome, Seed, Sent, Ticket, Turn, Write,
};
use setpoint_runtime::objects;
use setpoint_server::codec;
use setpoint_server::exchange::Identity;
use setpoint_server::loop_writes::{self, Prepared};
use setpoint_server::pipeline::update::Subresource;
use setpoint_server::pipeline::{
    DesiredObject, RequestContext, Step, Writer, binding, create, delete, eviction, update,
};
use setpoint_store::{CommitError, CommitResponse, Cursor, Filter, Proposal, RejectReason, Retention, Store};

use crate::campaign::path;

/// How many turns a cluster may take to come to rest.
const TURNS_MAX: usize = 10_000;

const LEASES: &str = "leases.coordination.k8s.io";

/// Makes the controllers of a loop: again after each crash.
pub type Controllers = fn() -> (Vec<Box<dyn Controller>>, Vec<Index>);

/// The whole control plane.
pub struct Cluster {
    /// What is true.
    pub store: Store,
    /// The loop.
    pub engine: Engine,
    /// What time it is.
    pub now: Time,
    /// Chance.
    pub rng: Rng,
    /// What was written, in order, for whoever reads a failure.
    pub history: Vec<String>,
    /// What controllers asked and nobody answered yet: see [`Cluster::reply`].
    pub asks: Vec<(&'static str, Key, Ask)>,
    /// Whether the history is kept; a campaign of many seeds does without.
    pub keeps_history: bool,
    /// In whose name the writes are made that are not the loop's.
    pub acting: &'static str,
    /// The last commit that anybody was told of.
    pub acknowledged: Revision,
    /// Where each commit of a loop comes from. Whoever reads it clears it.
    pub origins: BTreeMap<Revision, Origin>,
    controllers: Controllers,
    /// The resources that the loop hears of; all if there are none.
    follows: &'static [&'static str],
    watches: Vec<Watching>,
    outbox: VecDeque<Sent>,
}

/// Where a commit of a loop comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The revision of the world it was planned on.
    pub seen: Revision,
    /// Whether the loop that planned it no longer acts.
    pub is_late: bool,
}

/// A loop that is not in its cluster: see [`Cluster::swap`].
pub struct Parked {
    engine: Engine,
    controllers: Controllers,
    follows: &'static [&'static str],
    watches: Vec<Watching>,
    outbox: VecDeque<Sent>,
    asks: Vec<(&'static str, Key, Ask)>,
}

impl Parked {
    /// Notices that the clock was set.
    pub fn clock_jumped(&mut self, jump: Jump, now: Time) {
        self.engine.clock_jumped(jump, now);
    }
}

/// The loop's watch of one resource.
struct Watching {
    resource: setpoint_api::Resource,
    /// None while it is broken: then only a list helps.
    cursor: Option<Cursor>,
    /// The last changes it told, to tell them again.
    told: VecDeque<Observed>,
}

/// How many changes a watch remembers, to tell them again.
const TOLD_MAX: usize = 8;

impl Cluster {
    /// An empty cluster with the namespace `default`.
    ///
    /// # Panics
    /// If the namespace cannot be made.
    #[must_use]
    pub fn new(controllers: Controllers, seed: u64) -> Cluster {
        Cluster::over(Store::in_memory(Retention::default()), controllers, seed)
    }

    /// The same over a store of one's own, which is empty.
    ///
    /// # Panics
    /// If the namespace cannot be made.
    #[must_use]
    pub fn over(store: Store, controllers: Controllers, seed: u64) -> Cluster {
        let (list, indexes) = controllers();
        let mut cluster = Cluster {
            store,
            engine: Engine::new(list, indexes),
            now: Time::from_seconds(1_800_000_000),
            rng: Rng::with_seed(seed),
            history: Vec::new(),
            asks: Vec::new(),
            keeps_history: true,
            acting: "user",
            acknowledged: Revision::ZERO,
            origins: BTreeMap::new(),
            controllers,
            follows: &[],
            watches: Vec::new(),
            outbox: VecDeque::new(),
        };
        cluster.follow();
        cluster.create("namespaces", "", value!({"metadata": {"name": "default"}}));
        cluster
    }

    fn follow(&mut self) {
        let follows = |resource: &&setpoint_api::Resource| {
            self.follows.is_empty() || self.follows.contains(&resource.as_str())
        };
        self.watches = resource_types::stored()
            .map(|stored| &stored.resource)
            .filter(follows)
            .map(|resource| Watching { resource: resource.clone(), cursor: None, told: VecDeque::new() })
            .collect();
        self.mend_watches();
    }

    /// Lists what is watched no longer, and watches it again.
    pub fn mend_watches(&mut self) {
        for watch in &mut self.watches {
            if watch.cursor.is_none() {
                watch.list(&self.store, &mut self.engine, self.now);
            }
        }
        self.observe();
    }

    /// Breaks one of the watches: what happens meanwhile is not told.
    pub fn break_watch(&mut self) {
        let number = self.rng.usize(..self.watches.len());
        self.watches[number].cursor = None;
    }

    /// Tells changes again that were told before: some of them, and in any order.
    pub fn repeat_events(&mut self) {
        let mut told: Vec<Observed> =
            self.watches.iter().flat_map(|watch| watch.told.iter().cloned()).collect();
        self.rng.shuffle(&mut told);
        told.truncate(self.rng.usize(..=told.len()));
        for observed in told {
            self.engine.observe(observed, self.now);
        }
    }

    /// Takes in what changed, of some resources and up to a point; a broken watch may be mended.
    pub fn observe_some(&mut self) {
        for number in 0..self.watches.len() {
            let events = 1 << self.rng.u32(..4);
            let skips = self.rng.u8(..4) == 0;
            let mends = self.rng.u8(..3) == 0;
            let watch = &mut self.watches[number];
            if watch.cursor.is_none() && mends {
                watch.list(&self.store, &mut self.engine, self.now);
            } else if !skips {
                watch.tell(&self.store, &mut self.engine, self.now, events);
            }
        }
        // As far as the watch that lags most, everything is known.
        let known = self.watches.iter().map(|watch| watch.cursor.as_ref().map(Cursor::position));
        if let Some(known) = known.collect::<Option<Vec<_>>>().and_then(|known| known.into_iter().min()) {
            self.engine.reach(known);
        }
    }

    /// Kills the loop with all it knew, and starts another. Writes that were not sent are lost.
    pub fn crash(&mut self) {
        self.stop();
        self.follow();
    }

    /// Ends the loop with all it knew. Nothing runs before [`Cluster::crash`] starts another.
    pub fn stop(&mut self) {
        let (list, indexes) = (self.controllers)();
        self.engine = Engine::new(list, indexes);
        self.outbox.clear();
        self.asks.clear();
        self.watches.clear();
    }

    /// A further loop over the same store that is stopped as yet. It hears of these resources only; of all if there
    /// are none.
    #[must_use]
    pub fn another(controllers: Controllers, follows: &'static [&'static str]) -> Parked {
        let (list, indexes) = controllers();
        let engine = Engine::new(list, indexes);
        let (watches, outbox, asks) = (Vec::new(), VecDeque::new(), Vec::new());
        Parked { engine, controllers, follows, watches, outbox, asks }
    }

    /// Puts another loop in the place of the one that runs.
    pub fn swap(&mut self, other: &mut Parked) {
        std::mem::swap(&mut self.engine, &mut other.engine);
        std::mem::swap(&mut self.controllers, &mut other.controllers);
        std::mem::swap(&mut self.follows, &mut other.follows);
        std::mem::swap(&mut self.watches, &mut other.watches);
        std::mem::swap(&mut self.outbox, &mut other.outbox);
        std::mem::swap(&mut self.asks, &mut other.asks);
    }

    /// Sets the clock; the loop notices.
    pub fn set_clock(&mut self, to: Time) -> Jump {
        let jump = Jump::between(self.now, to);
        self.now = to;
        self.engine.clock_jumped(jump, to);
        jump
    }

    /// Takes in everything that changed.
    pub fn observe(&mut self) {
        for watch in &mut self.watches {
            watch.tell(&self.store, &mut self.engine, self.now, usize::MAX);
        }
        if self.watches.iter().all(|watch| watch.cursor.is_some()) {
            self.engine.reach(self.store.snapshot().revision());
        }
    }

    /// Takes in what changed of a resource, and of no other.
    pub fn observe_only(&mut self, resource: &str) {
        for watch in self.watches.iter_mut().filter(|watch| watch.resource.as_str() == resource) {
            watch.tell(&self.store, &mut self.engine, self.now, usize::MAX);
        }
    }

    /// Plans what is due. Says when to come again.
    pub fn plan(&mut self) -> Option<Time> {
        let turn = self.engine.turn(self.now, Seed(self.rng.u64(..)));
        self.outbox.extend(turn.writes);
        self.asks.extend(turn.asks);
        turn.wake
    }

    /// Puts the writes of a turn of the loop in line: for tests that take the turn themselves, to answer its questions.
    pub fn send(&mut self, turn: Turn) {
        self.outbox.extend(turn.writes);
    }

    /// Answers everything that controllers asked. Says how much that was.
    pub fn reply(&mut self, answer: impl Fn(&Ask) -> Result<Value, String>) -> usize {
        let asks = std::mem::take(&mut self.asks);
        for (name, key, ask) in &asks {
            self.engine.reply(name, key, &ask.id, answer(ask), self.now);
        }
        asks.len()
    }

    /// Performs the next write that was planned. Says whether there was one.
    pub fn perform(&mut self) -> bool {
        let Some(sent) = self.outbox.pop_front() else { return false };
        let outcome = self.write(&sent);
        self.answer(sent.ticket, outcome);
        true
    }

    /// Performs the next write of a sort. Says whether there was one.
    pub fn perform_first(&mut self, is: impl Fn(&Sent) -> bool) -> bool {
        let Some(at) = self.outbox.iter().position(is) else { return false };
        let Some(sent) = self.outbox.remove(at) else { return false };
        self.outbox.push_front(sent);
        self.perform()
    }

    /// Loses the next write of a sort on its way. Says whether there was one.
    pub fn lose_first(&mut self, is: impl Fn(&Sent) -> bool) -> bool {
        let Some(at) = self.outbox.iter().position(is) else { return false };
        let Some(sent) = self.outbox.remove(at) else { return false };
        self.outbox.push_front(sent);
        self.lose_write();
        true
    }

    /// Takes the writes that were planned and not performed, as if they were on their way.
    pub fn take_writes(&mut self) -> Vec<Sent> {
        self.outbox.drain(..).collect()
    }

    /// Performs a write that was on its way when its loop ended. Says whether it was done.
    pub fn land(&mut self, sent: &Sent) -> bool {
        let Outcome::Done { revision, .. } = self.write(sent) else { return false };
        // What changes nothing is not committed, and then the revision is older.
        if let Some(origin) = self.origins.get_mut(&revision) {
            origin.is_late = true;
        }
        true
    }

    /// Performs the next write, and tells nobody: it will be performed again.
    pub fn perform_unheard(&mut self) {
        if let Some(sent) = self.outbox.front().cloned() {
            self.write(&sent);
        }
    }

    /// The next write that will be performed.
    #[must_use]
    pub fn next_write(&self) -> Option<&Sent> {
        self.outbox.front()
    }

    /// Performs the next write, and loses the answer: the loop is told that the connection broke.
    pub fn lose_answer(&mut self) {
        if let Some(sent) = self.outbox.front().cloned() {
            self.write(&sent);
            self.lose_write();
        }
    }

    /// Loses the next write on its way, and says so to the loop, as a broken connection would.
    pub fn lose_write(&mut self) {
        if let Some(sent) = self.outbox.pop_front() {
            let by = self.store.snapshot().revision();
            self.answer(sent.ticket, Outcome::Lost { by });
        }
    }

    fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        let mut turn = Turn::default();
        self.engine.answer(ticket, outcome, self.now, &mut turn);
        self.outbox.extend(turn.writes);
    }

    fn write(&mut self, sent: &Sent) -> Outcome {
        let snapshot = self.store.snapshot();
        let entropy = [self.rng.u64(..), self.rng.u64(..), self.rng.u64(..)];
        let outcome = match loop_writes::prepare(
            sent,
            &RequestContext { snapshot: &snapshot, now: self.now, entropy, tolerations: Default::default() },
        ) {
            Prepared::Settled(outcome) => outcome,
            Prepared::Commit(proposal, name) => loop_writes::outcome(self.commit(*proposal), name),
        };
        if let Outcome::Done { revision, .. } = outcome {
            self.origins.entry(revision).or_insert(Origin { seen: sent.seen, is_late: false });
        }
        if self.keeps_history {
            self.note(sent, &outcome);
        }
        outcome
    }

    fn commit(&mut self, proposal: Proposal) -> Result<CommitResponse, CommitError> {
        let committed = self.store.commit(proposal)?;
        self.acknowledged = committed.revision;
        Ok(committed)
    }

    fn note(&mut self, sent: &Sent, outcome: &Outcome) {
        let what = match &sent.write {
            Write::Create { resource, .. } => resource.to_string(),
            Write::Tell(news) => news.event.to_string(),
            Write::Patch { key, patch, .. } | Write::Apply { key, config: patch, .. } => {
                format!("{key} {}", json::to_text(patch))
            }
            Write::Delete { key, .. } | Write::Post { key, .. } => key.to_string(),
        };
        let (by, verb, seen) = (&sent.by, sent.write.verb(), sent.seen);
        self.history.push(format!("{by}, seen {seen}: {verb} {what}: {outcome:?}"));
    }

    /// Observes, plans and writes until nothing is left to do at this moment.
    ///
    /// # Panics
    /// If it does not come to rest.
    pub fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            self.observe();
            let wake = self.plan();
            let mut wrote = false;
            while self.perform() {
                wrote = true;
            }
            if !wrote && wake.is_none_or(|wake| wake > self.now) {
                return;
            }
        }
        panic!("no rest after {TURNS_MAX} turns: {:?}", self.engine.gaps(self.now, Seed(0)));
    }

    /// Lets time pass, and everything happen that is due in it.
    pub fn run(&mut self, span: Duration) {
        let end = self.now.after(span);
        loop {
            self.settle();
            let wake = self.plan();
            match wake.filter(|wake| *wake <= end) {
                Some(wake) => self.now = wake.max(self.now),
                None => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// Writes as a user would.
    ///
    /// # Errors
    /// If the write is refused.
    pub fn act(
        &mut self,
        decide: impl Fn(&Writer, &RequestContext<'_>) -> Result<Step, Status>,
    ) -> Result<Revision, Status> {
        let writer = self.writer();
        let snapshot = self.store.snapshot();
        let entropy = [self.rng.u64(..), self.rng.u64(..), self.rng.u64(..)];
        match decide(
            &writer,
            &RequestContext { snapshot: &snapshot, now: self.now, entropy, tolerations: Default::default() },
        )? {
            Step::Commit(proposal) | Step::Remove(proposal, _) => {
                // Signs of life say nothing, and there are many.
                let told = |key: &&Key| self.keeps_history && key.resource().as_str() != LEASES;
                let wrote: Vec<String> =
                    proposal.writes().map(|write| &write.key).filter(told).map(Key::to_string).collect();
                let committed = self.commit(*proposal).map_err(Status::internal_error)?;
                if !wrote.is_empty() {
                    let (who, at) = (self.acting, committed.revision);
                    self.history.push(format!("{who}: {} at {at}", wrote.join(", ")));
                }
                Ok(committed.revision)
            }
            _ => Ok(snapshot.revision()),
        }
    }

    /// Makes an object, as a user would.
    ///
    /// # Panics
    /// If it is refused.
    pub fn create(&mut self, resource: &str, namespace: &str, object: Value) {
        let made = self.try_create(resource, namespace, object);
        made.unwrap_or_else(|status| panic!("{resource}: {status}"));
    }

    /// Makes an object, as a user would.
    ///
    /// # Errors
    /// If it is refused.
    pub fn try_create(&mut self, resource: &str, namespace: &str, object: Value) -> Result<Revision, Status> {
        let resource_type = kind(resource);
        let object = typed(resource_type, object);
        self.act(|writer, context| {
            Ok(create::create(resource_type, namespace, DesiredObject::new(object.clone()), writer, context)?
                .step)
        })
    }

    /// Makes objects as several users would at the same moment: all are decided on before the first is made. Gives what
    /// came of the last, and how many were overtaken by others.
    pub fn create_at_once(
        &mut self,
        resource: &str,
        namespace: &str,
        objects: Vec<Value>,
    ) -> (Result<Revision, Status>, usize) {
        let resource_type = kind(resource);
        let snapshot = self.store.snapshot();
        let mut steps = Vec::new();
        for object in objects {
            let object = typed(resource_type, object);
            let entropy = [self.rng.u64(..), self.rng.u64(..), self.rng.u64(..)];
            let context = RequestContext {
                snapshot: &snapshot,
                now: self.now,
                entropy,
                tolerations: Default::default(),
            };
            let made = create::create(
                resource_type,
                namespace,
                DesiredObject::new(object),
                &self.writer(),
                &context,
            );
            steps.push(made.map(|made| made.step));
        }
        let (mut last, mut overtaken) = (Ok(snapshot.revision()), 0);
        for step in steps {
            let Ok(Step::Commit(proposal)) = step else {
                last = step.map(|_| snapshot.revision());
                continue;
            };
            let committed = self.commit(*proposal);
            overtaken +=
                usize::from(matches!(committed, Err(CommitError::Rejected(RejectReason::Conflict(_)))));
            last = committed.map(|done| done.revision).map_err(Status::internal_error);
        }
        (last, overtaken)
    }

    /// Whoever writes what is not the loop's.
    fn writer(&self) -> Writer {
        let identity = Identity { user: self.acting.to_owned(), groups: vec!["system:masters".to_owned()] };
        Writer { identity, manager: "test".to_owned(), dry_run: false, reconciler: String::new() }
    }

    /// Merges a patch into a part of an object, as a user or a node would.
    ///
    /// # Errors
    /// If it is refused.
    pub fn patch(
        &mut self,
        resource: &str,
        path: &str,
        part: &str,
        patch: Value,
    ) -> Result<Revision, Status> {
        let resource_type = kind(resource);
        let key = Key::from_path(&resource_type.resource, path).expect("a path");
        self.act(|writer, context| {
            let record = context
                .snapshot
                .get(&key)
                .ok_or_else(|| Status::not_found(resource_type.qualified(), path))?;
            let patched = PatchType::Merge.apply(&patch, codec::object(record), resource_type.stored_schema);
            let patched = typed(resource_type, patched.map_err(|error| error.to_status())?);
            let subresource = Subresource::from_name(part).expect("a part");
            Ok(update::update(
                resource_type,
                subresource,
                DesiredObject::new(patched),
                record,
                writer,
                context,
            )?
            .step)
        })
    }

    /// Deletes an object, as a user would, with options such as `{"propagationPolicy": "Orphan"}`.
    ///
    /// # Errors
    /// If it is refused.
    pub fn delete(&mut self, resource: &str, path: &str, options: &Value) -> Result<Revision, Status> {
        let resource_type = kind(resource);
        let key = Key::from_path(&resource_type.resource, path).expect("a path");
        self.act(|writer, context| {
            let record = context
                .snapshot
                .get(&key)
                .ok_or_else(|| Status::not_found(resource_type.qualified(), path))?;
            delete::delete(resource_type, record, &DeleteOptions::from_value(options), writer, context)
        })
    }

    /// Deletes a pod if its budget allows it, as whoever drains a node does.
    ///
    /// # Errors
    /// If it is refused.
    pub fn evict(&mut self, path: &str) -> Result<Revision, Status> {
        let resource_type = kind("pods");
        let key = Key::from_path(&resource_type.resource, path).expect("a path");
        self.act(|writer, context| {
            let record = context
                .snapshot
                .get(&key)
                .ok_or_else(|| Status::not_found(resource_type.qualified(), path))?;
            eviction::evict(resource_type, record, &DeleteOptions::from_value(&Value::map()), writer, context)
        })
    }

    /// Binds a pod to a node, as a scheduler would.
    ///
    /// # Errors
    /// If it is refused.
    pub fn bind(&mut self, path: &str, node: &str) -> Result<Revision, Status> {
        let key = Key::from_path(&kind("pods").resource, path).expect("a path");
        let binding_object =
            value!({"metadata": {"name": (key.name())}, "target": {"kind": "Node", "name": (node)}});
        let namespace = key.namespace().unwrap_or_default();
        self.act(|writer, context| binding::bind(&binding_object, namespace, writer, context))
    }

    /// An object as it is stored.
    #[must_use]
    pub fn get(&self, resource: &str, path: &str) -> Option<Value> {
        let key = Key::from_path(&kind(resource).resource, path).ok()?;
        self.store.snapshot().get(&key).map(codec::object)
    }

    /// All objects of a resource.
    #[must_use]
    pub fn list(&self, resource: &str) -> Vec<Value> {
        let snapshot = self.store.snapshot();
        let table = snapshot.table(&kind(resource).resource);
        table.into_iter().flat_map(|table| table.iter()).map(codec::object).collect()
    }

    /// Plays the part of the nodes: every pod runs and is ready; every deleted pod goes at once.
    pub fn run_pods(&mut self) {
        for pod in self.list("pods") {
            self.run_pod(&pod);
        }
    }

    /// As [`Cluster::run_pods`], but for some of them; others fail.
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

    /// As [`Cluster::run_pods`], but for one of them.
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

    /// Lets the loop and the nodes go on by turns until both rest.
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

    /// Demands that no controller wants anything: quiet means quiet.
    ///
    /// # Panics
    /// If one does.
    pub fn assert_quiet(&mut self) {
        self.observe();
        let gaps = self.engine.gaps(self.now, Seed(self.rng.u64(..)));
        assert!(gaps.is_empty(), "not quiet: {gaps:#?}");
    }
}

impl Watching {
    /// Tells what changed. Where the store no longer knows what did, the whole resource is taken in anew.
    fn tell(&mut self, store: &Store, engine: &mut Engine, now: Time, events_max: usize) {
        for _ in 0..events_max {
            let event = match self.cursor.as_mut().map(Cursor::try_next) {
                Some(Ok(Some(event))) => event,
                Some(Err(_)) => {
                    self.list(store, engine, now);
                    continue;
                }
                _ => return,
            };
            let key = event.after.key(&self.resource);
            let Some(observed) = objects::observed(key, &event) else { continue };
            if self.told.len() == TOLD_MAX {
                self.told.pop_front();
            }
            self.told.push_back(observed.clone());
            engine.observe(observed, now);
        }
    }

    fn list(&mut self, store: &Store, engine: &mut Engine, now: Time) {
        let (snapshot, cursor) = store.list_and_watch(&self.resource, Filter::default());
        let records = snapshot.table(&self.resource).into_iter().flat_map(|table| table.iter());
        let objects = records.filter_map(|record| {
            let key = record.key(&self.resource);
            objects::object(key, record)
        });
        engine.relist(&self.resource, objects.collect(), snapshot.revision(), now);
        self.told.clear();
        self.cursor = Some(cursor);
    }
}

fn kind(resource: &str) -> &'static ResourceType {
    let resource = setpoint_api::Resource::new(resource).expect("a resource");
    resource_types::storage_type(&resource).unwrap_or_else(|| panic!("there are no {resource}"))
}

fn typed(resource_type: &ResourceType, mut object: Value) -> Value {
    object.make_map().insert("kind", resource_type.info.kind);
    object.make_map().insert("apiVersion", resource_type.api_version());
    match decode(object, resource_type.stored_schema, &[]) {
        Ok(decoded) => decoded.value,
        Err(error) => panic!("{error}"),
    }
}

/// A value from JSON text, for tests.
///
/// # Panics
/// If the text is no JSON.
#[must_use]
pub fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}
