//! Validation; cases are facts of upstream's tests and of kube-openapi.

use super::*;

/// Schema of an object with one property.
fn of_field(field: &str) -> Schema {
    compile(&format!(r#"{{"type":"object","properties":{{"field":{field}}}}}"#))
}

/// Checks the errors of values of one property.
fn check(field: &str, cases: &[(&str, &[&str])]) {
    let schema = of_field(field);
    for (value, expected) in cases {
        let found = validate_text(&schema, &format!(r#"{{"field":{value}}}"#));
        assert_eq!(found, *expected, "{field} {value}");
    }
}

#[test]
fn types_are_validated() {
    check(
        r#"{"type":"object"}"#,
        &[
            ("{}", &[]),
            (
                r#""foo""#,
                &[r#"field: Invalid value: "string": field in body must be of type object: "string""#],
            ),
            ("42", &[r#"field: Invalid value: "integer": field in body must be of type object: "integer""#]),
            (
                "true",
                &[r#"field: Invalid value: "boolean": field in body must be of type object: "boolean""#],
            ),
            ("1.2", &[r#"field: Invalid value: "number": field in body must be of type object: "number""#]),
            ("[]", &[r#"field: Invalid value: "array": field in body must be of type object: "array""#]),
            ("null", &[r#"field: Invalid value: "null": field in body must be of type object: "null""#]),
        ],
    );
    check(r#"{"type":"object","nullable":true}"#, &[("null", &[]), ("{}", &[])]);
    check(r#"{"nullable":true}"#, &[("null", &[]), ("{}", &[]), ("1.5", &[]), ("[]", &[])]);
    check(r#"{"type":"number"}"#, &[("1", &[]), ("1.5", &[])]);
    check(r#"{"type":"integer"}"#, &[("1", &[]), ("2.0", &[])]);
    check(
        r#"{"type":"string","format":"date"}"#,
        &[
            (r#""2006-01-02""#, &[]),
            (r#""x""#, &[r#"field: Invalid value: "x": field in body must be of type date: "x""#]),
            ("5", &[r#"field: Invalid value: "int64": field in body must be of type date: "int64""#]),
            // Upstream leaves lists to the format.
            ("[]", &[]),
        ],
    );
    check(r#"{"type":"string","format":"quantity"}"#, &[(r#""x""#, &[])]);
    check(
        r#"{"type":"string","format":"k8s-long-name"}"#,
        &[(
            r#""a.-""#,
            &[r#"field: Invalid value: "a.-": field in body must be of type k8s-long-name: "a.-""#],
        )],
    );
}

#[test]
fn int_or_string_is_two_types() {
    let both = |actual: &str| {
        format!(
            r#"field: Invalid value: "{actual}": field in body must be of type integer,string: "{actual}""#
        )
    };
    let (null, boolean, number) = (both("null"), both("boolean"), both("number"));
    check(
        r#"{"x-kubernetes-int-or-string":true}"#,
        &[("42", &[]), (r#""foo""#, &[]), ("null", &[&null]), ("true", &[&boolean]), ("1.2", &[&number])],
    );
    let any = r#"<nil>: Invalid value: "": "field" must validate at least one schema (anyOf)"#;
    let first = r#"field: Invalid value: "number": field in body must be of type integer: "number""#;
    let range =
        r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in field"#;
    let anything = r#"{"nullable":true,"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#;
    check(anything, &[("null", &[]), ("42", &[]), ("1.2", &[&number, any, first, range])]);
    let all = r#"<nil>: Invalid value: "": "field" must validate all the schemas (allOf). None validated"#;
    let nested =
        r#"{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}]}"#;
    check(nested, &[(r#""foo""#, &[]), ("1.2", &[&number, any, first, range, all])]);
}

#[test]
fn limits_are_validated() {
    check(
        r#"{"type":"string","maxLength":2,"minLength":2}"#,
        &[
            (r#""abc""#, &["field: Too long: may not be more than 2 bytes"]),
            (r#""éé""#, &[]),
            (r#""a""#, &[r#"field: Invalid value: "a": field in body should be at least 2 chars long"#]),
        ],
    );
    check(
        r#"{"type":"string","pattern":"^a$"}"#,
        &[("\"a\"", &[]), (r#""b""#, &[r#"field: Invalid value: "b": field in body should match '^a$'"#])],
    );
    check(
        r#"{"type":"string","pattern":"+"}"#,
        &[(
            r#""foo""#,
            &[
                "field: Invalid value: \"foo\": field in body should match '+, but pattern is invalid: error parsing \
               regexp: missing argument to repetition operator: `+`'",
            ],
        )],
    );
    check(
        r#"{"type":"array","items":{"type":"string"},"maxItems":2,"minItems":1,"uniqueItems":true}"#,
        &[
            (r#"["a","b","c"]"#, &["field: Too many: 3: must have at most 2 items"]),
            ("[]", &["field: Invalid value: 0: field in body should have at least 1 items"]),
            (r#"["a","a"]"#, &[r#"field: Invalid value: "": field in body shouldn't contain duplicates"#]),
            (
                r#"[1]"#,
                &[
                    r#"field[0]: Invalid value: "integer": field[0] in body must be of type string: "integer""#,
                ],
            ),
        ],
    );
    check(
        r#"{"type":"object","additionalProperties":{"type":"boolean"},"maxProperties":2,"minProperties":1}"#,
        &[
            (r#"{"a":true,"b":true,"c":true}"#, &["field: Too many: 3: must have at most 2 items"]),
            ("{}", &["field: Invalid value: 0: field in body should have at least 1 properties"]),
            (
                r#"{"a":1}"#,
                &[r#"field.a: Invalid value: "integer": field.a in body must be of type boolean: "integer""#],
            ),
        ],
    );
    check(
        r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#,
        &[(r#"{"a":1,"b":1}"#, &[r#"field: Invalid value: "b": field.b in body is a forbidden property"#])],
    );
}

#[test]
fn numbers_are_validated() {
    check(
        r#"{"type":"integer","minimum":2,"maximum":10,"exclusiveMaximum":true,"multipleOf":2}"#,
        &[
            ("8", &[]),
            ("10", &["field: Invalid value: 10: field in body should be less than 10"]),
            (
                "1",
                &[
                    "field: Invalid value: 1: field in body should be a multiple of 2",
                    "field: Invalid value: 1: field in body should be greater than or equal to 2",
                ],
            ),
        ],
    );
    check(
        r#"{"type":"number","minimum":0.5,"exclusiveMinimum":true,"maximum":1.5}"#,
        &[
            ("0.5", &["field: Invalid value: 0.5: field in body should be greater than 0.5"]),
            ("1.75", &["field: Invalid value: 1.75: field in body should be less than or equal to 1.5"]),
        ],
    );
    check(
        r#"{"type":"integer","maximum":1.5}"#,
        &[(
            "1",
            &[
                r#"<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in field"#,
            ],
        )],
    );
    let int32 =
        r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in field"#;
    check(
        r#"{"type":"integer","format":"int32"}"#,
        &[("-2147483648", &[]), ("2147483648", &[int32]), ("-2147483649", &[int32])],
    );
    let float =
        r#"<nil>: Invalid value: "": Checked value must be of type number with format float in field"#;
    check(r#"{"type":"number","format":"float"}"#, &[("1e38", &[]), ("4e38", &[float])]);
    let huge =
        r#"<nil>: Invalid value: "": Checked value must be of type integer with format int64 in field"#;
    let number = r#"field: Invalid value: "float64": field in body must be of type int64: "float64""#;
    check(r#"{"type":"integer","format":"int64"}"#, &[("1e19", &[number, huge])]);
}

#[test]
fn enums_and_required_fields_are_validated() {
    let schema = of_field(
        r#"{"type":"object","required":["i","s"],"properties":{"i":{"type":"integer","enum":[1,2]},
            "s":{"type":"string","enum":["a","b"],"nullable":true}}}"#,
    );
    assert_eq!(
        validate_text(&schema, r#"{"field":{}}"#),
        ["field.i: Required value", "field.s: Required value"]
    );
    assert_eq!(
        validate_text(&schema, r#"{"field":{"i":"x","s":true}}"#),
        [
            r#"field.i: Invalid value: "string": field.i in body must be of type integer: "string""#,
            r#"field.i: Unsupported value: "x": supported values: "1", "2""#,
            r#"field.s: Invalid value: "boolean": field.s in body must be of type string: "boolean""#,
            r#"field.s: Unsupported value: true: supported values: "a", "b""#,
        ]
    );
    let null = r#"field.s: Unsupported value: null: supported values: "a", "b""#;
    assert_eq!(validate_text(&schema, r#"{"field":{"i":1.0,"s":null}}"#), [null]);
    let root = compile(r#"{"type":"object","required":["spec"]}"#);
    assert_eq!(validate_text(&root, "{}"), ["spec: Required value"]);
    let status = parse("{}");
    let found = errors_of(|errors| validate(&status, &root, &Path::root("status"), errors));
    assert_eq!(found, ["status.spec: Required value"]);
}

#[test]
fn best_branch_of_a_junctor_is_reported() {
    let one_of = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},
        "oneOf":[{"required":["a"],"properties":{"b":{"maxLength":1}}},{"required":["b"]}]}"#;
    check(
        one_of,
        &[
            (r#"{"a":1}"#, &[]),
            (
                r#"{"a":1,"b":"x"}"#,
                &[
                    r#"<nil>: Invalid value: "": "field" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
                ],
            ),
            (
                "{}",
                &[
                    r#"<nil>: Invalid value: "": "field" must validate one and only one schema (oneOf). Found none valid"#,
                    "field.a: Required value",
                ],
            ),
        ],
    );
    check(
        r#"{"type":"string","not":{"enum":["x"]}}"#,
        &[
            (r#""y""#, &[]),
            (r#""x""#, &[r#"<nil>: Invalid value: "": "field" must not validate the schema (not)"#]),
        ],
    );
    check(
        r#"{"type":"string","allOf":[{"minLength":1},{"maxLength":1}]}"#,
        &[(
            r#""ab""#,
            &[
                "field: Too long: may not be more than 1 byte",
                r#"<nil>: Invalid value: "": "field" must validate all the schemas (allOf)"#,
            ],
        )],
    );
}

#[test]
fn unchanged_values_may_stay_invalid() {
    let schema = compile(
        r#"{"type":"object","required":["new"],"properties":{
            "kind":{"type":"string","maxLength":1},
            "spec":{"type":"object","properties":{"a":{"type":"string","maxLength":1},"b":{"type":"string","maxLength":1}}},
            "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
                "items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer","maximum":1}}}},
            "list":{"type":"array","items":{"type":"integer","maximum":1}},
            "any":{"type":"object","properties":{"x":{"type":"integer"}},"anyOf":[{"properties":{"x":{"maximum":1}}}]}}}"#,
    );
    let old = parse(
        r#"{"kind":"Foo","spec":{"a":"long"},"map":[{"k":"a","v":5},{"k":"b","v":6}],"list":[5],"any":{"x":5}}"#,
    );
    let run = |new: &str| {
        let new = parse(new);
        errors_of(|errors| validate_update(&new, &old, &schema, &Path::NONE, errors))
    };
    let required = "new: Required value";
    let too_long = |field: &str| format!("{field}: Too long: may not be more than 1 byte");
    assert_eq!(run(r#"{"spec":{"a":"long"},"kind":"Foo"}"#), [too_long("kind"), required.to_owned()]);
    assert_eq!(run(r#"{"spec":{"a":"long","b":"long"}}"#), [too_long("spec.b"), required.to_owned()]);
    // Items of map lists are correlated by key, in any order.
    assert_eq!(run(r#"{"map":[{"k":"b","v":6},{"k":"a","v":5}]}"#), [required]);
    assert_eq!(
        run(r#"{"map":[{"k":"c","v":6},{"k":"a","v":7}]}"#),
        [
            "map[0].v: Invalid value: 6: map[0].v in body should be less than or equal to 1",
            "map[1].v: Invalid value: 7: map[1].v in body should be less than or equal to 1",
            required,
        ]
    );
    // Other lists only as a whole.
    assert_eq!(run(r#"{"list":[5]}"#), [required]);
    assert_eq!(run(r#"{"list":[5,1]}"#).len(), 2);
    assert_eq!(run(r#"{"any":{"x":5}}"#), [required]);
    assert_eq!(run(r#"{"any":{"x":6}}"#).len(), 3);
}

#[test]
fn sets_and_map_lists_have_unique_items() {
    let set = of_field(r#"{"type":"array","x-kubernetes-list-type":"set","items":{}}"#);
    let map = of_field(
        r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object"}}"#,
    );
    let two = of_field(
        r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object"}}"#,
    );
    for (schema, list, expected) in [
        (&set, r#"[1,"1",1.0,null,true]"#, vec![]),
        (&set, r#"["a","b","a","a"]"#, vec![r#"field[2]: Duplicate value: "a""#]),
        (&set, r#"[{"b":1,"a":2},{"a":2,"b":1}]"#, vec![r#"field[1]: Duplicate value: {"a":2,"b":1}"#]),
        (&set, "[null,null]", vec!["field[1]: Duplicate value: null"]),
        (&map, r#"[{"a":"x","b":1},{"a":"x"}]"#, vec![r#"field[1]: Duplicate value: {"a":"x"}"#]),
        (&map, r#"[{},{"b":1}]"#, vec!["field[1]: Duplicate value: {}"]),
        (&map, r#"[{},{"a":null}]"#, vec![]),
        (&map, r#"[1]"#, vec!["field[0]: Invalid value: 1: must be an object for an array of list-type map"]),
        (
            &two,
            r#"[{"a":1},{"a":1,"b":2},{"b":2,"a":1}]"#,
            vec![r#"field[2]: Duplicate value: {"a":1,"b":2}"#],
        ),
    ] {
        let object = parse(&format!(r#"{{"field":{list}}}"#));
        let found = errors_of(|errors| validate_lists(&object, schema, &Path::NONE, errors));
        assert_eq!(found, expected, "{list}");
        let kept = errors_of(|errors| validate_lists_update(&object, &object, schema, &Path::NONE, errors));
        assert_eq!(kept, Vec::<String>::new());
    }
}

#[test]
fn embedded_resources_are_validated() {
    let schema = of_field(
        r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#,
    );
    let run = |value: &str| {
        let object = parse(&format!(r#"{{"field":{value}}}"#));
        errors_of(|errors| validate_embedded(&object, &schema, &Path::NONE, errors))
    };
    assert_eq!(run(r#"{"apiVersion":"a/v1","kind":"Pod","metadata":{"name":"x"}}"#), Vec::<String>::new());
    assert_eq!(run("{}"), ["field.apiVersion: Required value", "field.kind: Required value"]);
    assert_eq!(
        run(r#"{"apiVersion":"a/b/c","kind":""}"#),
        [
            r#"field.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
            r#"field.kind: Invalid value: "": must not be empty"#,
        ]
    );
    assert!(
        run(r#"{"apiVersion":"v1","kind":"A!"}"#)[0]
            .contains("may have mixed case, but should otherwise match")
    );
    let labels = run(r#"{"apiVersion":"v1","kind":"A","metadata":{"labels":{"a b":"c"}}}"#);
    assert!(labels[0].starts_with("field.metadata.labels: Invalid value: \"a b\""), "{labels:?}");
}

#[test]
fn work_of_a_validation_is_bounded() {
    let branches = vec![crate::value!({"enum": ["x"]}); 4000];
    let schema = crate::value!({"type": "array", "items": {"type": "string", "anyOf": (branches)}});
    let schema = Schema::compile(&schema).unwrap();
    let list = Value::from(vec!["y"; 3000]);
    let found = errors_of(|errors| validate(&list, &schema, &Path::NONE, errors));
    assert_eq!(found[0], "<nil>: Internal error: validation exceeded its budget of steps");
}
