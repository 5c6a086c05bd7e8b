//! Printer of Events, in the form of either group that serves them.

use crate::printing::cell::{int, name, or, since, time};
use crate::printing::{Cell, Column, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(in crate::printing) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "Event").then_some(&EVENT)
}

pub(super) static EVENT: Printer = Printer::new(
    &[
        Column::text("Last Seen", field!("core.v1.Event", "lastTimestamp")),
        Column::text("Type", field!("core.v1.Event", "type")),
        Column::text("Reason", field!("core.v1.Event", "reason")),
        Column::text("Object", field!("core.v1.Event", "involvedObject")),
        Column::wide("Subobject", field!("core.v1.ObjectReference", "fieldPath")),
        Column::wide("Source", field!("core.v1.Event", "source")),
        Column::text("Message", field!("core.v1.Event", "message")),
        Column::wide("First Seen", field!("core.v1.Event", "firstTimestamp")),
        Column::wide("Count", field!("core.v1.Event", "count")),
        Column { priority: 1, ..NAME },
    ],
    event,
);

fn event(object: &Value, now: Time) -> Vec<Cell> {
    // The newer group has other names for these fields.
    let field = |old: &str, new: &str| object.get(old).or_else(|| object.get(new));
    let time_in = |old: &str, new: &str| field(old, new).filter(|value| time(Some(*value)).is_some());
    let about = field("involvedObject", "regarding").unwrap_or(&Value::Null);
    let first = time_in("firstTimestamp", "deprecatedFirstTimestamp").or_else(|| object.get("eventTime"));
    let last = time_in("lastTimestamp", "deprecatedLastTimestamp").or(first);
    let count = field("count", "deprecatedCount").and_then(Value::as_i64).unwrap_or(0);
    let (last, count) = match object.get("series") {
        Some(series @ Value::Map(_)) => (series.get("lastObservedTime"), int(series, &["count"])),
        _ => (last, if count == 0 { 1 } else { count }),
    };
    let kind = about.str_at(&["kind"]).to_lowercase();
    let target = match about.str_at(&["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let message = field("message", "note").and_then(Value::as_str).unwrap_or_default().trim();
    cells![
        since(last, now),
        object.str_at(&["type"]),
        object.str_at(&["reason"]),
        target,
        about.str_at(&["fieldPath"]),
        source(object),
        message,
        since(first, now),
        count,
        name(object),
    ]
}

fn source(object: &Value) -> String {
    let source = object.get("source").or_else(|| object.get("deprecatedSource")).unwrap_or(&Value::Null);
    let reporter = or(object.str_at(&["reportingComponent"]), object.str_at(&["reportingController"]));
    let component = or(source.str_at(&["component"]), reporter);
    match or(source.str_at(&["host"]), object.str_at(&["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}
