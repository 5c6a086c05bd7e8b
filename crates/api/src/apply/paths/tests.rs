//! Tests of object field sets and schema violations.

use super::*;
use crate::json;
use crate::schema::{Struct, builtin};

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn kind(api_version: &str, kind: &str) -> Struct<'static> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    builtin().kind(group, version, kind).unwrap()
}

fn of_pod(text: &str) -> String {
    paths(&value(text), kind("v1", "Pod")).to_json().to_string()
}

fn wrong(text: &str) -> String {
    validate(&value(text), kind("v1", "Pod")).map_or_else(|found| found.to_string(), |()| "fine".to_owned())
}

#[test]
fn leaves_keys_and_items_are_members_but_structs_are_not() {
    assert_eq!(
        of_pod(
            r#"{"metadata":{"labels":{"app":"x"},"finalizers":["f"]},"spec":{"containers":[{"name":"a","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":1}}}],"hostNetwork":true}}"#
        ),
        r#"{"f:metadata":{"f:finalizers":{"v:\"f\"":{}},"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{"f:limits":{"f:cpu":{}}}}},"f:hostNetwork":{}}}"#
    );
}

#[test]
fn atomic_values_are_one_path() {
    assert_eq!(
        of_pod(
            r#"{"spec":{"nodeSelector":{"a":"b"},"tolerations":[{"key":"k"}],"containers":[{"name":"a","args":["x"]}]}}"#
        ),
        r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:args":{},"f:name":{}}},"f:nodeSelector":{},"f:tolerations":{}}}"#
    );
}

#[test]
fn empty_and_null_values_are_members_except_empty_lists() {
    assert_eq!(
        of_pod(
            r#"{"metadata":{"labels":{},"annotations":null},"spec":{"containers":[],"volumes":null,"hostname":null,"securityContext":{}}}"#
        ),
        r#"{"f:metadata":{"f:annotations":{},"f:labels":{}},"f:spec":{"f:hostname":{},"f:securityContext":{},"f:volumes":{}}}"#
    );
}

#[test]
fn duplicate_keys_are_reported_by_key_only() {
    assert_eq!(
        of_pod(
            r#"{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","image":"y"},{"name":"a"},{"name":"a"}]}}"#
        ),
        r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{},"k:{\"name\":\"b\"}":{".":{},"f:image":{},"f:name":{}}}}}"#
    );
}

