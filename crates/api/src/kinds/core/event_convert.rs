//! Events between the two groups that serve them.
//!
//! Both forms say the same under other names. The stored form is that of the core group; what is served for
//! `events.k8s.io` is made by renaming, and decoding brings the fields in order again.

use compact_str::CompactString;

use crate::value::{Map, Value};

/// What a field is called in the core group and in `events.k8s.io`, where the names differ.
pub const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Turns an event of `events.k8s.io/v1` into the stored form.
pub fn to_core(event: &mut Value) {
    rename(event, "v1", |field| RENAMED.iter().find(|(_, events)| *events == field).map(|(core, _)| *core));
}

/// Turns a stored event into that of `events.k8s.io/v1`.
pub fn to_events(event: &mut Value) {
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
