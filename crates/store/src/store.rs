//! Store: one order of commits, one current state, many readers and watches.
//!
//! Writers enqueue proposals. One writer at a time is the leader: it takes the whole queue, lets the log
//! decide it and make it durable with one sync, applies it to the mirror, and delivers the outcomes. A
//! single writer therefore waits for one sync and no context switch, and 64 concurrent writers share one
//! sync. A server leads from a dedicated thread ([`Store::drive`]), so that no task blocks on the disk.
//!
//! A waiter that finds the `writer` lock taken sleeps. Every release of that lock therefore wakes one
//! sleeping waiter ([`Shared::wake_next_leader`]).
//!
//! Lock order: `maintenance`, `writer`, then `queue` or `published`, then a lane or a commit slot. No
//! callback runs under a lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use setpoint_api::{Key, Resource, Revision, Time};
use thiserror::Error;

use crate::commit::{Commit, CommitCause, Precondition, Proposal, RejectReason};
use crate::cursor::{Cursor, WatchFilter};
use crate::disk::is_transient;
use crate::idle::IdlePacker;
use crate::log::{Log, LogError, LogStat, MemoryLog, Replay, rebuild};
use crate::mirror::Snapshot;
use crate::pending::{CommitSlot, PendingCommit};
use crate::pins::Origin;
use crate::record::Record;
use crate::retention::Retention;
use crate::ring::{Compacted, Rings};
use crate::seal::Sealing;
use crate::writer::LogWriter;

/// Maximum number of keys that one call of [`Store::expire`] deletes, each in its own commit.
const EXPIRE_MAX: usize = 1024;

/// Handle of a store. Clones refer to the same store.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// State that all handles, cursors and pending commits of a store share.
pub(crate) struct Shared {
    pub published: RwLock<Published>,
    pub queue: Mutex<VecDeque<Queued>>,
    writer: Mutex<LogWriter>,
    driver: Mutex<Option<Thread>>,
    pub failure: OnceLock<Arc<LogError>>,
    on_failure: Box<dyn Fn(&LogError) + Send + Sync>,
    /// Held while maintenance is prepared and run: two concurrent compactions would write the same files.
    maintenance: Mutex<()>,
    /// Held while a past state is rebuilt from the log.
    pub rebuilding: Mutex<()>,
    maintenance_due: Mutex<bool>,
    maintenance_changed: Condvar,
    /// Locked only by maintenance.
    pub(crate) idle: IdlePacker,
    retention: Retention,
    sealing: Option<Arc<Sealing>>,
}

/// State that readers see. Both parts change under one lock.
pub(crate) struct Published {
    pub snapshot: Snapshot,
    pub rings: Rings,
}

/// Minimum size of a batch after which the next batch waits for as many proposals, for [`COMMIT_DELAY`].
const COMMIT_DELAY_BATCH_MIN: usize = 4;
/// Time that a batch waits for more proposals. Concurrent writers send their next proposals one by one after
/// a batch: without the wait, the first would take a sync alone and delay the others. A single writer never
/// waits.
const COMMIT_DELAY: Duration = Duration::from_micros(100);

/// Sleeps for [`COMMIT_DELAY`]. Unlike `park`, the arrival of a proposal does not end it.
#[expect(clippy::disallowed_methods, reason = "the wait is for time to pass, not for a state")]
fn wait_commit_delay() {
    std::thread::sleep(COMMIT_DELAY);
}

/// Proposal that waits to be written.
pub(crate) struct Queued {
    pub proposal: Proposal,
    pub slot: Arc<CommitSlot>,
}

/// Durable commit.
#[derive(Clone, Debug)]
pub struct CommitResponse {
    /// Revision of the commit.
    pub revision: Revision,
    /// Records that were put, and tombstones for deleted keys, in the order of the proposal.
    pub records: Vec<Record>,
}

