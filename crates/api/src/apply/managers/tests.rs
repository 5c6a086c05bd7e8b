//! Tests of `managedFields` entries.

use super::super::field_set::{FieldPath, FieldSet};
use super::*;

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn entry(
    manager: &str,
    operation: ManagedOperation,
    api_version: &str,
    seconds: Option<u32>,
    field: &str,
) -> Entry {
    Entry {
        manager: manager.into(),
        operation,
        api_version: api_version.into(),
        subresource: CompactString::default(),
        time: seconds.map(|seconds| compact_str::format_compact!("2026-01-01T00:00:{seconds:02}Z")),
        fields: FieldSet::from_paths(&[FieldPath::from_fields(&[field])]).into(),
    }
}

fn managers(entries: Vec<Entry>) -> Managers {
    let mut managers = Managers::default();
    entries.into_iter().for_each(|entry| managers.put(entry));
    managers
}

#[test]
fn entries_are_written_in_stored_order() {
    let stored = r#"[{"manager":"z","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}},{"manager":"a","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:02Z","fieldsType":"FieldsV1","fieldsV1":{}},{"manager":"none","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}},"subresource":"scale"},{"manager":"a","operation":"Update","apiVersion":"apps/v1","time":"2026-01-01T00:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}}},{"manager":"a","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}}},{"manager":"a","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}},"subresource":"status"},{"manager":"b","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}}}]"#;
    let Value::List(mut list) = value(stored) else { panic!() };
    list.reverse();
    let managers = Managers::from_value(&Value::List(list)).unwrap();
    assert_eq!(json::to_text(&managers.to_value()), stored);
}

#[test]
fn no_managers_are_stored_as_null() {
    assert_eq!(Managers::default().to_value(), Value::Null);
    assert!(Managers::from_value(&Value::Null).unwrap().is_empty());
    assert!(Managers::from_value(&value("[]")).unwrap().is_empty());
}

#[test]
fn invalid_entries_are_rejected() {
    for (stored, expected) in [
        (
            r#"[{"operation":"Patch","apiVersion":"v1","fieldsType":"FieldsV1"}]"#,
            "operation must be `Apply` or `Update`",
        ),
        (r#"[{"operation":"Apply","fieldsType":"FieldsV1"}]"#, "apiVersion must not be empty"),
        (r#"[{"operation":"Apply","apiVersion":"v1"}]"#, "missing fieldsType in managed fields entry 0"),
        (
            r#"[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV2"}]"#,
            r#"invalid fieldsType "FieldsV2" in managed fields entry 0"#,
        ),
        (
            r#"[{"operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"x":{}}}]"#,
            "error decoding set: parsing key as path element: key must be 2 characters long:",
        ),
    ] {
        assert_eq!(Managers::from_value(&value(stored)).unwrap_err().to_string(), expected);
    }
}

#[test]
fn identity_of_appliers_ignores_the_version() {
    let apply = |version| entry("m", ManagedOperation::Apply, version, None, "a");
    let update = |version| entry("m", ManagedOperation::Update, version, None, "a");
    assert_eq!(
        managers(vec![apply("v1"), apply("v2"), update("v1"), update("v2"), update("v1")]).entries().len(),
        3
    );
    assert_eq!(apply("v1").id().to_text(), r#"{"manager":"m","operation":"Apply"}"#);
    assert_eq!(update("v1").id().to_text(), r#"{"manager":"m","operation":"Update","apiVersion":"v1"}"#);
}

#[test]
fn oldest_update_entries_are_merged_beyond_the_bound() {
    let update =
        |at: u32| entry(&format!("m{at:02}"), ManagedOperation::Update, "v1", Some(at), &format!("f{at:02}"));
    let mut all =
        managers((0..10).map(update).chain([entry("x", ManagedOperation::Apply, "v1", None, "z")]).collect());
    let before = all.clone();
    all.merge_oldest();
    assert_eq!(all, before, "ten entries are within the bound");
    all.put(update(10));
    all.merge_oldest();
    let stored = all.to_value();
    let names: Vec<&str> = stored.as_list().unwrap().iter().map(|entry| entry.str_at(&["manager"])).collect();
    assert_eq!(
        names,
        ["x", "ancient-changes", "m02", "m03", "m04", "m05", "m06", "m07", "m08", "m09", "m10"]
    );
    let bucket = &stored.as_list().unwrap()[1];
    assert_eq!(bucket.str_at(&["time"]), "2026-01-01T00:00:01Z", "the later of the two");
    assert_eq!(bucket.get("fieldsV1"), Some(&Value::Raw(r#"{"f:f00":{},"f:f01":{}}"#.into())));
    all.put(update(11));
    all.merge_oldest();
    let stored = all.to_value();
    assert_eq!(
        stored.as_list().unwrap()[1].get("fieldsV1"),
        Some(&Value::Raw(r#"{"f:f00":{},"f:f01":{},"f:f02":{}}"#.into()))
    );
}

#[test]
fn update_entries_of_different_versions_are_not_merged() {
    let update =
        |at: u32| entry(&format!("m{at:02}"), ManagedOperation::Update, &format!("v{at}"), Some(at), "f");
    let mut all = managers((0..12).map(update).collect());
    all.merge_oldest();
    assert_eq!(all.entries().len(), 12);
}

#[test]
fn empty_list_or_single_empty_entry_is_a_reset() {
    for (text, expected) in [
        ("[]", true),
        ("[{}]", true),
        (r#"[{"manager":"","time":null}]"#, true),
        ("null", false),
        (r#"[{"manager":"a"}]"#, false),
        (r#"[{"fieldsV1":{}}]"#, false),
        ("[{},{}]", false),
    ] {
        assert_eq!(is_reset(&value(text)), expected, "{text}");
    }
}
