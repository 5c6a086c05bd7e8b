//! Validation of ReplicationControllers.

use super::*;
use crate::json;
use crate::kinds::core::pod_spec::tests::{decoded, faults, of, prepared};

const KIND: &str = "ReplicationController";

fn with(spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"r"}},"spec":{{{spec}}}}}"#)
}

fn template(spec: &str) -> String {
    format!(
        r#""template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{{spec}"containers":[{{"name":"c","image":"i:1"}}]}}}}"#
    )
}

#[test]
fn controller_labels_default_to_those_of_the_template() {
    let object = prepared(KIND, &with(&template("")));
    assert_eq!(json::to_text(object.at(&["metadata", "labels"]).unwrap()), r#"{"a":"b"}"#);
    assert_eq!(json::to_text(object.at(&["spec", "selector"]).unwrap()), r#"{"a":"b"}"#);
    assert_eq!(object.at(&["spec", "replicas"]), Some(&Value::Int(1)));
    assert_eq!(object.str_at(&["spec", "template", "spec", "restartPolicy"]), "Always");
    assert_eq!(json::to_text(object.get("status").unwrap()), r#"{"replicas":0}"#);
    assert_eq!(faults(KIND, &object), [""; 0]);
    assert_eq!(of(KIND).fields(&object), [("status.replicas", "0".into())]);
}

#[test]
fn invalid_controllers_are_rejected() {
    for (spec, expected) in [
        (String::new(), &["spec.selector: Required value", "spec.template: Required value"][..]),
        (
            format!(r#""replicas":-1,"minReadySeconds":-2,{}"#, template("")),
            &[
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            format!(r#""selector":{{"a":"c"}},{}"#, template("")),
            &[
                r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#,
            ],
        ),
        (
            template(r#""restartPolicy":"Never","activeDeadlineSeconds":5,"#),
            &[
                r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
            ],
        ),
    ] {
        assert_eq!(faults(KIND, &prepared(KIND, &with(&spec))), expected, "{spec}");
    }
}

#[test]
fn status_counters_are_consistent() {
    let text = r#"{"metadata":{"name":"r"},"status":{"replicas":1,"fullyLabeledReplicas":2,"readyReplicas":0,"availableReplicas":1,"observedGeneration":-1}}"#;
    let mut errors = ErrorList::new();
    let object = decoded(KIND, text);
    of(KIND).validate_status(&object, &object, &mut errors);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
            "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
        ]
    );
}

#[test]
fn nonconvertible_fields_are_validated() {
    let old = prepared(
        KIND,
        &with(&template("")).replace(
            r#""name":"r""#,
            r#""name":"r","annotations":{"non-convertible.kubernetes.io/selector":"x","non-convertible.kubernetes.io/odd":"y"}"#,
        ),
    );
    let mut new = old.clone();
    new.ensure_map("spec").insert("selector", Value::map());
    let mut errors = ErrorList::new();
    of(KIND).validate_transition(&new, &old, &mut errors);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            r#"odd: Not found: "y": unknown non-convertible field"#,
            "spec.selector: Invalid value: {}: cannot update non-convertible selector",
        ]
    );
}
