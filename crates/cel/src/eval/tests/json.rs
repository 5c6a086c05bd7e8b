//! Values of JSON with and without declarations.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Value as Json, value};

use super::evaluate_self;
use crate::{Decl, DeclKind, FieldDecl, ListDecl, ObjectDecl, Value};

fn list(item: DeclKind, list_type: ListDecl) -> DeclKind {
    DeclKind::List { item: Arc::new(Decl::new(item)), list_type }
}

fn object(fields: Vec<(&str, DeclKind)>) -> DeclKind {
    let fields: BTreeMap<_, _> = fields
        .into_iter()
        .map(|(name, kind)| (name.into(), FieldDecl { decl: Decl::new(kind), is_required: false }))
        .collect();
    DeclKind::Object(Arc::new(ObjectDecl { name: "object".into(), fields }))
}

fn decl() -> Decl {
    let entry = object(vec![("key", DeclKind::String), ("value", DeclKind::Int)]);
    Decl::new(object(vec![
        ("int", DeclKind::Int),
        ("number", DeclKind::Double),
        ("when", DeclKind::Timestamp),
        ("day", DeclKind::Date),
        ("age", DeclKind::Duration),
        ("data", DeclKind::Bytes),
        ("port", DeclKind::Dyn),
        ("nullable", DeclKind::String),
        ("a.b-c", DeclKind::Int),
        ("namespace", DeclKind::String),
        ("set", list(DeclKind::String, ListDecl::Set)),
        ("set2", list(DeclKind::String, ListDecl::Set)),
        ("entries", list(entry.clone(), ListDecl::Map(Box::new(["key".into()])))),
        ("entries2", list(entry, ListDecl::Map(Box::new(["key".into()])))),
        ("labels", DeclKind::Map { value: Arc::new(Decl::new(DeclKind::String)), key_size_max: 0 }),
    ]))
}

fn document() -> Json {
    value!({
        "int": 5, "number": 2, "when": "2026-11-18T13:00:00Z", "day": "2026-11-18", "age": "1h", "data": "aGk=",
        "port": "http", "nullable": null, "a.b-c": 7, "namespace": "ns", "undeclared": 1,
        "set": ["a", "b"], "set2": ["b", "a"],
        "entries": [{"key": "x", "value": 1}, {"key": "y", "value": 2}],
        "entries2": [{"key": "y", "value": 2}, {"key": "x", "value": 1}],
        "labels": {"app": "web", "a.b": "c"}
    })
}

#[test]
fn declarations_convert_json() {
    let (decl, document) = (decl(), document());
    for source in [
        "self.int == 5 && type(self.int) == int",
        "self.number == 2.0 && type(self.number) == double",
        "self.when == timestamp('2026-11-18T13:00:00Z') && self.when.getHours() == 13",
        "self.day < self.when",
        "self.age == duration('60m')",
        "self.data == b'hi'",
        "self.port == 'http' && type(self.port) == string",
        "!has(self.nullable) && !has(self.undeclared) && has(self.int)",
        "self.a__dot__b__dash__c == 7 && self.__namespace__ == 'ns'",
        "self.labels.app == 'web' && self.labels['a.b'] == 'c' && 'app' in self.labels",
        "self.labels.all(k, self.labels[k] != '')",
        "size(self.set) == 2 && self.set.exists(x, x == 'a')",
        "self == self",
    ] {
        let result = evaluate_self(source, &document, Some(&decl)).result;
        assert!(matches!(result, Ok(Value::Bool(true))), "{source}: {result:?}");
    }
    let error = evaluate_self("self.undeclared", &document, Some(&decl)).result.unwrap_err();
    assert_eq!(error.to_string(), "no such key: undeclared");
}

#[test]
fn sets_and_keyed_lists_ignore_order() {
    let (decl, document) = (decl(), document());
    for source in [
        "self.set == self.set2 && self.set != ['b', 'c'] && ['a', 'b'] != self.set2",
        "self.set + ['b', 'c', 'c'] == ['a', 'b', 'c']",
        "self.entries == self.entries2",
        "(self.entries + [{'key': 'y', 'value': 9}]).map(e, e.value) == [1, 9]",
        "(self.entries + [{'key': 'z', 'value': 9}]).size() == 3",
    ] {
        let result = evaluate_self(source, &document, Some(&decl)).result;
        assert!(matches!(result, Ok(Value::Bool(true))), "{source}: {result:?}");
    }
}

#[test]
fn undeclared_json_is_dynamic() {
    let document = document();
    for source in [
        "self.int == 5 && self.number == 2 && self.when == '2026-11-18T13:00:00Z'",
        "self['a.b-c'] == 7 && self.undeclared == 1 && self.nullable == null && has(self.nullable)",
        "self.entries.map(e, e.key) == ['x', 'y'] && self.entries[1].value == 2",
        "self.labels == {'app': 'web', 'a.b': 'c'}",
    ] {
        let result = evaluate_self(source, &document, None).result;
        assert!(matches!(result, Ok(Value::Bool(true))), "{source}: {result:?}");
    }
}

#[test]
fn results_convert_to_json() {
    let document = document();
    let source = "Object{spec: Object.spec{replicas: 1, ?missing: self.?nope, names: self.set.map(x, x)}}";
    let result = evaluate_self(source, &document, None).result.unwrap();
    assert_eq!(result.type_name(), "Object");
    assert_eq!(result.to_json().unwrap(), value!({"spec": {"replicas": 1, "names": ["a", "b"]}}));
    let patch = evaluate_self(
        "[JSONPatch{op: 'add', path: '/metadata/' + jsonpatch.escapeKey('a/b~c'), value: {'d': duration('1s')}}]",
        &document,
        None,
    );
    let expected = value!([{"op": "add", "path": "/metadata/a~1b~0c", "value": {"d": "1s"}}]);
    assert_eq!(patch.result.unwrap().to_json().unwrap(), expected);
}