/// Failure of a commit.
#[derive(Clone, Debug, Error)]
pub enum CommitError {
    /// The proposal was rejected; nothing changed.
    #[error(transparent)]
    Rejected(#[from] RejectReason),
    /// The log failed. The commit may or may not be durable, which the next start of the store decides.
    #[error("the store has failed: {0}")]
    Failed(#[source] Arc<LogError>),
}

/// Failure to read a past state.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The revision has been compacted.
    #[error(transparent)]
    Compacted(#[from] Compacted),
    /// The revision is newer than the current one.
    #[error("revision {requested} is in the future, the current revision is {current}")]
    Future {
        /// Requested revision.
        requested: Revision,
        /// Current revision.
        current: Revision,
    },
    /// Another past state is being rebuilt from the log.
    #[error("another past state is being read from disk")]
    Busy,
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Store {
    /// Opens the store that `log` holds. `on_failure` is called when the log fails; the store commits
    /// nothing after that, and a server must exit, because its state may differ from the disk's.
    ///
    /// # Errors
    /// If the log cannot be replayed.
    pub fn open(
        mut log: Box<dyn Log>,
        retention: Retention,
        on_failure: impl Fn(&LogError) + Send + Sync + 'static,
    ) -> Result<Store, LogError> {
        let mut builder = StoreBuilder {
            published: Published {
                snapshot: Snapshot::default(),
                rings: Rings::new(Revision::ZERO, retention.clone()),
            },
            retention: retention.clone(),
        };
        log.replay(&mut builder)?;
        let sealing = log.sealing();
        builder.published.snapshot.set_sealing(sealing.clone());
        let idle = IdlePacker::from_snapshot(&builder.published.snapshot);
        Ok(Store {
            shared: Arc::new(Shared {
                published: RwLock::new(builder.published),
                queue: Mutex::default(),
                writer: Mutex::new(LogWriter::new(log)),
                driver: Mutex::default(),
                failure: OnceLock::new(),
                on_failure: Box::new(on_failure),
                maintenance: Mutex::default(),
                rebuilding: Mutex::default(),
                maintenance_due: Mutex::default(),
                maintenance_changed: Condvar::new(),
                idle,
                retention,
                sealing,
            }),
        })
    }

    /// Returns an empty store in memory.
    #[must_use]
    pub fn in_memory(retention: Retention) -> Store {
        Store::from_snapshot(Snapshot::default(), retention)
    }

    fn from_snapshot(base: Snapshot, retention: Retention) -> Store {
        let log = Box::new(MemoryLog::from_snapshot(base));
        Store::open(log, retention, |_| ()).expect("a log in memory is always readable")
    }

    /// Commits a proposal. Returns when the commit is durable and visible.
    ///
    /// # Errors
    /// If the proposal is rejected or the log fails.
    pub fn commit(&self, proposal: Proposal) -> Result<CommitResponse, CommitError> {
        self.submit(proposal).wait()
    }

    /// Enqueues a proposal and wakes the writer. The result is a future for tasks; threads call
    /// [`PendingCommit::wait`].
    pub fn submit(&self, proposal: Proposal) -> PendingCommit {
        let pending = self.enqueue(proposal);
        self.wake();
        pending
    }

    /// Enqueues a proposal without waking the writer, so that several can share a batch. The caller must
    /// call [`Store::wake`] afterwards.
    pub fn enqueue(&self, proposal: Proposal) -> PendingCommit {
        let slot = Arc::new(CommitSlot::default());
        let rejection =
            self.shared.reject_create(&proposal).or_else(|| self.shared.reject_unsealable(&proposal));
        if let Some(reason) = rejection {
            slot.complete(Err(CommitError::Rejected(reason)));
            return PendingCommit { shared: Arc::clone(&self.shared), slot };
        }
        let mut queue = self.shared.queue.lock();
        for proposal in proposal.in_order() {
            // The caller gets the outcome of the last proposal of the chain, which is never committed
            // without the others.
            let slot = if proposal.linked { Arc::default() } else { Arc::clone(&slot) };
            queue.push_back(Queued { proposal, slot });
        }
        drop(queue);
        PendingCommit { shared: Arc::clone(&self.shared), slot }
    }

    /// Writes batches in this thread until `stop` is set. [`Store::wake`] makes it check `stop`.
    pub fn drive(&self, stop: &AtomicBool) {
        *self.shared.driver.lock() = Some(std::thread::current());
        let mut last_batch = 0;
        while !stop.load(Ordering::Acquire) {
            let queued = self.shared.queue.lock().len();
            if last_batch >= COMMIT_DELAY_BATCH_MIN && (1..last_batch).contains(&queued) {
                wait_commit_delay();
            }
            match self.shared.try_lead_batch() {
                0 => std::thread::park(),
                proposals => last_batch = proposals,
            }
        }
        *self.shared.driver.lock() = None;
        while self.shared.try_lead() {}
    }

    /// Wakes the thread that runs [`Store::drive`].
    pub fn wake(&self) {
        self.shared.wake_driver();
    }

    /// Returns the current state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.published.read().snapshot.clone()
    }

    /// Returns the state at `revision`: from memory if it is recent, otherwise rebuilt from the log.
    /// Resources that are exempt from history are missing if their past state is unknown.
    ///
    /// # Errors
    /// If the revision has been compacted, or is newer than the current one.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        let floor = {
            let published = self.shared.published.read();
            let current = published.snapshot.revision();
            if revision > current {
                return Err(ReadError::Future { requested: revision, current });
            }
            if let Some(pinned) = published.rings.pinned(revision) {
                return Ok(pinned.clone());
            }
            let mut snapshot = published.snapshot.clone();
            match published.rings.rewind(&mut snapshot, revision) {
                Ok(()) => return Ok(snapshot),
                Err(compacted) => compacted.floor,
            }
        };
        self.rebuild_from_log(revision, floor)
    }

