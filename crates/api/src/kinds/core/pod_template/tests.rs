//! Validation of PodTemplates.

use super::*;
use crate::kinds::core::pod_spec::tests::{faults, of, prepared};

#[test]
fn pod_templates_are_validated() {
    let good = r#"{"metadata":{"name":"t"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":" i","ports":[{"containerPort":80}]}]}}}"#;
    assert_eq!(faults("PodTemplate", &prepared("PodTemplate", good)), [""; 0]);
    let bad = r#"{"metadata":{"name":"t"},"template":{"metadata":{"labels":{"a":"!"},"annotations":{"!":""}},"spec":{"containers":[],"ephemeralContainers":[{"name":"e","image":"i:1"}]}}}"#;
    let found = faults("PodTemplate", &prepared("PodTemplate", bad));
    assert_eq!(found.len(), 4);
    assert!(
        found[0].starts_with("template.labels: Invalid value: \"!\": a valid label must be"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("template.annotations: Invalid value: \"!\": name part must consist"),
        "{found:?}"
    );
    assert_eq!(
        found[2..],
        [
            "template.spec.containers: Required value",
            "template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"
        ]
    );
}

#[test]
fn warnings_have_the_path_of_the_template() {
    let text = r#"{"metadata":{"name":"t"},"template":{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/c":"unconfined"}},"spec":{"terminationGracePeriodSeconds":-1,"containers":[{"name":"c","image":"i:1"}]}}}"#;
    let object = prepared("PodTemplate", text);
    let expected = [
        r#"template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#,
        "template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
    ];
    assert_eq!(of("PodTemplate").warnings(&object, None), expected);
    assert_eq!(of("PodTemplate").warnings(&object, Some(&object)), [""; 0]);
    let mut other = object.clone();
    other.ensure_map("template").insert("spec", Value::map());
    assert!(of("PodTemplate").has_new_generation(&other, &object));
    assert_eq!(of("PodTemplate").warnings(&object, Some(&other)), expected);
}
