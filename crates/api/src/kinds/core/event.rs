//! Event: a report about an object.
//!
//! Both groups serve the same stored objects. The rules see the stored form, that of the core group, in
//! requests to either group; the group of the request decides their strictness.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::{Rules, SelectableFields};
use crate::metadata;
use crate::names::NameRule;
use crate::names::key::label_key;
use crate::quote::json_string;
use crate::rfc3339::{self, UNSET};
use crate::value::Value;

const LENGTH_MAX: usize = 128;
const NOTE_LENGTH_MAX: usize = 1024;

const CORE_FIELDS: FieldLabels<'static> = FieldLabels {
    known: &[
        ("involvedObject.kind", "involvedObject.kind"),
        ("involvedObject.namespace", "involvedObject.namespace"),
        ("involvedObject.name", "involvedObject.name"),
        ("involvedObject.uid", "involvedObject.uid"),
        ("involvedObject.apiVersion", "involvedObject.apiVersion"),
        ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
        ("involvedObject.fieldPath", "involvedObject.fieldPath"),
        ("reason", "reason"),
        ("reportingComponent", "reportingComponent"),
        ("source", "source"),
        ("type", "type"),
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.name", "metadata.name"),
    ],
    unsupported: UnsupportedLabel::Plain,
};

const EVENTS_FIELDS: FieldLabels<'static> = FieldLabels {
    known: &[
        ("reason", "reason"),
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.uid", "involvedObject.uid"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("reportingController", "reportingComponent"),
        ("type", "type"),
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.name", "metadata.name"),
    ],
    unsupported: UnsupportedLabel::Plain,
};

/// Rules of Event.
pub struct Event {
    /// `true` for requests to `events.k8s.io`, the stricter group.
    strict: bool,
}

/// Rules for requests to the core group.
pub static CORE: Event = Event { strict: false };
/// Rules for requests to `events.k8s.io`.
pub static EVENTS: Event = Event { strict: true };

impl Rules for Event {
    fn name_rule(&self) -> NameRule {
        if self.strict { NameRule::Subdomain } else { NameRule::PathSegment }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.validate_legacy(object, errors);
        if self.strict {
            validate_strict(object, errors);
        }
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if self.strict {
            if new.get("series") != old.get("series") {
                check_series(errors, new);
            }
            check_unchanged(errors, new, old);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_legacy(new, errors);
        self.validate_transition(new, old, errors);
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        if self.strict { &EVENTS_FIELDS } else { &CORE_FIELDS }
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let involved = |field: &str| object.str_at(&["involvedObject", field]).into();
        let reporter = object.str_at(&["reportingComponent"]);
        let source = match object.str_at(&["source", "component"]) {
            "" => reporter,
            component => component,
        };
        vec![
            ("involvedObject.kind", involved("kind")),
            ("involvedObject.namespace", involved("namespace")),
            ("involvedObject.name", involved("name")),
            ("involvedObject.uid", involved("uid")),
            ("involvedObject.apiVersion", involved("apiVersion")),
            ("involvedObject.resourceVersion", involved("resourceVersion")),
            ("involvedObject.fieldPath", involved("fieldPath")),
            ("reason", object.str_at(&["reason"]).into()),
            ("reportingComponent", reporter.into()),
            ("source", source.into()),
            ("type", object.str_at(&["type"]).into()),
        ]
    }
}

impl Event {
    /// Validation in both groups. Legacy events have no `eventTime`, and few requirements.
    fn validate_legacy(&self, object: &Value, errors: &mut ErrorList) {
        let namespace = metadata::namespace(object);
        let about = object.str_at(&["involvedObject", "namespace"]);
        let is_old = is_unset(object.get("eventTime"));
        let fits = match (is_old, about) {
            (true, "") => matches!(namespace, "" | "default"),
            (true, about) => about == namespace,
            (false, "") => matches!(namespace, "default" | "kube-system"),
            (false, _) => true,
        };
        if !fits {
            let involved = Path::root("involvedObject");
            let detail = "does not match event.namespace";
            errors.push(FieldError::invalid(&involved.child("namespace"), about, detail));
        }
        if is_old {
            return;
        }
        let reporter = object.str_at(&["reportingComponent"]);
        let reporter_field = if self.strict { "reportingController" } else { "reportingComponent" };
        if reporter.is_empty() {
            errors.push(FieldError::required(&Path::root(reporter_field), ""));
        }
        errors.push_invalid(&Path::root(reporter_field), reporter, label_key(reporter));
        for field in ["reportingInstance", "action", "reason"] {
            if object.str_at(&[field]).is_empty() {
                errors.push(FieldError::required(&Path::root(field), ""));
            }
            check_length(errors, object, field, LENGTH_MAX);
        }
        check_length(errors, object, "message", NOTE_LENGTH_MAX);
    }
}

fn is_unset(time: Option<&Value>) -> bool {
    let text = time.and_then(Value::as_str).unwrap_or_default();
    text.is_empty() || rfc3339::parse(text) == Ok(UNSET)
}

fn check_length(errors: &mut ErrorList, object: &Value, field: &str, max: usize) {
    if object.str_at(&[field]).len() > max {
        let detail = format!("can have at most {max} characters");
        errors.push(FieldError::invalid(&Path::root(field), "", detail));
    }
}

fn check_series(errors: &mut ErrorList, object: &Value) {
    let Some(series) = object.get("series").filter(|series| !series.is_null()) else { return };
    if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(&Path::root("series.count"), "", "should be at least 2"));
    }
    if is_unset(series.get("lastObservedTime")) {
        errors.push(FieldError::required(&Path::root("series.lastObservedTime"), ""));
    }
}

