//! Watch events whose objects a conversion webhook converts before they are encoded.
//!
//! Events are taken from the cursor in batches, so their order stays, and one call converts many objects. No bookmark
//! is sent meanwhile: it would be ahead of the events of the batch.

use std::sync::Arc;
use std::task::{Context, Poll};

use setpoint_api::status::Status;
use setpoint_api::{ResourceType, Revision};
use setpoint_store::{Record, WatchEvent, WatchEventType};

use crate::conversion::ConversionWebhooks;
use crate::conversion::shell::RecordBatch;

/// Objects of a batch.
pub(super) const BATCH_OBJECTS_MAX: usize = 100;

/// An event to send.
#[derive(Clone, Copy)]
pub(super) struct EventHead {
    pub word: &'static str,
    /// Revision to show instead of the object's own, for an object that left the selection.
    pub revision: Option<Revision>,
}

impl EventHead {
    /// An initial object.
    pub const INITIAL: EventHead = EventHead { word: "ADDED", revision: None };
}

/// Converts the events of one watch, batch by batch.
pub(super) struct EventConverter {
    webhooks: Arc<ConversionWebhooks>,
    heads: Vec<EventHead>,
    records: Vec<Record>,
    batch: Option<RecordBatch>,
}

impl EventConverter {
    pub fn new(webhooks: &Arc<ConversionWebhooks>) -> EventConverter {
        let webhooks = Arc::clone(webhooks);
        EventConverter { webhooks, heads: Vec::new(), records: Vec::new(), batch: None }
    }

    /// `true` while events wait for their conversion.
    pub fn is_busy(&self) -> bool {
        self.batch.is_some() || !self.records.is_empty()
    }

    /// `true` if the next batch has no room.
    pub fn is_full(&self) -> bool {
        self.records.len() >= BATCH_OBJECTS_MAX
    }

    /// Adds an object to the next batch.
    pub fn push(&mut self, head: EventHead, record: Record) {
        self.heads.push(head);
        self.records.push(record);
    }

    /// Adds an event to the next batch.
    pub fn push_event(&mut self, word: &'static str, event: WatchEvent) {
        let revision = event.revision();
        match event.before {
            Some(before) if event.event_type == WatchEventType::Deleted && !event.after.is_tombstone() => {
                self.push(EventHead { word, revision: Some(revision) }, before);
            }
            _ => self.push(EventHead { word, revision: None }, event.after),
        }
    }

    /// Returns the converted events of the batch; none if there is none.
    ///
    /// # Errors
    /// If the webhook fails.
    pub fn poll(
        &mut self,
        resource_type: &Arc<ResourceType>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Vec<(EventHead, Record)>, Status>> {
        if self.batch.is_none() && !self.records.is_empty() {
            let records = std::mem::take(&mut self.records);
            self.batch = Some(self.webhooks.start_records(resource_type, records));
        }
        let Some(batch) = &mut self.batch else { return Poll::Ready(Ok(Vec::new())) };
        let Poll::Ready(converted) = batch.as_mut().poll(context) else { return Poll::Pending };
        self.batch = None;
        let heads = std::mem::take(&mut self.heads);
        Poll::Ready(converted.map(|records| heads.into_iter().zip(records).collect()))
    }
}
