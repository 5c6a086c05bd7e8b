//! Objects that clients have applied by themselves, with the configuration in an annotation.
//!
//! When `kubectl` turns to the server, what the annotation says and the object still has may be taken from whoever
//! owns it, and the annotation is kept up to date for clients that go on reading it.

use super::compare::compare;
use super::conflict::Conflicts;
use super::field_set::FieldSet;
use super::paths::{paths, validate};
use super::writer::Writer;
use crate::json;
use crate::value::Value;

/// The annotation with the configuration that a client applied.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How many bytes all annotations of an object can have together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The conflicts that remain when what was applied by the client may be taken.
pub(super) fn conflicts_left(conflicts: Conflicts, live: &Value, writer: &Writer<'_>) -> Conflicts {
    let Some(allowed) = applied_by_client(live, writer) else { return conflicts };
    Conflicts(conflicts.0.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect())
}

/// What the annotation says and the object still has.
fn applied_by_client(live: &Value, writer: &Writer<'_>) -> Option<FieldSet> {
    let text = live.str_at(&["metadata", "annotations", LAST_APPLIED]);
    let config = json::parse(text.as_bytes()).ok()?;
    if config.str_at(&["apiVersion"]) != writer.api_version || config.str_at(&["kind"]) != writer.of.name() {
        return None;
    }
    validate(&config, writer.of).ok()?;
    validate(live, writer.of).ok()?;
    let differs = compare(&config, live, writer.of);
    let mut fields = paths(&config, writer.of);
    fields.subtract(&differs.modified);
    fields.subtract(&differs.added);
    fields.subtract(&differs.removed);
    Some(fields)
}

/// Brings the annotation up to date, if the object has it. Where it would make the annotations too large, it goes.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    let Some(annotations) = object.at_mut(&["metadata", "annotations"]).and_then(Value::as_map_mut) else {
        return;
    };
    if annotations.get_str(LAST_APPLIED).unwrap_or_default().is_empty() {
        return;
    }
    annotations.insert(LAST_APPLIED, text_of(config));
    let size = |(key, value): (&str, &Value)| key.len() + value.as_str().unwrap_or_default().len();
    if annotations.iter().map(size).sum::<usize>() > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}

/// A configuration as the annotation has it: without itself, keys in order, a line of its own.
fn text_of(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(annotations) = config.at_mut(&["metadata", "annotations"]).and_then(Value::as_map_mut) {
        annotations.remove(LAST_APPLIED);
    }
    config.sort_fields();
    let mut text = json::to_text(&config);
    text.push('\n');
    text
}
