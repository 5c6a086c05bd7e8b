//! Watch events whose objects a conversion webhook converts before they are encoded.
//!
//! Events are taken from the cursor in batches, so their order stays, and one call converts many objects. No bookmark
//! is sent meanwhile: it would be ahead of the events of the batch.

use std::sync::Arc;
use std::task::{Context, Poll};

use setpoint_api::status::Status;
use setpoint_api::{ResourceType, Revision};
use setpoint_store::{Record, WatchEvent, WatchEventType};

use super::event_word;
use crate::conversion::ConversionWebhooks;
use crate::conversion::shell::RecordBatch;
use crate::select::{ServedFields, event_type};

/// Objects of a batch.
pub(super) const BATCH_OBJECTS_MAX: usize = 100;

/// An event to send.
#[derive(Clone, Copy)]
pub(super) struct EventHead {
    pub word: &'static str,
    /// Revision to show instead of the object's own, for an object that left the selection.
    pub revision: Option<Revision>,
}

/// An event in conversion. Its versions are records of the batch: that before, if it has one, then that after it.
#[derive(Clone, Copy)]
struct PendingEvent {
    event_type: WatchEventType,
    has_before: bool,
    has_after: bool,
    revision: Revision,
    /// `true` if the object is deleted.
    is_gone: bool,
}

/// Converts the events of one watch, batch by batch.
pub(super) struct EventConverter {
    webhooks: Arc<ConversionWebhooks>,
    /// Fields that objects must have after their conversion.
    fields: Option<Arc<ServedFields>>,
    events: Vec<PendingEvent>,
    records: Vec<Record>,
    /// The records of the batch before their conversion, if they are filtered.
    originals: Vec<Record>,
    batch: Option<RecordBatch>,
}

impl EventConverter {
    pub fn new(webhooks: &Arc<ConversionWebhooks>, fields: Option<&Arc<ServedFields>>) -> EventConverter {
        EventConverter {
            webhooks: Arc::clone(webhooks),
            fields: fields.cloned(),
            events: Vec::new(),
            records: Vec::new(),
            originals: Vec::new(),
            batch: None,
        }
    }

    /// `true` while events wait for their conversion.
    pub fn is_busy(&self) -> bool {
        self.batch.is_some() || !self.records.is_empty()
    }

    /// `true` if the next batch has no room.
    pub fn is_full(&self) -> bool {
        self.records.len() >= BATCH_OBJECTS_MAX
    }

    /// Adds an initial object to the next batch.
    pub fn push_initial(&mut self, record: Record) {
        self.events.push(PendingEvent {
            event_type: WatchEventType::Added,
            has_before: false,
            has_after: true,
            revision: record.revision(),
            is_gone: false,
        });
        self.records.push(record);
    }

    /// Adds an event to the next batch: the version to show, and with fields every version that had been selected.
    pub fn push_event(&mut self, event: WatchEvent) {
        let (event_type, revision, is_gone) =
            (event.event_type, event.revision(), event.after.is_tombstone());
        let was_selected = event_type != WatchEventType::Added;
        let has_left = event_type == WatchEventType::Deleted;
        let shows_before = has_left && !is_gone;
        let before = event.before.filter(|_| shows_before || (self.fields.is_some() && was_selected));
        let after = Some(event.after).filter(|_| !shows_before || before.is_none());
        let (has_before, has_after) = (before.is_some(), after.is_some());
        self.events.push(PendingEvent { event_type, has_before, has_after, revision, is_gone });
        self.records.extend(before.into_iter().chain(after));
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
            if self.fields.is_some() {
                self.originals.clone_from(&records);
            }
            self.batch = Some(self.webhooks.start_records(resource_type, records));
        }
        let Some(batch) = &mut self.batch else { return Poll::Ready(Ok(Vec::new())) };
        let Poll::Ready(converted) = batch.as_mut().poll(context) else { return Poll::Pending };
        self.batch = None;
        let (events, originals) = (std::mem::take(&mut self.events), std::mem::take(&mut self.originals));
        Poll::Ready(converted.map(|records| self.selected(events, records, &originals)))
    }

    /// Returns the events of the converted records, those that are selected.
    fn selected(
        &self,
        events: Vec<PendingEvent>,
        records: Vec<Record>,
        originals: &[Record],
    ) -> Vec<(EventHead, Record)> {
        let mut selected = Vec::with_capacity(events.len());
        let mut records = records.into_iter().enumerate();
        let has_fields = |found: &Option<(usize, Record)>| {
            let fields = self.fields.as_ref();
            found.as_ref().is_some_and(|(at, record)| {
                fields.is_none_or(|fields| fields.matches_converted(record, &originals[*at]))
            })
        };
        for event in events {
            let before = if event.has_before { records.next() } else { None };
            let after = if event.has_after { records.next() } else { None };
            let event_type = match &self.fields {
                None => Some(event.event_type),
                Some(_) => {
                    let is_there = event.event_type != WatchEventType::Deleted;
                    event_type(has_fields(&before), is_there && has_fields(&after))
                }
            };
            let Some(event_type) = event_type else { continue };
            let has_left = event_type == WatchEventType::Deleted && !event.is_gone;
            let shown = if has_left { before.or(after) } else { after };
            let revision = has_left.then_some(event.revision);
            let head = EventHead { word: event_word(event_type), revision };
            selected.extend(shown.map(|(_, record)| (head, record)));
        }
        selected
    }
}
