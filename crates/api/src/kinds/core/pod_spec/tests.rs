//! Table-driven tests of pod specs. A case has only the fields under test: the rest of the pod is valid.

use crate::decode::decode;
use crate::field_error::ErrorList;
use crate::json;
use crate::kinds::{Rules, rules};
use crate::schema::builtin;
use crate::value::Value;

mod containers;
mod defaults;
mod placement;
mod resources;
mod security;
mod volumes;
mod warnings;

/// Decodes an object.
pub(crate) fn decoded(kind: &str, text: &str) -> Value {
    let value = json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let decoded = decode(value, builtin().kind("", "v1", kind).unwrap(), &[]).unwrap();
    assert_eq!(decoded.strict, [], "{text}");
    decoded.value
}

/// Rules of a core kind.
pub(crate) fn of(kind: &str) -> &'static dyn Rules {
    rules("", kind).unwrap()
}

/// The object before validation.
pub(crate) fn prepared(kind: &str, text: &str) -> Value {
    let mut object = decoded(kind, text);
    of(kind).default(&mut object);
    of(kind).prepare_create(&mut object);
    object
}

/// Errors of a create.
pub(crate) fn faults(kind: &str, object: &Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    of(kind).validate(object, &mut errors);
    of(kind).validate_create(object, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// A pod with these fields in its spec, and a container if it has none.
pub(crate) fn pod(spec: &str) -> String {
    let comma = if spec.is_empty() { "" } else { "," };
    let containers = r#""containers":[{"name":"c","image":"i:1"}]"#;
    let spec =
        if spec.contains("\"containers\"") { spec.to_owned() } else { format!("{spec}{comma}{containers}") };
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"n"}},"spec":{{{spec}}}}}"#
    )
}

/// A pod whose only container has these fields too.
pub(crate) fn pod_with_container(container: &str) -> String {
    pod(&format!(r#""containers":[{{"name":"c","image":"i:1",{container}}}]"#))
}

/// Asserts the errors of pods: each case is a spec and its errors.
pub(crate) fn check(cases: &[(&str, &[&str])]) {
    for (spec, expected) in cases {
        assert_eq!(faults("Pod", &prepared("Pod", &pod(spec))), *expected, "{spec}");
    }
}

/// Asserts the errors of containers: each case is a container and its errors, without the path to it.
pub(crate) fn check_container(cases: &[(&str, &[&str])]) {
    for (container, expected) in cases {
        let found = faults("Pod", &prepared("Pod", &pod_with_container(container)));
        let expected: Vec<String> =
            expected.iter().map(|fault| format!("spec.containers[0].{fault}")).collect();
        assert_eq!(found, expected, "{container}");
    }
}
