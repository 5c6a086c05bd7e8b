//! Round trips, comparison with serde_json, and error texts that clients match on.

use proptest::prelude::*;

use super::*;
use crate::value::Map;

fn text(value: &Value) -> String {
    String::from_utf8(to_vec(value)).unwrap()
}

fn error(input: &[u8]) -> String {
    parse(input).unwrap_err().to_string()
}

#[test]
fn errors_have_the_texts_of_go() {
    for (input, expected) in [
        ("", "unexpected end of JSON input"),
        ("{\"a\":", "unexpected end of JSON input"),
        ("\"abc", "unexpected end of JSON input"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("1 '", "invalid character '\\'' after top-level value"),
        ("\"\n\"", "invalid character '\\n' in string literal"),
        ("\"a\\nb\u{1}\"", "invalid character '\\x01' in string literal"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("tru\"", "invalid character '\"' in literal true (expecting 'e')"),
        ("nul", "unexpected end of JSON input"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
    ] {
        assert_eq!(error(input.as_bytes()), expected, "{input:?}");
    }
    assert_eq!(error(b"\x9e"), "invalid character '\\u009e' looking for beginning of value");
    assert_eq!(error(b"\"a\xff\""), "invalid UTF-8 in string literal");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(error(&nested(DEPTH_MAX + 1)), "invalid character '[' exceeded max depth");
    assert_eq!(error(&vec![b'['; 1 << 20]), "invalid character '[' exceeded max depth");
}

#[test]
fn integers_that_fit_stay_integers() {
    let value = |input: &str| parse(input.as_bytes()).unwrap();
    assert_eq!(value("9223372036854775807"), Value::Int(i64::MAX));
    assert_eq!(value("-9223372036854775808"), Value::Int(i64::MIN));
    assert_eq!(value("9223372036854775808"), Value::Float(9_223_372_036_854_775_808.0));
    assert_eq!(value("1.0"), Value::Float(1.0));
    assert_eq!(value("1e2"), Value::Float(100.0));
}

#[test]
fn strings_are_unescaped_as_go_does() {
    let value = |input: &str| parse(input.as_bytes()).unwrap();
    assert_eq!(value(r#""\"\\\/\b\f\n\r\t\u00e9""#), Value::from("\"\\/\u{8}\u{c}\n\r\té"));
    assert_eq!(value(r#""\ud83d\ude00""#), Value::from("😀"));
    assert_eq!(value(r#""\ud83dx""#), Value::from("\u{fffd}x"));
    assert_eq!(value(r#""\ud83d\u0041""#), Value::from("\u{fffd}A"));
    assert_eq!(value(r#""\ude00""#), Value::from("\u{fffd}"));
}

#[test]
fn duplicate_fields_are_reported_with_their_paths() {
    let input = br#"{"spec":{"containers":[{"name":"a","image":"i","name":"b"}],"x":1,"x":2,"x":3},"kind":1,"kind":2}"#;
    let (value, duplicates) = parse_strict(input).unwrap();
    let paths: Vec<String> = duplicates.iter().map(Duplicate::path).collect();
    assert_eq!(paths, ["spec.containers[0].name", "spec.x", "kind"]);
    assert_eq!(duplicates[0].before, 2);
    assert_eq!(text(&value), r#"{"spec":{"containers":[{"name":"b","image":"i"}],"x":3},"kind":2}"#);
    assert!(parse_strict(br#"[{"a":1},{"a":1}]"#).unwrap().1.is_empty());
}

#[test]
fn ten_thousand_duplicates_are_bounded() {
    let body: Vec<String> = (0..10_000).map(|i| format!("\"k{}\":{i}", i % 5000)).collect();
    let (value, duplicates) = parse_strict(format!("{{{}}}", body.join(",")).as_bytes()).unwrap();
    assert_eq!(value.as_map().unwrap().len(), 5000);
    assert_eq!(value.get("k7"), Some(&Value::Int(5007)));
    assert_eq!(duplicates.len(), DUPLICATES_MAX);
}

#[test]
fn strings_are_escaped_as_go_does() {
    let value = Value::from("<a>&\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}\u{2028}\u{2029}\u{2027}é😀");
    let expected = "\"\\u003ca\\u003e\\u0026\\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}\\u2028\\u2029\u{2027}é😀\"";
    assert_eq!(text(&value), expected);
}

#[test]
fn special_characters_are_escaped_at_any_position_of_a_long_string() {
    for special in ["\"", "\\", "<", "&", ">", "\n", "\u{1}", "\u{2028}", "\u{2027}"] {
        for at in 0..100 {
            let long = format!("{}{special}{}", "x".repeat(at), "y".repeat(99 - at));
            let written = text(&Value::from(long.as_str()));
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), long);
            assert!(!written.contains(special) || matches!(special, "\"" | "\\" | "\u{2027}"), "{written}");
            assert_eq!(parse(written.as_bytes()).unwrap(), Value::from(long));
        }
    }
}

#[test]
fn floats_are_written_as_go_writes_them() {
    for (number, expected) in [
        (1.0, "1"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.25e-10, "1.25e-10"),
        (0.0, "0"),
        (f64::NAN, "null"),
    ] {
        assert_eq!(text(&Value::Float(number)), expected);
    }
}

#[test]
fn pretty_form_has_one_line_per_field() {
    let value = parse(br#"{"a":[1,{"b":null}],"c":{},"d":[]}"#).unwrap();
    let mut out = Vec::new();
    write_pretty(&value, &mut out);
    let expected =
        "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

/// Any value whose floats are not integral: Go writes those without a fraction, and they read back as
/// integers.
pub(super) fn any_value() -> impl Strategy<Value = Value> {
    let float = any::<f64>()
        .prop_filter("reads back as a float", |f| f.is_finite() && (f.fract() != 0.0 || f.abs() >= 9.3e18));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        float.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 128, 24, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::List),
            prop::collection::btree_map("[a-e]{0,3}|.{0,4}", inner, 0..24)
                .prop_map(|map| Value::Map(map.into_iter().collect::<Map>())),
        ]
    })
}

/// `true` if both parsers hold the same value.
fn is_equal(ours: &Value, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        // serde_json reads a negative zero as a float.
        (Value::Int(0), serde_json::Value::Number(b)) => b.as_f64() == Some(0.0),
        (Value::Int(a), serde_json::Value::Number(b)) => b.as_i64() == Some(*a),
        (Value::Float(a), serde_json::Value::Number(b)) => b.as_f64() == Some(*a),
        (Value::Str(a), serde_json::Value::String(b)) => a == b,
        (Value::List(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Map(a), serde_json::Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        _ => false,
    }
}

/// Bytes that are nearly JSON, so that the parser gets past the first byte.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"a\"",
        "\"\\u00e9\"",
        "\"\\ud800\"",
        "1",
        "-0",
        "0.5",
        "1e5",
        "01",
        "-",
        "true",
        "nul",
        " ",
        "\n",
        "\"",
        "\\",
        "é",
    ]);
    prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat().into_bytes())
}

proptest! {
    #[test]
    fn written_values_parse_back(value in any_value()) {
        let bytes = to_vec(&value);
        prop_assert_eq!(&parse(&bytes).unwrap(), &value);
        let mut pretty = Vec::new();
        write_pretty(&value, &mut pretty);
        prop_assert_eq!(&parse(&pretty).unwrap(), &value);
        prop_assert!(is_equal(&value, &serde_json::from_slice(&bytes).unwrap()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in any::<Vec<u8>>()) {
        let _ = parse_strict(&bytes);
    }

    #[test]
    fn parser_agrees_with_serde_json(bytes in nearly_json()) {
        match (parse(&bytes), serde_json::from_slice::<serde_json::Value>(&bytes)) {
            (Ok(ours), Ok(theirs)) => prop_assert!(is_equal(&ours, &theirs), "{ours:?} {theirs:?}"),
            // A lone surrogate is an error in serde_json, and U+FFFD here and in Go.
            (Ok(_), Err(_)) => prop_assert!(bytes.windows(6).any(|w| w == b"\\ud800")),
            (Err(error), Ok(_)) => prop_assert!(false, "{error}"),
            (Err(_), Err(_)) => {}
        }
    }
}

#[test]
fn fields_v1_stays_raw_only_in_managed_fields() {
    let owned = r#"{"f:spec":{"k:{\"name\":\"}\"}":{".":{}}}}"#;
    let text = format!(
        r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{owned},"time":"t"}},{{"fieldsV1":null}}],"x":{{"fieldsV1":{{}}}}}},"spec":{{"managedFields":[{{"fieldsV1":{{}}}}],"metadata":{{"managedFields":[{{"fieldsV1":{{}}}}]}}}},"fieldsV1":{{}}}}"#
    );
    let stored = parse_stored(text.as_bytes()).unwrap();
    let entries = stored.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap();
    assert_eq!(entries[0].get("fieldsV1"), Some(&Value::Raw(owned.into())));
    assert_eq!(entries[0].str_at(&["time"]), "t");
    assert_eq!(entries[1].get("fieldsV1"), Some(&Value::Null));
    assert_eq!(to_text(&stored), text, "the stored form is unchanged");
    let mut raw = 0;
    count_raw(&stored, &mut raw);
    assert_eq!(raw, 1);
    for end in 0..text.len() {
        assert!(parse_stored(&text.as_bytes()[..end]).is_err(), "{}", &text[..end]);
    }
}

#[test]
fn raw_spec_fields_stay_raw_only_in_the_spec() {
    let text = r#"{"metadata":{"list":[1]},"spec":{"list":[{"a":"]"}],"map":{"b":1},"word":"w","deep":{"list":[2]},"none":null},"status":{"list":[3]}}"#;
    let raw_fields = ["list", "map", "word", "none"];
    let object = parse_with_raw_spec(text.as_bytes(), &raw_fields).unwrap();
    assert_eq!(object.at(&["spec", "list"]), Some(&Value::Raw(r#"[{"a":"]"}]"#.into())));
    assert_eq!(object.str_at(&["spec", "word"]), "w", "only objects and lists stay raw");
    let mut raw = 0;
    count_raw(&object, &mut raw);
    assert_eq!(raw, 2);
    assert_eq!(to_text(&object), text);
    let open = parse(text.as_bytes()).unwrap();
    for field in raw_fields {
        let [raw, parsed] = [&object, &open].map(|object| object.at(&["spec", field]).unwrap());
        assert_eq!(&*parse_raw(raw), parsed);
    }
    for end in 0..text.len() {
        assert!(parse_with_raw_spec(&text.as_bytes()[..end], &raw_fields).is_err(), "{}", &text[..end]);
    }
}

fn count_raw(value: &Value, count: &mut usize) {
    match value {
        Value::Raw(_) => *count += 1,
        Value::List(list) => list.iter().for_each(|item| count_raw(item, count)),
        Value::Map(map) => map.iter().for_each(|(_, value)| count_raw(value, count)),
        _ => {}
    }
}

#[test]
fn schemas_of_a_definition_stay_raw() {
    let text = r#"{"metadata":{"name":"a"},"spec":{"openAPIV3Schema":{"a":1},"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","schema":{"openAPIV3Schema":null}}]},"status":{"conditions":[]}}"#;
    let definition = parse_definition(text.as_bytes()).unwrap();
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap();
    let schemas: Vec<_> = versions.iter().map(|version| version.at(&["schema", "openAPIV3Schema"])).collect();
    assert_eq!(schemas, [Some(&Value::Raw(r#"{"type":"object"}"#.into())), Some(&Value::Null)]);
    assert_eq!(to_text(&definition), text);
}
