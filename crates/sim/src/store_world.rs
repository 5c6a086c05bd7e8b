//! Store on a simulated disk, compared with the reference model after every step.
//!
//! Sizes are tiny, so that segments fill, rings overflow and checkpoints are written all the time. Start at
//! [`StoreWorld`].

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_store::log::LogError;
use setpoint_store::log::disk::{DiskLog, DiskOptions};
use setpoint_store::{
    CommitCause, CommitError, Compacted, Cursor, Draft, PendingCommit, Proposal, ReadError, Retention, Store,
    WatchFilter,
};

use crate::disk::{Faults, SimDisk};
use crate::model::{Change, Model, State, state_of};
use crate::watch::{self, ExpectedEvent, WatchItem};

/// Resources in use. The last one is exempt from history.
const RESOURCES: [&str; 3] = ["pods", "nodes", "leases"];

/// Store under test with its model and its watchers.
pub struct StoreWorld {
    /// The disk.
    pub disk: SimDisk,
    /// The store under test.
    pub store: Store,
    /// The reference model.
    pub model: Model,
    now: Time,
    watchers: Vec<Watcher>,
}

struct Watcher {
    resource: Resource,
    filter: WatchFilter,
    cursor: Cursor,
    start: Revision,
    items: Vec<WatchItem>,
}

/// Retention of the store under test.
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

/// Disk options of the store under test.
#[must_use]
pub fn options() -> DiskOptions {
    DiskOptions {
        segment_bytes_min: 2 << 10,
        segment_bytes_max: 8 << 10,
        compact_bytes_min: 6 << 10,
        reserve_bytes: 4 << 10,
        retention: retention(),
        entropy: 7,
        sealer: None,
    }
}

/// Returns a resource by index.
#[must_use]
pub fn resource(number: usize) -> Resource {
    Resource::new(RESOURCES[number % RESOURCES.len()]).expect("a fixed name")
}

/// Returns a key by index. There are few, so that writers conflict.
#[must_use]
pub fn key(resource_number: usize, number: usize) -> Key {
    let path = ["a/x", "a/y", "b/x", "b/y", "c/z"][number % 5];
    Key::from_path(&resource(resource_number), path).expect("a fixed path")
}

/// Opens the store on a disk.
pub fn open(disk: &SimDisk) -> Result<Store, LogError> {
    Store::open(Box::new(DiskLog::new(Arc::new(disk.clone()), options())), retention(), |_| ())
}

/// Revision of each key: enough to see a difference, without the values.
fn heads(state: &State) -> Vec<(&Key, Revision)> {
    state.iter().map(|(key, (revision, _))| (key, *revision)).collect()
}

fn proposal(changes: &[Change], now: Time) -> Proposal {
    changes.iter().fold(Proposal::new(CommitCause::default(), now), |proposal, (key, expect, value)| {
        match value {
            Some(value) => {
                let label = if value.first().is_some_and(|byte| byte % 2 == 0) { "even" } else { "odd" };
                let draft = Draft::new(value.clone()).labels([("parity", label)]).fields([("size", label)]);
                proposal.put(key.clone(), *expect, draft)
            }
            None => proposal.delete(key.clone(), *expect),
        }
    })
}

impl StoreWorld {
    /// Returns an empty store and model.
    #[must_use]
    pub fn new() -> StoreWorld {
        let disk = SimDisk::default();
        let store = open(&disk).expect("an empty disk holds an empty store");
        StoreWorld { disk, store, model: Model::default(), now: Time::from_seconds(1), watchers: Vec::new() }
    }

    /// Advances the clock.
    pub fn pass(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
    }

    /// Commits to the store and the model, and compares the results.
    ///
    /// # Panics
    /// If the results differ.
    pub fn commit(&mut self, changes: &[Change]) {
        let expected = self.model.commit(changes);
        let outcome = self.store.commit(proposal(changes, self.now));
        match (outcome, expected) {
            (Ok(committed), Some(revision)) => assert_eq!(committed.revision, revision),
            (Err(CommitError::Rejected(_)), None) => {}
            (outcome, expected) => panic!("{changes:?}: {outcome:?}, the model has {expected:?}"),
        }
        assert_eq!(state_of(&self.store.snapshot()), *self.model.newest());
    }

    /// Commits a batch, so that its commits share one sync. Returns the number of acknowledged commits, and `true` if
    /// the store has failed. The model applies all of them.
    ///
    /// # Panics
    /// If an outcome differs from that of the model.
    pub fn commit_batch(&mut self, batch: &[Vec<Change>]) -> (usize, bool) {
        let pending_commits: Vec<PendingCommit> =
            batch.iter().map(|changes| self.store.submit(proposal(changes, self.now))).collect();
        let (mut acknowledged, mut failed) = (0, false);
        for (changes, pending) in batch.iter().zip(pending_commits) {
            let expected = self.model.commit(changes);
            match (pending.wait(), expected) {
                (Ok(committed), Some(revision)) => {
                    assert_eq!(committed.revision, revision);
                    acknowledged += 1;
                }
                (Err(CommitError::Rejected(_)), None) => {}
                (Err(CommitError::Failed(_)), _) => failed = true,
                (outcome, expected) => panic!("{changes:?}: {outcome:?}, the model has {expected:?}"),
            }
        }
        (acknowledged, failed)
    }

    /// Compares the state at a revision.
    ///
    /// # Panics
    /// If it differs from that of the model, or if the store is compacted too far.
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

