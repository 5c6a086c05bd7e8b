//! The store: one order of commits, one state, many readers and followers.
//!
//! Writers queue up proposals. One of them at a time leads: it takes the whole queue, has the log decide and
//! sync it with one sync, applies it to the mirror, and hands out the outcomes. So a lone writer waits for
//! one sync and for nobody's scheduling, and sixty-four writers share one. A server gives the lead to a
//! thread of its own ([`Store::drive`]), so that no task ever waits for the disk.
//!
//! Who finds the writer taken goes to sleep; so whoever lets go of it, for whatever purpose it was taken, wakes
//! one of those who wait ([`Shared::hand_on`]).
//!
//! Lock order: `chores`, `writer`, then `queue` or `published`, then a lane or a mailbox. Nothing is called back
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

/// How many keys are deleted at most, each by a commit of its own, in one call of [`Store::expire`].
pub const EXPIRE_MAX: usize = 1024;

/// A store. Cloning it gives another handle on the same one.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// What all handles, cursors and tickets of a store share.
pub(crate) struct Shared {
    pub published: RwLock<Published>,
    pub queue: Mutex<VecDeque<Queued>>,
    writer: Mutex<Writer>,
    driver: Mutex<Option<Thread>>,
    pub failure: OnceLock<Arc<LogError>>,
    on_failure: Box<dyn Fn(&LogError) + Send + Sync>,
    /// Held while a chore is made and done: two compactions at a time would write the same files.
    chores: Mutex<()>,
    /// Held while a past state is rebuilt from the log.
    pub rebuilding: Mutex<()>,
    chore_due: Mutex<bool>,
    chore_changed: Condvar,
    /// Locked by maintenance alone.
    pub(crate) idle: IdlePacker,
    retention: Retention,
}

/// What readers see: changed as one.
pub(crate) struct Published {
    pub snapshot: Snapshot,
    pub rings: Rings,
}

/// Proposals in a batch from which on the next batch waits for as many, up to [`GATHER`].
const GATHER_MIN: usize = 4;
/// Time that a batch waits. Many writers at a time answer each batch with the next proposals, which arrive one by one: the
/// first alone would cost a sync, and the others wait for it. A single writer never waits.
const GATHER: Duration = Duration::from_micros(100);

/// Waits for proposals to gather. Unlike parking, it is not ended by each of them.
#[expect(clippy::disallowed_methods, reason = "the state to wait for is that a short time has passed")]
fn gather() {
    std::thread::sleep(GATHER);
}

/// A proposal that waits to be written.
pub(crate) struct Queued {
    pub proposal: Proposal,
    pub mailbox: Arc<Mailbox>,
}

/// A commit that is durable.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its revision.
    pub revision: Revision,
    /// What it put, and tombstones for what it deleted, in the order of the proposal.
    pub records: Vec<Record>,
}

/// Why there is no commit.
#[derive(Clone, Debug, Error)]
pub enum CommitError {
    /// It was refused, and nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The log failed. Whether the commit is durable will be known when the store is opened again.
    #[error("the store has failed: {0}")]
    Failed(#[source] Arc<LogError>),
}

/// Why a past state cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is no longer kept.
    #[error(transparent)]
    Compacted(#[from] Compacted),
    /// It is yet to come.
    #[error("revision {asked} is yet to come, the newest is {newest}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// What there is.
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
    /// Opens the store that `log` holds. `on_failure` is told when the log fails, after which nothing is
    /// committed any more; a server ends there rather than serve a lie.
    ///
    /// # Errors
    /// If the log cannot be read back.
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

    /// A store in memory that holds nothing.
    #[must_use]
    pub fn in_memory(retention: Retention) -> Store {
        Store::over_snapshot(Snapshot::default(), retention)
    }

    fn over_snapshot(base: Snapshot, retention: Retention) -> Store {
        let log = Box::new(MemoryLog::starting_at(base));
        Store::open(log, retention, |_| ()).expect("a log in memory is always readable")
    }

    /// Makes a proposal a commit: returns when it is durable and visible.
    ///
    /// # Errors
    /// If it is refused, or the log fails.
    pub fn commit(&self, proposal: Proposal) -> Result<Committed, CommitError> {
        self.submit(proposal).wait()
    }

    /// Queues a proposal up. The ticket is a future for tasks; threads may [`Ticket::wait`].
    pub fn submit(&self, proposal: Proposal) -> Ticket {
        let ticket = self.enqueue(proposal);
        self.wake();
        ticket
    }

    /// Queues a proposal up that may wait for others to come: somebody has to [`Store::wake`] the writer.
    pub fn enqueue(&self, proposal: Proposal) -> Ticket {
        let mailbox = Arc::new(Mailbox::default());
        if let Some(refusal) = self.shared.refuse_create(&proposal) {
            mailbox.deliver(Err(CommitError::Refused(refusal)));
            return Ticket { shared: Arc::clone(&self.shared), mailbox };
        }
        let mut queue = self.shared.queue.lock();
        for proposal in proposal.in_order() {
            // Who asked hears of the last one, which is never without the others.
            let mailbox = if proposal.linked { Arc::default() } else { Arc::clone(&mailbox) };
            queue.push_back(Queued { proposal, mailbox });
        }
        drop(queue);
        Ticket { shared: Arc::clone(&self.shared), mailbox }
    }

    /// Writes batches in this thread until `stop` says so ([`Store::wake`] makes it look).
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

    /// Wakes the thread that drives the store.
    pub fn wake(&self) {
        self.shared.wake_driver();
    }

    /// The newest state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.published.read().snapshot.clone()
    }

