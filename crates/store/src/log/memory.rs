//! Log in memory: for tests, the simulator, forks, and ephemeral servers.
//!
//! While it has one handle, it holds little more than the mirror does: from time to time it takes the
//! mirror's snapshot as its base and drops the commits before. [`MemoryLog::share`] returns further handles
//! of the same log, each for its own store, which tests stores on a log with several writers.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Revision, Time};

use super::{CurrentRevisions, Log, LogError, LogReader, LogStat, MaintenanceTask, Replay, Verdict, decide};
use crate::commit::{Commit, LogWrite, Proposal};
use crate::mirror::Snapshot;

/// Bytes of commits after which the mirror's snapshot becomes the base.
const COMMITS_BYTES_MAX: usize = 4 << 20;

/// Log that is lost when its process exits.
#[derive(Debug, Default)]
pub struct MemoryLog {
    state: Arc<Mutex<State>>,
    shared: bool,
}

#[derive(Debug, Default)]
struct State {
    base: Snapshot,
    commits: Vec<Commit>,
    commits_bytes: usize,
    /// State by which a shared log decides, because no store's mirror is guaranteed to be current. Not
    /// maintained while the log is not shared, so that it keeps no objects alive that the mirror has
    /// dropped.
    newest: Snapshot,
    batches: u64,
}

impl MemoryLog {
    /// Returns a log that starts from `base`, whose objects it shares.
    #[must_use]
    pub fn from_snapshot(base: Snapshot) -> MemoryLog {
        let state = State { base, ..State::default() };
        MemoryLog { state: Arc::new(Mutex::new(state)), shared: false }
    }

    /// Returns another handle of the same log, and marks the log as shared.
    #[must_use]
    pub fn share(&mut self) -> MemoryLog {
        if !self.shared {
            self.state.lock().catch_up();
        }
        self.shared = true;
        MemoryLog { state: Arc::clone(&self.state), shared: true }
    }
}

impl Log for MemoryLog {
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError> {
        let state = self.state.lock();
        into.base(state.base.clone());
        state.commits.iter().for_each(|commit| into.commit(commit.clone()));
        Ok(())
    }

    fn append(
        &mut self,
        batch: &[Proposal],
        current: &dyn CurrentRevisions,
    ) -> Result<Vec<Verdict>, LogError> {
        let mut state = self.state.lock();
        let last_revision = state.commits.last().map_or(state.base.revision(), |commit| commit.revision);
        let current = if self.shared { &state.newest } else { current };
        let verdicts = decide(batch, current, last_revision, true);
        for (proposal, verdict) in batch.iter().zip(&verdicts) {
            if let Ok(revision) = verdict {
                state.append(proposal, *revision, self.shared);
            }
        }
        state.batches += 1;
        Ok(verdicts)
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn reader(&self) -> Box<dyn LogReader> {
        Box::new(MemoryReader(Arc::clone(&self.state)))
    }

    fn published(&mut self, snapshot: &Snapshot) {
        let mut state = self.state.lock();
        if !self.shared && state.commits_bytes > COMMITS_BYTES_MAX {
            state.rebase(snapshot);
        }
    }

    fn maintenance_task(
        &mut self,
        _: &Snapshot,
        _: Time,
    ) -> Result<Option<Box<dyn MaintenanceTask>>, LogError> {
        Ok(None)
    }

    fn compact(&mut self, snapshot: &Snapshot, _: Time) -> Result<Box<dyn MaintenanceTask>, LogError> {
        Ok(Box::new(RebaseTask { state: Arc::clone(&self.state), base: snapshot.clone() }))
    }

    fn stat(&self) -> LogStat {
        let state = self.state.lock();
        LogStat {
            floor: state.base.revision(),
            live_bytes: state.commits_bytes as u64,
            base_bytes: state.base.bytes(),
            syncs: state.batches,
            ..LogStat::default()
        }
    }
}

impl State {
    fn append(&mut self, proposal: &Proposal, revision: Revision, shared: bool) {
        let writes = proposal.changes.iter().map(|change| change.write.clone()).collect();
        let commit = Commit { revision, time: proposal.time, writes };
        if shared {
            self.newest.apply(&commit, |_, _, _| ());
        }
        self.commits.push(commit);
        self.commits_bytes += proposal.bytes();
    }

