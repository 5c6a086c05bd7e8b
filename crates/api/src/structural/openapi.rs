//! Published forms of a schema, the counterpart of upstream's OpenAPI builder for CRDs.
//!
//! The caller adds `x-kubernetes-group-version-kind` and selectable fields.

use crate::schema::builtin;
use crate::value;
use crate::value::{Map, Value};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const METADATA_DESCRIPTION: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Version of OpenAPI.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenApiVersion {
    V2,
    V3,
}

/// OpenAPI v3 form of a decoded `JSONSchemaProps`: with `apiVersion`, `kind` and `metadata` at the root and in
/// embedded resources, and the types of int-or-string spelled out.
#[must_use]
pub fn to_openapi_v3(props: &Value) -> Value {
    let mut root = props.clone();
    publish(&mut root, OpenApiVersion::V3);
    add_root(&mut root, OpenApiVersion::V3);
    root
}

/// OpenAPI v2 form of a decoded `JSONSchemaProps`: without junctors and nullable types. Objects that preserve
/// unknown fields lose their properties, since kubectl rejects unknown fields beside known ones.
#[must_use]
pub fn to_openapi_v2(props: &Value) -> Value {
    if is_true(props, PRESERVE) {
        return value!({"type": "object"});
    }
    let mut root = props.clone();
    publish(&mut root, OpenApiVersion::V2);
    add_root(&mut root, OpenApiVersion::V2);
    root
}

fn is_true(node: &Value, field: &str) -> bool {
    node.get(field) == Some(&Value::Bool(true))
}

fn add_root(root: &mut Value, version: OpenApiVersion) {
    let described = |name: &str| {
        let field = builtin().kind("", "v1", "Pod").and_then(|pod| pod.field(name));
        value!({"description": (field.map_or("", |field| field.description())), "type": "string"})
    };
    let properties = root.ensure_map("properties");
    properties.insert("apiVersion", described("apiVersion"));
    properties.insert("kind", described("kind"));
    properties.insert("metadata", metadata(version));
}

/// Reference to `ObjectMeta`. In v3, a reference with siblings stands in an `allOf`.
fn metadata(version: OpenApiVersion) -> Value {
    match version {
        OpenApiVersion::V2 => {
            value!({"description": (METADATA_DESCRIPTION), "$ref": (format!("#/definitions/{OBJECT_META}"))})
        }
        OpenApiVersion::V3 => value!({
            "description": (METADATA_DESCRIPTION),
            "allOf": [{"$ref": (format!("#/components/schemas/{OBJECT_META}"))}]
        }),
    }
}

/// Publishes a node and those below it.
fn publish(node: &mut Value, version: OpenApiVersion) {
    if is_true(node, INT_OR_STRING) && version == OpenApiVersion::V3 {
        unfold(node);
    }
    let Some(map) = node.as_map_mut() else { return };
    if version == OpenApiVersion::V2 {
        strip(map);
    }
    if let Some(Value::Map(properties)) = map.get_mut("properties") {
        properties.iter_mut().for_each(|(_, property)| publish(property, version));
    }
    for field in ["items", "additionalProperties"] {
        if let Some(child @ Value::Map(_)) = map.get_mut(field) {
            publish(child, version);
        }
    }
    let hides_fields = version == OpenApiVersion::V2 && is_true(node, PRESERVE);
    if is_true(node, EMBEDDED) && !hides_fields {
        add_embedded(node, version);
    }
}

fn add_embedded(node: &mut Value, version: OpenApiVersion) {
    let properties = node.ensure_map("properties");
    properties.insert("apiVersion", value!({"description": (EMBEDDED_API_VERSION), "type": "string"}));
    properties.insert("kind", value!({"description": (EMBEDDED_KIND), "type": "string"}));
    properties.insert("metadata", metadata(version));
    let required = node.make_map().ensure("required", || Value::List(Vec::new()));
    if let Value::List(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|one| one.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
    }
}

/// Adds the types of an int-or-string as an `anyOf`, unless they are there.
fn unfold(node: &mut Value) {
    let types = value!([{"type": "integer"}, {"type": "string"}]);
    let is_types = |value: Option<&Value>| value == Some(&types);
    let first = node.get("allOf").and_then(Value::as_list).and_then(<[Value]>::first);
    if is_types(node.get("anyOf")) || is_types(first.and_then(|branch| branch.get("anyOf"))) {
        return;
    }
    let map = node.make_map();
    if map.get("anyOf").and_then(Value::as_list).unwrap_or_default().is_empty() {
        map.insert("anyOf", types);
        return;
    }
    if let Value::List(all_of) = map.ensure("allOf", || Value::List(Vec::new())) {
        all_of.insert(0, value!({"anyOf": (types)}));
    }
}

