//! Merge types of built-in and custom kinds.

use super::*;
use crate::apply::paths::{paths, validate};
use crate::apply::{ApplyContext, OneVersion, apply, update};
use crate::time::Time;

const SCHEMA: &str = r#"{"type":"object","properties":{
    "spec":{"type":"object","properties":{
        "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","p"],
            "items":{"type":"object","properties":{"k":{"type":"string"},"p":{"type":"string","default":"TCP"},"v":{"type":"integer"}}}},
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "list":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}},
        "whole":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}},
        "labels":{"type":"object","additionalProperties":{"type":"string"}},
        "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"object","properties":{"a":{"type":"string"}}}}},
        "either":{"x-kubernetes-int-or-string":true}}}}}"#;

fn object(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn schema() -> Schema {
    Schema::compile(&object(SCHEMA)).unwrap()
}

#[test]
fn field_sets_of_custom_objects_follow_their_schema() {
    let schema = schema();
    let of = MergeType::Custom { kind: "Foo", schema: &schema };
    for (spec, expected) in [
        (
            r#"{"map":[{"k":"a","v":1}]}"#,
            r#"{"f:map":{"k:{\"k\":\"a\",\"p\":\"TCP\"}":{".":{},"f:k":{},"f:v":{}}}}"#,
        ),
        (r#"{"set":["x"]}"#, r#"{"f:set":{"v:\"x\"":{}}}"#),
        (r#"{"list":[{"a":"x"}]}"#, r#"{"f:list":{}}"#),
        (r#"{"whole":{"a":"x"}}"#, r#"{"f:whole":{}}"#),
        (r#"{"labels":{"a":"x"}}"#, r#"{"f:labels":{"f:a":{}}}"#),
        (
            r#"{"free":{"x":{"y":[1]},"known":{"a":"b"}}}"#,
            r#"{"f:free":{"f:known":{"f:a":{}},"f:x":{".":{},"f:y":{}}}}"#,
        ),
        (r#"{"either":1}"#, r#"{"f:either":{}}"#),
    ] {
        let value = object(&format!(r#"{{"spec":{spec}}}"#));
        assert_eq!(paths(&value, of).to_json(), format!(r#"{{"f:spec":{expected}}}"#), "{spec}");
    }
}

#[test]
fn configurations_of_custom_kinds_are_checked() {
    let schema = schema();
    let of = MergeType::Custom { kind: "Foo", schema: &schema };
    let check = |text: &str| validate(&object(text), of).map_err(|error| error.to_string());
    assert_eq!(
        check(
            r#"{"apiVersion":"g/v1","kind":"Foo","metadata":{"name":"n","labels":{"a":"b"}},"spec":{"free":{"x":1}}}"#
        ),
        Ok(())
    );
    assert_eq!(
        check(r#"{"spec":{"unknown":1}}"#).unwrap_err(),
        ".spec.unknown: field not declared in schema"
    );
    assert_eq!(
        check(r#"{"metadata":{"unknown":1}}"#).unwrap_err(),
        ".metadata.unknown: field not declared in schema"
    );
    assert!(check(r#"{"spec":{"map":[{"k":1}]}}"#).unwrap_err().contains("expected string"));
}

#[test]
fn managers_of_a_custom_object_own_what_they_set() {
    let schema = schema();
    let of = MergeType::Custom { kind: "Foo", schema: &schema };
    let versions = OneVersion { api_version: "g/v1", of, filter: None };
    let context = |manager| ApplyContext {
        versions: &versions,
        api_version: "g/v1",
        of,
        subresource: "",
        manager,
        now: Time::EPOCH,
    };
    let mut live = object(
        r#"{"apiVersion":"g/v1","kind":"Foo","metadata":{"name":"n","uid":"u"},"spec":{"set":["x"],"map":[{"k":"a","p":"TCP","v":1}]}}"#,
    );
    let created = update(&context("creator"), None, &live);
    let fields = json::to_text(&created.managed);
    assert!(fields.contains(r#"{"f:spec":{".":{},"f:map":{".":{},"k:"#), "{fields}");
    live.ensure_map("metadata").insert("managedFields", created.managed);
    let config = object(
        r#"{"apiVersion":"g/v1","kind":"Foo","metadata":{"name":"n"},"spec":{"set":["y"],"map":[{"k":"b","v":2}]}}"#,
    );
    let applied = apply(&context("applier"), Some(&live), &config, false).unwrap();
    assert_eq!(applied.object.at(&["spec", "set"]), Some(&object(r#"["x","y"]"#)));
    assert_eq!(applied.object.at(&["spec", "map"]).unwrap().as_list().unwrap().len(), 2);
    let conflict = object(
        r#"{"apiVersion":"g/v1","kind":"Foo","metadata":{"name":"n"},"spec":{"map":[{"k":"a","v":2}]}}"#,
    );
    assert!(apply(&context("applier"), Some(&live), &conflict, false).is_err());
}

#[test]
fn zip_visits_every_key_once_in_small_and_large_objects() {
    for len in [3, 3 * LINEAR_LEN_MAX] {
        let map = |keys: &mut dyn Iterator<Item = usize>| -> Map {
            keys.map(|at| (format!("k{at}"), i64::try_from(at).unwrap())).collect()
        };
        let left = map(&mut (0..len));
        let right = map(&mut (1..len + 2).rev());
        let mut seen = Vec::new();
        zip(&left, &right, |key, a, b| {
            assert!(a.or(b).is_some() && (a.is_none() || b.is_none() || a == b));
            seen.push((key.to_owned(), a.is_some(), b.is_some()));
        });
        let count = |a, b| seen.iter().filter(|found| (found.1, found.2) == (a, b)).count();
        assert_eq!((count(true, true), count(true, false), count(false, true)), (len - 1, 1, 2));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), len + 2);
    }
}
