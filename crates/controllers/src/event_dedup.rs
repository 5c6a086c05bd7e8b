//! Deduplication of Events: an Event is not repeated while its cause holds.
//!
//! A planner keeps the Events of the last plan in its memo. If the memo is lost, an Event is emitted twice,
//! which is harmless.

use std::collections::BTreeSet;

use setpoint_api::Key;
use setpoint_reconcile::EventRecord;

/// Events of `all` that are not in `before`.
#[must_use]
pub fn new_events(all: &[EventRecord], before: &[EventRecord]) -> Vec<EventRecord> {
    fn identity(note: &EventRecord) -> (&Key, &str, &str) {
        (&note.involved_object.key, note.reason, &note.message)
    }
    let known: BTreeSet<_> = before.iter().map(identity).collect();
    all.iter().filter(|note| !known.contains(&identity(note))).cloned().collect()
}
