//! Pending commits: waiting for the outcome of a proposal, in a thread or in a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use parking_lot::Mutex;

use crate::store::{CommitError, CommitResponse, Shared};

/// Result of a proposal.
pub(crate) type CommitResult = Result<CommitResponse, CommitError>;

/// Slot for the outcome of one proposal.
#[derive(Debug, Default)]
pub(crate) struct CommitSlot(Mutex<SlotState>);

#[derive(Debug, Default)]
struct SlotState {
    outcome: Option<CommitResult>,
    waker: Option<Waker>,
}

impl CommitSlot {
    /// Stores the outcome and wakes the waiter.
    pub fn complete(&self, outcome: CommitResult) {
        let waker = {
            let mut state = self.0.lock();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// `true` if there is a waiter to wake.
    pub fn has_waiter(&self) -> bool {
        self.0.lock().waker.is_some()
    }

    /// Wakes the waiter, so that it can lead the next batch.
    pub fn wake(&self) {
        let waker = self.0.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes the outcome, or registers a waker.
    pub fn poll(&self, waker: &Waker) -> Option<CommitResult> {
        let mut state = self.0.lock();
        if state.outcome.is_none() && !state.waker.as_ref().is_some_and(|current| current.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        state.outcome.take()
    }
}

/// Pending commit. As a future it resolves when the commit is durable or rejected.
#[must_use = "the outcome of the commit is lost"]
pub struct PendingCommit {
    pub(crate) shared: Arc<Shared>,
    pub(crate) slot: Arc<CommitSlot>,
}

impl Future for PendingCommit {
    type Output = CommitResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CommitResult> {
        if let Some(outcome) = self.slot.poll(context.waker()) {
            return Poll::Ready(outcome);
        }
        // With a driver thread, tasks never block on the disk. Without one, the polling task writes the
        // batch.
        if !self.shared.has_driver() && self.shared.try_lead() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl PendingCommit {
    /// Waits in this thread, and writes the batch unless another thread does.
    pub fn wait(self) -> CommitResult {
        THIS_THREAD.with(|waker| {
            loop {
                if let Some(outcome) = self.slot.poll(waker) {
                    return outcome;
                }
                if !self.shared.try_lead() {
                    std::thread::park();
                }
            }
        })
    }
}

thread_local! {
    /// Waker of this thread, created once because a thread that writes usually writes again.
    static THIS_THREAD: Waker = Waker::from(Arc::new(Unparker(std::thread::current())));
}

impl Drop for PendingCommit {
    /// A dropped waiter may just have been woken to lead, so wake another waiter.
    fn drop(&mut self) {
        let had_waiter = self.slot.0.lock().waker.take().is_some();
        if had_waiter {
            self.shared.wake_next_leader();
        }
    }
}

/// Waker that unparks a thread.
struct Unparker(Thread);

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
