//! Store: one order of commits, one current state, many readers and watches.
//!
//! Writers enqueue proposals. One writer at a time is the leader: it takes the whole queue, lets the log
//! decide it and make it durable with one sync, applies it to the mirror, and delivers the outcomes. A
//! single writer therefore waits for one sync and no context switch, and 64 concurrent writers share one
//! sync. A server leads from a dedicated thread ([`Store::drive`]), so that no task blocks on the disk.
//!
//! A waiter that finds the `writer` lock taken sleeps. Every release of that lock therefore wakes one
//! sleeping waiter ([`Shared::hand_on`]).
//!
//! Lock order: `chores`, `writer`, then `queue` or `published`, then a lane or a mailbox. No callback runs
//! under a lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use setpoint_api::{Key, Resource, Revision, Time};
use thiserror::Error;

use crate::commit::{Cause, Commit, Expect, Proposal, Refusal};
use crate::cursor::{Cursor, Filter};
use crate::disk::is_transient;
use crate::idle::IdlePacker;
use crate::log::{Log, LogError, LogStat, MemoryLog, Replay, rebuild};
use crate::mirror::Snapshot;
use crate::pins::Origin;
use crate::record::Record;
use crate::retention::Retention;
use crate::ring::{Compacted, Rings};
use crate::ticket::{Mailbox, Ticket};
use crate::writer::Writer;

/// Maximum number of keys that one call of [`Store::expire`] deletes, each in its own commit.
pub const EXPIRE_MAX: usize = 1024;

/// Handle of a store. Clones refer to the same store.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// State that all handles, cursors and tickets of a store share.
pub(crate) struct Shared {
    pub published: RwLock<Published>,
    pub queue: Mutex<VecDeque<Queued>>,
    writer: Mutex<Writer>,
    driver: Mutex<Option<Thread>>,
    pub failure: OnceLock<Arc<LogError>>,
    on_failure: Box<dyn Fn(&LogError) + Send + Sync>,
    /// Held while maintenance is prepared and run: two concurrent compactions would write the same files.
    chores: Mutex<()>,
    /// Held while a past state is rebuilt from the log.
    pub rebuilding: Mutex<()>,
    chore_due: Mutex<bool>,
    chore_changed: Condvar,
    /// Locked only by maintenance.
    pub(crate) idle: IdlePacker,
    retention: Retention,
}

/// State that readers see. Both parts change under one lock.
pub(crate) struct Published {
    pub snapshot: Snapshot,
    pub rings: Rings,
}

/// Minimum size of a batch after which the next batch waits for as many proposals, for at most [`GATHER`].
const GATHER_MIN: usize = 4;
/// Time that a batch waits for more proposals. Concurrent writers send their next proposals one by one after
/// a batch: without the wait, the first would take a sync alone and delay the others. A single writer never
/// waits.
const GATHER: Duration = Duration::from_micros(100);

/// Sleeps for [`GATHER`]. Unlike `park`, the arrival of a proposal does not end it.
#[expect(clippy::disallowed_methods, reason = "the wait is for time to pass, not for a state")]
fn gather() {
    std::thread::sleep(GATHER);
}

/// Proposal that waits to be written.
pub(crate) struct Queued {
    pub proposal: Proposal,
    pub mailbox: Arc<Mailbox>,
}

