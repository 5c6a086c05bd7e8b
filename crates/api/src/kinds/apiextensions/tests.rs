//! Tests of deletion, conditions and the traversal of schemas. Validation is tested by the cases of its group.

use super::condition;
use super::definition::{CLEANUP_FINALIZER, delete, precondition_message};
use super::schema_walk::{for_each_root, for_each_rule_site};
use crate::metadata::delete::Deletion;
use crate::metadata::options::DeleteOptions;
use crate::time::Time;
use crate::value::Value;
use crate::yaml;

fn value(text: &str) -> Value {
    yaml::parse_strict(text.as_bytes()).unwrap().0
}

#[test]
fn delete_adds_the_cleanup_finalizer_and_the_terminating_condition() {
    let object = value("{metadata: {name: a.b.c, uid: u, finalizers: [x.y/z]}}");
    let now = Time::from_seconds(60);
    let Deletion::Mark(marked) = delete(object, &DeleteOptions::default(), now).unwrap() else {
        panic!("the definition was not marked")
    };
    assert_eq!(marked.str_at(&["metadata", "deletionTimestamp"]), "1970-01-01T00:01:00Z");
    let finalizers = Value::from(vec!["x.y/z", CLEANUP_FINALIZER]);
    assert_eq!(marked.at(&["metadata", "finalizers"]), Some(&finalizers));
    let terminating = condition::find(&marked, condition::TERMINATING).unwrap();
    assert_eq!(terminating.str_at(&["reason"]), "InstanceDeletionPending");
    assert_eq!(terminating.str_at(&["status"]), "True");
    let later = Time::from_seconds(120);
    let Deletion::Mark(again) = delete(marked.clone(), &DeleteOptions::default(), later).unwrap() else {
        panic!("the definition was removed before its instances")
    };
    assert_eq!(again.at(&["metadata", "deletionTimestamp"]), marked.at(&["metadata", "deletionTimestamp"]));
    let mut released = marked;
    released.ensure_map("metadata").remove("finalizers");
    let removed = delete(released, &DeleteOptions::default(), later).unwrap();
    assert!(matches!(removed, Deletion::Remove(_)));
}

#[test]
fn delete_with_another_uid_conflicts() {
    let object = value("{metadata: {name: a.b.c, uid: u}}");
    let options = DeleteOptions { uid: Some("v"), ..DeleteOptions::default() };
    let error = delete(object, &options, Time::from_seconds(0)).unwrap_err();
    assert_eq!(
        precondition_message(&error),
        "precondition failed: UID in precondition: v, UID in object meta: u"
    );
}

#[test]
fn transition_time_changes_with_the_status_only() {
    let mut object = value("{metadata: {name: a.b.c}}");
    let mut set = |status: &str, reason: &str, seconds: i64| {
        let now = Time::from_seconds(seconds);
        condition::set(&mut object, condition::NAMES_ACCEPTED, status, reason, "m", now);
        let found = condition::find(&object, condition::NAMES_ACCEPTED).unwrap();
        (found.str_at(&["lastTransitionTime"]).to_owned(), found.str_at(&["reason"]).to_owned())
    };
    assert_eq!(set("False", "a", 0), ("1970-01-01T00:00:00Z".to_owned(), "a".to_owned()));
    assert_eq!(set("False", "b", 1), ("1970-01-01T00:00:00Z".to_owned(), "b".to_owned()));
    assert_eq!(set("True", "c", 2), ("1970-01-01T00:00:02Z".to_owned(), "c".to_owned()));
    assert!(condition::is_true(&object, condition::NAMES_ACCEPTED) && !condition::is_established(&object));
}

#[test]
fn rules_are_visited_children_first_with_their_paths() {
    let shared = r#"
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations: [{rule: root}]
        properties:
          list: {type: array, items: {type: string, x-kubernetes-validations: [{rule: item}]}}
          keyed: {type: array, x-kubernetes-list-type: map, items: {type: object, x-kubernetes-validations: [{rule: entry}]}}
          any: {type: object, additionalProperties: {type: string, x-kubernetes-validations: [{rule: value}]}}
          whole: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string, x-kubernetes-validations: [{rule: part}]}}}
          not: {type: string, not: {x-kubernetes-validations: [{rule: never}]}}
"#;
    let mut found = Vec::new();
    for_each_root(&value(shared), &mut |root| {
        assert_eq!(root.version, None);
        for_each_rule_site(root, &mut |site| {
            let rule = site.rules[0].str_at(&["rule"]);
            let uncorrelatable = site.uncorrelatable.map(ToString::to_string).unwrap_or_default();
            found.push(format!("{rule} {} {uncorrelatable}", site.path));
        });
    });
    let root = "spec.validation.openAPIV3Schema";
    let expected = [
        format!("value {root}.properties[any].additionalProperties "),
        format!("entry {root}.properties[keyed].items "),
        format!("item {root}.properties[list].items {root}.properties[list]"),
        format!("part {root}.properties[whole].properties[a] "),
        format!("root {root} "),
    ];
    assert_eq!(found, expected);
}

#[test]
fn schemas_of_different_versions_are_separate_roots() {
    let object = value(
        "{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object}}}, {name: v2, schema: {openAPIV3Schema: {type: object, title: x}}}, {name: v3}]}}",
    );
    let mut found = Vec::new();
    for_each_root(&object, &mut |root| found.push(format!("{} {:?}", root.path, root.version)));
    assert_eq!(
        found,
        [
            "spec.versions[0].schema.openAPIV3Schema Some(\"v1\")",
            "spec.versions[1].schema.openAPIV3Schema Some(\"v2\")"
        ]
    );
}

/// Nests schemas as deep as JSON can.
#[test]
fn deepest_schema_is_validated_without_overflow() {
    let levels = (crate::json::DEPTH_MAX - 8) / 2;
    let mut schema = "{\"type\":\"object\"}".to_owned();
    for _ in 0..levels {
        schema = format!("{{\"type\":\"object\",\"properties\":{{\"a\":{schema}}}}}");
    }
    let text = format!(
        "{{\"metadata\":{{\"name\":\"a.b.c\"}},\"spec\":{{\"group\":\"b.c\",\"scope\":\"Cluster\",\"names\":{{\"plural\":\"a\",\"kind\":\"A\"}},\"versions\":[{{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{{\"openAPIV3Schema\":{schema}}}}}]}}}}"
    );
    let mut object = crate::json::parse(text.as_bytes()).unwrap();
    let rules = super::rules("CustomResourceDefinition").unwrap();
    rules.default(&mut object);
    let mut errors = crate::field_error::ErrorList::new();
    rules.validate(&object, &mut errors);
    rules.validate_update(&object, &object, &mut errors);
    assert!(errors.is_empty() && rules.warnings(&object, None).is_empty(), "{errors}");
}
