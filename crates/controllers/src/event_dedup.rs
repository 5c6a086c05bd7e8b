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
    fn identity(event: &EventRecord) -> (&Key, &str, &str) {
        (&event.involved_object.key, event.reason, &event.message)
    }
    let emitted: BTreeSet<_> = before.iter().map(identity).collect();
    all.iter().filter(|event| !emitted.contains(&identity(event))).cloned().collect()
}
