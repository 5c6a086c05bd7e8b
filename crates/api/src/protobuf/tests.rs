//! Tests of the protobuf codec.

use proptest::prelude::*;

use super::wire::{Payload, Reader, varint_len, write_bytes, write_number, write_tag, write_varint};
use super::*;
use crate::schema::{Shape, builtin};
use random::RandomObjects;

mod definitions;
pub(crate) mod random;

fn kind(group: &str, kind: &str) -> Struct<'static> {
    builtin().kind(group, "v1", kind).unwrap()
}

/// Decodes a JSON document.
fn object(schema: Struct<'_>, text: &str) -> Value {
    crate::decode::decode(json::parse(text.as_bytes()).unwrap(), schema, &[]).unwrap().value
}

fn message(schema: Struct<'_>, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&object(schema, text), schema, &mut out);
    out
}

fn read(schema: Struct<'_>, bytes: &[u8]) -> String {
    json::to_text(&decode_message(bytes, schema).unwrap())
}

/// Kinds with a protobuf form.
fn kinds_with_protobuf_form() -> Vec<Struct<'static>> {
    builtin().kinds().filter(|schema| has_protobuf_form(*schema)).collect()
}

/// Asserts that field numbers ascend in every message.
fn check_order(bytes: &[u8], schema: Struct<'_>, around: &[u8]) {
    let mut reader = Reader::new(bytes);
    let mut last = 0;
    while let Some((number, payload)) = reader.next().unwrap() {
        assert!(number >= last, "{schema:?}: {number} after {last}");
        last = number;
        let Payload::Bytes(inner) = payload else { continue };
        let path: Vec<u8> = around.iter().copied().chain([number as u8]).collect();
        if schema.fields().any(|field| field.embedded_numbers().starts_with(&path)) {
            check_order(inner, schema, &path);
            continue;
        }
        let mut fields = schema.fields();
        let field = fields
            .find(|field| field.number().map(u32::from) == Some(number) && field.embedded_numbers() == around)
            .unwrap();
        match field.ty().shape() {
            Shape::Struct(schema) => check_order(inner, schema, &[]),
            Shape::List(item) => {
                if let Shape::Struct(schema) = item.shape() {
                    check_order(inner, schema, &[]);
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_kind_decodes_to_the_encoded_object(seed: u64) {
        let mut random = RandomObjects(seed);
        for schema in kinds_with_protobuf_form() {
            let mut drawn = random.object(schema, 0);
            let api_version = if schema.group().is_empty() { schema.version().to_owned() } else { format!("{}/{}", schema.group(), schema.version()) };
            drawn.make_map().insert("apiVersion", api_version.clone());
            drawn.make_map().insert("kind", schema.name());
            let value = crate::decode::decode(drawn, schema, &[]).unwrap().value;
            let bytes = to_vec(&value, schema);
            let back = decode(&bytes).unwrap();
            prop_assert_eq!(json::to_text(&back.value), json::to_text(&value));
            prop_assert_eq!((back.api_version.as_str(), back.kind.as_str()), (api_version.as_str(), schema.name()));
            check_order(open(&bytes).unwrap().raw, schema, &[]);
            prop_assert_eq!(to_vec(&back.value, schema), bytes);
        }
    }

    #[test]
    fn corrupted_messages_never_panic(seed: u64, at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut random = RandomObjects(seed);
        let kinds = kinds_with_protobuf_form();
        let schema = kinds[usize::try_from(random.below(kinds.len() as u64)).unwrap()];
        let mut bytes = Vec::new();
        encode(&crate::decode::decode(random.object(schema, 0), schema, &[]).unwrap().value, schema, &mut bytes);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = decode_message(&bytes, schema);
            bytes.truncate(cut.index(bytes.len()));
            let _ = decode_message(&bytes, schema);
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        let mut enveloped = MAGIC.to_vec();
        enveloped.extend_from_slice(&bytes);
        let _ = (decode(&bytes), decode(&enveloped));
        for schema in [kind("", "Pod"), kind("apiextensions.k8s.io", "CustomResourceDefinition")] {
            let _ = decode_message(&bytes, schema);
        }
    }

    #[test]
    fn varint_len_equals_the_encoded_length(number: u64, shift in 0_u32..64) {
        let number = number >> shift;
        let mut out = Vec::new();
        write_varint(number, &mut out);
        prop_assert_eq!(out.len(), varint_len(number));
        prop_assert_eq!(Reader::new(&out).varint().unwrap(), number);
    }

    #[test]
    fn bytes_round_trip_through_base64(bytes: Vec<u8>) {
        let mut back = Vec::new();
        crate::base64::decode_into(&crate::base64::encode(&bytes), &mut back);
        prop_assert_eq!(back, bytes);
    }
}

#[test]
fn encoding_equals_that_of_go() {
    // Go writes non-pointer strings, numbers and structs even if they are zero.
    assert_eq!(
        message(kind("", "ConfigMap"), r#"{"metadata":{"name":"n"},"data":{"b":"2","a":"1"}}"#),
        b"\x0a\x11\x0a\x01n\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0\x12\x06\x0a\x01a\x12\x011\x12\x06\x0a\x01b\x12\x012"
    );
    let port = builtin().definition("io.k8s.api.core.v1.ServicePort").unwrap();
    assert_eq!(
        message(port, r#"{"port":80,"targetPort":"web"}"#),
        b"\x0a\0\x12\0\x18\x50\x22\x09\x08\x01\x10\0\x1a\x03web\x28\0"
    );
    assert_eq!(message(port, r#"{"port":-1}"#)[4..15], *b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    let volume = builtin().definition("io.k8s.api.core.v1.Volume").unwrap();
    assert_eq!(message(volume, r#"{"name":"v","emptyDir":{}}"#), b"\x0a\x01v\x12\x04\x12\x02\x0a\0");
    let resource = builtin().meta("APIResource").unwrap();
    assert!(
        message(resource, r#"{"verbs":["get"]}"#).windows(7).any(|bytes| bytes == b"\x22\x05\x0a\x03get")
    );
}

#[test]
fn multi_byte_lengths_are_encoded() {
    let schema = kind("", "ConfigMap");
    for len in [0, 100, 127, 128, 129, 16_000, 16_383, 16_384, 2_100_000] {
        let mut value = object(schema, "{}");
        value.ensure_map("data").insert("key", "x".repeat(len));
        let mut out = Vec::new();
        encode(&value, schema, &mut out);
        assert_eq!(decode_message(&out, schema).unwrap(), value, "{len}");
    }
}

#[test]
fn envelope_contains_kind_and_version() {
    let schema = kind("", "Namespace");
    let bytes =
        to_vec(&object(schema, r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}"#), schema);
    assert!(bytes.starts_with(b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12"));
    assert!(bytes.ends_with(b"\x1a\0\x22\0"));
    let read = decode(&bytes).unwrap();
    assert_eq!((read.api_version.as_str(), read.kind.as_str()), ("v1", "Namespace"));
    assert_eq!(read.value.str_at(&["metadata", "name"]), "n");
    for (bytes, expected) in [
        (&b""[..], ProtoError::Empty),
        (b"{}", ProtoError::Magic),
        (b"k8s\0", ProtoError::EmptyBody),
        (b"k8s\0\x0a", ProtoError::Short),
        (b"k8s\0\x12\0", ProtoError::Kind { api_version: String::new(), kind: String::new() }),
    ] {
        assert_eq!(decode(bytes), Err(expected));
    }
}

#[test]
fn meta_kinds_are_known_in_every_group_and_tables_in_none() {
    let options = find_definition("apps/v1", "DeleteOptions").unwrap();
    let bytes = message(options, r#"{"gracePeriodSeconds":0,"propagationPolicy":"Orphan"}"#);
    assert_eq!(bytes, b"\x08\0\x22\x06Orphan");
    let mut enveloped = Vec::new();
    write_object("apps/v1", "DeleteOptions", &bytes, &mut enveloped);
    assert_eq!(decode(&enveloped).unwrap().value.get("gracePeriodSeconds"), Some(&Value::Int(0)));
    assert!(find_definition("v1", "Status").is_some());
    assert!(find_definition("meta.k8s.io/v1", "Table").is_none());
    assert!(find_definition("meta.k8s.io/v1", "PartialObjectMetadataList").is_some());
}

#[test]
fn status_decodes_to_its_json() {
    let resource = crate::status::Qualified { group: "apps", name: "deployments" };
    for status in [Status::not_found(resource, "web"), Status::deleted(resource, "web", "u1")] {
        let read = decode(&status_to_vec(&status)).unwrap();
        assert_eq!((read.api_version.as_str(), read.kind.as_str()), ("v1", "Status"));
        assert_eq!(json::to_vec(&read.value), status.to_json());
    }
}

#[test]
fn list_of_encoded_messages_equals_the_encoded_list() {
    let (schema, list) = (kind("", "ConfigMap"), kind("", "ConfigMapList"));
    let data = "x".repeat(300);
    let items = [r#"{"metadata":{"name":"a"}}"#.to_owned(), format!(r#"{{"data":{{"k":"{data}"}}}}"#)];
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{"resourceVersion":"7"}},"items":[{}]}}"#,
        items.join(",")
    );
    let messages: Vec<Vec<u8>> = items.iter().map(|item| message(schema, item)).collect();
    let metadata = message(builtin().meta("ListMeta").unwrap(), r#"{"resourceVersion":"7"}"#);
    let total = messages.iter().map(|message| ListWriter::item_len(message.len())).sum();
    let mut out = Vec::new();
    ListWriter::head("v1", "ConfigMapList", &metadata, total, &mut out);
    messages.iter().for_each(|message| ListWriter::item(message, &mut out));
    ListWriter::end(&mut out);
    assert_eq!(out, to_vec(&object(list, &text), list));
    assert_eq!(decode(&out).unwrap().value, object(list, &text));
}

#[test]
fn watch_event_contains_the_object_in_its_envelope() {
    let schema = kind("", "ConfigMap");
    let bytes = message(schema, r#"{"metadata":{"name":"a"}}"#);
    let mut out = Vec::new();
    write_watch_event("ADDED", "v1", "ConfigMap", &bytes, &mut out);
    assert!(out.starts_with(b"\x0a\x05ADDED\x12"));
    assert_eq!(
        read(builtin().meta("WatchEvent").unwrap(), &out),
        r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}}"#
    );
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = Vec::new();
    write_number(99, 7, &mut bytes);
    write_tag(98, 1, &mut bytes);
    bytes.extend_from_slice(&[0; 8]);
    write_tag(97, 5, &mut bytes);
    bytes.extend_from_slice(&[0; 4]);
    write_bytes(96, b"x", &mut bytes);
    // A group in a group.
    for (number, wire_type) in [(95, 3), (94, 3), (94, 4), (95, 4)] {
        write_tag(number, wire_type, &mut bytes);
    }
    bytes.extend(message(kind("", "ConfigMap"), r#"{"data":{"a":"1"}}"#));
    assert_eq!(read(kind("", "ConfigMap"), &bytes), r#"{"metadata":{},"data":{"a":"1"}}"#);
    for (bytes, expected) in [
        (&b"\x0c"[..], ProtoError::EndGroup),
        (b"\x0b", ProtoError::Short),
        (b"\x0e\0", ProtoError::IllegalWireType(6)),
        (b"\0\0", ProtoError::Tag(0)),
        (b"\x08\x01", ProtoError::WireType { wire_type: 0, field: "metadata".into() }),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", ProtoError::Overflow),
    ] {
        assert_eq!(decode_message(bytes, kind("", "ConfigMap")), Err(expected), "{bytes:?}");
    }
}

#[test]
fn packed_numbers_decode_and_the_last_occurrence_wins() {
    let context = builtin().definition("io.k8s.api.core.v1.PodSecurityContext").unwrap();
    let groups = context.field("supplementalGroups").unwrap().number().unwrap().into();
    let mut bytes = Vec::new();
    write_number(groups, 1, &mut bytes);
    write_bytes(groups, &[2, 0x80, 1], &mut bytes);
    assert_eq!(read(context, &bytes), r#"{"supplementalGroups":[1,2,128]}"#);
    let port = builtin().definition("io.k8s.api.core.v1.ServicePort").unwrap();
    assert_eq!(read(port, b"\x18\x01\x18\x02\x0a\x01a\x0a\x01b"), r#"{"name":"b","port":2,"targetPort":0}"#);
}

#[test]
fn repeated_messages_are_merged() {
    let schema = kind("", "ConfigMap");
    let mut bytes =
        message(schema, r#"{"metadata":{"name":"a","labels":{"x":"1","y":"1"}},"data":{"k":"1"}}"#);
    write_bytes(1, b"\x5a\x06\x0a\x01y\x12\x012", &mut bytes);
    bytes.extend_from_slice(b"\x12\x06\x0a\x01k\x12\x012");
    assert_eq!(
        read(schema, &bytes),
        r#"{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"data":{"k":"2"}}"#
    );
    assert!(decode_message(&b"\x0a\0".repeat(REPETITIONS_MAX + 1), schema).is_ok());
    assert_eq!(decode_message(&b"\x0a\0".repeat(REPETITIONS_MAX + 2), schema), Err(ProtoError::Repetitions));
}

#[test]
fn absent_values_decode_as_in_go() {
    assert_eq!(
        read(kind("apps", "Deployment"), b""),
        r#"{"metadata":{},"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#
    );
    // An entry without a value, a string that is not UTF-8, a timestamp with a fraction, a number that is too
    // long.
    let schema = kind("", "Secret");
    assert_eq!(
        read(schema, b"\x12\x03\x0a\x01a\x1a\x01\xff"),
        "{\"metadata\":{},\"data\":{\"a\":\"\"},\"type\":\"\u{fffd}\"}"
    );
    let meta = builtin().meta("ObjectMeta").unwrap();
    assert_eq!(read(meta, b"\x42\x04\x08\x01\x10\x05"), r#"{"creationTimestamp":"1970-01-01T00:00:01Z"}"#);
    let port = builtin().definition("io.k8s.api.core.v1.ServicePort").unwrap();
    assert_eq!(read(port, b"\x18\x81\x80\x80\x80\x10"), r#"{"port":1,"targetPort":0}"#);
}

#[test]
fn nesting_is_bounded() {
    let schema =
        builtin().definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let schema = schema.unwrap();
    let number = schema.field("not").unwrap().number().unwrap().into();
    let nest = |levels: usize, mut bytes: Vec<u8>| {
        for _ in 0..levels {
            let inner = std::mem::take(&mut bytes);
            write_bytes(number, &inner, &mut bytes);
        }
        decode_message(&bytes, schema)
    };
    assert!(nest(DEPTH_MAX - 1, Vec::new()).is_ok());
    assert_eq!(nest(DEPTH_MAX, Vec::new()), Err(ProtoError::Depth));
    // Embedded JSON counts too.
    let mut example = Vec::new();
    let json = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let mut raw = Vec::new();
    write_bytes(1, json.as_bytes(), &mut raw);
    write_bytes(schema.field("example").unwrap().number().unwrap().into(), &raw, &mut example);
    assert!(nest(100, example.clone()).is_ok());
    assert_eq!(nest(300, example), Err(ProtoError::Depth));
}

#[test]
fn field_number_paths_fit_into_the_slot() {
    for schema in builtin().definitions() {
        assert!(schema.fields().all(|field| field.embedded_numbers().len() < 4), "{schema:?}");
    }
}
