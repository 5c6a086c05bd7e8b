//! Pruning, defaulting and coercion; cases are facts of upstream's tests.

use super::*;

#[test]
fn unspecified_fields_are_pruned() {
    let cases: &[(&str, &str, &str, &[&str])] = &[
        (r#"{"a":1}"#, r#"{}"#, r#"{}"#, &["a"]),
        (
            r#"{"array":[{"a":1},{"b":1},{"a":1,"b":2,"c":3}],"unspecified":{"a":1},"specified":{"a":1,"b":2,"c":3}}"#,
            r#"{"properties":{"array":{"items":{"properties":{"a":{},"c":{}}}},"specified":{"properties":{"a":{},"c":{}}}}}"#,
            r#"{"array":[{"a":1},{},{"a":1,"c":3}],"specified":{"a":1,"c":3}}"#,
            &["array[1].b", "array[2].b", "specified.b", "unspecified"],
        ),
        (
            r#"{"a":1,"b":1,"c":{"a":1,"b":2,"c":{"a":1}}}"#,
            r#"{"properties":{"a":{},"c":{"additionalProperties":{"type":"integer"}}}}"#,
            r#"{"a":1,"c":{"a":1,"b":2,"c":{}}}"#,
            &["b", "c.c.a"],
        ),
        (
            r#"{"a":1,"b":1,"c":{"a":1,"b":2,"c":{"a":1,"apiVersion":"unknown"}}}"#,
            r#"{"properties":{"a":{},"c":{"additionalProperties":false}}}"#,
            r#"{"a":1,"c":{"a":1,"b":2,"c":{}}}"#,
            &["b", "c.c.a", "c.c.apiVersion"],
        ),
        (
            r#"{"unspecified":"x","o":{"u":1},"pruning":{"u":{"u":1},"pruning":{"u":1},"apiVersion":"x","preserving":{"u":1}},
                "preserving":{"u":{"u":1},"pruning":{"u":1},"list":[{"foo":true}]},"map":{"foo":{"specified":{"u":1},"u":1}}}"#,
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
                "pruning":{"type":"object","properties":{"preserving":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
                    "pruning":{"type":"object"}}},
                "preserving":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
                    "list":{"x-kubernetes-preserve-unknown-fields":true},"pruning":{"type":"object"}}},
                "map":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
                    "additionalProperties":{"type":"object","properties":{"specified":{"type":"object"}}}}}}"#,
            r#"{"unspecified":"x","o":{"u":1},"pruning":{"pruning":{},"preserving":{"u":1}},
                "preserving":{"u":{"u":1},"pruning":{},"list":[{"foo":true}]},"map":{"foo":{"specified":{}}}}"#,
            &[
                "map.foo.specified.u",
                "map.foo.u",
                "preserving.pruning.u",
                "pruning.apiVersion",
                "pruning.pruning.u",
                "pruning.u",
            ],
        ),
    ];
    for (object, schema, expected, pruned) in cases {
        let mut value = parse(object);
        let found = prune(&mut value, &compile(schema), false);
        assert_eq!(value, parse(expected), "{object}");
        assert_eq!(found, *pruned, "{object}");
    }
}

const EMBEDDED: &str = r#"{"type":"object","properties":{
    "pruned":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}},
    "kept":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}"#;