    /// Keeps a snapshot in memory, so that [`Store::snapshot_at`] returns it at no cost for some minutes.
    pub fn pin(&self, snapshot: &Snapshot, now: Time) {
        self.shared.published.write().rings.pin(snapshot.clone(), Origin::Mirror, now);
    }

    /// Rebuilds a past state from the log. Takes time and memory in proportion to the state, so only one
    /// rebuild runs at a time.
    fn rebuild_from_log(&self, revision: Revision, hot_floor: Revision) -> Result<Snapshot, ReadError> {
        let Some(_guard) = self.shared.rebuilding.try_lock() else { return Err(ReadError::Busy) };
        let mut reader = self.shared.with_writer(|writer| writer.log.reader());
        let read_error = |error| match error {
            LogError::Compacted { floor } => ReadError::Compacted(Compacted { floor: floor.min(hot_floor) }),
            other => ReadError::Log(other),
        };
        let mut snapshot = rebuild(&mut *reader, revision).map_err(read_error)?;
        for resource in &self.shared.retention.exempt {
            snapshot.drop_table(resource);
        }
        snapshot.set_revision(revision);
        let mut published = self.shared.published.write();
        let now = published.rings.newest_time();
        published.rings.pin(snapshot.clone(), Origin::Log, now);
        Ok(snapshot)
    }

    /// Returns the record of `key` at `revision`. A recent one is found without rebuilding the other
    /// objects.
    ///
    /// # Errors
    /// As [`Store::snapshot_at`].
    pub fn get_at(&self, key: &Key, revision: Revision) -> Result<Option<Record>, ReadError> {
        {
            let published = self.shared.published.read();
            let current = published.snapshot.revision();
            if revision > current {
                return Err(ReadError::Future { requested: revision, current });
            }
            if let Ok(version) = published.rings.version(key, published.snapshot.get(key), revision) {
                return Ok(version);
            }
        }
        Ok(self.snapshot_at(revision)?.get(key).cloned())
    }

    /// Returns a cursor over the events of a resource after the current revision.
    #[must_use]
    pub fn watch(&self, resource: &Resource, filter: WatchFilter) -> Cursor {
        Cursor::open(&self.shared, resource, filter, None).expect("the newest revision is never compacted")
    }

