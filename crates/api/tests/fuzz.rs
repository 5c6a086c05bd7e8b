//! Fuzz tests: parsers of untrusted input never panic. `SETPOINT_CASES` sets the number of cases.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use setpoint_api::patch::{Patch, PatchType};
use setpoint_api::schema::Struct;
use setpoint_api::{Value, decode, fields, json, labels, protobuf, quantity, rfc3339, yaml};

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"a":"b"},
"finalizers":["a/b","c/d"],"creationTimestamp":"2024-01-01T00:00:00Z"},"spec":{"replicas":2,"selector":{"matchLabels":
{"app":"web"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"metadata":{"labels":
{"app":"web"}},"spec":{"containers":[{"name":"c","image":"nginx","ports":[{"containerPort":80},{"containerPort":81}],
"resources":{"limits":{"cpu":"1500m"}},"env":[{"name":"A","value":"1"}]},{"name":"d","image":"x"}]}}}}"#;

fn deployment() -> (Value, Struct<'static>) {
    (json::parse(DEPLOYMENT.as_bytes()).unwrap(), protobuf::find_definition("apps/v1", "Deployment").unwrap())
}

fn message(deployment: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    protobuf::encode(deployment, protobuf::find_definition("apps/v1", "Deployment").unwrap(), &mut out);
    out
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("SETPOINT_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(128_u32);
    ProptestConfig { cases: cases * 10, failure_persistence: None, ..ProptestConfig::default() }
}

/// Valid bytes after random truncation, bit flips, duplication and insertion.
fn corrupted(sound: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let injuries = proptest::collection::vec((any::<usize>(), 0..4_u8, any::<u8>()), 1..6);
    injuries.prop_map(move |injuries| {
        let mut bytes = sound.clone();
        for (at, how, byte) in injuries {
            let at = at % (bytes.len() + 1);
            match how {
                0 if at > bytes.len() / 2 => bytes.truncate(at),
                1 if at < bytes.len() => bytes[at] ^= byte,
                2 => bytes
                    .splice(at..at, bytes[at..].iter().take(usize::from(byte)).copied().collect::<Vec<_>>())
                    .for_each(drop),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

/// Text over the alphabet of selectors.
fn selector_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/.!=<>(), \\\\]{0,40}",
        "(a|in|notin|exists|,|\\(|\\)|=|==|!=|!|<|>| |\\\\|x/y|é|\0){0,20}",
        any::<String>()
    ]
}

/// Text that is nearly a patch.
fn patch_text() -> impl Strategy<Value = String> {
    let leaf = "(null|1|-1|1e400|\"x\"|\"\"|\\[\\]|\\{\\}|\\[null\\]|\\{\"\\$patch\":\"(delete|replace|merge|x)\"\\})";
    let key = "(spec|metadata|labels|finalizers|template|containers|name|\\$patch|\\$retainKeys|\\$setElementOrder/containers|\\$deleteFromPrimitiveList/finalizers|ports|containerPort)";
    let value = leaf.prop_recursive(5, 30, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((key, inner), 0..4).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    });
    let pointer = "(|/|/spec|/spec/template/spec/containers/(0|1|2|-|-1|99999999999999999999)(/name)?|/metadata/finalizers/(0|-)|~|/a~2)";
    let operation = ("(add|remove|replace|move|copy|test|x)", pointer, pointer, value.clone()).prop_map(
        |(op, path, from, value)| {
            format!(r#"{{"op":"{op}","path":"{path}","from":"{from}","value":{value}}}"#)
        },
    );
    prop_oneof![
        value,
        proptest::collection::vec(operation, 0..5)
            .prop_map(|operations| format!("[{}]", operations.join(",")))
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn arbitrary_bytes_never_panic_json_yaml_or_protobuf(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = json::parse_strict(&bytes);
        let _ = yaml::parse_strict(&bytes);
        let _ = protobuf::decode(&bytes);
        let _ = protobuf::decode(&[b"k8s\0", &bytes[..]].concat());
        let _ = protobuf::decode_message(&bytes, deployment().1);
    }

    #[test]
    fn corrupted_json_is_rejected_or_written_back(bytes in corrupted(DEPLOYMENT.into())) {
        if let Ok((value, duplicates)) = json::parse_strict(&bytes) {
            // The values may differ: `8e1` is a float until it is written as 80.
            let text = json::to_vec(&value);
            prop_assert_eq!(&json::to_vec(&json::parse(&text).unwrap()), &text);
            let _ = decode::decode(value, deployment().1, &duplicates);
        }
        let _ = yaml::parse_strict(&bytes);
    }

    #[test]
    fn corrupted_protobuf_is_rejected_or_reencoded(bytes in corrupted(message(&deployment().0))) {
        if let Ok(value) = protobuf::decode_message(&bytes, deployment().1) {
            prop_assert_eq!(protobuf::decode_message(&message(&value), deployment().1).unwrap(), value);
        }
    }

    #[test]
    fn arbitrary_patches_never_panic(text in patch_text(), strict: bool) {
        for sort in [PatchType::Json, PatchType::Merge, PatchType::Strategic] {
            if let Ok(patch) = Patch::parse(sort, text.as_bytes(), strict) {
                let (object, of) = deployment();
                if let Ok(patched) = patch.apply(object, Some(of)) {
                    let _ = decode::decode(patched, of, &[]);
                }
            }
        }
    }

    #[test]
    fn arbitrary_selectors_never_panic(text in selector_text()) {
        if let Ok(selector) = labels::Selector::parse(&text) {
            selector.matches(|key| (key == "a").then_some("x"));
        }
        if let Ok(selector) = fields::FieldSelector::parse(&text) {
            selector.matches(|_| Some(""));
        }
    }

    #[test]
    fn arbitrary_quantities_and_times_never_panic(text in prop_oneof!["[-+0-9.eEKMGTPkinum]{0,40}", "[0-9TZ:+.-]{0,40}", any::<String>()]) {
        if let Ok(quantity) = quantity::Quantity::parse(&text) {
            prop_assert!(quantity::Quantity::parse(&quantity.to_string()).is_ok(), "{text} becomes {quantity}");
        }
        let _ = rfc3339::parse(&text);
        let _ = rfc3339::parse_micros(&text);
    }
}

#[test]
fn unbounded_nesting_and_aliases_are_rejected() {
    for bytes in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 18), "a: ".to_owned() + &"[".repeat(1 << 20)] {
        assert!(json::parse(bytes.as_bytes()).is_err() && yaml::parse_strict(bytes.as_bytes()).is_err());
    }
    let levels = (1..12)
        .map(|level| format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(",")));
    let bomb = "a0: &a0 [x]\n".to_owned() + &levels.collect::<String>();
    assert!(yaml::parse_strict(bomb.as_bytes()).is_err());
}
