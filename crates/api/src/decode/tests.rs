//! Tests of the decoder: dropped and added fields, canonical scalars, type errors and strict errors.

use proptest::prelude::*;

use super::*;
use crate::json;
use crate::schema::{self, Shape, builtin};

fn kind(group: &str, kind: &str) -> Struct<'static> {
    builtin().kind(group, "v1", kind).unwrap()
}

fn run(schema: Struct<'_>, text: &str) -> Result<Decoded, DecodeError> {
    let (value, duplicates) = json::parse_strict(text.as_bytes()).unwrap();
    decode(value, schema, &duplicates)
}

/// Decodes a document and encodes the result.
fn object(schema: Struct<'_>, text: &str) -> String {
    String::from_utf8(json::to_vec(&run(schema, text).unwrap().value)).unwrap()
}

fn error(schema: Struct<'_>, text: &str) -> String {
    run(schema, text).unwrap_err().to_string()
}

fn strict(schema: Struct<'_>, text: &str) -> Vec<String> {
    run(schema, text).unwrap().strict.iter().map(ToString::to_string).collect()
}

#[test]
fn type_errors_have_the_texts_of_go() {
    let pod = kind("", "Pod");
    for (schema, text, expected) in [
        (
            kind("", "ConfigMap"),
            r#"{"data":{"a":1}}"#,
            "number into Go struct field ConfigMap.data of type string",
        ),
        (
            kind("", "ConfigMap"),
            r#"{"data":"x"}"#,
            "string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (kind("", "ConfigMap"), "[]", "array into Go value of type v1.ConfigMap"),
        (pod, r#"{"kind":1}"#, "number into Go struct field Pod.TypeMeta.kind of type string"),
        (
            pod,
            r#"{"spec":{"containers":"x"}}"#,
            "string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            pod,
            r#"{"spec":{"containers":["x"]}}"#,
            "string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            pod,
            r#"{"spec":{"containers":[{"ports":[{"containerPort":3000000000}]}]}}"#,
            "number 3000000000 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            pod,
            r#"{"spec":{"containers":[{"ports":[{"containerPort":1.5,"protocol":1}]}]}}"#,
            "number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            pod,
            r#"{"spec":{"containers":[{"ports":[{"protocol":{}}]}]}}"#,
            "object into Go struct field ContainerPort.spec.containers.ports.protocol of type v1.Protocol",
        ),
        (
            pod,
            r#"{"spec":{"volumes":[{"hostPath":true}]}}"#,
            "bool into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            pod,
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":false}}}]}}"#,
            "bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            pod,
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            kind("apps", "Deployment"),
            r#"{"spec":{"replicas":"3"}}"#,
            "string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
    ] {
        assert_eq!(error(schema, text), format!("json: cannot unmarshal {expected}"), "{text}");
    }
}

#[test]
fn malformed_scalars_are_rejected() {
    let text = r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}}"#;
    let expected =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    assert_eq!(error(kind("", "Pod"), text), expected);
    assert_eq!(error(kind("", "Secret"), r#"{"data":{"a":"%"}}"#), "illegal base64 data at input byte 0");
    let expected = "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"";
    assert_eq!(error(kind("", "Pod"), r#"{"metadata":{"deletionTimestamp":"x"}}"#), expected);
}

#[test]
fn unknown_and_duplicate_fields_are_reported_in_input_order() {
    let text = r#"{"foo":1,"spec":{"containers":[{"name":"a","nam":1,"name":"b","foo":{"x":1,"x":2}}],"bar":2,"bar":3},
        "metadata":{"labels":{"a":"1","a":"2","a":"3"}},"spec2":{},"kind":"Pod","kind":"Pod"}"#;
    assert_eq!(
        strict(kind("", "Pod"), text),
        [
            "unknown field \"foo\"",
            "unknown field \"spec.containers[0].nam\"",
            "duplicate field \"spec.containers[0].name\"",
            "unknown field \"spec.containers[0].foo\"",
            "unknown field \"spec.bar\"",
            "duplicate field \"metadata.labels.a\"",
            "unknown field \"spec2\"",
            "duplicate field \"kind\"",
        ]
    );
    let errors = run(kind("", "ConfigMap"), r#"{"dat":{},"Data":{}}"#).unwrap().strict;
    assert_eq!(
        StrictError::join(&errors),
        "strict decoding error: unknown field \"dat\", unknown field \"Data\""
    );
}

#[test]
fn strict_errors_are_bounded() {
    let fields: Vec<String> = (0..1000).map(|i| format!("\"x{i}\":0")).collect();
    assert_eq!(strict(kind("", "Pod"), &format!("{{{}}}", fields.join(","))).len(), STRICT_ERRORS_MAX);
}

#[test]
fn unknown_fields_are_dropped_and_the_rest_is_sorted() {
    assert_eq!(
        object(
            kind("", "ConfigMap"),
            r#"{"x":1,"data":{"b":"2","a":"1"},"metadata":{"name":"n"},"apiVersion":"v1","kind":"ConfigMap"}"#
        ),
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n"},"data":{"a":"1","b":"2"}}"#
    );
}

#[test]
fn empty_values_are_dropped_as_by_omitempty() {
    assert_eq!(
        object(
            kind("", "Pod"),
            r#"{"metadata":{"labels":{},"name":"","creationTimestamp":null},"spec":{"containers":[],"nodeSelector":{},
            "volumes":[{"name":"v","emptyDir":{}}],"hostNetwork":false,"terminationGracePeriodSeconds":0,"tolerations":null},"status":null}"#
        ),
        r#"{"metadata":{},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"containers":null,"terminationGracePeriodSeconds":0},"status":{}}"#
    );
}

#[test]
fn zero_values_that_go_encodes_are_added() {
    assert_eq!(
        object(kind("apps", "Deployment"), r#"{"spec":{}}"#),
        r#"{"metadata":{},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#
    );
    assert_eq!(object(kind("", "ConfigMap"), "null"), r#"{"metadata":{}}"#);
    assert_eq!(
        object(kind("rbac.authorization.k8s.io", "Role"), r#"{"rules":[]}"#),
        r#"{"metadata":{},"rules":null}"#
    );
    assert!(object(kind("", "Event"), "{}").contains(r#""eventTime":null"#));
    let hpa = builtin().kind("autoscaling", "v2", "HorizontalPodAutoscaler").unwrap();
    assert!(object(hpa, "{}").ends_with(r#""status":{"desiredReplicas":0,"currentMetrics":null}}"#));
}

#[test]
fn nulls_in_lists_and_maps_become_zero_values() {
    assert_eq!(
        object(kind("", "Secret"), r#"{"data":{"a":null},"stringData":{"b":null}}"#),
        r#"{"metadata":{},"data":{"a":""},"stringData":{"b":""}}"#
    );
    assert!(
        object(kind("", "Pod"), r#"{"spec":{"containers":[null]}}"#)
            .contains(r#"[{"name":"","resources":{}}]"#)
    );
}

#[test]
fn scalars_become_canonical() {
    let text = r#"{"metadata":{"creationTimestamp":"2026-01-01T01:00:00.5+01:00"},"data":{"a":"YR==","b":"YW\nI="}}"#;
    let expected =
        r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"},"data":{"a":"YQ==","b":"YWI="}}"#;
    assert_eq!(object(kind("", "Secret"), text), expected);
    let text = r#"{"spec":{"limits":[{"type":"Pod","max":{"cpu":2,"memory":" 1Gi "}}]}}"#;
    assert!(object(kind("", "LimitRange"), text).contains(r#"{"cpu":"2","memory":"1Gi"}"#));
}

#[test]
fn json_schemas_have_no_strict_errors() {
    let crd = builtin().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let body = |schema: &str| {
        format!(r#"{{"spec":{{"versions":[{{"name":"v1","schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#)
    };
    let schema = r#"{"type":"object","additionalProperties":{"type":"string","foo":1},"items":[{"x":1}],"default":{"any":null}}"#;
    let decoded = run(crd, &body(schema)).unwrap();
    assert!(decoded.strict.is_empty());
    let text = String::from_utf8(json::to_vec(&decoded.value)).unwrap();
    assert!(
        text.contains(r#""default":{"any":null}"#)
            && text.contains(r#""additionalProperties":{"type":"string"}"#)
    );
    assert!(text.contains(r#""items":[{}]"#));
    assert_eq!(error(crd, &body(r#"{"additionalProperties":1}"#)), "boolean or JSON schema expected");
    assert_eq!(run(crd, &body(r#"{"foo":1}"#)).unwrap().strict.len(), 1);
}

/// Seeded random numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// Generates a value of a type, sometimes of the wrong type, with missing, null and unknown fields.
    fn value(&mut self, shape: Shape<'_>, depth: u32) -> Value {
        match (self.below(12), shape) {
            (0, _) => Value::Null,
            (1, _) if self.below(20) == 0 => Value::from("wrong"),
            (_, Shape::Struct(schema)) => self.fields(schema, depth),
            (_, Shape::Map(item_type)) => {
                let count = self.below(3);
                Value::Map(
                    (0..count).map(|i| (format!("k{i}"), self.value(item_type.shape(), depth + 1))).collect(),
                )
            }
            (_, Shape::List(item_type)) => {
                let count = self.below(3);
                Value::List((0..count).map(|_| self.value(item_type.shape(), depth + 1)).collect())
            }
            (_, Shape::Bytes) => ["", "YQ==", "YR==", "YWJj"][self.index(4)].into(),
            (_, Shape::Int32 | Shape::Int64 | Shape::Double) => Value::Int(self.below(3).cast_signed()),
            (_, Shape::Bool) => (self.below(2) == 0).into(),
            (_, Shape::Time) => ["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z"][self.index(2)].into(),
            (_, Shape::MicroTime) => "2026-01-01T00:00:00.000001+02:00".into(),
            (_, Shape::Quantity) => [Value::Int(1), Value::from("1Gi")][self.index(2)].clone(),
            (_, Shape::SchemaOr(_, schema)) => self.value(schema.shape(), depth + 1),
            _ => ["", "a"][self.index(2)].into(),
        }
    }

    /// Removes fields and moves others to the end of their map, as code that sets a field again does.
    fn change(&mut self, value: &mut Value) {
        match value {
            Value::Map(map) => {
                let keys: Vec<String> = map.keys().map(str::to_owned).collect();
                for key in keys {
                    match (self.below(8), map.remove(&key)) {
                        (0, _) | (_, None) => {}
                        (1, Some(Value::List(_))) => drop(map.insert(key, Value::List(Vec::new()))),
                        (_, Some(mut value)) => {
                            self.change(&mut value);
                            map.insert(key, value);
                        }
                    }
                }
            }
            Value::List(list) => list.iter_mut().for_each(|item| self.change(item)),
            _ => {}
        }
    }

    fn index(&mut self, len: u64) -> usize {
        usize::try_from(self.below(len)).unwrap()
    }

    fn fields(&mut self, schema: Struct<'_>, depth: u32) -> Value {
        let mut map = Map::new();
        // Nearly all fields at the root, fewer further down, so that objects are large but finite.
        let sparse = u64::from(depth * depth / 2 + 5);
        for field in schema.fields() {
            if depth < 9 && self.below(sparse) < 4 {
                map.insert(field.name(), self.value(field.ty().shape(), depth + 1));
            }
        }
        if self.below(6) == 0 {
            map.insert_first("unknownField", 1);
        }
        Value::Map(map)
    }
}

proptest! {
    #[test]
    fn decoding_is_idempotent(seed: u64) {
        let mut rng = Rng(seed);
        let kinds = schema::builtin().kinds();
        let at = rng.index(kinds.len() as u64);
        let schema = schema::builtin().kinds().nth(at).unwrap();
        if let Ok(once) = decode(rng.fields(schema, 0), schema, &[]) {
            let twice = decode(once.value.clone(), schema, &[]).unwrap();
            prop_assert!(twice.strict.is_empty());
            prop_assert_eq!(json::to_vec(&twice.value), json::to_vec(&once.value));
        }
    }

    #[test]
    fn write_stored_equals_decode_then_write(seed: u64) {
        let mut rng = Rng(seed);
        let at = rng.index(schema::builtin().kinds().len() as u64);
        let schema = schema::builtin().kinds().nth(at).unwrap();
        if let Ok(decoded) = decode_request(rng.fields(schema, 0), schema, &[]) {
            let mut changed = decoded.value;
            rng.change(&mut changed);
            changed.ensure_map("metadata").insert("resourceVersion", "7");
            let mut again = decode(changed.clone(), schema, &[]).unwrap().value;
            let mut written = Vec::new();
            let offset = write_stored(&changed, schema, &mut written);
            // Options and other kinds without metadata have no resourceVersion and are not stored.
            prop_assert_eq!(offset.is_some(), schema.field("metadata").is_some());
            let Some(offset) = offset.map(|offset| offset as usize) else { return Ok(()) };
            written.insert(offset, b'7');
            let types: Vec<_> = ["kind", "apiVersion"].map(|key| (key, again.make_map().remove(key))).into();
            for (key, value) in types.into_iter().rev() {
                value.into_iter().for_each(|value| again.make_map().insert_first(key, value));
            }
            prop_assert_eq!(String::from_utf8(written).unwrap(), json::to_text(&again));
        }
    }
}

#[test]
fn request_keeps_empty_values_that_field_ownership_needs() {
    let schema = kind("storage.k8s.io", "CSINode");
    let text = r#"{"metadata":{"labels":{},"managedFields":[]},"spec":{"drivers":[]}}"#;
    let sent = decode_request(json::parse(text.as_bytes()).unwrap(), schema, &[]).unwrap();
    assert!(sent.has_omitted_empty);
    let metadata = r#"{"managedFields":[]}"#;
    assert_eq!(json::to_text(sent.value.get("metadata").unwrap()), metadata);
    assert_eq!(json::to_text(sent.value.get("spec").unwrap()), r#"{"drivers":[]}"#);
    let stored = decode(sent.value, schema, &[]).unwrap();
    assert!(!stored.has_omitted_empty);
    assert_eq!(json::to_text(stored.value.get("metadata").unwrap()), "{}");
    assert_eq!(json::to_text(stored.value.get("spec").unwrap()), r#"{"drivers":null}"#);
}

#[test]
fn request_keeps_empty_values_that_validation_needs() {
    let schema = kind("", "Pod");
    let text = r#"{"spec":{"nodeSelector":{},"overhead":{},"containers":[]}}"#;
    let sent = decode_request(json::parse(text.as_bytes()).unwrap(), schema, &[]).unwrap();
    let spec = |keep| {
        let kept = decode_keeping_empty(sent.value.clone(), schema, keep).unwrap();
        json::to_text(kept.value.get("spec").unwrap())
    };
    let (owned, validated) = (
        KeepEmpty { for_ownership: true, for_validation: false },
        KeepEmpty { for_ownership: false, for_validation: true },
    );
    assert_eq!(json::to_text(sent.value.get("spec").unwrap()), r#"{"containers":[],"overhead":{}}"#);
    assert_eq!(spec(owned), r#"{"containers":[]}"#);
    assert_eq!(spec(validated), r#"{"containers":null,"overhead":{}}"#);
    assert_eq!(spec(KeepEmpty::default()), r#"{"containers":null}"#);
}

#[test]
fn strict_errors_contain_at_most_a_mebibyte_of_paths() {
    let key = "k".repeat(STRICT_BYTES_MAX);
    let fields =
        |each: &str| (0..50).map(|at| each.replace('N', &at.to_string())).collect::<Vec<_>>().join(",");
    let within =
        |fields: String| format!(r#"{{"spec":{{"devices":[{{"attributes":{{"{key}":{{{fields}}}}}}}]}}}}"#);
    let schema = kind("resource.k8s.io", "ResourceSlice");
    assert_eq!(strict(schema, &within(fields(r#""uN":1"#))).len(), 1);
    assert_eq!(strict(schema, &within(fields(r#""string":"N""#))).len(), 1);
    let short = format!(r#"{{"spec":{{"devices":[{{"attributes":{{"k":{{{}}}}}}}]}}}}"#, fields(r#""uN":1"#));
    assert_eq!(strict(schema, &short).len(), 50);
}