    /// Returns a cursor over the events of a resource after `revision`, which may be in the past or in the
    /// future.
    ///
    /// # Errors
    /// If the events after `revision` have been compacted.
    pub fn watch_after(
        &self,
        resource: &Resource,
        filter: WatchFilter,
        revision: Revision,
    ) -> Result<Cursor, Compacted> {
        Cursor::open(&self.shared, resource, filter, Some(revision))
    }

    /// Returns the current state and a cursor that starts exactly after it.
    #[must_use]
    pub fn list_and_watch(&self, resource: &Resource, filter: WatchFilter) -> (Snapshot, Cursor) {
        loop {
            let snapshot = self.snapshot();
            if let Ok(cursor) = self.watch_after(resource, filter.clone(), snapshot.revision()) {
                return (snapshot, cursor);
            }
        }
    }

    /// Returns an independent store in memory with the current state. Objects are shared, not copied.
    #[must_use]
    pub fn fork(&self) -> Store {
        Store::from_snapshot(self.snapshot(), self.shared.retention.clone())
    }

    /// Returns an independent store in memory with the state at `revision`.
    ///
    /// # Errors
    /// As [`Store::snapshot_at`].
    pub fn fork_at(&self, revision: Revision) -> Result<Store, ReadError> {
        Ok(Store::from_snapshot(self.snapshot_at(revision)?, self.shared.retention.clone()))
    }