    /// Starts a watch.
    pub fn watch(&mut self, resource: Resource, filter: WatchFilter) {
        let (snapshot, cursor) = self.store.list_and_watch(&resource, filter.clone());
        let start = snapshot.revision();
        self.watchers.push(Watcher { resource, filter, cursor, start, items: Vec::new() });
    }

    /// Reads up to `most` events of a watch, and then records a bookmark at its position.
    pub fn read_watch(&mut self, index: usize, most: usize) {
        let count = self.watchers.len();
        if count > 0 {
            self.watchers[index % count].read(&self.store, most);
        }
    }

    /// Ends the stream of a watch, and resumes it where it was.
    pub fn resume_watch(&mut self, index: usize) {
        let count = self.watchers.len();
        if count > 0 {
            self.watchers[index % count].resume(&self.store);
        }
    }

    /// Closes and reopens the store, and resumes the watches.
    ///
    /// # Panics
    /// If the state after the restart differs.
    pub fn restart(&mut self) {
        self.store = open(&self.disk).expect("a closed store can be reopened");
        assert_eq!(self.store.snapshot().revision(), self.model.revision());
        assert_eq!(state_of(&self.store.snapshot()), *self.model.newest());
        for watcher in &mut self.watchers {
            watcher.resume(&self.store);
        }
    }

    /// Cuts the power after a number of disk operations.
    pub fn arm_power_cut(&self, operations: u64) {
        let power_cut_at = Some(self.disk.operations() + operations);
        self.disk.set_faults(Faults { power_cut_at, ..Faults::default() });
    }

    /// Restores the power. The store must be at `durable` or later, in a state of the model.
    ///
    /// # Panics
    /// If a durable commit is lost, or the state is none of the model.
    pub fn recover(&mut self, durable: Revision, rng: &mut Rng) {
        self.disk.power_cycle(rng);
        self.store = open(&self.disk).unwrap_or_else(|error| panic!("after a power cut: {error}"));
        let revision = self.store.snapshot().revision();
        assert!(revision >= durable, "an acknowledged commit is lost: at {revision}, {durable} was durable");
        assert!(revision <= self.model.revision(), "a commit appeared that was never made");
        assert_eq!(state_of(&self.store.snapshot()), *self.model.at(revision));
        self.model.truncate(revision);
        self.watchers.clear();
    }

    /// Runs the maintenance that is due. Returns `false` if the disk failed.
    pub fn run_maintenance(&mut self) -> bool {
        self.store.run_maintenance(self.now).is_ok()
    }

    /// Compacts. Returns `false` if the disk failed.
    pub fn compact(&mut self) -> bool {
        self.store.compact(self.now).is_ok()
    }

    /// Reads all watches to the end, and checks their guarantees.
    ///
    /// # Panics
    /// If a guarantee is violated.
    pub fn check_watches(&mut self) {
        for watcher in &mut self.watchers {
            watcher.read(&self.store, usize::MAX);
            let expected_events = expected_events(&self.model, &watcher.resource, &watcher.filter);
            watch::check_all(&watcher.items, &expected_events, watcher.start, self.model.revision())
                .unwrap_or_else(|broken| panic!("{broken}\nitems: {:?}", watcher.items));
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
                    self.items.push(WatchItem::Event { revision, change: event.event_type, path });
                }
                Ok(None) => break,
                Err(_) => return self.relist(store),
            }
        }
        self.items.push(WatchItem::Bookmark(self.cursor.position()));
    }

    fn resume(&mut self, store: &Store) {
        let position = self.cursor.position();
        match store.watch_after(&self.resource, self.filter.clone(), position) {
            Ok(cursor) => {
                self.cursor = cursor;
                self.items.push(WatchItem::Bookmark(position));
                self.items.push(WatchItem::Resumed(position));
            }
            Err(_) => self.relist(store),
        }
    }

    fn relist(&mut self, store: &Store) {
        let (snapshot, cursor) = store.list_and_watch(&self.resource, self.filter.clone());
        self.cursor = cursor;
        self.items.push(WatchItem::Relisted(snapshot.revision()));
    }
}

/// Returns the events for a watch with this filter, derived from the states of the model. Filters select by namespace,
/// by name, or by the parity of the value's first byte.
fn expected_events(model: &Model, resource: &Resource, filter: &WatchFilter) -> Vec<ExpectedEvent> {
    let passes = |key: &Key, value: &[u8]| {
        let parity = if value.first().is_some_and(|byte| byte % 2 == 0) { "even" } else { "odd" };
        filter.namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
            && filter.name.as_deref().is_none_or(|name| key.name() == name)
            && filter.field.as_ref().is_none_or(|(_, expected)| expected == parity)
    };
    let mut expected_events = Vec::new();
    for number in 1..=model.revision().0 {
        let (old, new) = (model.at(Revision(number - 1)), model.at(Revision(number)));
        let keys = old.keys().chain(new.keys()).collect::<std::collections::BTreeSet<_>>();
        for key in keys.into_iter().filter(|key| key.resource() == resource && old.get(*key) != new.get(*key))
        {
            let was = old.get(key).is_some_and(|(_, value)| passes(key, value));
            let is = new.get(key).is_some_and(|(_, value)| passes(key, value));
            let change = match (was, is) {
                (false, true) => setpoint_store::WatchEventType::Added,
                (true, true) => setpoint_store::WatchEventType::Modified,
                (true, false) => setpoint_store::WatchEventType::Deleted,
                (false, false) => continue,
            };
            expected_events.push(ExpectedEvent {
                revision: Revision(number),
                change,
                path: key.path().to_owned(),
            });
        }
    }
    expected_events
}