/// Durable commit.
#[derive(Clone, Debug)]
pub struct Committed {
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
    Refused(#[from] Refusal),
    /// The log failed. The commit may or may not be durable, which the next opening of the store decides.
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
    #[error("revision {asked} is yet to come, the newest is {newest}")]
    Future {
        /// Requested revision.
        asked: Revision,
        /// Current revision.
        newest: Revision,
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
        let mut opening = Opening {
            published: Published {
                snapshot: Snapshot::default(),
                rings: Rings::new(Revision::ZERO, retention.clone()),
            },
            retention: retention.clone(),
        };
        log.replay(&mut opening)?;
        let idle = IdlePacker::of(&opening.published.snapshot);
        Ok(Store {
            shared: Arc::new(Shared {
                published: RwLock::new(opening.published),
                queue: Mutex::default(),
                writer: Mutex::new(Writer::new(log)),
                driver: Mutex::default(),
                failure: OnceLock::new(),
                on_failure: Box::new(on_failure),
                chores: Mutex::default(),
                rebuilding: Mutex::default(),
                chore_due: Mutex::default(),
                chore_changed: Condvar::new(),
                idle,
                retention,
            }),
        })
    }

    /// Returns an empty store in memory.
    #[must_use]
    pub fn in_memory(retention: Retention) -> Store {
        Store::over_snapshot(Snapshot::default(), retention)
    }

    fn over_snapshot(base: Snapshot, retention: Retention) -> Store {
        let log = Box::new(MemoryLog::starting_at(base));
        Store::open(log, retention, |_| ()).expect("a log in memory is always readable")
    }

    /// Commits a proposal. Returns when the commit is durable and visible.
    ///
    /// # Errors
    /// If the proposal is rejected or the log fails.
    pub fn commit(&self, proposal: Proposal) -> Result<Committed, CommitError> {
        self.submit(proposal).wait()
    }

    /// Enqueues a proposal and wakes the writer. The ticket is a future for tasks; threads call
    /// [`Ticket::wait`].
    pub fn submit(&self, proposal: Proposal) -> Ticket {
        let ticket = self.enqueue(proposal);
        self.wake();
        ticket
    }

    /// Enqueues a proposal without waking the writer, so that several can share a batch. The caller must
    /// call [`Store::wake`] afterwards.
    pub fn enqueue(&self, proposal: Proposal) -> Ticket {
        let mailbox = Arc::new(Mailbox::default());
        if let Some(refusal) = self.shared.refuse_create(&proposal) {
            mailbox.deliver(Err(CommitError::Refused(refusal)));
            return Ticket { shared: Arc::clone(&self.shared), mailbox };
        }
        let mut queue = self.shared.queue.lock();
        for proposal in proposal.in_order() {
            // The ticket gets the outcome of the last proposal of the chain, which is never committed
            // without the others.
            let mailbox = if proposal.linked { Arc::default() } else { Arc::clone(&mailbox) };
            queue.push_back(Queued { proposal, mailbox });
        }
        drop(queue);
        Ticket { shared: Arc::clone(&self.shared), mailbox }
    }

    /// Writes batches in this thread until `stop` is set. [`Store::wake`] makes it check `stop`.
    pub fn drive(&self, stop: &AtomicBool) {
        *self.shared.driver.lock() = Some(std::thread::current());
        let mut last = 0;
        while !stop.load(Ordering::Acquire) {
            let queued = self.shared.queue.lock().len();
            if last >= GATHER_MIN && (1..last).contains(&queued) {
                gather();
            }
            match self.shared.try_lead_batch() {
                0 => std::thread::park(),
                proposals => last = proposals,
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
    pub fn at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        let floor = {
            let published = self.shared.published.read();
            let newest = published.snapshot.revision();
            if revision > newest {
                return Err(ReadError::Future { asked: revision, newest });
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
        self.cold(revision, floor)
    }

    /// Keeps a snapshot in memory, so that [`Store::at`] returns it at no cost for some minutes.
    pub fn pin(&self, snapshot: &Snapshot, now: Time) {
        self.shared.published.write().rings.pin(snapshot.clone(), Origin::Mirror, now);
    }

    /// Rebuilds a past state from the log. Takes time and memory in proportion to the state, so only one
    /// rebuild runs at a time.
    fn cold(&self, revision: Revision, hot_floor: Revision) -> Result<Snapshot, ReadError> {
        let Some(_alone) = self.shared.rebuilding.try_lock() else { return Err(ReadError::Busy) };
        let mut reader = self.shared.with_writer(|writer| writer.log.reader());
        let gone = |error| match error {
            LogError::Compacted { floor } => ReadError::Compacted(Compacted { floor: floor.min(hot_floor) }),
            other => ReadError::Log(other),
        };
        let mut snapshot = rebuild(&mut *reader, revision).map_err(gone)?;
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
    /// As [`Store::at`].
    pub fn get_at(&self, key: &Key, revision: Revision) -> Result<Option<Record>, ReadError> {
        {
            let published = self.shared.published.read();
            let newest = published.snapshot.revision();
            if revision > newest {
                return Err(ReadError::Future { asked: revision, newest });
            }
            if let Ok(version) = published.rings.version(key, published.snapshot.get(key), revision) {
                return Ok(version);
            }
        }
        Ok(self.at(revision)?.get(key).cloned())
    }

    /// Returns a cursor over the events of a resource after the current revision.
    #[must_use]
    pub fn follow(&self, resource: &Resource, filter: Filter) -> Cursor {
        Cursor::open(&self.shared, resource, filter, None).expect("the newest revision is never compacted")
    }

    /// Returns a cursor over the events of a resource after `revision`, which may be in the past or in the
    /// future.
    ///
    /// # Errors
    /// If the events after `revision` have been compacted.
    pub fn follow_after(
        &self,
        resource: &Resource,
        filter: Filter,
        revision: Revision,
    ) -> Result<Cursor, Compacted> {
        Cursor::open(&self.shared, resource, filter, Some(revision))
    }

    /// Returns the current state and a cursor that starts exactly after it.
    #[must_use]
    pub fn list_and_follow(&self, resource: &Resource, filter: Filter) -> (Snapshot, Cursor) {
        loop {
            let snapshot = self.snapshot();
            if let Ok(cursor) = self.follow_after(resource, filter.clone(), snapshot.revision()) {
                return (snapshot, cursor);
            }
        }
    }

    /// Returns an independent store in memory with the current state. Objects are shared, not copied.
    #[must_use]
    pub fn fork(&self) -> Store {
        Store::over_snapshot(self.snapshot(), self.shared.retention.clone())
    }

    /// Returns an independent store in memory with the state at `revision`.
    ///
    /// # Errors
    /// As [`Store::at`].
    pub fn fork_at(&self, revision: Revision) -> Result<Store, ReadError> {
        Ok(Store::over_snapshot(self.at(revision)?, self.shared.retention.clone()))
    }

    /// Deletes expired keys by ordinary commits. Returns the number of deleted keys.
    ///
    /// # Errors
    /// If the log fails. A key that changed concurrently is left for the next call.
    pub fn expire(&self, now: Time) -> Result<usize, CommitError> {
        let snapshot = self.snapshot();
        let cause = Arc::new(Cause {
            user: "system:setpoint".to_owned(),
            reconciler: "expiry".to_owned(),
            seen: snapshot.revision(),
            ..Cause::default()
        });
        let due = snapshot.expired(now).take(EXPIRE_MAX);
        let tickets: Vec<Ticket> = due
            .map(|(resource, record)| {
                let expect = Expect::Revision(record.revision());
                let proposal = Proposal::new(Arc::clone(&cause), now);
                self.submit(proposal.delete(record.key(resource), expect))
            })
            .collect();
        let mut expired = 0;
        for ticket in tickets {
            match ticket.wait() {
                Ok(_) => expired += 1,
                Err(CommitError::Refused(_)) => {}
                Err(failed) => return Err(failed),
            }
        }
        Ok(expired)
    }

    /// Time at which the next key expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Time> {
        self.shared.published.read().snapshot.next_expiry()
    }

    /// Time at which [`Store::tend`] can pack objects that are too young now.
    pub(crate) fn next_packing(&self) -> Option<Time> {
        self.shared.idle.due_at()
    }

    /// Runs the maintenance that is due: evicts old events, packs idle objects, preallocates segments,
    /// compacts. Returns when nothing is due.
    ///
    /// # Errors
    /// [`ChoreError::Postponed`] if resources are short (the store continues), [`ChoreError::Failed`] if the
    /// log failed (it does not).
    pub fn tend(&self, now: Time) -> Result<(), ChoreError> {
        self.shared.published.write().rings.evict(now);
        self.shared.idle.run(now, || self.snapshot());
        loop {
            let _alone = self.shared.chores.lock();
            let chore = self.shared.with_writer(|writer| writer.log.chore(&self.snapshot(), now));
            let Some(chore) = chore.map_err(|error| self.shared.chore_failed(error))? else { return Ok(()) };
            chore.run().map_err(|error| self.shared.chore_failed(error))?;
        }
    }

    /// Folds all commits into a checkpoint and drops the history in memory. History on disk is kept within
    /// its budget.
    ///
    /// # Errors
    /// As [`Store::tend`].
    pub fn compact(&self, now: Time) -> Result<(), ChoreError> {
        let _alone = self.shared.chores.lock();
        let chore = self.shared.with_writer(|writer| {
            let snapshot = self.snapshot();
            let chore = writer.log.compact(&snapshot, now);
            self.shared.published.write().rings.compact(snapshot.revision());
            chore
        });
        chore.and_then(|chore| chore.run()).map_err(|error| self.shared.chore_failed(error))
    }

    /// Records in the log how far it is durable, so that the loss of the last commits is detected. To be
    /// called once before an orderly exit.
    pub fn note_end(&self) {
        self.shared.with_writer(|writer| writer.log.note_end());
    }

    /// Wakes the thread that waits in [`Store::wait_for_chore`].
    pub(crate) fn announce_chore(&self) {
        self.shared.announce_chore();
    }

    /// Waits until [`Store::tend`] may have work, `stop` is true, or `timeout` has passed.
    pub(crate) fn wait_for_chore(&self, stop: &AtomicBool, timeout: Option<Duration>) {
        let mut due = self.shared.chore_due.lock();
        if !*due && !stop.load(Ordering::Acquire) {
            match timeout {
                Some(timeout) => drop(self.shared.chore_changed.wait_for(&mut due, timeout)),
                None => self.shared.chore_changed.wait(&mut due),
            }
        }
        *due = false;
    }

    /// Waits until `stop` is true or `timeout` has passed. Announced maintenance does not end the wait.
    pub(crate) fn wait_for_stop(&self, stop: &AtomicBool, timeout: Duration) {
        let mut due = self.shared.chore_due.lock();
        let goes_on = |_: &mut bool| !stop.load(Ordering::Acquire);
        self.shared.chore_changed.wait_while_for(&mut due, goes_on, timeout);
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
pub enum ChoreError {
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
    fn refuse_create(&self, proposal: &Proposal) -> Option<Refusal> {
        let max = self.retention.live_bytes;
        if max == u64::MAX || !proposal.creates() {
            return None;
        }
        let bytes = self.published.read().snapshot.bytes();
        (bytes >= max).then_some(Refusal::StoreFull { bytes, max })
    }

    /// Writes one batch, unless another thread is writing or the queue is empty. Returns `true` if it wrote
    /// one.
    pub fn try_lead(&self) -> bool {
        self.try_lead_batch() > 0
    }

    /// Like [`Shared::try_lead`], but returns the number of proposals in the batch.
    fn try_lead_batch(&self) -> usize {
        let Some(mut writer) = self.writer.try_lock() else { return 0 };
        let proposals = writer.lead(self);
        drop(writer);
        self.hand_on();
        proposals
    }

    /// Runs `work` with the writer, for anything but a batch.
    fn with_writer<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> T {
        let mut writer = self.writer.lock();
        let result = work(&mut writer);
        drop(writer);
        self.hand_on();
        result
    }

    /// Wakes the driver or a waiter to lead the next batch. Waiters that enqueued while the writer was taken
    /// are asleep. The first ticket of the queue may have been dropped, so this wakes the first one that
    /// still has a waiter.
    pub fn hand_on(&self) {
        let waits = {
            let queue = self.queue.lock();
            if queue.is_empty() || self.wake_driver() {
                return;
            }
            queue
                .iter()
                .find(|queued| queued.mailbox.is_waited_for())
                .map(|queued| Arc::clone(&queued.mailbox))
        };
        if let Some(mailbox) = waits {
            mailbox.nudge();
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
    pub fn announce_chore(&self) {
        *self.chore_due.lock() = true;
        self.chore_changed.notify_all();
    }

    /// Postpones on a full disk or a shortage of descriptors; any other error fails the store.
    fn chore_failed(&self, error: LogError) -> ChoreError {
        match error {
            LogError::Io { ref source, .. } if is_transient(source) => ChoreError::Postponed(Arc::new(error)),
            error => ChoreError::Failed(self.fail(error)),
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
struct Opening {
    published: Published,
    retention: Retention,
}

impl Replay for Opening {
    fn base(&mut self, snapshot: Snapshot) {
        self.published.rings = Rings::new(snapshot.revision(), self.retention.clone());
        self.published.snapshot = snapshot;
    }

    fn commit(&mut self, commit: Commit) {
        let Published { snapshot, rings } = &mut self.published;
        let woken = &mut Vec::new();
        snapshot.apply(&commit, |resource, before, after| rings.push(resource, before, after, woken));
    }
}
