//! CustomResourceDefinitions in protobuf: client-go sends them so.

use super::*;

/// A message of fields with a length.
fn fields(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, bytes) in fields {
        write_bytes(*number, bytes, &mut out);
    }
    out
}

/// A message with a number in one field.
fn number(at: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write_number(at, value, &mut out);
    out
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// The schema, by the field numbers of `JSONSchemaProps`.
fn schema_message() -> Vec<u8> {
    let json = |text: &str| fields(&[(1, text.as_bytes())]);
    let text = fields(&[(5, b"string"), (8, &json("\"x\"")), (20, &json("\"x\"")), (20, &json("null"))]);
    let items = fields(&[(1, &text)]);
    let list = fields(&[(5, b"array"), (24, &items), (41, b"k"), (42, b"map")]);
    // `true` and a schema, as Go writes an additionalProperties with a schema.
    let others = joined(&[&number(1, 1), &fields(&[(2, &fields(&[(5, b"integer")]))])]);
    let map = fields(&[(5, b"object"), (30, &others)]);
    let closed = fields(&[(5, b"object"), (30, &number(1, 0))]);
    let pair = fields(&[
        (24, &fields(&[(2, &text), (2, &list)])),
        (32, &fields(&[(1, b"d"), (2, &fields(&[(2, b"e")]))])),
    ]);
    let open = joined(&[
        &fields(&[(5, b"object")]),
        &number(38, 1),
        &fields(&[(44, &fields(&[(1, b"true"), (2, b"m")]))]),
    ]);
    let mut limited = fields(&[(5, b"number")]);
    write_tag(9, 1, &mut limited);
    limited.extend_from_slice(&1.5_f64.to_le_bytes());
    let entry = |name: &str, schema: &[u8]| fields(&[(1, name.as_bytes()), (2, schema)]);
    let properties: Vec<Vec<u8>> = [
        ("list", &list),
        ("map", &map),
        ("closed", &closed),
        ("pair", &pair),
        ("open", &open),
        ("limited", &limited),
    ]
    .into_iter()
    .map(|(name, schema)| fields(&[(29, &entry(name, schema))]))
    .collect();
    joined(&[&fields(&[(5, b"object")]), &properties.concat()])
}

const SCHEMA: &str = r#"{"type":"object","properties":{
  "list":{"type":"array","items":{"type":"string","default":"x","enum":["x",null]},"x-kubernetes-list-map-keys":["k"],"x-kubernetes-list-type":"map"},
  "map":{"type":"object","additionalProperties":{"type":"integer"}},
  "closed":{"type":"object","additionalProperties":false},
  "pair":{"items":[{"type":"string","default":"x","enum":["x",null]},{"type":"array","items":{"type":"string","default":"x","enum":["x",null]},"x-kubernetes-list-map-keys":["k"],"x-kubernetes-list-type":"map"}],"dependencies":{"d":["e"]}},
  "open":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-validations":[{"rule":"true","message":"m"}]},
  "limited":{"type":"number","maximum":1.5}}}"#;

/// The definition, by the field numbers of its messages.
fn definition_message() -> Vec<u8> {
    let version = joined(&[
        &fields(&[(1, b"v1")]),
        &number(2, 1),
        &number(3, 1),
        &fields(&[(4, &fields(&[(1, &schema_message())])), (5, &fields(&[(1, b"")]))]),
        &fields(&[(6, &fields(&[(1, b"Age"), (2, b"date"), (6, b".metadata.creationTimestamp")]))]),
        &fields(&[(9, &fields(&[(1, b".spec.a")]))]),
    ]);
    let names = fields(&[(1, b"as"), (2, b"a"), (3, b"sa"), (4, b"A"), (5, b"AList"), (6, b"all")]);
    let service = joined(&[&fields(&[(1, b"n"), (2, b"s"), (3, b"/p")]), &number(4, 443)]);
    let config = fields(&[(1, &service), (2, b"CA")]);
    let conversion = fields(&[(1, b"Webhook"), (2, &fields(&[(2, &config), (3, b"v1")]))]);
    let spec = fields(&[(1, b"b.c"), (3, &names), (4, b"Cluster"), (7, &version), (9, &conversion)]);
    fields(&[(1, &fields(&[(1, b"as.b.c")])), (2, &spec)])
}

fn expected() -> Value {
    let text = format!(
        r#"{{"metadata":{{"name":"as.b.c"}},"spec":{{"group":"b.c","names":{{"plural":"as","singular":"a","shortNames":["sa"],"kind":"A","listKind":"AList","categories":["all"]}},"scope":"Cluster","versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{SCHEMA}}},"subresources":{{"status":{{}}}},"additionalPrinterColumns":[{{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}}],"selectableFields":[{{"jsonPath":".spec.a"}}]}}],"conversion":{{"strategy":"Webhook","webhook":{{"clientConfig":{{"service":{{"namespace":"n","name":"s","path":"/p","port":443}},"caBundle":"Q0E="}},"conversionReviewVersions":["v1"]}}}}}}}}"#
    );
    object(kind("apiextensions.k8s.io", "CustomResourceDefinition"), &text)
}

#[test]
fn definition_is_decoded_by_its_field_numbers() {
    let schema = kind("apiextensions.k8s.io", "CustomResourceDefinition");
    let found = decode_message(&definition_message(), schema).unwrap();
    assert_eq!(json::to_text(&found), json::to_text(&expected()));
}

#[test]
fn definition_survives_its_envelope() {
    let schema = kind("apiextensions.k8s.io", "CustomResourceDefinition");
    let type_meta = fields(&[(1, b"apiextensions.k8s.io/v1"), (2, b"CustomResourceDefinition")]);
    let mut bytes = MAGIC.to_vec();
    bytes.extend(fields(&[(1, &type_meta), (2, &definition_message())]));
    let found = decode(&bytes).unwrap();
    assert_eq!(
        (found.api_version.as_str(), found.kind.as_str()),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    );
    let again = decode(&to_vec(&found.value, schema)).unwrap();
    assert_eq!(json::to_text(&again.value), json::to_text(&found.value));
    assert_eq!(again.value.at(&["spec"]), expected().at(&["spec"]));
}