    /// The state at `revision`: from memory if it is recent, else rebuilt from the log. Resources exempt
    /// from history are missing where their past is not known.
    ///
    /// # Errors
    /// If the past does not reach so far back, or the revision is yet to come.
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

    /// Keeps a snapshot at hand, so that [`Store::at`] finds its revision for some minutes at no cost.
    pub fn pin(&self, snapshot: &Snapshot, now: Time) {
        self.shared.published.write().rings.pin(snapshot.clone(), Origin::Mirror, now);
    }

    /// Rebuilds a state from the log, which takes time and memory by the size of the state: one at a time.
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

    /// What `key` held at a recent `revision`, found without rebuilding the rest.
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

    /// Follows a resource from now on.
    #[must_use]
    pub fn follow(&self, resource: &Resource, filter: Filter) -> Cursor {
        Cursor::open(&self.shared, resource, filter, None).expect("the newest revision is never compacted")
    }

    /// Follows a resource from after `revision`, be it past or yet to come.
    ///
    /// # Errors
    /// If the ring no longer reaches so far back.
    pub fn follow_after(
        &self,
        resource: &Resource,
        filter: Filter,
        revision: Revision,
    ) -> Result<Cursor, Compacted> {
        Cursor::open(&self.shared, resource, filter, Some(revision))
    }

    /// The newest state, and a cursor that goes on exactly there.
    #[must_use]
    pub fn list_and_follow(&self, resource: &Resource, filter: Filter) -> (Snapshot, Cursor) {
        loop {
            let snapshot = self.snapshot();
            if let Ok(cursor) = self.follow_after(resource, filter.clone(), snapshot.revision()) {
                return (snapshot, cursor);
            }
        }
    }

    /// An independent store in memory with the newest state and a future of its own. All data is shared.
    #[must_use]
    pub fn fork(&self) -> Store {
        Store::over_snapshot(self.snapshot(), self.shared.retention.clone())
    }

    /// An independent store in memory with the state at `revision`.
    ///
    /// # Errors
    /// As [`Store::at`].
    pub fn fork_at(&self, revision: Revision) -> Result<Store, ReadError> {
        Ok(Store::over_snapshot(self.at(revision)?, self.shared.retention.clone()))
    }

    /// Deletes keys whose time has come, by ordinary commits, and says how many there were.
    ///
    /// # Errors
    /// If the log fails. A key that changed meanwhile is left for the next time.
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

