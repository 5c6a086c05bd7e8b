//! Tests of the three patch types.

use proptest::prelude::*;

use super::*;
use crate::json::{parse, to_text};
use crate::schema::builtin;
use crate::value::Map;

fn value(text: &str) -> Value {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn kind(name: &str) -> Struct<'static> {
    let groups = [("", "v1"), ("apps", "v1"), ("policy", "v1")];
    groups.into_iter().find_map(|(group, version)| builtin().kind(group, version, name)).unwrap()
}

fn patch(patch_type: PatchType, of: &str, object: &str, body: &str) -> Result<Value, PatchError> {
    Patch::parse(patch_type, body.as_bytes(), true)?.apply(value(object), Some(kind(of)))
}

fn pod(spec: &str) -> String {
    format!(r#"{{"spec":{spec}}}"#)
}

/// Applies a strategic merge patch to the spec of a pod.
fn strategic(spec: &str, body: &str) -> Result<Value, PatchError> {
    let patched = patch(PatchType::Strategic, "Pod", &pod(spec), &pod(body))?;
    Ok(patched.get("spec").cloned().unwrap_or_default())
}

#[track_caller]
fn check(spec: &str, body: &str, expected: &str) {
    // The order of items counts, the order of fields does not.
    assert_eq!(strategic(spec, body).unwrap(), value(expected), "{spec} patched by {body}");
}

#[track_caller]
fn assert_rejected(spec: &str, body: &str, code: u16, text: &str) {
    let error = strategic(spec, body).unwrap_err();
    assert_eq!((error.to_status().http_code(), error.to_string().as_str()), (code, text));
}

#[test]
fn operations_of_a_json_patch_apply_in_order() {
    let cases = [
        (r#"{"a":{}}"#, r#"[{"op":"add","path":"/a/b","value":1}]"#, r#"{"a":{"b":1}}"#),
        (r#"{"a":[1,3]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, r#"{"a":[1,2,3]}"#),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-","value":2}]"#, r#"{"a":[1,2]}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"add","path":"/a/-1","value":3}]"#, r#"{"a":[1,2,3]}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"remove","path":"/a/-1"}]"#, r#"{"a":[1]}"#),
        (r#"{"a":[1,2]}"#, r#"[{"op":"replace","path":"/a/0","value":9}]"#, r#"{"a":[9,2]}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/b","value":2}]"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{"c":1}}]"#, r#"{"c":1}"#),
        (r#"{"a":{"b":1}}"#, r#"[{"op":"move","from":"/a/b","path":"/c"}]"#, r#"{"a":{},"c":1}"#),
        (r#"{"a":{"b":1}}"#, r#"[{"op":"copy","from":"/a","path":"/a/c"}]"#, r#"{"a":{"b":1,"c":{"b":1}}}"#),
        (r#"{"a/b~":1}"#, r#"[{"op":"test","path":"/a~1b~0","value":1}]"#, r#"{"a/b~":1}"#),
        (r#"{}"#, r#"[{"op":"test","path":"/a","value":null}]"#, r#"{}"#),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"","value":{"a":1}}]"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, "null", r#"{"a":1}"#),
    ];
    for (object, body, expected) in cases {
        let found = patch(PatchType::Json, "ConfigMap", object, body);
        assert_eq!(found.unwrap(), value(expected), "{body}");
    }
}

#[test]
fn inapplicable_operations_are_rejected_without_details() {
    let cases = [
        r#"[{"op":"test","path":"/a","value":2}]"#,
        r#"[{"op":"test","path":"/a","value":1.0}]"#,
        r#"[{"op":"remove","path":"/none"}]"#,
        r#"[{"op":"remove","path":"/list/3"}]"#,
        r#"[{"op":"remove","path":"/list/x"}]"#,
        r#"[{"op":"remove","path":"/list/-4"}]"#,
        r#"[{"op":"add","path":"/list/4","value":1}]"#,
        r#"[{"op":"add","path":"/none/b","value":1}]"#,
        r#"[{"op":"add","path":"/a/b","value":1}]"#,
        r#"[{"op":"add","path":"","value":1}]"#,
        r#"[{"op":"add","path":"a","value":1}]"#,
        r#"[{"op":"add"}]"#,
        r#"[{"op":"move","from":"/none","path":"/b"}]"#,
        r#"[{"op":"replace","path":"","value":1}]"#,
        r#"[{"op":"replace","path":"/list/3","value":1}]"#,
        r#"[{"op":"increment","path":"/a"}]"#,
        "[null]",
    ];
    for body in cases {
        let error = patch(PatchType::Json, "ConfigMap", r#"{"a":1,"list":[1,2,3]}"#, body).unwrap_err();
        let status = error.to_status();
        assert_eq!(status.http_code(), 422, "{body}: {error}");
        assert_eq!(status.message, "the server rejected our request due to an error in our request");
    }
}

#[test]
fn json_patch_is_bounded_in_operations_copies_and_depth() {
    let many = |count: usize| format!("[{}]", vec![r#"{"op":"test","path":"/a"}"#; count].join(","));
    let check = |body: &str| patch(PatchType::Json, "ConfigMap", r#"{"x":{}}"#, body);
    assert!(check(&many(OPERATIONS_MAX)).is_ok());
    let error = check(&many(OPERATIONS_MAX + 1)).unwrap_err();
    assert_eq!(error.to_status().http_code(), 413);
    assert_eq!(
        error.to_status().message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    let text = "x".repeat(COPY_BYTES_MAX / 4);
    let copy = r#",{"op":"copy","from":"/x","path":"/y"}"#;
    let copies =
        |count: usize| format!(r#"[{{"op":"add","path":"/x","value":"{text}"}}{}]"#, copy.repeat(count));
    assert!(check(&copies(3)).is_ok());
    assert!(matches!(check(&copies(4)), Err(PatchError::Json(JsonPatchError::CopySize(_)))));
    let deeper = r#"{"op":"copy","from":"/x","path":"/x/y"}"#;
    let deep = format!("[{}]", vec![deeper; crate::json::DEPTH_MAX + 1].join(","));
    assert!(matches!(check(&deep), Err(PatchError::Json(JsonPatchError::Depth))));
    // Each pair of moves nests the object one level deeper, or as deep as before.
    let pairs = |second: &str| {
        let pair = format!(r#"{{"op":"move","from":"/x","path":"/y/x"}},{second}"#);
        let add = r#"{"op":"add","path":"/y","value":{}}"#;
        format!("[{add},{}]", vec![pair; crate::json::DEPTH_MAX + 1].join(","))
    };
    let sink =
        format!(r#"{{"op":"move","from":"/y","path":"/x"}},{}"#, r#"{"op":"add","path":"/y","value":{}}"#);
    assert!(matches!(check(&pairs(&sink)), Err(PatchError::Json(JsonPatchError::Depth))));
    assert!(check(&pairs(r#"{"op":"move","from":"/y/x","path":"/x"}"#)).is_ok());
}

#[test]
fn form_of_a_patch_is_checked_before_it_is_applied() {
    let read = |patch_type, body: &str, strict| Patch::parse(patch_type, body.as_bytes(), strict);
    let text = |patch_type, body: &str, strict| {
        let error = read(patch_type, body, strict).unwrap_err();
        assert_eq!(error.to_status().http_code(), 400);
        error.to_string()
    };
    use PatchType::{Json, Merge, Strategic};
    for patch_type in [Json, Merge, Strategic] {
        assert_eq!(text(patch_type, r#"{"data": "#, true), "invalid JSON patch");
    }
    let cases = [
        (
            Json,
            "{}",
            true,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (Json, "{}", false, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (Json, "[1]", false, "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        (
            Json,
            r#"[{"op":"add","path":1}]"#,
            true,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
        (
            Merge,
            "[]",
            true,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            Strategic,
            "[]",
            false,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ];
    for (patch_type, body, strict, expected) in cases {
        assert_eq!(text(patch_type, body, strict), expected);
    }
    let noted = read(Json, r#"[{"op":"test","op":"add","path":"/a","hint":1}]"#, true).unwrap();
    let texts = [r#"json patch unknown field "[0].hint""#, r#"json patch duplicate field "[0].op""#];
    assert_eq!(noted.strict().iter().map(AsRef::as_ref).collect::<Vec<&str>>(), texts);
    let noted = read(Merge, r#"{"a":{"b":1,"b":2}}"#, true).unwrap();
    assert_eq!(noted.strict(), [Box::from(r#"duplicate field "a.b""#)]);
    assert!(read(Merge, r#"{"a":{"b":1,"b":2}}"#, false).unwrap().strict().is_empty());
}

#[test]
fn merge_patch_merges_objects_and_replaces_the_rest() {
    // The table of RFC 7386, except cases whose result is no object.
    let cases = [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        (r#"{}"#, r#"{"a":[{"b":null},null]}"#, r#"{"a":[{},null]}"#),
    ];
    for (object, body, expected) in cases {
        assert_eq!(patch(PatchType::Merge, "ConfigMap", object, body).unwrap(), value(expected), "{body}");
    }
    let error = patch(PatchType::Merge, "ConfigMap", "{}", "null").unwrap_err();
    assert_eq!((error.to_status().http_code(), &*error.to_status().message), (400, "Invalid JSON Patch"));
}

#[test]
fn large_objects_merge_like_small_ones() {
    let object: Map = (0..500i64).map(|at| (format!("k{at}"), at)).collect();
    let body: Map = (250..750i64)
        .map(|at| (format!("k{at}"), if at % 2 == 0 { Value::Null } else { Value::Int(-at) }))
        .collect();
    let patched = merge::apply(Value::Map(object), &Value::Map(body)).unwrap();
    let expected: Map = (0..750i64)
        .filter(|at| *at < 250 || at % 2 != 0)
        .map(|at| (format!("k{at}"), if at < 250 { at } else { -at }))
        .collect();
    assert_eq!(to_text(&patched), to_text(&Value::Map(expected)));
}

#[test]
fn lists_are_merged_by_merge_key_in_the_order_of_the_patch() {
    let spec = r#"{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]}"#;
    check(
        spec,
        r#"{"containers":[{"name":"b","image":"2"}]}"#,
        r#"{"containers":[{"name":"a","image":"1"},{"name":"b","image":"2"}]}"#,
    );
    check(
        spec,
        r#"{"containers":[{"name":"c","image":"3"}]}"#,
        r#"{"containers":[{"name":"c","image":"3"},{"name":"a","image":"1"},{"name":"b","image":"1"}]}"#,
    );
    check(
        spec,
        r#"{"containers":[{"name":"b"},{"name":"a"}]}"#,
        r#"{"containers":[{"name":"b","image":"1"},{"name":"a","image":"1"}]}"#,
    );
    check(
        spec,
        r#"{"containers":[{"name":"a","image":"2"},{"name":"a","tty":true}]}"#,
        r#"{"containers":[{"name":"a","image":"2","tty":true},{"name":"b","image":"1"}]}"#,
    );
    check(
        spec,
        r#"{"containers":[{"name":"a","image":null}]}"#,
        r#"{"containers":[{"name":"a"},{"name":"b","image":"1"}]}"#,
    );
    check(spec, r#"{"containers":null}"#, "{}");
}

#[test]
fn directives_delete_and_replace_items_and_objects() {
    let spec = r#"{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}],"securityContext":{"runAsUser":1}}"#;
    let rest = r#""securityContext":{"runAsUser":1}"#;
    check(
        spec,
        r#"{"containers":[{"name":"a","$patch":"delete"}]}"#,
        &format!(r#"{{"containers":[{{"name":"b","image":"1"}}],{rest}}}"#),
    );
    check(
        spec,
        r#"{"containers":[{"$patch":"replace"},{"name":"c"}]}"#,
        &format!(r#"{{"containers":[{{"name":"c"}}],{rest}}}"#),
    );
    check(
        r#"{"securityContext":{"runAsUser":1,"fsGroup":2}}"#,
        r#"{"securityContext":{"$patch":"replace","runAsGroup":3}}"#,
        r#"{"securityContext":{"runAsGroup":3}}"#,
    );
    check(
        r#"{"securityContext":{"runAsUser":1}}"#,
        r#"{"securityContext":{"$patch":"delete"}}"#,
        r#"{"securityContext":{}}"#,
    );
    // An object with a directive adds nothing if there is nothing to replace.
    check("{}", r#"{"securityContext":{"$patch":"replace","runAsGroup":3}}"#, "{}");
    check(
        "{}",
        r#"{"containers":[{"name":"a"},{"name":"b","$patch":"delete"}]}"#,
        r#"{"containers":[{"name":"a"}]}"#,
    );
}

#[test]
fn retain_keys_removes_unlisted_fields() {
    let spec = r#"{"volumes":[{"name":"v","emptyDir":{}},{"name":"w","emptyDir":{}}]}"#;
    check(
        spec,
        r#"{"volumes":[{"name":"v","hostPath":{"path":"/"},"$retainKeys":["name","hostPath"]}]}"#,
        r#"{"volumes":[{"name":"v","hostPath":{"path":"/"}},{"name":"w","emptyDir":{}}]}"#,
    );
    for wrong in [r#""name""#, r#"["name"]"#] {
        let body = format!(r#"{{"volumes":[{{"name":"v","hostPath":{{}},"$retainKeys":{wrong}}}]}}"#);
        assert_rejected(spec, &body, 400, "invalid patch format of retainKeys");
    }
    let deployment = r#"{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}"#;
    let body = r#"{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#;
    let found = patch(PatchType::Strategic, "Deployment", deployment, body).unwrap();
    assert_eq!(to_text(&found), r#"{"spec":{"strategy":{"type":"Recreate"}}}"#);
}

#[test]
fn scalar_lists_are_merged_or_replaced_by_patch_strategy() {
    let object = r#"{"metadata":{"finalizers":["a","b","c"]}}"#;
    let apply = |body: &str| {
        let body = format!(r#"{{"metadata":{body}}}"#);
        let patched = patch(PatchType::Strategic, "Pod", object, &body).unwrap();
        to_text(patched.at(&["metadata", "finalizers"]).unwrap())
    };
    assert_eq!(apply(r#"{"finalizers":["d","b"]}"#), r#"["d","a","b","c"]"#);
    assert_eq!(apply(r#"{"$deleteFromPrimitiveList/finalizers":["b","x"]}"#), r#"["a","c"]"#);
    assert_eq!(apply(r#"{"$setElementOrder/finalizers":["c","b","a"]}"#), r#"["c","b","a"]"#);
    assert_eq!(
        apply(r#"{"$setElementOrder/finalizers":["d","c"],"finalizers":["d"]}"#),
        r#"["d","a","b","c"]"#
    );
    // Container commands have no patch strategy and are replaced.
    check(
        r#"{"containers":[{"name":"a","args":["1","2"]}]}"#,
        r#"{"containers":[{"name":"a","args":["3"]}]}"#,
        r#"{"containers":[{"name":"a","args":["3"]}]}"#,
    );
    check(
        r#"{"containers":[{"name":"a","args":["1","2"]}]}"#,
        r#"{"containers":[{"name":"a","$deleteFromPrimitiveList/args":["1"]}]}"#,
        r#"{"containers":[{"name":"a","args":["2"]}]}"#,
    );
    check("{}", r#"{"$deleteFromPrimitiveList/tolerations":["1"]}"#, "{}");
}

#[test]
fn set_element_order_sorts_a_list() {
    let spec = r#"{"containers":[{"name":"a"},{"name":"b"},{"name":"server"}]}"#;
    check(
        spec,
        r#"{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}]}"#,
        r#"{"containers":[{"name":"b"},{"name":"a"},{"name":"server"}]}"#,
    );
    check(
        spec,
        r#"{"$setElementOrder/containers":[{"name":"n"},{"name":"a"}],
            "containers":[{"name":"n"},{"name":"b","$patch":"delete"}]}"#,
        r#"{"containers":[{"name":"n"},{"name":"a"},{"name":"server"}]}"#,
    );
    check(
        "{}",
        r#"{"$setElementOrder/containers":[{"name":"n"}],"containers":[{"name":"n"}]}"#,
        r#"{"containers":[{"name":"n"}]}"#,
    );
    check(
        r#"{"containers":null}"#,
        r#"{"$setElementOrder/containers":[{"name":"n"}],"containers":[{"name":"n"}]}"#,
        r#"{"containers":[{"name":"n"}]}"#,
    );
    assert_rejected(
        spec,
        r#"{"$setElementOrder/containers":[{"name":"n"}],"containers":null}"#,
        400,
        "expected a []interface {}, but received a %!s(<nil>)",
    );
    assert_rejected(
        spec,
        r#"{"$setElementOrder/containers":[{"name":"a"},{"name":"b"}],"containers":[{"name":"b"},{"name":"a"}]}"#,
        400,
        "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
    );
}

#[test]
fn inapplicable_patches_have_the_texts_of_upstream() {
    let spec = r#"{"containers":[{"name":"a"}]}"#;
    let cases = [
        (
            r#"{"containers":[{"image":"no name"}]}"#,
            "map: map[image:no name] does not contain declared merge key: name",
        ),
        (
            r#"{"containers":[{"$patch":"delete"}]}"#,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (r#"{"containers":[{"$patch":"merge"}]}"#, "merging lists cannot yet be specified in the patch"),
        (
            r#"{"containers":[{"$patch":"x","name":"a"}]}"#,
            "unknown patch type: x in map: map[$patch:x name:a]",
        ),
        (r#"{"containers":["a"]}"#, "list element types are not identical: [[map[name:a]] [a]]"),
        (r#"{"$patch":"merge"}"#, "unknown patch type: merge in map: map[$patch:merge]"),
        (r#"{"$setElementOrder":[]}"#, "invalid patch format of setElementOrder list"),
        (r#"{"$setElementOrder/containers":"a"}"#, "expected a []interface {}, but received a string"),
        (
            r#"{"$setElementOrder/none":[]}"#,
            r#"unable to find api field in struct PodSpec for the json field "none""#,
        ),
        (r#"{"$deleteFromPrimitiveListX":[]}"#, "invalid patch format of primitive list"),
    ];
    for (body, text) in cases {
        assert_rejected(spec, body, 400, text);
    }
    assert_rejected(
        r#"{"imagePullSecrets":[["x"]]}"#,
        r#"{"imagePullSecrets":[["y"]]}"#,
        422,
        "lists of lists are not supported",
    );
    let pdb = r#"{"spec":{"selector":{"matchLabels":{"a":"1"}}}}"#;
    let body = r#"{"spec":{"selector":{"matchLabels":{"b":"2"}}}}"#;
    let found = patch(PatchType::Strategic, "PodDisruptionBudget", pdb, body).unwrap();
    assert_eq!(to_text(&found), body, "a field with the strategy replace is replaced");
}

#[test]
fn undecodable_results_are_shown_as_by_upstream() {
    let object =
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","labels":{"b":"1","a":"2"}}}"#;
    let invalid = |patch_type, of: &str, body: &str| {
        let patch = Patch::parse(patch_type, body.as_bytes(), true).unwrap();
        let patched = patch.apply(value(object), Some(kind(of))).unwrap();
        match crate::decode::decode(patched.clone(), kind(of), &[]) {
            Ok(decoded) => patch.strict_invalid(&patched, &decoded.strict),
            Err(error) => patch.invalid(&patched, Some(kind(of)), &error),
        }
    };
    let status = invalid(PatchType::Merge, "ConfigMap", r#"{"data":"x"}"#);
    assert_eq!(status.http_code(), 422);
    assert_eq!(
        status.message,
        r#" "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"data\":\"x\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\",\"labels\":{\"b\":\"1\",\"a\":\"2\"}}}": json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string"#
    );
    let status = invalid(PatchType::Json, "ConfigMap", r#"[{"op":"add","path":"/metadata/x","value":1}]"#);
    assert_eq!(
        status.message,
        r#" "" is invalid: patch: Invalid value: "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"labels\":{\"b\":\"1\",\"a\":\"2\"},\"name\":\"c\",\"x\":1}}": strict decoding error: unknown field "metadata.x""#
    );
    let cases = [
        (
            r#"{"spec":{"containers":"text"}}"#,
            "map[spec:map[containers:text]]",
            "cannot restore slice from string",
        ),
        (r#"{"spec":{"priority":"x"}}"#, "map[spec:map[priority:x]]", "unrecognized type: int32"),
        (r#"{"spec":{"nodeName":1}}"#, "map[spec:map[nodeName:1]]", "cannot convert int64 to string"),
        (r#"{"spec":[]}"#, "map[spec:[]]", "cannot restore struct from: slice"),
        (
            r#"{"spec":{"nodeSelector":true}}"#,
            "map[spec:map[nodeSelector:true]]",
            "cannot restore map from bool",
        ),
    ];
    for (body, shown, text) in cases {
        let message = invalid(PatchType::Strategic, "Pod", body).message;
        assert_eq!(message, format!(r#" "" is invalid: patch: Invalid value: "{shown}": {text}"#));
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..5i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    let tree = scalar().prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Map(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-d]", tree, 0..5).prop_map(|map| Value::Map(map.into_iter().collect()))
}

/// The merge patch that converts one object without nulls into another.
fn diff(from: &Map, to: &Map) -> Map {
    let gone = from.keys().filter(|key| !to.contains(key)).map(|key| (key, Value::Null));
    let mut patch: Map = gone.collect();
    for (key, new) in to.iter() {
        match (from.get(key), new) {
            (Some(old), new) if old == new => {}
            (Some(Value::Map(old)), Value::Map(new)) => drop(patch.insert(key, diff(old, new))),
            (_, new) => drop(patch.insert(key, new.clone())),
        }
    }
    patch
}

fn pod_spec() -> impl Strategy<Value = Value> {
    let env = prop::collection::btree_map("[a-c]", "[a-b]", 0..3).prop_map(|map| {
        let item = |(name, value)| Value::Map([("name", name), ("value", value)].into_iter().collect());
        Value::List(map.into_iter().map(item).collect())
    });
    let container = (env, "[a-c]").prop_map(|(env, image)| (env, Value::from(image)));
    prop::collection::btree_map("[a-d]", container, 0..4).prop_map(|map| {
        let item = |(name, (env, image)): (String, (Value, Value))| {
            Value::Map([("name", Value::from(name)), ("env", env), ("image", image)].into_iter().collect())
        };
        let mut pod = Value::map();
        pod.ensure_map("spec").insert("containers", Value::List(map.into_iter().map(item).collect()));
        pod
    })
}

/// Operations on the trees above, most of which do not apply.
fn operations() -> impl Strategy<Value = Value> {
    let pointer = || "(/([a-d]|-|-?[0-3]|~0|~1)){0,4}";
    let kind = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "none"]);
    let operation = (kind, pointer(), pointer(), tree()).prop_map(|(kind, path, from, value)| {
        let fields =
            [("op", Value::from(kind)), ("path", path.into()), ("from", from.into()), ("value", value)];
        Value::Map(fields.into_iter().collect())
    });
    prop::collection::vec(operation, 0..8).prop_map(Value::List)
}

/// Trees with directives in valid and invalid places.
fn directives() -> impl Strategy<Value = Value> {
    let key = || {
        prop::sample::select(vec![
            "spec",
            "containers",
            "name",
            "args",
            "ports",
            "metadata",
            "finalizers",
            "labels",
            "$patch",
            "$retainKeys",
            "$setElementOrder/containers",
            "$setElementOrder/args",
            "$deleteFromPrimitiveList/args",
            "$deleteFromPrimitiveList/finalizers",
            "$setElementOrder",
            "$deleteFromPrimitiveList",
        ])
    };
    let word =
        prop::sample::select(vec!["delete", "replace", "merge", "name", "a", "b"]).prop_map(Value::from);
    let leaf = prop_oneof![Just(Value::Null), word, scalar()];
    let tree = leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map(key(), inner, 0..5)
                .prop_map(|map| Value::Map(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map(key(), tree, 0..6).prop_map(|map| Value::Map(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn empty_patch_changes_nothing(object in pod_spec()) {
        for (patch_type, body) in [(PatchType::Json, "[]"), (PatchType::Merge, "{}"), (PatchType::Strategic, "{}")] {
            let empty = Patch::parse(patch_type, body.as_bytes(), true).unwrap();
            let patched = empty.apply(object.clone(), Some(kind("Pod"))).unwrap();
            prop_assert_eq!(to_text(&patched), to_text(&object));
        }
    }

    #[test]
    fn merge_patch_of_the_difference_gives_the_target(from in tree(), to in tree()) {
        let patch = Value::Map(diff(from.as_map().unwrap(), to.as_map().unwrap()));
        prop_assert_eq!(merge::apply(from, &patch), Some(to));
    }

    #[test]
    fn strategic_patch_with_replace_replaces_the_list(from in pod_spec(), to in pod_spec()) {
        let mut body = to.clone();
        body.ensure_map("spec").insert("$patch", "replace");
        let patched = strategic::apply(from.clone(), &body, kind("Pod")).unwrap();
        prop_assert_eq!(&patched, &to);
        let Some(Value::List(items)) = body.at_mut(&["spec", "containers"]) else { panic!("a list") };
        items.insert(0, value(r#"{"$patch":"replace"}"#));
        body.ensure_map("spec").remove("$patch");
        prop_assert_eq!(strategic::apply(from, &body, kind("Pod")).unwrap(), to);
    }

    #[test]
    fn strategic_patch_is_idempotent(from in pod_spec(), to in pod_spec()) {
        let once = strategic::apply(from, &to, kind("Pod")).unwrap();
        let twice = strategic::apply(once.clone(), &to, kind("Pod")).unwrap();
        prop_assert_eq!(to_text(&twice), to_text(&once));
    }

    #[test]
    fn arbitrary_patch_bodies_never_panic(object in tree(), body in ".{0,40}", patch_type in 0..3usize) {
        let patch_type = [PatchType::Json, PatchType::Merge, PatchType::Strategic][patch_type];
        if let Ok(patch) = Patch::parse(patch_type, body.as_bytes(), true) {
            drop(patch.apply(object, Some(kind("Pod"))));
        }
    }

    #[test]
    fn arbitrary_operations_never_panic_or_nest_too_deep(object in tree(), operations in operations()) {
        if let Ok(patched) = json::apply(object, &operations) {
            // The result can be written and parsed.
            prop_assert_eq!(parse(to_text(&patched).as_bytes()).unwrap(), patched);
        }
    }

    #[test]
    fn arbitrary_directives_never_panic(object in directives(), body in directives()) {
        let pod = kind("Pod");
        if let Ok(patched) = strategic::apply(object, &body, pod) {
            drop(crate::decode::decode(patched, pod, &[]));
        }
    }
}
