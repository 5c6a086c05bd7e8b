//! Fields of a watch that its cursor does not filter by: those that a definition makes selectable.
//!
//! A cursor filters under a lock of the store, and an object may have to be decoded for its fields. So a watch filters
//! the events that its cursor has returned, and rests after as many bytes as a frame has.

use std::cell::Cell;
use std::sync::Arc;

use setpoint_store::{Record, WatchEvent};

use super::CHUNK_BYTES;
use crate::select::ServedFields;

/// Batches of converted objects between two rests.
const BATCHES_MAX: usize = 4;

/// Filter of one watch; it passes everything if the watch has no such fields.
pub(super) struct Narrowing {
    fields: Option<Arc<ServedFields>>,
    /// Bytes of the objects that were examined since the last rest.
    examined_bytes: Cell<usize>,
}

impl Narrowing {
    pub fn new(fields: Option<&Arc<ServedFields>>) -> Narrowing {
        Narrowing { fields: fields.cloned(), examined_bytes: Cell::new(0) }
    }

    /// The fields.
    pub fn fields(&self) -> Option<&Arc<ServedFields>> {
        self.fields.as_ref()
    }

    /// `true` once other watches should be polled before more objects are examined.
    pub fn is_due_to_rest(&self) -> bool {
        self.examined_bytes.get() >= CHUNK_BYTES
    }

    /// Starts to count again.
    pub fn resume(&self) {
        self.examined_bytes.set(0);
    }

    /// `true` if the object passes.
    pub fn matches(&self, record: &Record) -> bool {
        self.fields.as_ref().is_none_or(|fields| {
            self.count(record);
            fields.matches(record)
        })
    }

    /// Returns the event as seen through the filter.
    pub fn narrowed(&self, event: WatchEvent) -> Option<WatchEvent> {
        let Some(fields) = &self.fields else { return Some(event) };
        self.count(&event.after);
        if let Some(before) = &event.before {
            self.count(before);
        }
        fields.narrowed(event)
    }

    /// Counts a batch of converted objects.
    pub fn count_batch(&self) {
        self.examined_bytes.set(self.examined_bytes.get() + CHUNK_BYTES / BATCHES_MAX);
    }

    fn count(&self, record: &Record) {
        self.examined_bytes.set(self.examined_bytes.get() + record.value_len());
    }
}
