//! Tests of field sets, including a comparison with a naive set.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::json;

fn set(text: &str) -> FieldSet {
    FieldSet::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
}

fn text(set: &FieldSet) -> String {
    set.to_json().to_string()
}

/// Naive reference implementation.
type Naive = BTreeSet<FieldPath>;

fn naive(set: &FieldSet) -> Naive {
    set.paths().into_iter().collect()
}

fn element() -> impl Strategy<Value = Element> {
    let scalar = prop_oneof![
        (0..3i64).prop_map(Value::Int),
        Just(Value::Float(1.0)),
        Just(Value::Float(1.5)),
        prop_oneof!["a", "b", "\"<é\n"].prop_map(Value::from),
        any::<bool>().prop_map(Value::Bool),
    ];
    let key = prop::collection::btree_map("[abc]", scalar.clone(), 1..3);
    prop_oneof![
        4 => "[abc]".prop_map(|name| Element::field(&name)),
        1 => Just(Element::field("a/b.c \"d")),
        2 => key.prop_map(|key| Element::key(key.into_iter().map(|(k, v)| (k.into(), v)).collect())),
        1 => scalar.prop_map(Element::value),
        1 => (0..3i64).prop_map(Element::Index),
    ]
}

fn paths() -> impl Strategy<Value = Vec<FieldPath>> {
    prop::collection::vec(prop::collection::vec(element(), 1..4).prop_map(FieldPath), 0..12)
}

proptest! {
    #[test]
    fn set_contains_exactly_the_inserted_paths(paths in paths(), other in paths()) {
        let set = FieldSet::from_paths(&paths);
        let expected: Naive = paths.iter().cloned().collect();
        prop_assert_eq!(naive(&set), expected.clone());
        prop_assert_eq!(set.len(), expected.len());
        prop_assert_eq!(set.is_empty(), expected.is_empty());
        for path in paths.iter().chain(&other) {
            prop_assert_eq!(set.has(path), expected.contains(path));
        }
    }

    #[test]
    fn stored_form_parses_back(paths in paths()) {
        let set = FieldSet::from_paths(&paths);
        let stored = text(&set);
        let read = FieldSet::from_value(&json::parse(stored.as_bytes()).unwrap()).unwrap();
        prop_assert_eq!(&read, &set);
        prop_assert_eq!(text(&read), stored);
    }

    #[test]
    fn set_operations_agree_with_the_naive_set(a in paths(), b in paths()) {
        let (a, b) = (FieldSet::from_paths(&a), FieldSet::from_paths(&b));
        let (naive_a, naive_b) = (naive(&a), naive(&b));
        let mut union = a.clone();
        union.union(b.clone());
        prop_assert_eq!(naive(&union), &naive_a | &naive_b);
        let mut difference = a.clone();
        difference.subtract(&b);
        prop_assert_eq!(naive(&difference), &naive_a - &naive_b);
        prop_assert_eq!(&difference, &FieldSet::from_paths(&(&naive_a - &naive_b)));
        let intersection = a.intersection(&b);
        prop_assert_eq!(&intersection, &FieldSet::from_paths(&(&naive_a & &naive_b)));
        prop_assert_eq!(a.is_subset(&b), naive_a.is_subset(&naive_b));
        prop_assert!(intersection.is_subset(&a) && a.is_subset(&union));
        let starts = |path: &FieldPath| (1..=path.0.len()).any(|len| naive_b.contains(&FieldPath(path.0[..len].to_vec())));
        let mut trees = a.clone();
        trees.subtract_trees(&b);
        prop_assert_eq!(naive(&trees), naive_a.iter().filter(|path| !starts(path)).cloned().collect::<Naive>());
        let is_leaf = |path: &FieldPath| {
            !naive_a.iter().any(|other| other.0.len() > path.0.len() && other.0.starts_with(&path.0))
        };
        let mut texts = a.leaf_texts(usize::MAX).unwrap();
        texts.sort();
        let mut leaves: Vec<String> = naive_a.iter().filter(|path| is_leaf(path)).map(ToString::to_string).collect();
        leaves.sort();
        prop_assert_eq!(a.leaf_texts(leaves.len().saturating_sub(1)).is_some(), leaves.is_empty());
        prop_assert_eq!(texts, leaves);
    }
}

