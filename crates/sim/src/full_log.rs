//! Log whose disk can be full: it then rejects proposals that need space, as the disk log does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_api::{Revision, Time};
use setpoint_store::log::{Chore, Heads, Log, LogError, LogReader, LogStat, Replay, Verdict};
use setpoint_store::{Commit, Proposal, Refusal, Snapshot};

/// Switch of a [`FullLog`].
#[derive(Clone, Debug, Default)]
pub struct DiskFullSwitch(Arc<AtomicBool>);

impl DiskFullSwitch {
    /// Makes the disk full, or frees space.
    pub fn set(&self, full: bool) {
        self.0.store(full, Ordering::Relaxed);
    }

    /// `true` if the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Log that rejects puts and admits deletes while its switch is on.
pub struct FullLog {
    log: Box<dyn Log>,
    full: DiskFullSwitch,
}

impl FullLog {
    /// Wraps a log with this switch.
    #[must_use]
    pub fn new(log: Box<dyn Log>, full: DiskFullSwitch) -> FullLog {
        FullLog { log, full }
    }
}

impl Log for FullLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        self.log.replay(into)
    }

    fn append(&mut self, batch: &[Proposal], heads: &dyn Heads) -> Result<Vec<Verdict>, LogError> {
        if !self.full.is_full() {
            return self.log.append(batch, heads);
        }
        let deletes: Vec<Proposal> = batch.iter().filter(|one| one.only_deletes()).cloned().collect();
        let mut admitted = self.log.append(&deletes, heads)?.into_iter();
        let verdict = |proposal: &Proposal| {
            let deletes = proposal.only_deletes().then(|| admitted.next()).flatten();
            deletes.unwrap_or(Err(Refusal::DiskFull))
        };
        Ok(batch.iter().map(verdict).collect())
    }

    fn tail(&mut self, after: Revision, each: &mut dyn FnMut(Commit)) -> Result<(), LogError> {
        self.log.tail(after, each)
    }

    fn reader(&self) -> Box<dyn LogReader> {
        self.log.reader()
    }

    fn published(&mut self, snapshot: &Snapshot) {
        self.log.published(snapshot);
    }

    fn has_chore(&self) -> bool {
        self.log.has_chore()
    }

    fn chore(&mut self, snapshot: &Snapshot, now: Time) -> Result<Option<Box<dyn Chore>>, LogError> {
        self.log.chore(snapshot, now)
    }

    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn Chore>, LogError> {
        self.log.compact(snapshot, now)
    }

    fn stat(&self) -> LogStat {
        self.log.stat()
    }
}