/// Removes what OpenAPI v2 and kubectl cannot express.
fn strip(map: &mut Map) {
    let is_set = |map: &Map, field: &str| map.get(field) == Some(&Value::Bool(true));
    let mut removed = vec!["allOf", "anyOf", "oneOf", "not"];
    let preserves = is_set(map, PRESERVE);
    if is_set(map, "nullable") {
        removed.extend(["type", "nullable", "items", "properties"]);
    }
    if preserves {
        removed.extend(["items", "properties"]);
    }
    removed.iter().for_each(|field| drop(map.remove(field)));
    let has_no_items = !matches!(map.get("items"), Some(Value::Map(_)));
    match map.get_str("type") {
        Some("array") if has_no_items => drop(map.remove("type")),
        Some("object") if preserves => drop(map.remove("type")),
        _ => {}
    }
    let mut optional: Vec<String> = Vec::new();
    if let Some(Value::Map(properties)) = map.get("properties") {
        let nullable = properties.iter().filter(|(_, property)| is_true(property, "nullable"));
        optional.extend(nullable.map(|(name, _)| name.to_owned()));
    }
    if map.get("additionalProperties").is_some_and(|schema| is_true(schema, "nullable")) {
        map.remove("required");
    }
    if let Some(Value::List(required)) = map.get_mut("required") {
        required.retain(|name| name.as_str().is_none_or(|name| !optional.iter().any(|one| one == name)));
        if required.is_empty() {
            map.remove("required");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    /// Published form of a property.
    fn property(text: &str, run: fn(&Value) -> Value) -> Value {
        let root = value!({"type": "object", "properties": {"a": (parse(text))}});
        run(&root).at(&["properties", "a"]).unwrap().clone()
    }

    #[test]
    fn v2_drops_what_it_cannot_express() {
        for (schema, expected) in [
            (
                r#"{"type":"string","anyOf":[{}],"not":{},"format":"date"}"#,
                r#"{"type":"string","format":"date"}"#,
            ),
            (r#"{"type":"object","nullable":true,"properties":{"b":{}}}"#, "{}"),
            (r#"{"x-kubernetes-int-or-string":true}"#, r#"{"x-kubernetes-int-or-string":true}"#),
            (
                r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"b":{}}}"#,
                r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
            ),
            (
                r#"{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{}}"#,
                r#"{"x-kubernetes-preserve-unknown-fields":true}"#,
            ),
            (
                r#"{"type":"object","required":["b","c"],"properties":{"b":{"type":"string","nullable":true},"c":{"type":"string"}}}"#,
                r#"{"type":"object","required":["c"],"properties":{"b":{},"c":{"type":"string"}}}"#,
            ),
            (
                r#"{"type":"object","nullable":true,"x-kubernetes-map-type":"atomic"}"#,
                r#"{"x-kubernetes-map-type":"atomic"}"#,
            ),
        ] {
            assert_eq!(property(schema, to_openapi_v2), parse(expected), "{schema}");
        }
        let root =
            parse(r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{}}}"#);
        assert_eq!(to_openapi_v2(&root), parse(r#"{"type":"object"}"#));
    }

    #[test]
    fn v3_keeps_validations_and_unfolds_int_or_string() {
        let types = r#"[{"type":"integer"},{"type":"string"}]"#;
        for (schema, expected) in [
            (r#"{"type":"object","nullable":true,"anyOf":[{}]}"#.to_owned(), None),
            (
                r#"{"x-kubernetes-int-or-string":true}"#.to_owned(),
                Some(format!(r#"{{"x-kubernetes-int-or-string":true,"anyOf":{types}}}"#)),
            ),
            (format!(r#"{{"x-kubernetes-int-or-string":true,"anyOf":{types}}}"#), None),
            (
                r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"minimum":1}]}"#.to_owned(),
                Some(format!(
                    r#"{{"x-kubernetes-int-or-string":true,"anyOf":[{{"minimum":1}}],"allOf":[{{"anyOf":{types}}}]}}"#
                )),
            ),
        ] {
            assert_eq!(
                property(&schema, to_openapi_v3),
                parse(expected.as_ref().unwrap_or(&schema)),
                "{schema}"
            );
        }
    }

    #[test]
    fn resources_have_type_and_metadata() {
        let embedded = r#"{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}}"#;
        let v3 = property(embedded, to_openapi_v3);
        assert_eq!(v3.get("required"), Some(&value!(["kind", "apiVersion"])));
        let reference = format!("#/components/schemas/{OBJECT_META}");
        assert_eq!(v3.at(&["properties", "metadata", "allOf"]), Some(&value!([{"$ref": (reference)}])));
        let root = to_openapi_v2(&parse(r#"{"type":"object"}"#));
        assert_eq!(root.str_at(&["properties", "metadata", "$ref"]), format!("#/definitions/{OBJECT_META}"));
        assert!(root.str_at(&["properties", "kind", "description"]).starts_with("Kind is a string value"));
    }
}
