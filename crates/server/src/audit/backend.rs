//! A backend: formats events, bounds their size, and pushes them into the queue of its thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_audit::{Event, Level};
use tokio::sync::oneshot;

use super::metrics::{AuditMetrics, FailedPlugin};
use super::options::{BatchOptions, LogFormat, Mode, TruncationOptions};
use super::queue::{EventQueue, QUEUE_BYTES_MAX, QueueError, QueuedEvent};

/// Bytes of an event. The objects of a larger one are removed, with or without truncation.
pub(super) const EVENT_BYTES_MAX: usize = 16 << 20;
/// Events in the queue of a blocking backend.
const BLOCKING_EVENTS_MAX: usize = 10_000;
/// Time that a request waits for its event in the blocking modes. Upstream waits forever.
const BLOCKING_WAIT_MAX: Duration = Duration::from_secs(10);
/// Bytes that are reserved for an event.
const TYPICAL_EVENT_BYTES: usize = 1024;

/// Destination of events.
pub struct AuditBackend {
    format: LogFormat,
    mode: Mode,
    truncation: Option<TruncationOptions>,
    queue: Arc<EventQueue>,
    metrics: Arc<AuditMetrics>,
    thread: Option<BackendThread>,
}

/// Handle of the thread that empties a queue.
pub(super) struct BackendThread {
    /// Closed when the thread ends.
    ended: Mutex<Receiver<()>>,
    /// Events that the thread has taken and not written.
    in_hand: Arc<AtomicUsize>,
}

/// Part of a [`BackendThread`] that the thread holds until it ends.
pub(super) struct ThreadGuard {
    _ended: Sender<()>,
    /// Events that the thread has taken and not written.
    pub in_hand: Arc<AtomicUsize>,
}

impl BackendThread {
    /// Returns both sides.
    pub(super) fn pair() -> (BackendThread, ThreadGuard) {
        let (sender, receiver) = channel();
        let in_hand = Arc::new(AtomicUsize::new(0));
        let thread = BackendThread { ended: Mutex::new(receiver), in_hand: Arc::clone(&in_hand) };
        (thread, ThreadGuard { _ended: sender, in_hand })
    }
}

/// Acknowledgements of one event that a request waits for. There are none in the mode `batch`.
#[derive(Default)]
pub(super) struct Acknowledgements(Vec<Acknowledgement>);

struct Acknowledgement {
    /// Event for which there was no room yet, with its queue.
    unqueued: Option<(Arc<EventQueue>, QueuedEvent)>,
    written: oneshot::Receiver<bool>,
    is_strict: bool,
    metrics: Arc<AuditMetrics>,
}

impl Acknowledgements {
    /// Waits until the event is written, for at most [`BLOCKING_WAIT_MAX`]. Returns `false` if a strict backend failed.
    pub(super) async fn wait(self) -> bool {
        let mut is_recorded = true;
        for Acknowledgement { unqueued, written, is_strict, metrics } in self.0 {
            let finished = async {
                if let Some((queue, event)) = unqueued
                    && let Err(error) = queue.push_waiting(event).await
                {
                    metrics.count_errors(FailedPlugin::Buffered, 1, &error);
                    return false;
                }
                written.await.unwrap_or(false)
            };
            let is_written = tokio::time::timeout(BLOCKING_WAIT_MAX, finished).await.unwrap_or(false);
            is_recorded &= is_written || !is_strict;
        }
        is_recorded
    }
}

impl AuditBackend {
    /// Returns the queue of a backend with this mode.
    pub(super) fn queue(mode: &Mode) -> Arc<EventQueue> {
        let events = match mode {
            // As upstream, the buffer and the batch that is being collected.
            Mode::Batch(BatchOptions { buffer_size, max_size, .. }) => buffer_size.saturating_add(*max_size),
            Mode::Blocking { .. } => BLOCKING_EVENTS_MAX,
        };
        Arc::new(EventQueue::new(events, QUEUE_BYTES_MAX))
    }

