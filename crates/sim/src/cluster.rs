//! The whole control plane in one thread: the store, the pipeline, the loop and its controllers, on a clock of our
//! own, from one seed.
//!
//! [`Cluster`] has no faults of its own making; what it does is the product's doing. Campaigns put faults between
//! its steps.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::decode::decode;
use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::patch::{Patch, PatchType};
use setpoint_api::status::Status;
use setpoint_api::{Key, Revision, Time, Value, json, value};
use setpoint_reconcile::{Controller, Engine, Index, Outcome, Seed, Sent, Ticket, Turn};
use setpoint_server::exchange::Identity;
use setpoint_server::in_process::{self, Prepared};
use setpoint_server::pipeline::update::Part;
use setpoint_server::pipeline::{Step, World, Writer, create, delete, update};
use setpoint_server::served::{self, Served};
use setpoint_server::stored;
use setpoint_store::{Cursor, Filter, Retention, Store};

/// How many turns a cluster may take to come to rest.
const TURNS_MAX: usize = 10_000;

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
    controllers: Controllers,
    cursors: Vec<(setpoint_api::Resource, Cursor)>,
    outbox: VecDeque<Sent>,
}

impl Cluster {
    /// An empty cluster with the namespace `default`.
    ///
    /// # Panics
    /// If the namespace cannot be made.
    #[must_use]
    pub fn new(controllers: Controllers, seed: u64) -> Cluster {
        let store = Store::in_memory(Retention::default());
        let (list, indexes) = controllers();
        let mut cluster = Cluster {
            store,
            engine: Engine::new(list, indexes),
            now: Time::from_seconds(1_800_000_000),
            rng: Rng::with_seed(seed),
            controllers,
            cursors: Vec::new(),
            outbox: VecDeque::new(),
        };
        cluster.follow();
        cluster.create("namespaces", "", value!({"metadata": {"name": "default"}}));
        cluster
    }

    fn follow(&mut self) {
        self.cursors.clear();
        for resource in in_process::resources() {
            let cursor = self.relist(resource);
            self.cursors.push((resource.clone(), cursor));
        }
        self.engine.reach(self.store.snapshot().revision());
    }

    /// Takes in a whole resource, and follows it from there.
    fn relist(&mut self, resource: &setpoint_api::Resource) -> Cursor {
        let (snapshot, cursor) = self.store.list_and_follow(resource, Filter::default());
        let records = snapshot.table(resource).into_iter().flat_map(|table| table.iter());
        let objects = records.filter_map(|record| {
            let key = Key::from_path(resource, record.path()).ok()?;
            in_process::object(key, record)
        });
        let objects: Vec<_> = objects.collect();
        self.engine.relist(resource, objects, snapshot.revision(), self.now);
        cursor
    }

    /// Kills the loop with all it knew, and starts another. Writes that were not sent are lost.
    pub fn crash(&mut self) {
        let (list, indexes) = (self.controllers)();
        self.engine = Engine::new(list, indexes);
        self.outbox.clear();
        self.follow();
    }

    /// Takes in what changed. Where the store no longer knows what did, the whole resource is taken in anew.
    pub fn observe(&mut self) {
        let mut cursors = std::mem::take(&mut self.cursors);
        for (resource, cursor) in &mut cursors {
            loop {
                let event = match cursor.try_next() {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(_) => {
                        *cursor = self.relist(resource);
                        continue;
                    }
                };
                let Ok(key) = Key::from_path(resource, event.after.path()) else { continue };
                if let Some(observed) = in_process::observed(key, &event) {
                    self.engine.observe(observed, self.now);
                }
            }
        }
        self.cursors = cursors;
        self.engine.reach(self.store.snapshot().revision());
    }

    /// Plans what is due. Says when to come again.
    pub fn plan(&mut self) -> Option<Time> {
        let turn = self.engine.turn(self.now, Seed(self.rng.u64(..)));
        self.outbox.extend(turn.writes);
        turn.wake
    }

    /// Puts the writes of a turn of the loop in line: for tests that take the turn themselves, to answer its questions.
    pub fn send(&mut self, turn: Turn) {
        self.outbox.extend(turn.writes);
    }

    /// Performs the next write that was planned. Says whether there was one.
    pub fn perform(&mut self) -> bool {
        let Some(sent) = self.outbox.pop_front() else { return false };
        let outcome = self.write(&sent);
        self.answer(sent.ticket, outcome);
        true
    }

    /// The next write that will be performed.
    #[must_use]
    pub fn next_write(&self) -> Option<&Sent> {
        self.outbox.front()
    }