    /// Deletes expired keys by ordinary commits. Returns the number of deleted keys.
    ///
    /// # Errors
    /// If the log fails. A key that changed concurrently is left for the next call.
    pub fn expire(&self, now: Time) -> Result<usize, CommitError> {
        let snapshot = self.snapshot();
        let cause = Arc::new(CommitCause {
            user: "system:setpoint".to_owned(),
            reconciler: "expiry".to_owned(),
            seen: snapshot.revision(),
            ..CommitCause::default()
        });
        let expired_keys = snapshot.expired(now).take(EXPIRE_MAX);
        let pending: Vec<PendingCommit> = expired_keys
            .map(|(resource, record)| {
                let precondition = Precondition::Revision(record.revision());
                let proposal = Proposal::new(Arc::clone(&cause), now);
                self.submit(proposal.delete(record.key(resource), precondition))
            })
            .collect();
        let mut expired = 0;
        for commit in pending {
            match commit.wait() {
                Ok(_) => expired += 1,
                Err(CommitError::Rejected(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    /// Time at which the next key expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Time> {
        self.shared.published.read().snapshot.next_expiry()
    }

    /// Time at which [`Store::run_maintenance`] can pack objects that are too young now.
    pub(crate) fn next_packing(&self) -> Option<Time> {
        self.shared.idle.due_at()
    }

    /// Runs the maintenance that is due: evicts old events, packs idle objects, preallocates segments,
    /// compacts. Returns when nothing is due.
    ///
    /// # Errors
    /// [`MaintenanceError::Postponed`] if resources are short (the store continues),
    /// [`MaintenanceError::Failed`] if the log failed (it does not).
    pub fn run_maintenance(&self, now: Time) -> Result<(), MaintenanceError> {
        self.shared.published.write().rings.evict(now);
        self.shared.idle.run(now, || self.snapshot());
        loop {
            let _guard = self.shared.maintenance.lock();
            let task = self.shared.with_writer(|writer| writer.log.maintenance_task(&self.snapshot(), now));
            let Some(task) = task.map_err(|error| self.shared.maintenance_failed(error))? else {
                return Ok(());
            };
            task.run().map_err(|error| self.shared.maintenance_failed(error))?;
        }
    }

    /// Folds all commits into a checkpoint and drops the history in memory. History on disk is kept within
    /// its budget.
    ///
    /// # Errors
    /// As [`Store::run_maintenance`].
    pub fn compact(&self, now: Time) -> Result<(), MaintenanceError> {
        let drop_history = |revision| self.shared.published.write().rings.compact(revision);
        self.compact_and(now, drop_history)
    }

    /// Writes a checkpoint, so that all records are stored with the current keys. History in memory stays.
    ///
    /// # Errors
    /// As [`Store::run_maintenance`].
    pub fn seal_again(&self, now: Time) -> Result<(), MaintenanceError> {
        self.compact_and(now, |_| ())
    }

    /// Compacts. `prepared` is called with the revision of the checkpoint before it is written.
    fn compact_and(&self, now: Time, prepared: impl FnOnce(Revision)) -> Result<(), MaintenanceError> {
        let _guard = self.shared.maintenance.lock();
        let task = self.shared.with_writer(|writer| {
            let snapshot = self.snapshot();
            let task = writer.log.compact(&snapshot, now);
            prepared(snapshot.revision());
            task
        });
        task.and_then(|task| task.run()).map_err(|error| self.shared.maintenance_failed(error))
    }

    /// `true` if any record may be stored with another key than new ones. [`Store::seal_again`] ends this,
    /// except for history.
    #[must_use]
    pub fn has_records_of_old_keys(&self) -> bool {
        self.shared.sealing.as_ref().is_some_and(|sealing| sealing.has_stale())
    }

    /// Records in the log how far it is durable, so that the loss of the last commits is detected. To be
    /// called once before an orderly exit.
    pub fn record_durable_end(&self) {
        self.shared.with_writer(|writer| writer.log.record_durable_end());
    }

    /// Wakes the thread that waits in [`Store::wait_for_maintenance`].
    pub(crate) fn notify_maintenance(&self) {
        self.shared.notify_maintenance();
    }

    /// Waits until [`Store::run_maintenance`] may have work, `stop` is true, or `timeout` has passed.
    pub(crate) fn wait_for_maintenance(&self, stop: &AtomicBool, timeout: Option<Duration>) {
        let mut due = self.shared.maintenance_due.lock();
        if !*due && !stop.load(Ordering::Acquire) {
            match timeout {
                Some(timeout) => drop(self.shared.maintenance_changed.wait_for(&mut due, timeout)),
                None => self.shared.maintenance_changed.wait(&mut due),
            }
        }
        *due = false;
    }

    /// Waits until `stop` is true or `timeout` has passed. Announced maintenance does not end the wait.
    pub(crate) fn wait_for_stop(&self, stop: &AtomicBool, timeout: Duration) {
        let mut due = self.shared.maintenance_due.lock();
        let is_running = |_: &mut bool| !stop.load(Ordering::Acquire);
        self.shared.maintenance_changed.wait_while_for(&mut due, is_running, timeout);
    }

    /// Applies commits that other processes appended to a shared log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn catch_up(&self) -> Result<(), LogError> {
        self.shared.with_writer(|writer| writer.catch_up(&self.shared).map(|_| ()))
    }

    /// Error that ended the store; `None` while it works.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<LogError>> {
        self.shared.failure.get().cloned()
    }

    /// Returns the store's sizes. Waits for the batch that is being written.
    #[must_use]
    pub fn stat(&self) -> StoreStat {
        let log = self.shared.with_writer(|writer| writer.log.stat());
        let published = self.shared.published.read();
        StoreStat {
            revision: published.snapshot.revision(),
            objects: published.snapshot.len(),
            bytes: published.snapshot.bytes(),
            hot_floor: published.rings.floor(),
            hot_bytes: published.rings.bytes() as u64,
            log,
        }
    }
}

/// Failure of maintenance.
#[derive(Clone, Debug, Error)]
pub enum MaintenanceError {
    /// The disk is full or the process is out of file descriptors. Nothing is lost, and a retry can succeed.
    #[error("{0}")]
    Postponed(#[source] Arc<LogError>),
    /// The log failed, and with it the store.
    #[error("the store has failed: {0}")]
    Failed(#[source] Arc<LogError>),
}

/// Sizes of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStat {
    /// Current revision.
    pub revision: Revision,
    /// Number of objects.
    pub objects: usize,
    /// Bytes of all objects: values, paths and envelopes.
    pub bytes: u64,
    /// Oldest revision that is served from memory.
    pub hot_floor: Revision,
    /// Bytes of superseded versions in memory.
    pub hot_bytes: u64,
    /// Sizes of the log.
    pub log: LogStat,
}

impl Shared {
    /// Rejects a proposal that creates an object while the store is at its size limit. Proposals that are
    /// already queued are not checked, so the store can exceed the limit by their size.
    fn reject_create(&self, proposal: &Proposal) -> Option<RejectReason> {
        let max = self.retention.live_bytes;
        if max == u64::MAX || !proposal.creates() {
            return None;
        }
        let bytes = self.published.read().snapshot.bytes();
        (bytes >= max).then_some(RejectReason::StoreFull { bytes, max })
    }

    /// Rejects a proposal with puts of sealed resources while there is no valid key.
    fn reject_unsealable(&self, proposal: &Proposal) -> Option<RejectReason> {
        let rejected = self.sealing.as_ref()?.check_writable(proposal).err();
        rejected.map(|(resource, reason)| RejectReason::NoValidKey { resource, reason })
    }

    /// Writes one batch, unless another thread is writing or the queue is empty. Returns `true` if it wrote
    /// one.
    pub fn try_lead(&self) -> bool {
        self.try_lead_batch() > 0
    }

    /// Like [`Shared::try_lead`], but returns the number of proposals in the batch.
    fn try_lead_batch(&self) -> usize {
        let Some(mut writer) = self.writer.try_lock() else { return 0 };
        let proposals = writer.lead_batch(self);
        drop(writer);
        self.wake_next_leader();
        proposals
    }

    /// Runs `work` with the writer, for anything but a batch.
    fn with_writer<T>(&self, work: impl FnOnce(&mut LogWriter) -> T) -> T {
        let mut writer = self.writer.lock();
        let result = work(&mut writer);
        drop(writer);
        self.wake_next_leader();
        result
    }

    /// Wakes the driver or a waiter to lead the next batch. Waiters that enqueued while the writer was taken
    /// are asleep. The first pending commit may have been dropped, so this wakes the first one that
    /// still has a waiter.
    pub fn wake_next_leader(&self) {
        let waiter = {
            let queue = self.queue.lock();
            if queue.is_empty() || self.wake_driver() {
                return;
            }
            queue.iter().find(|queued| queued.slot.has_waiter()).map(|queued| Arc::clone(&queued.slot))
        };
        if let Some(slot) = waiter {
            slot.wake();
        }
    }

    pub fn has_driver(&self) -> bool {
        self.driver.lock().is_some()
    }

    /// Returns `false` if there is no driver.
    fn wake_driver(&self) -> bool {
        self.driver.lock().as_ref().map(Thread::unpark).is_some()
    }

    /// Announces that maintenance may be due.
    pub fn notify_maintenance(&self) {
        *self.maintenance_due.lock() = true;
        self.maintenance_changed.notify_all();
    }

    /// Postpones on a full disk or a shortage of descriptors; any other error fails the store.
    fn maintenance_failed(&self, error: LogError) -> MaintenanceError {
        match error {
            LogError::Io { ref source, .. } if is_transient(source) => {
                MaintenanceError::Postponed(Arc::new(error))
            }
            LogError::Sealed { .. } | LogError::Seal(_) => MaintenanceError::Postponed(Arc::new(error)),
            error => MaintenanceError::Failed(self.fail(error)),
        }
    }

    /// Records that the log has failed. Only the first failure is kept.
    pub fn fail(&self, error: LogError) -> Arc<LogError> {
        let error = Arc::clone(self.failure.get_or_init(|| Arc::new(error)));
        (self.on_failure)(&error);
        error
    }
}

/// Receiver of a log's replay.
struct StoreBuilder {
    published: Published,
    retention: Retention,
}

impl Replay for StoreBuilder {
    fn base(&mut self, snapshot: Snapshot) {
        self.published.rings = Rings::new(snapshot.revision(), self.retention.clone());
        self.published.snapshot = snapshot;
    }

    fn commit(&mut self, commit: Commit) {
        let Published { snapshot, rings } = &mut self.published;
        let lanes_to_wake = &mut Vec::new();
        snapshot.apply(&commit, |resource, before, after| rings.push(resource, before, after, lanes_to_wake));
    }
}
