//! Timers of a watch: its timeout, its bookmarks and its flush interval.
//!
//! These are tokio timers, because each must wake the task of the watch.

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
    /// Instant of the next flush, while `is_delayed`.
    next_flush: Pin<Box<Sleep>>,
    is_delayed: bool,
}

impl WatchTimers {
    /// Timers of a watch that starts now.
    pub(super) fn new(timeout: Duration) -> WatchTimers {
        WatchTimers {
            timeout: Box::pin(sleep(timeout)),
            bookmark: Box::pin(sleep(BOOKMARK_INTERVAL)),
            next_flush: Box::pin(sleep(Duration::ZERO)),
            is_delayed: false,
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

    /// `true` until the next flush is due.
    pub(super) fn is_delayed(&mut self, context: &mut Context<'_>) -> bool {
        self.is_delayed && self.next_flush.as_mut().poll(context).is_pending()
    }

    /// Delays the next flush by a flush interval, or makes it due at once.
    pub(super) fn set_delayed(&mut self, is_delayed: bool, slot: &WatchSlot) {
        self.is_delayed = is_delayed;
        if is_delayed {
            self.next_flush.as_mut().reset(slot.next_flush(Instant::now()));
        }
    }
}
