//! Tests of field ownership after updates.

use super::super::filter::Filter;
use super::super::writer::{OneVersion, manager_name};
use super::*;
use crate::decode::decode;
use crate::json;
use crate::schema::{Struct, builtin};
use crate::time::Time;

fn deployment() -> Struct<'static> {
    builtin().kind("apps", "v1", "Deployment").unwrap()
}

fn object(text: &str) -> Value {
    decode(json::parse(text.as_bytes()).unwrap(), deployment(), &[]).unwrap().value
}

/// Updates by `manager` at a second, through a subresource.
fn write(live: Option<&Value>, new: &Value, manager: &str, at: i64, subresource: &str) -> Updated {
    let filter =
        Filter::exclude(if subresource == "status" { &["spec", "metadata.labels"] } else { &["status"] });
    let versions = OneVersion { api_version: "apps/v1", of: deployment().into(), filter: Some(&filter) };
    let writer = ApplyContext {
        versions: &versions,
        api_version: "apps/v1",
        of: deployment().into(),
        subresource,
        manager,
        now: Time::from_seconds(at),
    };
    update(&writer, live, new)
}

/// The stored object, with UID and managers.
fn stored(mut object: Value, managed: Value) -> Value {
    let metadata = object.ensure_map("metadata");
    metadata.insert("uid", "u");
    metadata.insert("managedFields", managed);
    object
}

fn entries(managed: &Value) -> Vec<(String, String, String)> {
    let row = |entry: &Value| {
        let text = |name| entry.str_at(&[name]).to_owned();
        let fields = json::to_text(entry.get("fieldsV1").unwrap());
        (text("manager") + text("subresource").as_str(), text("time"), fields)
    };
    managed.as_list().map(|list| list.iter().map(row).collect()).unwrap_or_default()
}

/// Paths that an update changed.
fn changed(updated: &Updated) -> &Comparison {
    updated.changed.as_ref().unwrap()
}

const ONE: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"l":"1"}},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"replicas":1}}"#;

#[test]
fn create_owns_fields_that_differ_from_the_zero_object() {
    let created = write(None, &object(ONE), "", 0, "");
    let fields = r#"{"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{}}}}}}}"#;
    assert_eq!(
        entries(&created.managed),
        [("unknown".to_owned(), "1970-01-01T00:00:00Z".to_owned(), fields.to_owned())]
    );
    assert_eq!(created.changed, None, "a create has no comparison");
}

#[test]
fn update_owns_only_changed_fields() {
    let live = stored(object(ONE), write(None, &object(ONE), "a", 0, "").managed);
    let mut new = live.clone();
    *new.at_mut(&["spec", "replicas"]).unwrap() = 2.into();
    new.ensure_map("metadata").remove("labels");
    let updated = write(Some(&live), &new, "b", 5, "");
    let rows = entries(&updated.managed);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].0.as_str(), rows[0].1.as_str()), ("a", "1970-01-01T00:00:00Z"));
    assert!(!rows[0].2.contains("replicas") && !rows[0].2.contains("f:l\""), "{}", rows[0].2);
    let own =
        ("b".to_owned(), "1970-01-01T00:00:05Z".to_owned(), r#"{"f:spec":{"f:replicas":{}}}"#.to_owned());
    assert_eq!(rows[1], own);
    let shown = |set: &super::super::field_set::FieldSet| {
        set.paths().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown(&changed(&updated).modified), [".spec.replicas"]);
    assert_eq!(shown(&changed(&updated).removed), [".metadata.labels", ".metadata.labels.l"]);
}

#[test]
fn no_op_update_keeps_managers_and_times() {
    let live = stored(object(ONE), write(None, &object(ONE), "a", 0, "").managed);
    let updated = write(Some(&live), &live, "b", 5, "");
    assert_eq!(Some(&updated.managed), live.at(&["metadata", "managedFields"]));
    assert!(changed(&updated).is_same());
}

#[test]
fn manager_has_one_entry_per_subresource() {
    let live = stored(object(ONE), write(None, &object(ONE), "a", 0, "").managed);
    let mut new = live.clone();
    *new.at_mut(&["status", "replicas"]).unwrap() = 2.into();
    *new.at_mut(&["spec", "replicas"]).unwrap() = 7.into();
    let updated = write(Some(&live), &new, "a", 5, "status");
    let rows = entries(&updated.managed);
    assert_eq!(rows[1].0, "astatus");
    assert_eq!(rows[1].2, r#"{"f:status":{"f:replicas":{}}}"#, "a status update cannot own the spec");
    assert_eq!(changed(&updated).modified.len(), 1);
}

#[test]
fn managed_fields_of_the_request_are_used_if_valid() {
    let live = stored(object(ONE), write(None, &object(ONE), "a", 0, "").managed);
    let sent = |text: &str| {
        let mut new = live.clone();
        new.ensure_map("metadata").insert("managedFields", json::parse(text.as_bytes()).unwrap());
        write(Some(&live), &new, "b", 5, "").managed
    };
    let other = r#"[{"manager":"x","operation":"Update","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#;
    assert_eq!(json::to_text(&sent(other)), other);
    let before = live.at(&["metadata", "managedFields"]).unwrap();
    assert_eq!(sent("null"), *before);
    assert_eq!(sent(r#"[{"manager":"x","operation":"Patch"}]"#), *before);
    assert_eq!(sent("[{}]"), Value::Null, "a single empty entry resets ownership");
}

#[test]
fn reset_object_is_untracked_until_the_next_apply() {
    let live = stored(object(ONE), Value::Null);
    let mut new = live.clone();
    *new.at_mut(&["spec", "replicas"]).unwrap() = 2.into();
    let updated = write(Some(&live), &new, "b", 5, "");
    assert_eq!(updated.managed, Value::Null);
    assert_eq!(changed(&updated).modified.len(), 1, "changes are reported even if ownership is not tracked");
}

#[test]
fn entries_in_removed_versions_are_dropped() {
    let managed = r#"[{"manager":"x","operation":"Update","apiVersion":"apps/v1beta1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#;
    let live = stored(object(ONE), json::parse(managed.as_bytes()).unwrap());
    assert_eq!(write(Some(&live), &live, "b", 5, "").managed, Value::Null);
}

#[test]
fn times_are_kept_if_nothing_else_changed() {
    let owners = |time: &str, manager: &str| {
        let text = format!(
            r#"[{{"manager":"{manager}","operation":"Apply","apiVersion":"apps/v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{}}}}]"#
        );
        json::parse(text.as_bytes()).unwrap()
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    let live = stored(object(ONE), owners(old, "a"));
    let mut same = stored(object(ONE), owners(new, "a"));
    keep_times(&live, &mut same);
    assert_eq!(same, live);
    for mut other in [
        stored(object(&ONE.replace("\"l\"", "\"m\"")), owners(new, "a")),
        stored(object(ONE), owners(new, "b")),
    ] {
        let before = other.clone();
        keep_times(&live, &mut other);
        assert_eq!(other, before);
    }
}

#[test]
fn manager_without_a_name_is_named_by_its_user_agent() {
    assert_eq!(manager_name("me", "kubectl/v1.32 (linux)"), "me");
    assert_eq!(manager_name("", "kubectl/v1.32 (linux)"), "kubectl");
    assert_eq!(manager_name("", "a\u{7}b"), "ab");
    assert_eq!(manager_name("", &"é".repeat(100)).len(), 128);
    assert_eq!(manager_name("", ""), "");
}