#[test]
fn untyped_values_follow_the_schema() {
    let crd = value(
        r#"{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"default":{"a":{"b":1},"c":[1]},"properties":{"x":{"type":"string"}}}}}]}}"#,
    );
    let set = paths(&crd, kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"));
    assert_eq!(set.to_json(), r#"{"f:spec":{"f:versions":{}}}"#);
    let revision =
        paths(&value(r#"{"data":{"a":{"b":1}},"revision":1}"#), kind("apps/v1", "ControllerRevision"));
    assert_eq!(revision.to_json(), r#"{"f:data":{},"f:revision":{}}"#);
}

#[test]
fn missing_keys_have_their_default_or_zero() {
    assert_eq!(
        of_pod(r#"{"spec":{"containers":[{"image":"x"}]}}"#),
        r#"{"f:spec":{"f:containers":{"k:{\"name\":\"\"}":{".":{},"f:image":{}}}}}"#
    );
}

#[test]
fn identifying_fields_are_not_owned() {
    let text = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"c","creationTimestamp":null,"labels":{"l":"1"},"resourceVersion":"1","generation":1,"managedFields":[],"selfLink":"","clusterName":"","generateName":"a-"}}"#;
    let mut set = paths(&value(text), kind("v1", "Pod"));
    set.subtract(unowned());
    let stored = set.to_json();
    assert_eq!(stored, r#"{"f:metadata":{"f:generateName":{},"f:labels":{"f:l":{}}}}"#);
}

#[test]
fn violations_have_the_texts_of_upstream() {
    for (config, expected) in [
        (r#"{"spec":{"hostname":"a","containers":[{"name":"a"}]}}"#, "fine"),
        (r#"{"nope":1}"#, ".nope: field not declared in schema"),
        (
            r#"{"spec":{"containers":[{"name":"a"},{"name":"a"}]}}"#,
            r#".spec.containers: duplicate entries for key [name="a"]"#,
        ),
        (
            r#"{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80},{"containerPort":80,"protocol":"TCP"}]}]}}"#,
            r#".spec.containers[name="a"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]"#,
        ),
        (
            r#"{"spec":{"containers":[null]}}"#,
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            r#"{"spec":{"containers":["a"]}}"#,
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            r#"{"metadata":{"finalizers":["a","a"]}}"#,
            r#".metadata.finalizers: duplicate entries for key [="a"]"#,
        ),
        (
            r#"{"metadata":{"finalizers":[{}]}}"#,
            ".metadata.finalizers: element 0: associative list without keys has an element that's a map type",
        ),
        (
            r#"{"metadata":{"finalizers":[null]}}"#,
            ".metadata.finalizers: element 0: associative list without keys has an element that's an explicit null",
        ),
        (r#"{"spec":{"tolerations":[{"x":1}]}}"#, ".spec.tolerations[0].x: field not declared in schema"),
        (r#"{"spec":"x"}"#, ".spec: expected map, got &{x}"),
        (r#"{"spec":{"volumes":{"b":1,"a":null}}}"#, ".spec.volumes: expected list, got &{map[a:<nil> b:1]}"),
        (
            r#"{"spec":{"hostname":1}}"#,
            ".spec.hostname: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            r#"{"spec":{"hostname":["a",{"b":true}]}}"#,
            r#".spec.hostname: expected string, got &value.valueUnstructured{Value:[]interface {}{"a", map[string]interface {}{"b":true}}}"#,
        ),
        (r#"{"spec":{"priority":"1"}}"#, ".spec.priority: expected numeric (int or float), got string"),
        (r#"{"spec":{"hostNetwork":"yes"}}"#, ".spec.hostNetwork: expected boolean, got &{yes}"),
        (
            r#"{"spec":{"hostname":1,"subdomain":{}}}"#,
            "errors:\n  .spec.hostname: expected string, got &value.valueUnstructured{Value:1}\n  .spec.subdomain: expected string, got &value.valueUnstructured{Value:map[string]interface {}{}}",
        ),
        (r#"{"spec":{"hostname":null,"containers":null}}"#, "fine"),
    ] {
        assert_eq!(wrong(config), expected, "{config}");
    }
}

#[test]
fn duplicates_are_found_in_long_lists() {
    let names: Vec<String> = (0..40).chain([3]).map(|at| format!(r#"{{"name":"c{at}"}}"#)).collect();
    let config = format!(r#"{{"spec":{{"containers":[{}]}}}}"#, names.join(","));
    assert_eq!(wrong(&config), r#".spec.containers: duplicate entries for key [name="c3"]"#);
}

#[test]
fn sets_of_an_older_schema_are_converted() {
    let read = |text: &str| FieldSet::from_value(&value(text)).unwrap();
    let mut set = read(
        r#"{"f:spec":{"f:nodeSelector":{"f:a":{}},"f:tolerations":{".":{},"i:0":{"f:key":{}}},"f:containers":{"k:{\"name\":\"a\"}":{"f:args":{"v:\"x\"":{}}}},"f:gone":{"f:x":{}}}}"#,
    );
    reconcile(&mut set, kind("v1", "Pod"));
    assert_eq!(
        set,
        read(
            r#"{"f:spec":{"f:nodeSelector":{},"f:tolerations":{},"f:containers":{"k:{\"name\":\"a\"}":{"f:args":{}}},"f:gone":{"f:x":{}}}}"#
        )
    );
}

#[test]
fn prefix_fields_become_members_but_items_and_keys_do_not() {
    let read = |text: &str| FieldSet::from_value(&value(text)).unwrap();
    let mut set = read(
        r#"{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:env":{"k:{\"name\":\"X\"}":{"f:value":{}}}}}}}"#,
    );
    ensure_fields(&mut set, kind("v1", "Pod"));
    assert_eq!(
        set,
        read(
            r#"{"f:metadata":{".":{},"f:labels":{".":{},"f:a":{}}},"f:spec":{".":{},"f:containers":{".":{},"k:{\"name\":\"a\"}":{"f:env":{".":{},"k:{\"name\":\"X\"}":{"f:value":{}}}}}}}"#
        )
    );
}

#[test]
fn every_list_with_a_merge_patch_strategy_has_a_list_type() {
    // Upstream falls back to the markers of strategic merge if a list has no type; no built-in kind needs it.
    for definition in builtin().definitions() {
        for field in definition.fields().filter(|field| field.patch_strategy().merge) {
            let ty = field.ty();
            let is_list = matches!(ty.shape(), crate::schema::Shape::List(_));
            assert!(!is_list || ty.list_type().is_some(), "{definition:?} {field:?}");
        }
    }
}
