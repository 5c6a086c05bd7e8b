//! Feed of one resource: its changes up to a revision.
//!
//! `tests/wakeups.rs` compiles this file too, over a model of the store.

use std::task::{Context, Poll};

use setpoint_api::Revision;

/// Changes of one resource, in the order of their revisions.
pub(super) trait Changes {
    /// A change.
    type Change;
    /// Reason why changes are missing.
    type Lost;

    /// The next change; if there is none, the waker is registered before this returns.
    fn poll_change(&mut self, context: &mut Context<'_>) -> Poll<Result<Self::Change, Self::Lost>>;

    /// The revision of a change.
    fn revision(change: &Self::Change) -> Revision;
}

/// Result of draining a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// All changes are observed, and the waker is registered.
    Armed,
    /// A change after the revision exists. No waker is registered: the caller must drain again before it sleeps.
    Ahead,
    /// Changes are missing: the resource has to be listed.
    Lost,
}

/// Changes of one resource, with one change read ahead.
pub(super) struct ResourceFeed<C: Changes> {
    changes: C,
    ahead: Option<C::Change>,
}

impl<C: Changes> ResourceFeed<C> {
    pub(super) fn new(changes: C) -> ResourceFeed<C> {
        ResourceFeed { changes, ahead: None }
    }

    /// Observes the changes up to `newest`, so that all feeds together show the state at one revision.
    pub(super) fn drain(
        &mut self,
        newest: Revision,
        context: &mut Context<'_>,
        mut take: impl FnMut(C::Change),
    ) -> Drained {
        loop {
            let change = match self.ahead.take() {
                Some(change) => change,
                None => match self.changes.poll_change(context) {
                    Poll::Ready(Ok(change)) => change,
                    Poll::Ready(Err(_)) => return Drained::Lost,
                    Poll::Pending => return Drained::Armed,
                },
            };
            if C::revision(&change) > newest {
                self.ahead = Some(change);
                return Drained::Ahead;
            }
            take(change);
        }
    }
}
