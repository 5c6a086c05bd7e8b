//! Bounded queue of encoded events between requests and the thread of a backend.
//!
//! A push takes a lock for a moment and wakes the thread only if it waits for that event: in the mode `batch` the thread
//! sleeps until a batch is full or its time is up, so most pushes wake no thread.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// Bytes of events in a queue.
pub(super) const QUEUE_BYTES_MAX: usize = 64 << 20;

/// An encoded event.
#[derive(Debug)]
pub struct QueuedEvent {
    /// The event.
    pub bytes: Bytes,
    /// Gets `true` once the event is written, and `false` if it cannot be.
    pub written: Option<oneshot::Sender<bool>>,
}

/// Rejection of an event by a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The queue has no room.
    #[error("audit buffer queue blocked")]
    Full,
    /// The backend has ended.
    #[error("audit backend shut down")]
    Closed,
}

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<QueuedEvent>,
    bytes: usize,
    is_closed: bool,
    /// Length at which the thread is woken; 0 if it does not wait.
    wake_at: usize,
}

/// Bounded queue of encoded events. Clones of its owner share it.
#[derive(Debug)]
pub struct EventQueue {
    state: Mutex<QueueState>,
    events_max: usize,
    bytes_max: usize,
    /// Notified when the length has reached `wake_at`, or the queue was closed.
    filled: Notify,
    /// Notified when events were taken.
    drained: Notify,
    /// Notified when the queue was closed.
    closing: Notify,
}

/// Bounds of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchBounds {
    /// Events for which the thread waits.
    pub awaited: usize,
    /// Time to wait for them after the first event.
    pub wait: Duration,
    /// Events of a batch.
    pub events: usize,
    /// Bytes of a batch; the first event is taken whatever its size is.
    pub bytes: usize,
}

