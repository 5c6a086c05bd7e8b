//! Validation and defaulting of the core group: one table per kind.

use crate::decode::decode;
use crate::field_error::ErrorList;
use crate::kinds::{Rules, rules};
use crate::schema::builtin;
use crate::value::Value;
use crate::{json, yaml};

mod event;
mod node;
mod objects;
mod resources;
mod storage;

/// Rules of a kind of the core group.
pub(super) fn of(kind: &str) -> &'static dyn Rules {
    rules("", kind).unwrap()
}

/// Object of a YAML document, with defaults.
pub(super) fn object(kind: &str, text: &str) -> Value {
    let (value, _) = yaml::parse_strict(text.as_bytes()).unwrap();
    let decoded = decode(value, builtin().kind("", "v1", kind).unwrap(), &[]).unwrap();
    assert!(decoded.strict.is_empty(), "{:?}", decoded.strict);
    let mut object = decoded.value;
    of(kind).default(&mut object);
    object
}

/// Object as a create stores it.
pub(super) fn created(kind: &str, text: &str) -> Value {
    let mut object = object(kind, text);
    of(kind).prepare_create(&mut object);
    object
}

pub(super) fn texts(errors: ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Errors of a create.
pub(super) fn faults(kind: &str, text: &str) -> Vec<String> {
    let mut errors = ErrorList::new();
    of(kind).validate(&created(kind, text), &mut errors);
    texts(errors)
}

/// Errors of an update.
pub(super) fn update_faults(kind: &str, old: &str, new: &str) -> Vec<String> {
    let (old, mut new) = (object(kind, old), object(kind, new));
    of(kind).prepare_update(&mut new, &old);
    let mut errors = ErrorList::new();
    of(kind).validate_update(&new, &old, &mut errors);
    texts(errors)
}

/// Errors of a status update.
pub(super) fn status_faults(kind: &str, old: &str, new: &str) -> Vec<String> {
    let (old, mut new) = (object(kind, old), object(kind, new));
    of(kind).prepare_status(&mut new, &old);
    let mut errors = ErrorList::new();
    of(kind).validate_status(&new, &old, &mut errors);
    texts(errors)
}

pub(super) fn warnings(kind: &str, text: &str) -> Vec<String> {
    of(kind).warnings(&object(kind, text), None)
}

/// JSON of an object at a path.
pub(super) fn at(object: &Value, path: &[&str]) -> String {
    object.at(path).map_or_else(String::new, json::to_text)
}

/// Asserts a table of objects with their errors.
pub(super) fn check_all(kind: &str, table: &[(&str, &[&str])]) {
    for (text, expected) in table {
        assert_eq!(faults(kind, text), *expected, "{text}");
    }
}

/// Asserts a table of updates with the first lines of their errors.
pub(super) fn check_updates(kind: &str, table: &[(&str, &str, &[&str])]) {
    for (old, new, expected) in table {
        let faults = update_faults(kind, old, new);
        let lines: Vec<&str> = faults.iter().filter_map(|fault| fault.split_inclusive('\n').next()).collect();
        assert_eq!(lines, *expected, "{old} -> {new}");
    }
}

#[test]
fn defaulting_is_idempotent() {
    for (kind, text) in [
        ("Service", "{spec: {type: LoadBalancer, ports: [{port: 80}], sessionAffinity: ClientIP}}"),
        ("Secret", "{stringData: {a: b}}"),
        ("Namespace", "{metadata: {name: x}}"),
        ("LimitRange", "{spec: {limits: [{type: Container, max: {cpu: '1'}, min: {memory: 1Gi}}]}}"),
        ("ResourceQuota", "{spec: {hard: {cpu: 100u}}}"),
        ("Endpoints", "{subsets: [{ports: [{port: 80}]}]}"),
        ("PersistentVolume", "{spec: {hostPath: {path: /x}, azureDisk: {diskName: a, diskURI: b}}}"),
        ("PersistentVolumeClaim", "{spec: {resources: {requests: {storage: 100u}}}}"),
        ("Node", "{spec: {podCIDR: 10.0.0.0/8}, status: {capacity: {cpu: '1'}}}"),
    ] {
        let once = object(kind, text);
        let mut twice = once.clone();
        of(kind).default(&mut twice);
        assert_eq!(once, twice, "{kind}");
    }
}
