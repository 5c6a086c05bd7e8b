//! Tests of object comparison.

use proptest::prelude::*;

use super::super::field_set::FieldPath;
use super::*;
use crate::json;
use crate::schema::{Struct, builtin};

fn pod() -> Struct<'static> {
    builtin().kind("", "v1", "Pod").unwrap()
}

fn value(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// Asserts the removed, modified and added paths.
fn check(old: &str, new: &str, removed: &[&str], modified: &[&str], added: &[&str]) {
    let found = compare(&value(old), &value(new), pod());
    let shown = |set: &FieldSet| set.paths().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&found.removed), removed, "removed, {old} to {new}");
    assert_eq!(shown(&found.modified), modified, "modified, {old} to {new}");
    assert_eq!(shown(&found.added), added, "added, {old} to {new}");
}

#[test]
fn leaves_are_added_modified_and_removed() {
    check(
        r#"{"spec":{"hostname":"a","subdomain":"b","hostPID":true}}"#,
        r#"{"spec":{"hostname":"c","hostPID":true,"hostIPC":true}}"#,
        &[".spec.subdomain"],
        &[".spec.hostname"],
        &[".spec.hostIPC"],
    );
}

#[test]
fn added_and_removed_objects_include_their_parts() {
    let with = r#"{"metadata":{"labels":{"a":"1"}},"spec":{"containers":[{"name":"x"}]}}"#;
    let (labels, spec) = ([".metadata.labels", ".metadata.labels.a"], ".spec.containers[name=\"x\"]");
    check(
        with,
        r#"{"metadata":{},"spec":{"containers":[]}}"#,
        &[labels[0], labels[1], spec, &format!("{spec}.name")],
        &[],
        &[],
    );
    check(
        r#"{"metadata":{},"spec":{"containers":null}}"#,
        with,
        &[],
        &[],
        &[labels[0], labels[1], spec, &format!("{spec}.name")],
    );
}

#[test]
fn atomic_and_empty_values_are_leaves() {
    check(
        r#"{"spec":{"nodeSelector":{"a":"1"},"securityContext":{}}}"#,
        r#"{"spec":{"nodeSelector":{"a":"2","b":"3"},"volumes":[],"affinity":{}}}"#,
        &[".spec.securityContext"],
        &[".spec.nodeSelector"],
        &[".spec.affinity", ".spec.volumes"],
    );
    check(r#"{"spec":{"volumes":null}}"#, r#"{"spec":{"volumes":[]}}"#, &[], &[".spec.volumes"], &[]);
}

#[test]
fn order_counts_only_in_atomic_lists() {
    check(
        r#"{"spec":{"containers":[{"name":"a","image":"x","args":["1","2"]},{"name":"b"}],"hostPID":true}}"#,
        r#"{"spec":{"hostPID":true,"containers":[{"name":"b"},{"image":"x","args":["2","1"],"name":"a"}]}}"#,
        &[],
        &[".spec.containers[name=\"a\"].args"],
        &[],
    );
    check(
        r#"{"metadata":{"finalizers":["a","b"]}}"#,
        r#"{"metadata":{"finalizers":["b","c","a"]}}"#,
        &[],
        &[],
        &[".metadata.finalizers[=\"c\"]"],
    );
}

#[test]
fn duplicate_keys_are_reported_by_key_only() {
    let one = r#"{"spec":{"containers":[{"name":"a","image":"x"}]}}"#;
    let two = r#"{"spec":{"containers":[{"name":"a","image":"x"},{"name":"a","image":"y"}]}}"#;
    let three = r#"{"spec":{"containers":[{"name":"a","image":"z"},{"name":"a","image":"y"}]}}"#;
    let item = ".spec.containers[name=\"a\"]";
    let (image, name) = (format!("{item}.image"), format!("{item}.name"));
    check(one, two, &[item, &image, &name], &[], &[item]);
    check(two, one, &[item], &[], &[item, &image, &name]);
    check(two, three, &[], &[item], &[]);
    check(two, two, &[], &[], &[]);
    check(two, r#"{"spec":{"containers":[]}}"#, &[item], &[], &[]);
}

#[test]
fn integers_and_floats_compare_by_value() {
    check(r#"{"spec":{"priority":1}}"#, r#"{"spec":{"priority":1.0}}"#, &[], &[], &[]);
}

#[test]
fn managed_fields_are_not_compared() {
    check(
        r#"{"metadata":{"managedFields":[{"manager":"a"}]}}"#,
        r#"{"metadata":{"name":"x"}}"#,
        &[],
        &[],
        &[".metadata.name"],
    );
}

#[test]
fn untyped_values_can_change_their_type() {
    // The default of a JSON schema is untyped, and fields of objects in it have managers of their own.
    let schema = builtin()
        .definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .unwrap();
    let found = compare(&value(r#"{"default":1}"#), &value(r#"{"default":{"a":2}}"#), schema);
    assert_eq!(found.modified.paths(), [FieldPath::from_fields(&["default"])]);
    assert_eq!(found.added.paths(), [FieldPath::from_fields(&["default", "a"])]);
    assert!(found.removed.is_empty());
}

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", "[xy]", 0..4)
        .prop_map(|labels| Value::Map(labels.into_iter().collect()))
}

fn pods() -> impl Strategy<Value = Value> {
    let container = ("[a-c]", prop::option::of("[xy]"), labels()).prop_map(|(name, image, limits)| {
        let mut container = Value::map();
        container.make_map().insert("name", name);
        image.map(|image| container.make_map().insert("image", image));
        container.ensure_map("resources").insert("limits", limits);
        container
    });
    (labels(), prop::collection::vec(container, 0..4)).prop_map(|(labels, containers)| {
        let mut pod = Value::map();
        pod.ensure_map("metadata").insert("labels", labels);
        pod.ensure_map("spec").insert("containers", containers);
        pod
    })
}

proptest! {
    #[test]
    fn sets_are_disjoint_and_swapping_sides_swaps_added_and_removed(old in pods(), new in pods()) {
        let there = compare(&old, &new, pod());
        let back = compare(&new, &old, pod());
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.removed, &back.added);
        prop_assert_eq!(&there.modified, &back.modified);
        prop_assert!(there.modified.intersection(&there.added).is_empty());
        prop_assert!(there.modified.intersection(&there.removed).is_empty());
        prop_assert!(compare(&old, &old, pod()).is_same());
        let all = there.clone().changed();
        prop_assert!(there.added.is_subset(&all) && there.removed.is_subset(&all) && there.modified.is_subset(&all));
    }
}