#[test]
fn stored_form_equals_upstream() {
    let one = |elements: Vec<Element>| FieldPath(elements);
    let port = Element::key(vec![("protocol".into(), "TCP".into()), ("containerPort".into(), 80.into())]);
    let set = FieldSet::from_paths(&[
        one(vec![Element::field("spec"), Element::field("ports"), port.clone()]),
        one(vec![Element::field("spec"), Element::field("ports"), port, Element::field("name")]),
        one(vec![Element::field("spec"), Element::field("a"), Element::Index(1)]),
        one(vec![Element::field("metadata"), Element::field("finalizers"), Element::value("x".into())]),
        one(vec![Element::field("metadata"), Element::field("finalizers")]),
    ]);
    assert_eq!(
        text(&set),
        r#"{"f:metadata":{"f:finalizers":{".":{},"v:\"x\"":{}}},"f:spec":{"f:a":{"i:1":{}},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}}}}"#
    );
    assert_eq!(text(&FieldSet::new()), "{}");
}

#[test]
fn elements_sort_by_type_and_numbers_by_value() {
    let stored = r#"{"f:a":{},"f:b":{},"k:{\"a\":2}":{},"k:{\"a\":10}":{},"k:{\"a\":\"1\"}":{},"v:2":{},"v:10":{},"v:\"a\"":{},"v:true":{},"i:2":{},"i:10":{}}"#;
    assert_eq!(text(&set(stored)), stored);
    assert_eq!(set(r#"{"v:1":{}}"#), set(r#"{"v:1.0":{}}"#));
}

#[test]
fn noncanonical_forms_parse_as_upstream() {
    assert_eq!(set(r#"{"f:b":{},"f:a":{".":7},"q:new":{"f:a":{}}}"#), set(r#"{"f:a":{},"f:b":{}}"#));
    assert_eq!(set(r#"{"f:a":null}"#), set(r#"{"f:a":{}}"#));
    assert_eq!(set(r#"{"f:a":{"q:new":{}}}"#), set(r#"{"f:a":{}}"#));
    assert_eq!(set(r#"{"k:{\"b\":1,\"a\":2}":{}}"#), set(r#"{"k:{\"a\":2,\"b\":1}":{}}"#));
    assert!(set("{}").is_empty());
    for wrong in [
        r#"{"f":{}}"#,
        r#"{"name":{}}"#,
        r#"{"v:{":{}}"#,
        r#"{"k:1":{}}"#,
        r#"{"i:x":{}}"#,
        r#"{"f:a":1}"#,
        "[]",
    ] {
        let read = FieldSet::from_value(&json::parse(wrong.as_bytes()).unwrap());
        assert!(read.is_err(), "{wrong}");
    }
}

#[test]
fn paths_print_as_in_conflicts() {
    let set = set(
        r#"{"f:spec":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{"f:name":{}}},"f:b":{"v:\"x\"":{}},"f:c":{"i:0":{}}},"f:kind":{}}"#,
    );
    let shown: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
    let expected =
        [".kind", ".spec.b[=\"x\"]", ".spec.c[0]", ".spec.ports[containerPort=80,protocol=\"TCP\"].name"];
    assert_eq!(shown, expected);
}

#[test]
fn paths_of_a_level_precede_those_below() {
    let set = set(r#"{"f:a":{".":{},"f:x":{}},"f:b":{}}"#);
    let shown: Vec<String> = set.paths().iter().map(ToString::to_string).collect();
    assert_eq!(shown, [".a", ".b", ".a.x"]);
}
