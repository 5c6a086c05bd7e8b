//! Batch writer: the only place where the state of a store changes.

use std::sync::Arc;
use std::task::Waker;

use setpoint_api::Revision;

use crate::commit::{Commit, Proposal};
use crate::lane::Lane;
use crate::log::{Log, LogError, Verdict};
use crate::pending::CommitSlot;
use crate::store::{CommitError, CommitResponse, Published, Shared};

/// Maximum number of commits that share one sync. A chain may exceed it.
pub const BATCH_COMMITS_MAX: usize = 1024;
/// Approximate maximum of bytes that share one sync.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// Log, and buffers for the current batch.
pub(crate) struct LogWriter {
    pub log: Box<dyn Log>,
    proposals: Vec<Proposal>,
    slots: Vec<Arc<CommitSlot>>,
    lanes_to_wake: Vec<Arc<Lane>>,
    wakers: Vec<Waker>,
}

impl LogWriter {
    pub fn new(log: Box<dyn Log>) -> LogWriter {
        LogWriter {
            log,
            proposals: Vec::new(),
            slots: Vec::new(),
            lanes_to_wake: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// Writes a batch of the queued proposals. Returns the number of proposals in the batch.
    pub fn lead_batch(&mut self, shared: &Shared) -> usize {
        self.take_batch(shared);
        let proposals = self.proposals.len();
        if proposals == 0 {
            return 0;
        }
        let mut slots = std::mem::take(&mut self.slots);
        match self.write_batch(shared) {
            Ok(outcomes) => {
                for (slot, outcome) in slots.drain(..).zip(outcomes) {
                    slot.complete(outcome);
                }
            }
            Err(error) => {
                for slot in slots.drain(..) {
                    slot.complete(Err(CommitError::Failed(Arc::clone(&error))));
                }
            }
        }
        self.slots = slots;
        self.proposals.clear();
        proposals
    }

    fn take_batch(&mut self, shared: &Shared) {
        let mut queue = shared.queue.lock();
        let mut bytes = 0;
        while let Some(queued) = queue.front() {
            bytes += queued.proposal.bytes();
            let is_full = self.proposals.len() >= BATCH_COMMITS_MAX || bytes > BATCH_BYTES_MAX;
            // A chain is never split, and a batch has at least one proposal.
            if is_full && self.proposals.last().is_some_and(|last| !last.linked) {
                break;
            }
            let queued = queue.pop_front().expect("front is not empty");
            self.proposals.push(queued.proposal);
            self.slots.push(queued.slot);
        }
    }

    fn write_batch(
        &mut self,
        shared: &Shared,
    ) -> Result<Vec<Result<CommitResponse, CommitError>>, Arc<LogError>> {
        if let Some(failure) = shared.failure.get() {
            return Err(Arc::clone(failure));
        }
        let current = shared.published.read().snapshot.clone();
        let verdicts = self.log.append(&self.proposals, &current).map_err(|error| shared.fail(error))?;
        // Dropped here: while it is held, every change below would copy the nodes that it touches.
        drop(current);
        let outcomes = if self.log.is_shared() {
            let committed = self.catch_up(shared).map_err(|error| shared.fail(error))?;
            match_outcomes(verdicts, committed)
        } else {
            self.publish_admitted(shared, verdicts)
        };
        self.log.published(&shared.published.read().snapshot);
        if self.log.needs_maintenance() {
            shared.notify_maintenance();
        }
        Ok(outcomes)
    }

    /// Applies and publishes the admitted proposals.
    fn publish_admitted(
        &mut self,
        shared: &Shared,
        verdicts: Vec<Verdict>,
    ) -> Vec<Result<CommitResponse, CommitError>> {
        let mut outcomes = Vec::with_capacity(verdicts.len());
        let mut commits = Vec::with_capacity(verdicts.len());
        for (proposal, verdict) in self.proposals.drain(..).zip(verdicts) {
            outcomes.push(verdict.map_err(CommitError::Rejected).map(|revision| {
                let writes = proposal.changes.into_iter().map(|change| change.write).collect();
                commits.push(Commit { revision, time: proposal.time, writes });
                CommitResponse { revision, records: Vec::new() }
            }));
        }
        let committed = self.publish(shared, &commits);
        for (outcome, committed) in outcomes.iter_mut().filter_map(|o| o.as_mut().ok()).zip(committed) {
            *outcome = committed;
        }
        outcomes
    }

    /// Applies all commits of a shared log that the mirror lacks, and returns them.
    pub fn catch_up(&mut self, shared: &Shared) -> Result<Vec<CommitResponse>, LogError> {
        let revision = shared.published.read().snapshot.revision();
        let mut commits = Vec::new();
        self.log.tail(revision, &mut |commit| commits.push(commit))?;
        Ok(self.publish(shared, &commits))
    }

    /// Applies commits, publishes the new state to readers, and wakes the cursors that it concerns.
    ///
    /// The state is changed in place, under the lock: nodes that no snapshot shares are not copied, so a
    /// batch takes microseconds.
    fn publish(&mut self, shared: &Shared, commits: &[Commit]) -> Vec<CommitResponse> {
        let mut committed = Vec::with_capacity(commits.len());
        let mut published = shared.published.write();
        let Published { snapshot, rings } = &mut *published;
        let expiry = snapshot.next_expiry();
        let mut written_bytes = 0;
        for commit in commits {
            let mut records = Vec::with_capacity(commit.writes.len());
            snapshot.apply(commit, |resource, before, after| {
                if after.expires().is_none() && !after.is_tombstone() {
                    written_bytes += after.data_bytes() as u64;
                }
                records.push(after.clone());
                rings.push(resource, before, after, &mut self.lanes_to_wake);
            });
            committed.push(CommitResponse { revision: commit.revision, records });
        }
        let expires_sooner = snapshot.next_expiry().is_some_and(|at| expiry.is_none_or(|before| at < before));
        let is_packing_due = shared.idle.record_written(written_bytes, snapshot);
        drop(published);
        if expires_sooner || is_packing_due {
            shared.notify_maintenance();
        }
        for lane in self.lanes_to_wake.drain(..) {
            lane.take_wakers(&mut self.wakers);
        }
        self.wakers.drain(..).for_each(Waker::wake);
        committed
    }
}

/// Returns for each verdict of a shared log the matching commit.
fn match_outcomes(
    verdicts: Vec<Verdict>,
    committed: Vec<CommitResponse>,
) -> Vec<Result<CommitResponse, CommitError>> {
    let find = |revision: Revision| {
        let at = committed.binary_search_by_key(&revision, |commit| commit.revision);
        committed[at.expect("the tail of a log has every admitted commit")].clone()
    };
    verdicts.into_iter().map(|verdict| verdict.map(find).map_err(CommitError::Rejected)).collect()
}
