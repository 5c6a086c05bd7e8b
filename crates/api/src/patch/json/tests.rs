//! Comparison of the document form with direct application.

use proptest::prelude::*;

use super::{SHORT_LEN_MAX, apply_long, short};
use crate::json;
use crate::value::Value;

const OBJECT: &str =
    r#"{"a":{"b":[1,2,{"c":[]}],"d":{"e":"x"}},"l":[[],[0,1,2,3],{"k":null}],"s":"t","n":null}"#;

/// Paths of the object and of values that operations add, valid and invalid.
fn pointer() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => "(a|b|c|d|e|l|s|n|k)",
        6 => "(0|1|2|3|-1|-)",
        1 => "(x~1y|~0|99|-9|)",
    ];
    proptest::collection::vec(part, 0..4)
        .prop_map(|parts| parts.iter().map(|part| format!("/{part}")).collect())
}

fn operation() -> impl Strategy<Value = String> {
    let value = "(null|1|\"x\"|\\[\\]|\\[1,2,\\{\"c\":\\[\\]\\}\\]|\\{\\}|\\{\"b\":\\[1,2\\],\"c\":\\{\\}\\}|\\[0,1,2,3\\])";
    ("(add|add|remove|replace|move|move|copy|test)", pointer(), pointer(), value).prop_map(
        |(op, path, from, value)| {
            format!(r#"{{"op":"{op}","path":"{path}","from":"{from}","value":{value}}}"#)
        },
    )
}

proptest! {
    #[test]
    fn document_and_value_agree_on_every_operation(operations in proptest::collection::vec(operation(), 1..40)) {
        let mut own = json::parse(OBJECT.as_bytes()).unwrap();
        // One at a time, so that operations after a failing one are tried too.
        for operation in operations {
            let one = [json::parse(operation.as_bytes()).unwrap()];
            let expected = short::apply(own.clone(), &one);
            let found = apply_long(own.clone(), &one);
            prop_assert_eq!(
                found.as_ref().map(json::to_text).map_err(Clone::clone),
                expected.as_ref().map(json::to_text).map_err(Clone::clone),
                "{} on {}", operation, json::to_text(&own)
            );
            own = expected.unwrap_or(own);
        }
    }

    #[test]
    fn document_keeps_its_state_between_operations(
        moves in proptest::collection::vec((0..300_usize, 0..300_usize), SHORT_LEN_MAX + 1..400),
    ) {
        let list: Vec<Value> = (0..300_i64).map(Value::from).collect();
        let mut object = Value::map();
        object.make_map().insert("l", list);
        let texts = moves.iter().map(|(from, to)| {
            format!(r#"{{"op":"move","from":"/l/{from}","path":"/l/{to}"}}"#)
        });
        let text = format!("[{}]", texts.collect::<Vec<_>>().join(","));
        let operations = json::parse(text.as_bytes()).unwrap();
        let operations = operations.as_list().unwrap();
        prop_assert_eq!(apply_long(object.clone(), operations), short::apply(object, operations));
    }
}

#[test]
fn depth_is_recomputed_after_a_removal() {
    let chain = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let deep = json::DEPTH_MAX - 2;
    // A deep value is added to an object and removed again, after which the object fits where the value did
    // not.
    let text = format!(
        r#"[{{"op":"add","path":"/a/x","value":{}}},{{"op":"remove","path":"/a/x"}},{{"op":"move","from":"/a","path":"/l/2/k"}}]"#,
        chain(deep)
    );
    let operations = json::parse(text.as_bytes()).unwrap();
    let object = json::parse(OBJECT.as_bytes()).unwrap();
    for apply in [apply_long, short::apply] {
        apply(object.clone(), operations.as_list().unwrap()).unwrap();
    }
    let text = format!(
        r#"[{{"op":"add","path":"/a/x","value":{}}},{{"op":"move","from":"/a","path":"/l/2/k"}}]"#,
        chain(deep)
    );
    let operations = json::parse(text.as_bytes()).unwrap();
    for apply in [apply_long, short::apply] {
        let refused = apply(object.clone(), operations.as_list().unwrap());
        assert_eq!(refused, Err(super::JsonPatchError::Depth));
    }
}
