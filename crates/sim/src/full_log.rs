//! Log whose disk can be full: it then rejects proposals that need space, as the disk log does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_api::{Revision, Time};
use setpoint_store::log::{
    CurrentRevisions, Log, LogError, LogReader, LogStat, MaintenanceTask, Replay, Verdict,
};
use setpoint_store::{Commit, Proposal, RejectReason, Snapshot};

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

    fn append(&mut self, batch: &[Proposal], heads: &dyn CurrentRevisions) -> Result<Vec<Verdict>, LogError> {
        if !self.full.is_full() {
            return self.log.append(batch, heads);
        }
        let deletes: Vec<Proposal> =
            batch.iter().filter(|proposal| proposal.only_deletes()).cloned().collect();
        let mut admitted = self.log.append(&deletes, heads)?.into_iter();
        let verdict = |proposal: &Proposal| {
            let deletes = proposal.only_deletes().then(|| admitted.next()).flatten();
            deletes.unwrap_or(Err(RejectReason::DiskFull))
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

    fn needs_maintenance(&self) -> bool {
        self.log.needs_maintenance()
    }

    fn maintenance_task(
        &mut self,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<Option<Box<dyn MaintenanceTask>>, LogError> {
        self.log.maintenance_task(snapshot, now)
    }

    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn MaintenanceTask>, LogError> {
        self.log.compact(snapshot, now)
    }

    fn stat(&self) -> LogStat {
        self.log.stat()
    }
}