impl EventQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(events_max: usize, bytes_max: usize) -> EventQueue {
        let (filled, drained, closing) = (Notify::new(), Notify::new(), Notify::new());
        EventQueue { state: Mutex::default(), events_max, bytes_max, filled, drained, closing }
    }

    /// Appends an event; the error returns it.
    ///
    /// # Errors
    /// If there is no room, or the queue is closed.
    pub fn push(&self, event: QueuedEvent) -> Result<(), (QueueError, QueuedEvent)> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err((QueueError::Closed, event));
        }
        let bytes = state.bytes + event.bytes.len();
        // One event always fits, so that none is too large for an empty queue.
        let is_full = state.events.len() >= self.events_max || bytes > self.bytes_max;
        if is_full && !state.events.is_empty() {
            return Err((QueueError::Full, event));
        }
        state.bytes = bytes;
        state.events.push_back(event);
        // Half of the bytes are a batch too, so that large events do not fill the queue while the thread waits.
        let is_awaited =
            state.wake_at > 0 && (state.events.len() >= state.wake_at || bytes >= self.bytes_max / 2);
        if is_awaited {
            state.wake_at = 0;
        }
        drop(state);
        if is_awaited {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Appends an event once there is room.
    ///
    /// # Errors
    /// If the queue is closed.
    pub async fn push_waiting(&self, mut event: QueuedEvent) -> Result<(), QueueError> {
        loop {
            let mut drained = std::pin::pin!(self.drained.notified());
            // Registered before the attempt, so that no notification in between is missed.
            drained.as_mut().enable();
            match self.push(event) {
                Ok(()) => return Ok(()),
                Err((QueueError::Closed, _)) => return Err(QueueError::Closed),
                Err((QueueError::Full, returned)) => event = returned,
            }
            drained.await;
        }
    }

    /// Takes the next batch, in order; `None` once the queue is closed and empty.
    pub async fn next_batch(&self, bounds: BatchBounds) -> Option<Vec<QueuedEvent>> {
        self.wait_for(1).await;
        if bounds.awaited > 1 && !bounds.wait.is_zero() {
            // The time is up: whatever is there is the batch.
            let _ = tokio::time::timeout(bounds.wait, self.wait_for(bounds.awaited)).await;
        }
        let mut state = self.state.lock();
        state.wake_at = 0;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < bounds.events {
            let Some(next) = state.events.front() else { break };
            bytes += next.bytes.len();
            if bytes > bounds.bytes && !batch.is_empty() {
                break;
            }
            let next = state.events.pop_front().expect("the queue has a front");
            state.bytes -= next.bytes.len();
            batch.push(next);
        }
        drop(state);
        self.drained.notify_waiters();
        (!batch.is_empty()).then_some(batch)
    }

    /// Waits until the queue has `len` events or half of its bytes, or is closed.
    async fn wait_for(&self, len: usize) {
        loop {
            {
                let mut state = self.state.lock();
                let has_many = state.bytes >= self.bytes_max / 2 && !state.events.is_empty();
                if state.is_closed || state.events.len() >= len || has_many {
                    return;
                }
                state.wake_at = len;
            }
            self.filled.notified().await;
        }
    }

    /// Rejects further events; those in the queue can still be taken.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.filled.notify_one();
        self.drained.notify_waiters();
        self.closing.notify_waiters();
    }

    /// Waits until the queue is closed.
    pub async fn closed(&self) {
        let mut closing = std::pin::pin!(self.closing.notified());
        // Registered before the check, so that no notification in between is missed.
        closing.as_mut().enable();
        if !self.state.lock().is_closed {
            closing.await;
        }
    }

    /// Removes all events, and returns their number.
    pub fn discard(&self) -> usize {
        let mut state = self.state.lock();
        state.bytes = 0;
        std::mem::take(&mut state.events).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(bytes: usize) -> QueuedEvent {
        QueuedEvent { bytes: vec![b'x'; bytes].into(), written: None }
    }

    fn bounds(awaited: usize, wait: u64, events: usize, bytes: usize) -> BatchBounds {
        BatchBounds { awaited, wait: Duration::from_secs(wait), events, bytes }
    }

    #[test]
    fn full_queue_rejects_events() {
        let queue = EventQueue::new(2, 100);
        assert!(queue.push(event(1)).is_ok() && queue.push(event(1)).is_ok());
        assert_eq!(queue.push(event(1)).unwrap_err().0, QueueError::Full);
        assert_eq!(queue.discard(), 2);
        assert!(queue.push(event(90)).is_ok());
        assert_eq!(queue.push(event(11)).unwrap_err().0, QueueError::Full, "bytes are bounded too");
        assert_eq!(queue.discard(), 1);
        assert!(queue.push(event(1000)).is_ok(), "an empty queue takes any event");
        queue.close();
        assert_eq!(queue.push(event(1)).unwrap_err().0, QueueError::Closed);
    }

    #[tokio::test(start_paused = true)]
    async fn batch_ends_at_its_bounds_or_when_its_time_is_up() {
        let queue = EventQueue::new(10, 1000);
        for _ in 0..5 {
            queue.push(event(10)).unwrap();
        }
        assert_eq!(queue.next_batch(bounds(1, 0, 3, 1000)).await.unwrap().len(), 3);
        assert_eq!(queue.next_batch(bounds(1, 0, 3, 15)).await.unwrap().len(), 1);
        assert_eq!(queue.next_batch(bounds(4, 30, 4, 1000)).await.unwrap().len(), 1, "30 s are up");
        let (batch, ()) = tokio::join!(queue.next_batch(bounds(2, 3600, 4, 1000)), async {
            queue.push(event(1)).unwrap();
            queue.push(event(1)).unwrap();
        });
        assert_eq!(batch.unwrap().len(), 2);
        queue.push(event(1)).unwrap();
        queue.close();
        assert_eq!(queue.next_batch(bounds(9, 3600, 9, 1000)).await.unwrap().len(), 1);
        assert!(queue.next_batch(bounds(9, 3600, 9, 1000)).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_push_continues_when_there_is_room() {
        let queue = EventQueue::new(1, 1000);
        queue.push(event(1)).unwrap();
        let (pushed, batch) =
            tokio::join!(queue.push_waiting(event(2)), queue.next_batch(bounds(1, 0, 1, 10)));
        assert_eq!((pushed, batch.unwrap()[0].bytes.len()), (Ok(()), 1));
        let (pushed, ()) = tokio::join!(queue.push_waiting(event(2)), async { queue.close() });
        assert_eq!(pushed, Err(QueueError::Closed));
    }
}