    /// Loses the next write on its way, and says so to the loop, as a broken connection would.
    pub fn lose_write(&mut self) {
        if let Some(sent) = self.outbox.pop_front() {
            let refusal = setpoint_reconcile::Refusal {
                reason: "InternalError".to_owned(),
                message: "the connection broke".to_owned(),
            };
            self.answer(sent.ticket, Outcome::Refused(refusal));
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
        match in_process::prepare(sent, &World { snapshot: &snapshot, now: self.now, entropy }) {
            Prepared::Settled(outcome) => outcome,
            Prepared::Commit(proposal, name) => in_process::outcome(self.store.commit(*proposal), name),
        }
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
        decide: impl Fn(&Writer, &World<'_>) -> Result<Step, Status>,
    ) -> Result<Revision, Status> {
        let identity = Identity { user: "user".to_owned(), groups: vec!["system:masters".to_owned()] };
        let writer =
            Writer { identity, manager: "test".to_owned(), dry_run: false, reconciler: String::new() };
        let snapshot = self.store.snapshot();
        let entropy = [self.rng.u64(..), self.rng.u64(..), self.rng.u64(..)];
        match decide(&writer, &World { snapshot: &snapshot, now: self.now, entropy })? {
            Step::Commit(proposal) | Step::Remove(proposal, _) => {
                let committed = self.store.commit(*proposal).map_err(Status::internal_error)?;
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
        let served = kind(resource);
        let object = typed(served, object);
        self.act(|writer, world| create::create(served, namespace, object.clone(), None, writer, world))
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
        let served = kind(resource);
        let key = Key::from_path(&served.resource, path).expect("a path");
        let patch = Patch::new(PatchType::Merge, patch);
        self.act(|writer, world| {
            let record =
                world.snapshot.get(&key).ok_or_else(|| Status::not_found(served.qualified(), path))?;
            let patched = patch.apply(stored::object(record), served.stored_schema);
            let patched = typed(served, patched.map_err(|error| error.to_status())?);
            let part = Part::of(part).expect("a part");
            update::update(served, part, patched, None, record, writer, world)
        })
    }

    /// Deletes an object, as a user would, with options such as `{"propagationPolicy": "Orphan"}`.
    ///
    /// # Errors
    /// If it is refused.
    pub fn delete(&mut self, resource: &str, path: &str, options: &Value) -> Result<Revision, Status> {
        let served = kind(resource);
        let key = Key::from_path(&served.resource, path).expect("a path");
        self.act(|writer, world| {
            let record =
                world.snapshot.get(&key).ok_or_else(|| Status::not_found(served.qualified(), path))?;
            delete::delete(served, record, &DeleteOptions::from_value(options), writer, world)
        })
    }

    /// An object as it is stored.
    #[must_use]
    pub fn get(&self, resource: &str, path: &str) -> Option<Value> {
        let key = Key::from_path(&kind(resource).resource, path).ok()?;
        self.store.snapshot().get(&key).map(stored::object)
    }

    /// All objects of a resource.
    #[must_use]
    pub fn list(&self, resource: &str) -> Vec<Value> {
        let snapshot = self.store.snapshot();
        let table = snapshot.table(&kind(resource).resource);
        table.into_iter().flat_map(|table| table.iter()).map(stored::object).collect()
    }

    /// Plays the part of the nodes: every pod runs and is ready; every deleted pod goes at once.
    pub fn run_pods(&mut self) {
        for pod in self.list("pods") {
            let path =
                format!("{}/{}", pod.str_at(&["metadata", "namespace"]), pod.str_at(&["metadata", "name"]));
            if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
                let _ = self.delete("pods", &path, &value!({"gracePeriodSeconds": 0}));
            } else if pod.str_at(&["status", "phase"]) == "Pending" {
                let now = setpoint_api::rfc3339::Seconds(self.now).to_string();
                let ready = value!({"type": "Ready", "status": "True", "lastTransitionTime": (now)});
                let status = value!({"status": {"phase": "Running", "conditions": [(ready)]}});
                let _ = self.patch("pods", &path, "status", status);
            }
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

fn kind(resource: &str) -> &'static Served {
    let resource = setpoint_api::Resource::new(resource).expect("a resource");
    served::stored_form(&resource).unwrap_or_else(|| panic!("there are no {resource}"))
}

fn typed(served: &Served, mut object: Value) -> Value {
    object.make_map().insert("kind", served.info.kind);
    object.make_map().insert("apiVersion", served.api_version());
    match decode(object, served.stored_schema, &[]) {
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
