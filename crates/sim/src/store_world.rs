//! A store on a simulated disk, beside the model that says what it must be.
//!
//! Every step is done to both, and they are compared. The sizes are tiny, so that segments fill, rings
//! overflow and checkpoints are made all the time.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::log::LogError;
use setpoint_store::log::disk::{DiskLog, DiskOptions};
use setpoint_store::{
    Cause, CommitError, Compacted, Cursor, Draft, Filter, PendingCommit, Proposal, ReadError, Retention,
    Store,
};

use crate::disk::{Faults, SimDisk};
use crate::model::{Change, Model, State, state_of};
use crate::watch::{self, Happened, Seen};

/// The resources of this world; the last one is exempt from history.
pub const RESOURCES: [&str; 3] = ["pods", "nodes", "leases"];

/// A store, its model and its watchers.
pub struct StoreWorld {
    /// The disk.
    pub disk: SimDisk,
    /// The store under test.
    pub store: Store,
    /// What it must be.
    pub model: Model,
    now: Time,
    watchers: Vec<Watcher>,
}

struct Watcher {
    resource: Resource,
    filter: Filter,
    cursor: Cursor,
    start: Revision,
    seen: Vec<Seen>,
}

/// The budgets of this world.
#[must_use]
pub fn retention() -> Retention {
    Retention {
        hot_bytes: 4 << 10,
        hot_age: Duration::from_secs(60),
        cold_bytes: 32 << 10,
        cold_age: Duration::from_secs(3600),
        exempt: [resource(2)].into(),
        exempt_bytes: 1 << 10,
        live_bytes: u64::MAX,
    }
}

/// The sizes of this world.
#[must_use]
pub fn options() -> DiskOptions {
    DiskOptions {
        segment_bytes_min: 2 << 10,
        segment_bytes_max: 8 << 10,
        compact_bytes_min: 6 << 10,
        reserve_bytes: 4 << 10,
        retention: retention(),
        entropy: 7,
    }
}

/// A resource by number.
#[must_use]
pub fn resource(number: usize) -> Resource {
    Resource::new(RESOURCES[number % RESOURCES.len()]).expect("a fixed name")
}

/// A key by number: few enough that writers meet.
#[must_use]
pub fn key(resource_number: usize, number: usize) -> Key {
    let path = ["a/x", "a/y", "b/x", "b/y", "c/z"][number % 5];
    Key::from_path(&resource(resource_number), path).expect("a fixed path")
}

/// Opens the store on a disk.
pub fn open(disk: &SimDisk) -> Result<Store, LogError> {
    Store::open(Box::new(DiskLog::new(Arc::new(disk.clone()), options())), retention(), |_| ())
}

/// What each key's revision is: enough to see what is wrong, without the values.
fn heads(state: &State) -> Vec<(&Key, Revision)> {
    state.iter().map(|(key, (revision, _))| (key, *revision)).collect()
}

fn proposal(changes: &[Change], now: Time) -> Proposal {
    changes.iter().fold(Proposal::new(Cause::default(), now), |proposal, (key, expect, value)| match value {
        Some(value) => {
            let label = if value.first().is_some_and(|byte| byte % 2 == 0) { "even" } else { "odd" };
            let draft = Draft::new(value.clone()).labels([("parity", label)]).fields([("size", label)]);
            proposal.put(key.clone(), *expect, draft)
        }
        None => proposal.delete(key.clone(), *expect),
    })
}

impl StoreWorld {
    /// An empty world.
    #[must_use]
    pub fn new() -> StoreWorld {
        let disk = SimDisk::default();
        let store = open(&disk).expect("an empty disk holds an empty store");
        StoreWorld { disk, store, model: Model::default(), now: Time::from_seconds(1), watchers: Vec::new() }
    }

    /// Lets time pass.
    pub fn pass(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
    }

    /// Commits to both, and compares what they say.
    ///
    /// # Panics
    /// If they disagree.
    pub fn commit(&mut self, changes: &[Change]) {
        let expected = self.model.commit(changes);
        let outcome = self.store.commit(proposal(changes, self.now));
        match (outcome, expected) {
            (Ok(committed), Some(revision)) => assert_eq!(committed.revision, revision),
            (Err(CommitError::Rejected(_)), None) => {}
            (outcome, expected) => panic!("{changes:?}: {outcome:?}, the model says {expected:?}"),
        }
        assert_eq!(state_of(&self.store.snapshot()), *self.model.newest());
    }

