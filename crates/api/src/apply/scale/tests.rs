//! Tests of managers of the `scale` subresource.

use super::*;
use crate::json;
use crate::value::Value;

fn managers(text: &str) -> Managers {
    let mut list = json::parse(text.as_bytes()).unwrap();
    for entry in list.as_list_mut().unwrap() {
        entry.make_map().insert("fieldsType", "FieldsV1");
    }
    Managers::from_value(&list).unwrap()
}

fn paths() -> Vec<(&'static str, Option<FieldPath>)> {
    vec![("apps/v1", Some(FieldPath::from_fields(&["spec", "replicas"]))), ("apps/v2", None)]
}

const PARENT: &str = r#"[{"manager":"test","operation":"Apply","apiVersion":"apps/v1","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{},"f:selector":{}}}},{"manager":"other","operation":"Update","apiVersion":"apps/v1","fieldsV1":{"f:spec":{"f:selector":{}}}},{"manager":"old","operation":"Update","apiVersion":"apps/v0","fieldsV1":{"f:spec":{"f:replicas":{}}}},{"manager":"new","operation":"Update","apiVersion":"apps/v2","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#;

fn shown(managers: &Managers) -> Vec<(String, String, String)> {
    let value = managers.to_value();
    let row = |entry: &Value| {
        let text = |name| entry.str_at(&[name]).to_owned();
        let fields = json::to_text(entry.get("fieldsV1").unwrap());
        (text("manager") + text("subresource").as_str(), text("apiVersion") + text("time").as_str(), fields)
    };
    value.as_list().map(|list| list.iter().map(row).collect()).unwrap_or_default()
}

fn row(manager: &str, version: &str, fields: &str) -> (String, String, String) {
    (manager.to_owned(), version.to_owned(), fields.to_owned())
}

#[test]
fn scale_has_the_managers_of_the_replicas() {
    let scale = to_scale(&managers(PARENT), &paths());
    assert_eq!(
        shown(&scale),
        [row("test", "autoscaling/v12026-01-01T00:00:00Z", r#"{"f:spec":{"f:replicas":{}}}"#)]
    );
}

#[test]
fn new_owner_of_scale_replicas_owns_those_of_the_parent() {
    for operation in ["Apply", "Update"] {
        let scale = managers(&format!(
            r#"[{{"manager":"test","operation":"{operation}","apiVersion":"autoscaling/v1","time":"2026-01-01T00:00:09Z","fieldsV1":{{"f:spec":{{"f:replicas":{{}}}}}},"subresource":"scale"}}]"#
        ));
        let parent = to_parent(&managers(PARENT), &scale, "apps/v1", &paths());
        let found = shown(&parent);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.contains(&row(
            "test",
            "apps/v12026-01-01T00:00:00Z",
            r#"{"f:spec":{"f:selector":{}}}"#
        )));
        assert!(found.contains(&row("testscale", "apps/v1", r#"{"f:spec":{"f:replicas":{}}}"#)));
        assert!(found.contains(&row("other", "apps/v1", r#"{"f:spec":{"f:selector":{}}}"#)));
        assert!(found.contains(&row("new", "apps/v2", r#"{"f:spec":{"f:replicas":{}}}"#)));
    }
}

#[test]
fn unchanged_scale_keeps_the_managers() {
    let parent = managers(
        r#"[{"manager":"a","operation":"Apply","apiVersion":"apps/v1","fieldsV1":{"f:spec":{"f:replicas":{},"f:selector":{}}}},{"manager":"b","operation":"Update","apiVersion":"apps/v1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#,
    );
    let scale = to_scale(&parent, &paths());
    assert_eq!(shown(&to_parent(&parent, &scale, "apps/v1", &paths())), shown(&parent));
}

#[test]
fn manager_without_remaining_fields_is_removed() {
    let parent = managers(
        r#"[{"manager":"a","operation":"Apply","apiVersion":"apps/v1","fieldsV1":{"f:spec":{"f:replicas":{}}}}]"#,
    );
    let scale = managers(
        r#"[{"manager":"b","operation":"Update","apiVersion":"autoscaling/v1","fieldsV1":{"f:spec":{"f:replicas":{}}},"subresource":"scale"},{"manager":"c","operation":"Update","apiVersion":"autoscaling/v1","fieldsV1":{"f:status":{"f:replicas":{}}},"subresource":"scale"}]"#,
    );
    let found = to_parent(&parent, &scale, "apps/v1", &paths());
    assert_eq!(shown(&found), [row("bscale", "apps/v1", r#"{"f:spec":{"f:replicas":{}}}"#)]);
}