#[test]
fn metadata_of_resources_is_not_pruned() {
    let object = r#"{"apiVersion":"v1","kind":"K","metadata":{"u":1},"u":1,
        "pruned":{"apiVersion":"v1","kind":"K","metadata":{"name":"n","u":1},"u":1,"spec":{"u":1}},
        "kept":{"apiVersion":"v1","metadata":{"u":1},"u":1}}"#;
    let embedded = r#""pruned":{"apiVersion":"v1","kind":"K","metadata":{"name":"n","u":1},"spec":{}},
        "kept":{"apiVersion":"v1","metadata":{"u":1},"u":1}}"#;
    let schema = compile(EMBEDDED);
    let mut root = parse(object);
    assert_eq!(prune(&mut root, &schema, true), ["pruned.spec.u", "pruned.u", "u"]);
    assert_eq!(root, parse(&format!(r#"{{"apiVersion":"v1","kind":"K","metadata":{{"u":1}},{embedded}"#)));
    let mut inner = parse(object);
    assert_eq!(prune(&mut inner, &schema, false), ["pruned.spec.u", "pruned.u", "u"]);
    assert_eq!(inner, parse(&format!("{{{embedded}")));
}

#[test]
fn metadata_of_embedded_resources_is_decoded() {
    let schema = compile(EMBEDDED);
    let mut value = parse(
        r#"{"metadata":{"x":1},"kept":{"apiVersion":"v1","metadata":{"name":"n","labels":{"a":"b"},"x":1}}}"#,
    );
    assert_eq!(coerce_embedded(&mut value, &schema, false, false).unwrap(), ["kept.metadata.x"]);
    let expected =
        r#"{"metadata":{"x":1},"kept":{"apiVersion":"v1","metadata":{"name":"n","labels":{"a":"b"}}}}"#;
    assert_eq!(value, parse(expected));
    let bad = r#"{"kept":{"kind":3,"metadata":{"name":"n","labels":{"a":1},"annotations":7}}}"#;
    let error = coerce_embedded(&mut parse(bad), &schema, false, false).unwrap_err();
    assert_eq!(error.to_string(), "kept.kind: Invalid value: 3: must be a string");
    let bad_meta = r#"{"kept":{"metadata":{"name":3}}}"#;
    let error = coerce_embedded(&mut parse(bad_meta), &schema, false, false).unwrap_err();
    assert_eq!(error.field, "kept.metadata");
    let mut value = parse(bad);
    coerce_embedded(&mut value, &schema, false, true).unwrap();
    assert_eq!(value, parse(r#"{"kept":{"metadata":{"name":"n"}}}"#));
}

#[test]
fn missing_fields_and_nulls_are_defaulted() {
    let items = r#"{"items":{"properties":{"a":{"default":"A"},"b":{"default":"B"}}}}"#;
    for (object, schema, expected) in [
        ("null", r#"{"default":"foo"}"#, "null"),
        ("4", r#"{"default":"foo"}"#, "4"),
        ("[1,2]", r#"{"items":{"default":"foo"}}"#, "[1,2]"),
        (r#"[{"a":1},{"b":1}]"#, items, r#"[{"a":1,"b":"B"},{"a":"A","b":1}]"#),
        (
            r#"{"map":{"x":{"a":1}}}"#,
            r#"{"properties":{"map":{"additionalProperties":{"properties":{"b":{"default":"B"}}}},"foo":{"default":"bar"}}}"#,
            r#"{"map":{"x":{"a":1,"b":"B"}},"foo":"bar"}"#,
        ),
        (
            r#"[{},{"a":0},{"a":""},{"a":null},{"a":[]},{"a":{}}]"#,
            r#"{"items":{"properties":{"a":{"default":"A"}}}}"#,
            r#"[{"a":"A"},{"a":0},{"a":""},{"a":"A"},{"a":[]},{"a":{}}]"#,
        ),
        ("[null]", r#"{"nullable":true,"items":{"properties":{"a":{"default":"A"}}}}"#, "[null]"),
        ("[null]", r#"{"items":{"default":"A"}}"#, r#"["A"]"#),
        (r#"{"a":null}"#, r#"{"properties":{"a":{"nullable":true,"default":"A"}}}"#, r#"{"a":null}"#),
        (r#"{"a":null}"#, r#"{"additionalProperties":{"nullable":true,"default":"A"}}"#, r#"{"a":null}"#),
        (r#"{"a":null}"#, r#"{"additionalProperties":{"default":"A"}}"#, r#"{"a":"A"}"#),
        (r#"{"a":null}"#, r#"{"additionalProperties":true}"#, r#"{"a":null}"#),
        ("{}", r#"{"properties":{"a":{"default":{},"properties":{"b":{"default":1}}}}}"#, r#"{"a":{"b":1}}"#),
    ] {
        let mut value = parse(object);
        default(&mut value, &compile(schema));
        assert_eq!(value, parse(expected), "{object} {schema}");
    }
}

#[test]
fn nulls_without_default_are_pruned() {
    let schema = compile(
        r#"{"properties":{"a":{},"b":{"nullable":true},"c":{"default":1},"d":{"additionalProperties":{}},
            "e":{"items":{"properties":{"f":{}}}}}}"#,
    );
    let mut value =
        parse(r#"{"a":null,"b":null,"c":null,"d":{"x":null},"e":[null,{"f":null}],"unknown":null}"#);
    prune_nulls(&mut value, &schema);
    assert_eq!(value, parse(r#"{"b":null,"c":null,"d":{},"e":[null,{}],"unknown":null}"#));
}

#[test]
fn defaults_are_pruned_by_the_schema() {
    let schema = compile(
        r#"{"type":"object","properties":{
            "a":{"type":"object","properties":{"x":{"type":"integer"}},"default":{"x":1,"y":2}},
            "e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,
                "default":{"kind":1,"apiVersion":"v1","metadata":{"name":"n","labels":3,"x":1},"spec":{"z":1}}}}}"#,
    );
    let default_of = |name: &str| (**schema.property(name).unwrap().default.as_ref().unwrap()).clone();
    assert_eq!(default_of("a"), parse(r#"{"x":1}"#));
    assert_eq!(default_of("e"), parse(r#"{"apiVersion":"v1","metadata":{"name":"n"},"spec":{"z":1}}"#));
}
