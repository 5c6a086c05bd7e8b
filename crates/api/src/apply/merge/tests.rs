//! Tests of merge and removal.

use super::*;
use crate::json;
use crate::schema::{Struct, builtin};

fn pod() -> Struct<'static> {
    builtin().kind("", "v1", "Pod").unwrap()
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn check(live: &str, config: &str, expected: &str) {
    let merged = merge(&value(live), &value(config), pod());
    assert_eq!(json::to_text(&merged), expected, "{live} and {config}");
}

/// Asserts the order of containers after a merge.
fn order(live: &str, config: &str, expected: &str) {
    let list = |names: &str| {
        let items: Vec<String> = names.chars().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
        format!(r#"{{"spec":{{"containers":[{}]}}}}"#, items.join(","))
    };
    check(&list(live), &list(config), &list(expected));
}

#[test]
fn merge_takes_leaves_from_the_configuration_and_removes_nothing() {
    check(
        r#"{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"hostname":"x"}}"#,
        r#"{"metadata":{"labels":{"b":"3","c":"4"}},"spec":{"subdomain":"y","hostname":null}}"#,
        r#"{"metadata":{"labels":{"a":"1","b":"3","c":"4"}},"spec":{"hostname":null,"subdomain":"y"}}"#,
    );
}

#[test]
fn atomic_values_are_replaced() {
    check(
        r#"{"spec":{"nodeSelector":{"a":"1"},"tolerations":[{"key":"a"}]}}"#,
        r#"{"spec":{"nodeSelector":{"b":"2"},"tolerations":null}}"#,
        r#"{"spec":{"nodeSelector":{"b":"2"},"tolerations":null}}"#,
    );
}

#[test]
fn empty_and_null_do_not_clear_granular_values() {
    for nothing in [
        r#"{"spec":{"containers":null},"metadata":{"labels":null}}"#,
        r#"{"spec":{"containers":[]},"metadata":{"labels":{}}}"#,
    ] {
        let live = r#"{"metadata":{"labels":{"a":"1"}},"spec":{"containers":[{"name":"a"}]}}"#;
        check(live, nothing, live);
    }
    check(
        r#"{"metadata":{"labels":null}}"#,
        r#"{"metadata":{"labels":{}}}"#,
        r#"{"metadata":{"labels":{}}}"#,
    );
}

#[test]
fn items_are_merged_by_key() {
    check(
        r#"{"spec":{"containers":[{"name":"a","image":"x","ports":[{"containerPort":80,"protocol":"TCP","name":"http"}]}]}}"#,
        r#"{"spec":{"containers":[{"name":"b"},{"name":"a","ports":[{"containerPort":80,"name":"web"},{"containerPort":80,"protocol":"UDP"}]}]}}"#,
        r#"{"spec":{"containers":[{"name":"b"},{"name":"a","image":"x","ports":[{"containerPort":80,"protocol":"TCP","name":"web"},{"containerPort":80,"protocol":"UDP"}]}]}}"#,
    );
}

#[test]
fn shared_items_take_the_order_of_the_configuration() {
    order("abc", "abc", "abc");
    order("abc", "cba", "cba");
    order("abc", "b", "abc");
    order("abc", "dbe", "adbce");
    order("ab", "cd", "abcd");
    order("abc", "ca", "bca");
    order("", "ba", "ba");
    order("abcdefghij", "jihgfedcba", "jihgfedcba");
    order("abcdefghijk", "kxa", "bcdefghijkxa");
}

#[test]
fn items_with_duplicate_keys_are_not_merged() {
    check(
        r#"{"spec":{"containers":[{"name":"a","image":"x"},{"name":"a","image":"y"},{"name":"b"}]}}"#,
        r#"{"spec":{"containers":[{"name":"a","command":["c"]}]}}"#,
        r#"{"spec":{"containers":[{"name":"a","command":["c"]},{"name":"b"}]}}"#,
    );
    let live = r#"{"spec":{"containers":[{"name":"a","image":"x"},{"name":"a"}]}}"#;
    check(
        live,
        r#"{"spec":{"hostname":"h"}}"#,
        r#"{"spec":{"containers":[{"name":"a","image":"x"},{"name":"a"}],"hostname":"h"}}"#,
    );
}

#[test]
fn managed_fields_are_not_merged() {
    check(
        r#"{"metadata":{"name":"a","managedFields":[{}]}}"#,
        r#"{"metadata":{"name":"a"}}"#,
        r#"{"metadata":{"name":"a"}}"#,
    );
}

#[test]
fn removal_leaves_null_for_emptied_values() {
    let mut object = value(
        r#"{"metadata":{"labels":{"a":"1"},"finalizers":["x","y"]},"spec":{"hostname":"h","containers":[{"name":"a","image":"x"},{"name":"b","image":"y"}]}}"#,
    );
    let paths = FieldSet::from_value(&value(
        r#"{"f:metadata":{"f:labels":{"f:a":{}},"f:finalizers":{"v:\"x\"":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{},"k:{\"name\":\"b\"}":{"f:image":{}}},"f:absent":{"f:x":{}}}}"#,
    ))
    .unwrap();
    remove(&mut object, &paths, pod());
    assert_eq!(
        json::to_text(&object),
        r#"{"metadata":{"labels":null,"finalizers":["y"]},"spec":{"hostname":"h","containers":[{"name":"b"}]}}"#
    );
}
