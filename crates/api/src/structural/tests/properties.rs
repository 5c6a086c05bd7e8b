//! Properties of random schemas and values.

use proptest::prelude::*;

use super::*;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(2.0), Just(1e300)].prop_map(Value::from),
        prop_oneof![Just("a"), Just("apiVersion"), Just("2006-01-02"), Just("")].prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::vec((key(), inner), 0..4)
                .prop_map(|entries| Value::Map(entries.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("metadata"), Just("kind")]
}

/// Random schemas, structural or not.
fn schema() -> impl Strategy<Value = Value> {
    let marks = prop::collection::vec(0..15_usize, 0..4);
    let ty = prop_oneof![
        Just(None),
        prop::sample::select(&["object", "array", "string", "integer", "number", "boolean"][..])
            .prop_map(Some),
    ];
    let leaf = (ty, marks, value()).prop_map(|(ty, marks, default)| {
        let mut map = Map::new();
        if let Some(ty) = ty {
            map.insert("type", ty);
        }
        for mark in marks {
            match mark {
                0 => map.insert("nullable", true),
                1 => map.insert("default", default.clone()),
                2 => map.insert("x-kubernetes-preserve-unknown-fields", true),
                3 => map.insert("x-kubernetes-embedded-resource", true),
                4 => map.insert("x-kubernetes-int-or-string", true),
                5 => map.insert("x-kubernetes-list-type", "set"),
                6 => {
                    map.insert("x-kubernetes-list-map-keys", vec!["a"]);
                    map.insert("x-kubernetes-list-type", "map")
                }
                7 => map.insert("maximum", 1.5),
                8 => map.insert("minLength", 1),
                9 => map.insert("pattern", "a+"),
                10 => map.insert("format", "date"),
                11 => map.insert("enum", vec![default.clone()]),
                12 => map.insert("required", vec!["a"]),
                13 => map.insert("uniqueItems", true),
                _ => map.insert("multipleOf", 0.5),
            };
        }
        Value::Map(map)
    });
    leaf.prop_recursive(3, 24, 3, |inner| {
        (inner.clone(), prop::collection::vec((0..8_usize, inner), 0..4)).prop_map(|(mut node, parts)| {
            let map = node.make_map();
            for (place, part) in parts {
                match place {
                    0 => map.insert("items", part),
                    1 => map.insert("additionalProperties", part),
                    2 => map.ensure_map("properties").insert("a", part),
                    3 => map.ensure_map("properties").insert("metadata", part),
                    4 => map.insert("anyOf", vec![part]),
                    5 => map.insert("oneOf", vec![part.clone(), part]),
                    6 => map.insert("allOf", vec![part]),
                    _ => map.insert("not", part),
                };
            }
            node
        })
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_are_idempotent_and_nothing_panics(
        schema in schema(), object in value(), old in value(), is_root in any::<bool>(),
    ) {
        let compiled = Schema::compile(&schema).unwrap();
        let mut once = object.clone();
        prune(&mut once, &compiled, is_root);
        let mut twice = once.clone();
        prop_assert_eq!(prune(&mut twice, &compiled, is_root), Vec::<String>::new());
        prop_assert_eq!(&twice, &once);
        prune_nulls(&mut once, &compiled);
        let _ = coerce_embedded(&mut once, &compiled, is_root, true);
        default(&mut once, &compiled);
        let mut twice = once.clone();
        default(&mut twice, &compiled);
        prop_assert_eq!(&twice, &once);
        let mut errors = ErrorList::new();
        validate(&once, &compiled, &Path::NONE, &mut errors);
        let found = errors.len();
        validate_update(&once, &old, &compiled, &Path::root("a"), &mut errors);
        // Ratcheting never adds errors.
        prop_assert!(errors.len() <= 2 * found);
        validate_lists(&once, &compiled, &Path::NONE, &mut errors);
        validate_lists_update(&once, &old, &compiled, &Path::NONE, &mut errors);
        validate_embedded(&once, &compiled, &Path::NONE, &mut errors);
        let _ = structural_violations(&schema, &Path::root("schema"));
        let _ = to_openapi_v2(&schema);
        let _ = to_openapi_v3(&schema);
    }

    #[test]
    fn any_pattern_compiles_or_is_an_error(pattern in "[\\[\\](){}*+?^$|\\\\a-c0-2,:&~<>PdwsQE-]{0,12}", text in "[a-c0-2\\[\\]-]{0,5}") {
        let _ = pattern::SchemaPattern::new(&pattern).is_match(&text);
    }
}