    /// Queues up a batch, so that its commits share one sync, and says how many of them were acknowledged and
    /// whether the store has failed. The model takes all of them.
    ///
    /// # Panics
    /// If an outcome is not the model's.
    pub fn commit_batch(&mut self, batch: &[Vec<Change>]) -> (usize, bool) {
        let tickets: Vec<PendingCommit> =
            batch.iter().map(|changes| self.store.submit(proposal(changes, self.now))).collect();
        let (mut acknowledged, mut failed) = (0, false);
        for (changes, ticket) in batch.iter().zip(tickets) {
            let expected = self.model.commit(changes);
            match (ticket.wait(), expected) {
                (Ok(committed), Some(revision)) => {
                    assert_eq!(committed.revision, revision);
                    acknowledged += 1;
                }
                (Err(CommitError::Rejected(_)), None) => {}
                (Err(CommitError::Failed(_)), _) => failed = true,
                (outcome, expected) => panic!("{changes:?}: {outcome:?}, the model says {expected:?}"),
            }
        }
        (acknowledged, failed)
    }

    /// Compares a state of the past.
    ///
    /// # Panics
    /// If the store says something else than the model, or is compacted further than it may be.
    pub fn check_at(&self, revision: Revision) {
        let exempt = resource(2);
        let without_exempt = |state: &State| -> State {
            let kept = state.iter().filter(|(key, _)| *key.resource() != exempt);
            kept.map(|(key, version)| (key.clone(), version.clone())).collect()
        };
        match self.store.snapshot_at(revision) {
            Ok(snapshot) => {
                assert_eq!(snapshot.revision(), revision);
                let expected = without_exempt(self.model.at(revision));
                let found = without_exempt(&state_of(&snapshot));
                assert!(
                    found == expected,
                    "at {revision}: {:?}, expected {:?}",
                    heads(&found),
                    heads(&expected)
                );
                for (key, (version, value)) in expected {
                    let record = self.store.get_at(&key, revision).expect("it was just read");
                    let record = record.expect("it was just seen");
                    assert_eq!((record.revision(), &record.value()[..]), (version, &value[..]));
                }
            }
            Err(ReadError::Compacted(Compacted { floor })) => {
                assert!(revision < floor && floor <= self.model.revision(), "{revision} {floor}");
            }
            Err(other) => panic!("{revision}: {other}"),
        }
    }

    /// Starts to watch.
    pub fn watch(&mut self, resource: Resource, filter: Filter) {
        let (snapshot, cursor) = self.store.list_and_watch(&resource, filter.clone());
        let start = snapshot.revision();
        self.watchers.push(Watcher { resource, filter, cursor, start, seen: Vec::new() });
    }

    /// Lets a watcher read up to `most` events, then note its position.
    pub fn read_watch(&mut self, which: usize, most: usize) {
        let count = self.watchers.len();
        if count > 0 {
            self.watchers[which % count].read(&self.store, most);
        }
    }

    /// Ends a watcher's stream and takes it up again where it was.
    pub fn resume_watch(&mut self, which: usize) {
        let count = self.watchers.len();
        if count > 0 {
            self.watchers[which % count].resume(&self.store);
        }
    }

    /// Stops the store and opens it again; watchers take up where they were.
    ///
    /// # Panics
    /// If it is not what it was.
    pub fn restart(&mut self) {
        self.store = open(&self.disk).expect("what was closed can be opened");
        assert_eq!(self.store.snapshot().revision(), self.model.revision());
        assert_eq!(state_of(&self.store.snapshot()), *self.model.newest());
        for watcher in &mut self.watchers {
            watcher.resume(&self.store);
        }
    }

    /// Cuts the power before the disk's next operation but `operations`.
    pub fn arm(&self, operations: u64) {
        let fuse = Some(self.disk.operations() + operations);
        self.disk.set_faults(Faults { fuse, ..Faults::default() });
    }