    /// When the next key is to be deleted.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Time> {
        self.shared.published.read().snapshot.next_expiry()
    }

    /// When [`Store::tend`] has objects to pack that are too young now.
    pub(crate) fn next_packing(&self) -> Option<Time> {
        self.shared.idle.due_at()
    }

    /// Does what keeps the store fit: forgets what is too old, packs what is idle, makes room, compacts. Returns when there is
    /// nothing left to do.
    ///
    /// # Errors
    /// If the disk has no room for it (the store goes on), or the log fails (it does not).
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

    /// Folds all commits so far into a base, and forgets the hot past. History on disk stays by its budget.
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

    /// Notes in the log how far it is durable. To be called once before a process ends as it should: the loss of the
    /// last commits is found then.
    pub fn note_end(&self) {
        self.shared.with_writer(|writer| writer.log.note_end());
    }

    /// Wakes who waits for a chore.
    pub(crate) fn announce_chore(&self) {
        self.shared.announce_chore();
    }

    /// Waits until there may be something to [`Store::tend`], `stop` is true, or `timeout` has passed.
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

    /// Waits until `stop` is true or `timeout` has passed, whatever is announced meanwhile.
    pub(crate) fn wait_for_stop(&self, stop: &AtomicBool, timeout: Duration) {
        let mut due = self.shared.chore_due.lock();
        let goes_on = |_: &mut bool| !stop.load(Ordering::Acquire);
        self.shared.chore_changed.wait_while_for(&mut due, goes_on, timeout);
    }

    /// Takes in what others have committed to a shared log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn catch_up(&self) -> Result<(), LogError> {
        self.shared.with_writer(|writer| writer.catch_up(&self.shared).map(|_| ()))
    }

    /// Why nothing is committed any more; none while all is well.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<LogError>> {
        self.shared.failure.get().cloned()
    }

    /// How large it is. This waits for a batch that is being written.
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

/// Why work on the side was not done.
#[derive(Clone, Debug, Error)]
pub enum ChoreError {
    /// The disk is full or the process has no descriptors left; nothing is lost, and it can be tried again.
    #[error("{0}")]
    Postponed(#[source] Arc<LogError>),
    /// The log failed, and with it the store.
    #[error("the store has failed: {0}")]
    Failed(#[source] Arc<LogError>),
}

/// How large a store is.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStat {
    /// The newest revision.
    pub revision: Revision,
    /// How many objects there are.
    pub objects: usize,
    /// Their bytes: values, paths and envelopes.
    pub bytes: u64,
    /// The oldest revision that is served from memory.
    pub hot_floor: Revision,
    /// The bytes of superseded versions in memory.
    pub hot_bytes: u64,
    /// How large the log is.
    pub log: LogStat,
}

impl Shared {
    /// Refuses a proposal that creates an object in a full store. What is queued already still goes in, so the limit is
    /// exceeded by as much as that.
    fn refuse_create(&self, proposal: &Proposal) -> Option<Refusal> {
        let max = self.retention.live_bytes;
        if max == u64::MAX || !proposal.creates() {
            return None;
        }
        let bytes = self.published.read().snapshot.bytes();
        (bytes >= max).then_some(Refusal::StoreFull { bytes, max })
    }

    /// Writes one batch, unless another thread does or nothing is queued. Returns `true` if it did.
    pub fn try_lead(&self) -> bool {
        self.try_lead_batch() > 0
    }

    /// Like [`Shared::try_lead`]. Returns the number of proposals in the batch.
    fn try_lead_batch(&self) -> usize {
        let Some(mut writer) = self.writer.try_lock() else { return 0 };
        let proposals = writer.lead(self);
        drop(writer);
        self.hand_on();
        proposals
    }

    /// Uses the writer for something else than a batch.
    fn with_writer<T>(&self, work: impl FnOnce(&mut Writer) -> T) -> T {
        let mut writer = self.writer.lock();
        let result = work(&mut writer);
        drop(writer);
        self.hand_on();
        result
    }

    /// Wakes somebody to lead. Who queued up while the writer was taken sleeps, and the first in the queue may
    /// be nobody's concern any more: it is the first who waits that is to be woken.
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

    /// False if there is none.
    fn wake_driver(&self) -> bool {
        self.driver.lock().as_ref().map(Thread::unpark).is_some()
    }

    /// Says that there may be something to tend.
    pub fn announce_chore(&self) {
        *self.chore_due.lock() = true;
        self.chore_changed.notify_all();
    }

    /// Only a full disk or a shortage of descriptors lets the store go on.
    fn chore_failed(&self, error: LogError) -> ChoreError {
        match error {
            LogError::Io { ref source, .. } if is_transient(source) => ChoreError::Postponed(Arc::new(error)),
            error => ChoreError::Failed(self.fail(error)),
        }
    }

    /// Notes that the log has failed; the first failure counts.
    pub fn fail(&self, error: LogError) -> Arc<LogError> {
        let error = Arc::clone(self.failure.get_or_init(|| Arc::new(error)));
        (self.on_failure)(&error);
        error
    }
}

/// Takes back what a log holds.
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
        let nobody = &mut Vec::new();
        snapshot.apply(&commit, |resource, before, after| rings.push(resource, before, after, nobody));
    }
}