    /// A backend whose queue a thread empties.
    pub(super) fn with_thread(
        (format, mode): (LogFormat, Mode),
        truncation: Option<TruncationOptions>,
        queue: Arc<EventQueue>,
        metrics: Arc<AuditMetrics>,
        thread: BackendThread,
    ) -> AuditBackend {
        AuditBackend { format, mode, truncation, queue, metrics, thread: Some(thread) }
    }

    /// A backend whose queue the caller empties.
    #[must_use]
    pub fn over_queue(
        format: LogFormat,
        mode: Mode,
        truncation: Option<TruncationOptions>,
        queue: Arc<EventQueue>,
        metrics: Arc<AuditMetrics>,
    ) -> AuditBackend {
        AuditBackend { format, mode, truncation, queue, metrics, thread: None }
    }

    /// Sends an event. In the blocking modes its acknowledgement is added.
    pub(super) fn send(&self, event: &Event<'_>, acknowledgements: &mut Acknowledgements) {
        let Mode::Blocking { is_strict } = self.mode else { return self.send_detached(event) };
        let Some(bytes) = self.encode(event) else { return };
        let (sender, written) = oneshot::channel();
        let unqueued = match self.queue.push(QueuedEvent { bytes, written: Some(sender) }) {
            Ok(()) => None,
            Err((QueueError::Full, event)) => Some((Arc::clone(&self.queue), event)),
            // The event is dropped with its sender, so the acknowledgement fails.
            Err((QueueError::Closed, _)) => {
                self.metrics.count_errors(FailedPlugin::Buffered, 1, &QueueError::Closed);
                None
            }
        };
        let metrics = Arc::clone(&self.metrics);
        acknowledgements.0.push(Acknowledgement { unqueued, written, is_strict, metrics });
    }

    /// Sends an event without waiting for room, whatever the mode is. An event that finds no room is counted.
    pub(super) fn send_detached(&self, event: &Event<'_>) {
        let Some(bytes) = self.encode(event) else { return };
        if let Err((error, _)) = self.queue.push(QueuedEvent { bytes, written: None }) {
            self.metrics.count_errors(FailedPlugin::Buffered, 1, &error);
        }
    }

    /// Encodes an event, without its objects if it would be too large; `None` if it is too large even so.
    fn encode(&self, event: &Event<'_>) -> Option<Bytes> {
        let max = self.truncation.map_or(EVENT_BYTES_MAX, |truncation| truncation.max_event_bytes);
        let max = max.min(EVENT_BYTES_MAX);
        let objects = event.request_object.len() + event.response_object.len();
        let mut out = Vec::with_capacity(TYPICAL_EVENT_BYTES);
        // Objects that are larger than the bound need not be encoded to know.
        if objects <= max || event.level < Level::Request {
            self.format(event, &mut out);
        }
        let is_too_large = out.is_empty() || out.len() > max;
        if is_too_large && event.level >= Level::Request {
            out.clear();
            self.format(&Event { is_truncated: true, ..*event }, &mut out);
        }
        if out.len() > max {
            let error = "event is too large even after truncating";
            self.metrics.count_errors(FailedPlugin::Truncate, 1, &error);
            return None;
        }
        Some(out.into())
    }

    fn format(&self, event: &Event<'_>, out: &mut Vec<u8>) {
        match self.format {
            LogFormat::Json => event.write_json(out),
            LogFormat::Legacy => event.write_legacy(out),
        }
    }

    /// Rejects further events, so that the thread ends when its queue is empty.
    pub(super) fn close(&self) {
        self.queue.close();
    }

    /// Waits until the thread has ended. Events that are left after `limit` are counted as errors.
    pub(super) fn join(&self, limit: Duration) {
        let Some(thread) = &self.thread else { return };
        if thread.ended.lock().recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let left = self.queue.discard() + thread.in_hand.load(Ordering::Acquire);
            if left > 0 {
                let error = "the server has stopped before all events were written";
                self.metrics.count_errors(FailedPlugin::Buffered, left as u64, &error);
            }
        }
    }
}