    /// Turns the power on again. The store must be at `durable` or later, at a state the model knows.
    ///
    /// # Panics
    /// If it is not.
    pub fn recover(&mut self, durable: Revision, rng: &mut Rng) {
        self.disk.power_cycle(rng);
        self.store = open(&self.disk).unwrap_or_else(|error| panic!("after a power cut: {error}"));
        let revision = self.store.snapshot().revision();
        assert!(revision >= durable, "an acknowledged commit is lost: at {revision}, {durable} was durable");
        assert!(revision <= self.model.revision(), "a commit appeared that nobody made");
        assert_eq!(state_of(&self.store.snapshot()), *self.model.at(revision));
        self.model.truncate(revision);
        self.watchers.clear();
    }

    /// Does what a housekeeper does. False if the disk failed it.
    pub fn run_maintenance(&mut self) -> bool {
        self.store.run_maintenance(self.now).is_ok()
    }

    /// Compacts. False if the disk failed it.
    pub fn compact(&mut self) -> bool {
        self.store.compact(self.now).is_ok()
    }

    /// Lets every watcher read to the end, and checks all promises.
    ///
    /// # Panics
    /// If one is broken.
    pub fn check_watches(&mut self) {
        for watcher in &mut self.watchers {
            watcher.read(&self.store, usize::MAX);
            let happened = happened(&self.model, &watcher.resource, &watcher.filter);
            watch::all(&watcher.seen, &happened, watcher.start, self.model.revision())
                .unwrap_or_else(|broken| panic!("{broken}\nseen: {:?}", watcher.seen));
        }
    }
}

impl Default for StoreWorld {
    fn default() -> StoreWorld {
        StoreWorld::new()
    }
}

impl Watcher {
    fn read(&mut self, store: &Store, most: usize) {
        for _ in 0..most {
            match self.cursor.try_next() {
                Ok(Some(event)) => {
                    let (revision, path) = (event.revision(), event.after.path().to_owned());
                    let readers = store.snapshot().revision();
                    watch::atomic(revision, readers).unwrap_or_else(|broken| panic!("{broken}"));
                    self.seen.push(Seen::Event { revision, change: event.event_type, path });
                }
                Ok(None) => break,
                Err(_) => return self.relist(store),
            }
        }
        self.seen.push(Seen::Bookmark(self.cursor.position()));
    }

    fn resume(&mut self, store: &Store) {
        let position = self.cursor.position();
        match store.watch_after(&self.resource, self.filter.clone(), position) {
            Ok(cursor) => {
                self.cursor = cursor;
                self.seen.push(Seen::Bookmark(position));
                self.seen.push(Seen::Resumed(position));
            }
            Err(_) => self.relist(store),
        }
    }

    fn relist(&mut self, store: &Store) {
        let (snapshot, cursor) = store.list_and_watch(&self.resource, self.filter.clone());
        self.cursor = cursor;
        self.seen.push(Seen::Relisted(snapshot.revision()));
    }
}

/// What a watcher with this filter must be told, worked out from the model's states alone. The filters of this
/// world select by namespace and by the parity of the value's first byte.
fn happened(model: &Model, resource: &Resource, filter: &Filter) -> Vec<Happened> {
    let passes = |key: &Key, value: &[u8]| {
        let parity = if value.first().is_some_and(|byte| byte % 2 == 0) { "even" } else { "odd" };
        filter.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
            && filter.name.as_deref().is_none_or(|name| key.name() == name)
            && filter.field.as_ref().is_none_or(|(_, wanted)| wanted == parity)
    };
    let mut happened = Vec::new();
    for number in 1..=model.revision().0 {
        let (old, new) = (model.at(Revision(number - 1)), model.at(Revision(number)));
        let keys = old.keys().chain(new.keys()).collect::<std::collections::BTreeSet<_>>();
        for key in keys.into_iter().filter(|key| key.resource() == resource && old.get(*key) != new.get(*key))
        {
            let was = old.get(key).is_some_and(|(_, value)| passes(key, value));
            let is = new.get(key).is_some_and(|(_, value)| passes(key, value));
            let change = match (was, is) {
                (false, true) => setpoint_store::EventType::Added,
                (true, true) => setpoint_store::EventType::Modified,
                (true, false) => setpoint_store::EventType::Deleted,
                (false, false) => continue,
            };
            happened.push(Happened { revision: Revision(number), change, path: key.path().to_owned() });
        }
    }
    happened
}
