//! Conversion of Events between the core group and `events.k8s.io`.
//!
//! The forms differ in field names only. The stored form is that of the core group; conversion renames
//! fields, and decoding sorts them.

use compact_str::CompactString;

use crate::value::{Map, Value};

/// Field names in the core group and in `events.k8s.io`, where they differ.
pub const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an event of `events.k8s.io/v1` to the stored form.
pub(crate) fn to_core(event: &mut Value) {
    rename(event, "v1", |field| RENAMED.iter().find(|(_, events)| *events == field).map(|(core, _)| *core));
}

/// Converts a stored event to `events.k8s.io/v1`.
pub(crate) fn to_events(event: &mut Value) {
    rename(event, "events.k8s.io/v1", |field| {
        RENAMED.iter().find(|(core, _)| *core == field).map(|(_, events)| *events)
    });
}

fn rename(event: &mut Value, version: &str, new_name: impl Fn(&str) -> Option<&'static str>) {
    let Value::Map(map) = event else { return };
    let entries = std::mem::take(map).into_entries();
    let renamed = entries.into_iter().map(|(field, value)| match new_name(&field) {
        Some(name) => (CompactString::const_new(name), value),
        None => (field, value),
    });
    *map = renamed.collect::<Map>();
    if map.contains("apiVersion") {
        map.insert("apiVersion", version);
    }
}