    /// Applies to `newest` the commits made before the log was shared.
    fn catch_up(&mut self) {
        if self.newest.revision() < self.base.revision() {
            self.newest = self.base.clone();
        }
        let applied = self.newest.revision();
        for commit in self.commits.iter().filter(|commit| commit.revision > applied) {
            self.newest.apply(commit, |_, _, _| ());
        }
    }

    /// Replaces the base by `base`, unless it has a newer one: the commits between them are gone.
    fn rebase(&mut self, base: &Snapshot) {
        if base.revision() <= self.base.revision() {
            return;
        }
        self.commits.retain(|commit| commit.revision > base.revision());
        self.commits_bytes = self.commits.iter().flat_map(|commit| &commit.writes).map(LogWrite::bytes).sum();
        self.base = base.clone();
    }
}

struct RebaseTask {
    state: Arc<Mutex<State>>,
    base: Snapshot,
}

impl MaintenanceTask for RebaseTask {
    fn run(self: Box<Self>) -> Result<(), LogError> {
        self.state.lock().rebase(&self.base);
        Ok(())
    }
}

struct MemoryReader(Arc<Mutex<State>>);

impl LogReader for MemoryReader {
    fn base(&mut self, at_most: Revision) -> Result<Snapshot, LogError> {
        let base = self.0.lock().base.clone();
        if base.revision() > at_most {
            return Err(LogError::Compacted { floor: base.revision() });
        }
        Ok(base)
    }

    fn tail(
        &mut self,
        after: Revision,
        until: Revision,
        each: &mut dyn FnMut(Commit),
    ) -> Result<(), LogError> {
        let state = self.0.lock();
        if after < state.base.revision() {
            return Err(LogError::Compacted { floor: state.base.revision() });
        }
        let start = state.commits.partition_point(|commit| commit.revision <= after);
        let commits = state.commits[start..].iter().take_while(|commit| commit.revision <= until);
        commits.for_each(|commit| each(commit.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::{CommitCause, Draft, Precondition};
    use setpoint_api::{Key, Resource};

    fn put(precondition: Precondition) -> Proposal {
        let key = Key::cluster(&Resource::new("nodes").unwrap(), "n1").unwrap();
        Proposal::new(CommitCause::default(), Time(1)).put(key, precondition, Draft::new("v"))
    }

    #[test]
    fn log_that_is_shared_late_has_the_earlier_commits() {
        let mut log = MemoryLog::default();
        let empty = Snapshot::default();
        log.append(&[put(Precondition::Absent)], &empty).unwrap();
        let mut other = log.share();
        assert!(other.append(&[put(Precondition::Absent)], &empty).unwrap()[0].is_err());
        assert!(log.append(&[put(Precondition::Revision(Revision(1)))], &empty).unwrap()[0].is_ok());
    }

    #[test]
    fn older_base_does_not_replace_a_newer_one() {
        let mut log = MemoryLog::default();
        let mut snapshots = vec![Snapshot::default()];
        for _ in 0..3 {
            let current = snapshots.last().unwrap();
            log.append(&[put(Precondition::Any)], current).unwrap();
            let mut next = current.clone();
            log.tail(current.revision(), &mut |commit| next.apply(&commit, |_, _, _| ())).unwrap();
            snapshots.push(next);
        }
        let late = log.compact(&snapshots[1], Time(1)).unwrap();
        log.compact(&snapshots[2], Time(1)).unwrap().run().unwrap();
        late.run().unwrap();
        assert_eq!(log.reader().base(Revision(3)).unwrap().revision(), Revision(2));
        assert!(matches!(log.tail(Revision(1), &mut |_| ()), Err(LogError::Compacted { .. })));
    }
}
