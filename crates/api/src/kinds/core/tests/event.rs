//! Validation of Events, in both groups.

use super::*;
use crate::kinds::core::event_convert::{to_core, to_events};

const MODERN: &str = "metadata: {namespace: web}, involvedObject: {namespace: web}, eventTime: '2026-01-01T00:00:00.000000Z', reportingComponent: a.b/c, reportingInstance: i, action: Did, reason: Because, type: Normal";

fn strict_faults(text: &str) -> Vec<String> {
    let mut errors = ErrorList::new();
    rules("events.k8s.io", "Event").unwrap().validate(&object("Event", text), &mut errors);
    texts(errors)
}

#[test]
fn legacy_events_have_few_requirements() {
    let mismatch = "does not match event.namespace";
    let (web, none) = (
        format!("involvedObject.namespace: Invalid value: \"web\": {mismatch}"),
        format!("involvedObject.namespace: Invalid value: \"\": {mismatch}"),
    );
    let modern = format!("{{{MODERN}}}");
    let long = format!("{{{MODERN}, message: {}}}", "x".repeat(1025));
    check_all(
        "Event",
        &[
            ("{metadata: {namespace: web}, involvedObject: {namespace: web}}", &[]),
            ("{metadata: {namespace: default}, involvedObject: {kind: Node}}", &[]),
            ("{metadata: {namespace: other}, involvedObject: {namespace: web}}", &[&web]),
            ("{metadata: {namespace: web}, involvedObject: {kind: Node}}", &[&none]),
            (&modern, &[]),
            (&long, &["message: Invalid value: \"\": can have at most 1024 characters"]),
            (
                "{metadata: {namespace: web}, eventTime: '2026-01-01T00:00:00.000000Z', reportingComponent: a}",
                &[
                    &none,
                    "reportingInstance: Required value",
                    "action: Required value",
                    "reason: Required value",
                ],
            ),
        ],
    );
    let faults = faults(
        "Event",
        "{metadata: {namespace: default}, eventTime: '2026-01-01T00:00:00.000000Z', reportingInstance: i, action: a, reason: r}",
    );
    assert_eq!(faults[0], "reportingComponent: Required value");
}

#[test]
fn events_group_is_strict() {
    assert!(strict_faults(&format!("{{{MODERN}}}")).is_empty());
    assert_eq!(
        strict_faults(&format!(
            "{{{MODERN}, count: 1, source: {{host: h}}, firstTimestamp: '2026-01-01T00:00:00Z', series: {{count: 1}}}}"
        )),
        [
            "series.count: Invalid value: \"\": should be at least 2",
            "series.lastObservedTime: Required value",
            "firstTimestamp: Invalid value: \"\": needs to be unset",
            "count: Invalid value: \"\": needs to be unset",
            "source: Invalid value: \"\": needs to be unset",
        ]
    );
    assert_eq!(
        strict_faults("{metadata: {namespace: web}, involvedObject: {namespace: web}}"),
        ["eventTime: Required value", "type: Invalid value: \"\": has invalid value: "]
    );
}

#[test]
fn only_the_series_of_an_event_is_mutable() {
    let old = object("Event", &format!("{{{MODERN}}}"));
    let rules = rules("events.k8s.io", "Event").unwrap();
    let check = |text: &str| {
        let mut errors = ErrorList::new();
        rules.validate_update(&object("Event", text), &old, &mut errors);
        texts(errors)
    };
    let series = "series: {count: 2, lastObservedTime: '2026-01-01T00:00:00.000000Z'}";
    assert!(check(&format!("{{{MODERN}, {series}}}")).is_empty());
    assert_eq!(
        check(&format!(
            "{{{}, message: m, related: {{kind: Pod}}}}",
            MODERN.replace("type: Normal", "type: Warning")
        )),
        [
            "message: Invalid value: \"m\": field is immutable",
            "type: Invalid value: \"Warning\": field is immutable",
            "related: Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"\",\"Name\":\"\",\"UID\":\"\",\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
        ]
    );
    let mut errors = ErrorList::new();
    let changed = object("Event", &format!("{{{MODERN}, message: m}}"));
    of("Event").validate_update(&changed, &old, &mut errors);
    assert!(errors.is_empty());
}

#[test]
fn conversion_between_event_groups_is_lossless() {
    let stored = object(
        "Event",
        &format!(
            "{{apiVersion: v1, kind: Event, {MODERN}, message: m, count: 3, source: {{component: s}}, firstTimestamp: '2026-01-01T00:00:00Z'}}"
        ),
    );
    let mut served = stored.clone();
    to_events(&mut served);
    let schema = builtin().kind("events.k8s.io", "v1", "Event").unwrap();
    let mut served = decode(served, schema, &[]).unwrap();
    assert!(served.strict.is_empty(), "{:?}", served.strict);
    assert_eq!(at(&served.value, &["apiVersion"]), r#""events.k8s.io/v1""#);
    assert_eq!(at(&served.value, &["note"]), r#""m""#);
    assert_eq!(at(&served.value, &["regarding"]), r#"{"namespace":"web"}"#);
    assert_eq!(at(&served.value, &["reportingController"]), r#""a.b/c""#);
    to_core(&mut served.value);
    let back = decode(served.value, builtin().kind("", "v1", "Event").unwrap(), &[]).unwrap();
    assert_eq!(back.value, stored);
    assert!(of("Event").fields(&stored).contains(&("source", "s".into())));
}
