//! Timers of a watch: its timeout, its bookmarks, and its rests.
//!
//! They run on the timers of the runtime, because each wakes the task of the watch.

#![expect(clippy::disallowed_methods, reason = "a watch owns its timers")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::coalescer::WatchSlot;

/// Interval of bookmarks, if the client requests them.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct WatchTimers {
    timeout: Pin<Box<Sleep>>,
    bookmark: Pin<Box<Sleep>>,
    /// End of the current rest.
    rest: Pin<Box<Sleep>>,
    is_resting: bool,
}

impl WatchTimers {
    /// Timers of a watch that starts now.
    pub(super) fn new(timeout: Duration) -> WatchTimers {
        WatchTimers {
            timeout: Box::pin(sleep(timeout)),
            bookmark: Box::pin(sleep(BOOKMARK_INTERVAL)),
            rest: Box::pin(sleep(Duration::ZERO)),
            is_resting: false,
        }
    }

    /// `true` once the watch has lasted for its timeout.
    pub(super) fn has_timed_out(&mut self, context: &mut Context<'_>) -> bool {
        self.timeout.as_mut().poll(context).is_ready()
    }

    /// Ready when a bookmark is due, once per interval.
    pub(super) fn poll_bookmark(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.bookmark.as_mut().poll(context));
        self.bookmark = Box::pin(sleep(BOOKMARK_INTERVAL));
        Poll::Ready(())
    }

    /// `true` until the current rest ends.
    pub(super) fn is_resting(&mut self, context: &mut Context<'_>) -> bool {
        self.is_resting && self.rest.as_mut().poll(context).is_pending()
    }

    /// Starts a rest, or goes on without one.
    pub(super) fn set_resting(&mut self, is_resting: bool, slot: &WatchSlot) {
        self.is_resting = is_resting;
        if is_resting {
            self.rest.as_mut().reset(slot.rest_until(Instant::now()));
        }
    }
}
