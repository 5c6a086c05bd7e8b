//! Webhook backend: a thread of its own sends lists of events to an HTTPS service, and repeats failed calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use setpoint_audit::EventList;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::backend::{AuditBackend, BackendThread, ThreadGuard};
use super::metrics::{AuditMetrics, FailedPlugin};
use super::options::{LogFormat, Mode, WebhookOptions};
use super::queue::{BatchBounds, EventQueue, QUEUE_BYTES_MAX, QueuedEvent};
use super::throttle::Throttle;
use crate::webhooks::client::{CallError, WebhookCall, WebhookClient};
use crate::webhooks::endpoint::WebhookEndpoint;

/// Calls for one batch, upstream's number of steps.
const ATTEMPTS_MAX: u32 = 5;
/// Time for one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response, which is not read otherwise.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Batches that are sent at a time. Upstream does not bound them.
const CALLS_IN_FLIGHT_MAX: usize = 16;
/// Events of a batch in the blocking modes: those of requests that wait at the same time.
const BLOCKING_EVENTS_MAX: usize = 400;

/// Starts a webhook backend.
///
/// # Errors
/// If its thread cannot be started.
pub fn start_webhook(
    endpoint: WebhookEndpoint,
    options: WebhookOptions,
    client: Arc<WebhookClient>,
    metrics: &Arc<AuditMetrics>,
) -> io::Result<AuditBackend> {
    let WebhookOptions { initial_backoff, mode, truncation } = options;
    let batch_bytes = truncation.map_or(QUEUE_BYTES_MAX, |truncation| truncation.max_batch_bytes);
    let queue = AuditBackend::queue(&mode);
    let sender = BatchSender {
        endpoint,
        initial_backoff,
        client,
        queue: Arc::clone(&queue),
        metrics: Arc::clone(metrics),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (thread, guard) = BackendThread::pair();
    let (sender, sent_mode) = (Arc::new(sender), mode.clone());
    let builder = std::thread::Builder::new().name("audit-webhook".to_owned());
    builder.spawn(move || runtime.block_on(run(sender, &sent_mode, batch_bytes, Arc::new(guard))))?;
    Ok(AuditBackend::with_thread((LogFormat::Json, mode), truncation, queue, Arc::clone(metrics), thread))
}

/// Sends batches until the queue is closed and empty, and waits for the last calls.
async fn run(sender: Arc<BatchSender>, mode: &Mode, bytes: usize, guard: Arc<ThreadGuard>) {
    let (bounds, mut throttle) = match mode {
        Mode::Batch(batch) => {
            let (awaited, wait, events) = (batch.max_size, batch.max_wait, batch.max_size);
            (BatchBounds { awaited, wait, events, bytes }, batch.throttle.map(Throttle::new))
        }
        Mode::Blocking { .. } => {
            (BatchBounds { awaited: 1, wait: Duration::ZERO, events: BLOCKING_EVENTS_MAX, bytes }, None)
        }
    };
    let slots = Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX));
    let mut calls = JoinSet::new();
    while let Some(batch) = sender.queue.next_batch(bounds).await {
        let events = batch.len();
        guard.in_hand.fetch_add(events, Ordering::AcqRel);
        if let Some(throttle) = &mut throttle {
            throttle.take().await;
        }
        let slot = Arc::clone(&slots).acquire_owned().await;
        let (sender, guard) = (Arc::clone(&sender), Arc::clone(&guard));
        calls.spawn(async move {
            sender.send(batch).await;
            guard.in_hand.fetch_sub(events, Ordering::AcqRel);
            drop(slot);
        });
        while calls.try_join_next().is_some() {}
    }
    while calls.join_next().await.is_some() {}
}

struct BatchSender {
    endpoint: WebhookEndpoint,
    initial_backoff: Duration,
    client: Arc<WebhookClient>,
    queue: Arc<EventQueue>,
    metrics: Arc<AuditMetrics>,
}

impl BatchSender {
    async fn send(&self, batch: Vec<QueuedEvent>) {
        let mut list = EventList::default();
        batch.iter().for_each(|event| list.push(&event.bytes));
        let waiting: Vec<oneshot::Sender<bool>> =
            batch.into_iter().filter_map(|event| event.written).collect();
        let events = list.len() as u64;
        let sent = self.send_repeatedly(list.into_bytes().into()).await;
        if let Err(error) = &sent {
            self.metrics.count_errors(FailedPlugin::Webhook, events, error);
        }
        for waiting in waiting {
            // The request may have given up.
            let _ = waiting.send(sent.is_ok());
        }
    }

    /// Sends a list. Whatever the error is, the call is repeated, as upstream does; a server that stops does not wait
    /// in between.
    async fn send_repeatedly(&self, body: Bytes) -> Result<(), CallError> {
        let (mut attempt, mut wait) = (1, self.initial_backoff);
        loop {
            let call = WebhookCall {
                endpoint: self.endpoint.clone(),
                body: body.clone(),
                timeout: CALL_TIMEOUT,
                response_bytes_max: RESPONSE_BYTES_MAX,
            };
            match self.client.start(call).await {
                Err(error) if attempt < ATTEMPTS_MAX => {
                    tracing::debug!(%error, attempt, "audit webhook failed");
                    let _ = tokio::time::timeout(wait, self.queue.closed()).await;
                    (attempt, wait) = (attempt + 1, wait + wait / 2);
                }
                outcome => return outcome.map(drop),
            }
        }
    }
}
