//! Migration from client-side apply, whose configuration is in an annotation.
//!
//! When `kubectl` switches to server-side apply, it takes over fields that are in the annotation and still in
//! the object without a conflict. The annotation is kept up to date for clients that read it.

use super::compare::compare;
use super::conflict::Conflicts;
use super::field_set::FieldSet;
use super::paths::{paths, validate};
use super::writer::ApplyContext;
use crate::json;
use crate::value::Value;

/// Annotation with the last configuration of client-side apply.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum bytes of all annotations of an object.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Removes conflicts on fields of client-side apply.
pub(super) fn without_client_side_conflicts(
    conflicts: Conflicts,
    live: &Value,
    writer: &ApplyContext<'_>,
) -> Conflicts {
    let Some(allowed) = applied_by_client(live, writer) else { return conflicts };
    Conflicts(conflicts.0.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect())
}

/// Fields that are in the annotation and still in the object.
fn applied_by_client(live: &Value, writer: &ApplyContext<'_>) -> Option<FieldSet> {
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

/// Updates the annotation, if the object has it. Removes it if the annotations would become too large.
pub(super) fn update_annotation(object: &mut Value, config: &Value) {
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

/// Configuration in the form of the annotation: without the annotation itself, keys sorted, with a newline.
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
