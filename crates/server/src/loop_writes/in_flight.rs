//! Writes of the loop in flight: decided by the pipeline, queued in the store.
//!
//! Writes are decided one after the other and committed together. Writes that charge the quotas of one namespace
//! cannot be committed together: each must see the charge of the one before. They wait for each other, and a write
//! whose quota changed meanwhile is decided again. Both are invisible to the loop.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use setpoint_api::{Clock, Entropy};
use setpoint_reconcile::{WriteExecutor, WriteId, WriteOutcome, WriteRejection, WriteRequest};
use setpoint_store::{CommitError, CommitResponse, Proposal, RejectReason, Store};

use super::event_logger::EventLogger;
use super::{Prepared, outcome, prepare};
use crate::pipeline::admission::tolerations::Tolerations;
use crate::pipeline::{RequestContext, quota};

/// Maximum number of times that a write is decided again because its quotas changed.
const CONFLICTS_MAX: usize = 100;

/// Commits that are queued before the store is woken. They share a sync, and the first waits only for a moment.
const WAKE_EVERY: usize = 256;

/// Executor of the loop's writes over a store.
pub struct InFlightWrites {
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    tolerations: Tolerations,
    commits: Vec<InFlightCommit>,
    /// Namespaces in which a charged commit is in flight, and the writes that wait for it.
    held: BTreeMap<Box<str>, VecDeque<PendingWrite>>,
    /// `true` if a commit was queued since the last submit.
    has_queued: bool,
    logger: EventLogger,
}

/// A write to decide, and the number of its quota conflicts so far.
struct PendingWrite {
    request: WriteRequest,
    conflicts: usize,
}

/// A commit in flight.
struct InFlightCommit {
    id: WriteId,
    name: Box<str>,
    charged: Option<Charged>,
    pending: setpoint_store::PendingCommit,
}

/// A write that charges quotas. Only such a write can be decided again, so only these are kept.
struct Charged {
    namespace: Box<str>,
    pending: PendingWrite,
}

impl InFlightWrites {
    /// An executor without writes.
    #[must_use]
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        tolerations: Tolerations,
    ) -> InFlightWrites {
        InFlightWrites {
            store,
            clock,
            entropy,
            tolerations,
            commits: Vec::new(),
            held: BTreeMap::new(),
            has_queued: false,
            logger: EventLogger::default(),
        }
    }

    /// Decides a write, and queues its commit unless it has to wait for another one.
    fn begin(&mut self, pending: PendingWrite) -> Option<(WriteId, WriteOutcome)> {
        match self.prepare(&pending.request) {
            Prepared::Settled(outcome) => {
                log_rejected(&pending.request, &outcome);
                Some((pending.request.id, outcome))
            }
            Prepared::Commit(proposal, name) => {
                let (id, namespace) = (pending.request.id, charged_namespace(&proposal));
                if let Some(namespace) = &namespace {
                    if let Some(waiting) = self.held.get_mut(namespace) {
                        waiting.push_back(pending);
                        return None;
                    }
                    self.held.insert(namespace.clone(), VecDeque::new());
                }
                let charged = namespace.map(|namespace| Charged { namespace, pending });
                let commit = self.store.enqueue(*proposal);
                self.commits.push(InFlightCommit { id, name, charged, pending: commit });
                self.has_queued = true;
                if self.commits.len().is_multiple_of(WAKE_EVERY) {
                    self.store.wake();
                }
                None
            }
        }
    }

    fn prepare(&self, request: &WriteRequest) -> Prepared {
        let snapshot = self.store.snapshot();
        let entropy = [(); 3].map(|()| (self.entropy)());
        prepare(
            request,
            &RequestContext {
                snapshot: &snapshot,
                now: self.clock.now(),
                entropy,
                tolerations: self.tolerations,
            },
        )
    }

    fn end_charged(
        &mut self,
        Charged { namespace, mut pending }: Charged,
        name: Box<str>,
        committed: Result<CommitResponse, CommitError>,
        ended: &mut Vec<(WriteId, WriteOutcome)>,
    ) {
        let mut waiting = self.held.remove(&namespace).unwrap_or_default();
        if has_quota_conflict(&committed) && pending.conflicts < CONFLICTS_MAX {
            pending.conflicts += 1;
            waiting.push_front(pending);
        } else {
            ended.push((pending.request.id, outcome(committed, name)));
        }
        while let Some(next) = waiting.pop_front() {
            ended.extend(self.begin(next));
            if let Some(held) = self.held.get_mut(&namespace) {
                held.append(&mut waiting);
            }
        }
    }
}

impl WriteExecutor for InFlightWrites {
    fn start(&mut self, request: WriteRequest) -> Option<(WriteId, WriteOutcome)> {
        self.logger.log(&request, || self.clock.now());
        self.begin(PendingWrite { request, conflicts: 0 })
    }

    fn submit(&mut self) -> bool {
        if self.has_queued {
            self.store.wake();
        }
        std::mem::take(&mut self.has_queued)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Vec<(WriteId, WriteOutcome)> {
        let mut done = Vec::new();
        let mut unfinished = Vec::new();
        for mut commit in self.commits.drain(..) {
            match Pin::new(&mut commit.pending).poll(context) {
                Poll::Ready(committed) => done.push((commit.id, commit.name, commit.charged, committed)),
                Poll::Pending => unfinished.push(commit),
            }
        }
        self.commits = unfinished;
        let mut ended = Vec::with_capacity(done.len());
        for (id, name, charged, committed) in done {
            match charged {
                None => ended.push((id, outcome(committed, name))),
                Some(charged) => self.end_charged(charged, name, committed, &mut ended),
            }
        }
        ended
    }

    fn is_idle(&self) -> bool {
        self.commits.is_empty()
    }
}

/// Logs a write that was rejected.
fn log_rejected(WriteRequest { write, manager, reconciler: by, .. }: &WriteRequest, outcome: &WriteOutcome) {
    if let WriteOutcome::Rejected(WriteRejection { reason, message }) = outcome {
        let (verb, resource, by) = (write.verb(), write.resource(), &**by);
        tracing::warn!(component = *manager, by, verb, %resource, reason, why = message, "write rejected");
    }
}

fn charged_namespace(proposal: &Proposal) -> Option<Box<str>> {
    quota::charged_quota(proposal)?.namespace().map(Into::into)
}

/// `true` if a quota that the write is charged to changed meanwhile.
fn has_quota_conflict(committed: &Result<CommitResponse, CommitError>) -> bool {
    matches!(
        committed,
        Err(CommitError::Rejected(RejectReason::Conflict(conflict))) if quota::is_quota(&conflict.key)
    )
}
