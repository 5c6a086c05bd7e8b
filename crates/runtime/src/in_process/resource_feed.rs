//! Feed of one resource: its changes, taken in up to a revision.
//!
//! `tests/wakeups.rs` compiles this file too, over a model of the store.

use std::task::{Context, Poll};

use setpoint_api::Revision;

/// Changes of one resource, in the order of their revisions.
pub(super) trait Changes {
    /// A change.
    type Change;
    /// The reason why changes are missing.
    type Lost;

    /// The next change; if there is none, the waker is registered before this returns.
    fn poll_change(&mut self, context: &mut Context<'_>) -> Poll<Result<Self::Change, Self::Lost>>;

    /// The revision of a change.
    fn revision(change: &Self::Change) -> Revision;
}

/// Result of draining a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Everything is taken in, and the waker is registered.
    Armed,
    /// A change beyond the revision is at hand. No waker is registered: the caller must drain again before it sleeps.
    Ahead,
    /// Changes are missing: the resource has to be listed.
    Lost,
}

/// The changes of one resource, and the one that was read too early.
pub(super) struct ResourceFeed<C: Changes> {
    changes: C,
    ahead: Option<C::Change>,
}

impl<C: Changes> ResourceFeed<C> {
    pub(super) fn new(changes: C) -> ResourceFeed<C> {
        ResourceFeed { changes, ahead: None }
    }

    /// Takes in the changes up to `newest`, so that all feeds together show the state at one revision.
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
