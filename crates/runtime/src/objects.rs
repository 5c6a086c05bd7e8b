//! Conversion of stored objects and changes for the loop. The loop shares the bytes of the store.

use setpoint_api::Key;
use setpoint_reconcile::object::{EncodedObject, ObjectBytes};
use setpoint_reconcile::{Object, ObservedChange};
use setpoint_store::{Record, WatchEvent};

/// Returns a change of the store as the loop observes it; `None` if the object cannot be read.
#[must_use]
pub fn observed(key: Key, event: &WatchEvent) -> Option<ObservedChange> {
    let record = &event.after;
    let by = record.attributes().reconciler().map(Into::into);
    let after = if record.is_tombstone() { None } else { Some(object(key.clone(), record)?) };
    Some(ObservedChange { key, revision: record.revision(), after, reconciler: by })
}

/// Returns a stored object as planners see it; `None` if it cannot be read.
#[must_use]
pub fn object(key: Key, record: &Record) -> Option<Object> {
    let (revision, time, kept) = (record.revision(), record.time(), SharedBytes(record.clone()));
    // Few planners read Events, and there are many.
    if key.resource().as_str() == "events" {
        return Some(Object::lazy(key, revision, time, kept));
    }
    Object::read(key, revision, time, kept).ok()
}

/// Bytes that the loop shares with the store.
struct SharedBytes(Record);

impl EncodedObject for SharedBytes {
    fn bytes(&self) -> ObjectBytes<'_> {
        ObjectBytes::Shared(self.0.value())
    }
}