/// Validates new events of the stricter group.
fn validate_strict(object: &Value, errors: &mut ErrorList) {
    check_series(errors, object);
    if is_unset(object.get("eventTime")) {
        errors.push(FieldError::required(&Path::root("eventTime"), ""));
    }
    let kind = object.str_at(&["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        let detail = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid(&Path::root("type"), "", detail));
    }
    let source = object.get("source");
    let has_source = source.is_some_and(|source| {
        !source.str_at(&["component"]).is_empty() || !source.str_at(&["host"]).is_empty()
    });
    for (field, is_set) in [
        ("firstTimestamp", !is_unset(object.get("firstTimestamp"))),
        ("lastTimestamp", !is_unset(object.get("lastTimestamp"))),
        ("count", object.get("count").and_then(Value::as_i64).unwrap_or(0) != 0),
        ("source", has_source),
    ] {
        if is_set {
            errors.push(FieldError::invalid(&Path::root(field), "", "needs to be unset"));
        }
    }
}

/// Formats a value for comparison and for messages; an absent value equals an empty one.
type Shown = fn(Option<&Value>) -> BadValue;

/// Rejects any change except of the series.
fn check_unchanged(errors: &mut ErrorList, new: &Value, old: &Value) {
    let fields: [(&str, &str, Shown); 13] = [
        ("involvedObject", "involvedObject", shown_reference),
        ("reason", "reason", shown_text),
        ("message", "message", shown_text),
        ("source", "source", shown_source),
        ("firstTimestamp", "firstTimestamp", shown_time),
        ("lastTimestamp", "lastTimestamp", shown_time),
        ("count", "count", shown_count),
        ("type", "type", shown_text),
        ("eventTime", "eventTime", shown_time),
        ("action", "action", shown_text),
        ("related", "related", shown_pointer),
        ("reportingComponent", "reportingController", shown_text),
        ("reportingInstance", "reportingInstance", shown_text),
    ];
    for (field, called, shown) in fields {
        let (is, was) = (shown(new.get(field)), shown(old.get(field)));
        if is != was {
            errors.push(FieldError::invalid(&Path::root(called), is, "field is immutable"));
        }
    }
}

fn shown_text(value: Option<&Value>) -> BadValue {
    value.and_then(Value::as_str).unwrap_or_default().into()
}

fn shown_count(value: Option<&Value>) -> BadValue {
    value.and_then(Value::as_i64).unwrap_or(0).into()
}

fn shown_time(value: Option<&Value>) -> BadValue {
    if is_unset(value) { BadValue::Null } else { BadValue::json_string(shown_str(value)) }
}

fn shown_str(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn shown_pointer(value: Option<&Value>) -> BadValue {
    match value {
        None | Some(Value::Null) => BadValue::Null,
        some => shown_reference(some),
    }
}

/// A reference in messages, with the Go names of its fields.
fn shown_reference(value: Option<&Value>) -> BadValue {
    shown_fields(
        value,
        &[
            ("Kind", "kind"),
            ("Namespace", "namespace"),
            ("Name", "name"),
            ("UID", "uid"),
            ("APIVersion", "apiVersion"),
            ("ResourceVersion", "resourceVersion"),
            ("FieldPath", "fieldPath"),
        ],
    )
}

fn shown_source(value: Option<&Value>) -> BadValue {
    shown_fields(value, &[("Component", "component"), ("Host", "host")])
}

fn shown_fields(value: Option<&Value>, fields: &[(&str, &str)]) -> BadValue {
    let text = |field: &str| json_string(shown_str(value.and_then(|value| value.get(field))));
    let fields: Vec<String> =
        fields.iter().map(|(called, field)| format!("\"{called}\":{}", text(field))).collect();
    BadValue::Json(format!("{{{}}}", fields.join(",")).into())
}
