//! Objects in the form in which they are stored: JSON of the storage version, type fields first, with a hole for
//! the revision.

use std::borrow::Cow;

use bytes::Bytes;
#[cfg(debug_assertions)]
use setpoint_api::decode::decode;
use setpoint_api::decode::write_stored;
use setpoint_api::schema::Struct;
use setpoint_api::{Value, json, protobuf};
use setpoint_store::{Draft, Record};

use crate::served::Served;

/// What stands in the hole while an object is put together; any text that the decoder keeps.
const HOLE: &str = "0";

/// An object ready to be put, its fields in the order in which clients know them.
pub fn draft(served: &Served, mut object: Value) -> Option<Draft> {
    let (bytes, hole) = text(served, &mut object)?;
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|map| map.iter());
    let labels = labels.filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())));
    Some(Draft::with_hole(bytes, hole).labels(labels).fields(served.rules.fields(&object)))
}

/// The text of an object to be put, and where its revision goes.
pub(crate) fn text(served: &Served, object: &mut Value) -> Option<(Vec<u8>, u32)> {
    object.ensure_map("metadata").insert("resourceVersion", HOLE);
    let mut bytes = Vec::with_capacity(2048);
    let hole = write_stored(object, served.stored_schema, &mut bytes)?;
    #[cfg(debug_assertions)]
    assert_in_shape(object, served.stored_schema, &bytes, hole);
    Some((bytes, hole))
}

/// The pipeline writes what a decoder would.
#[cfg(debug_assertions)]
fn assert_in_shape(object: &Value, schema: Struct<'static>, bytes: &[u8], hole: u32) {
    let decoded = decode(object.clone(), schema, &[]).map(|decoded| json::to_vec(&decoded.value));
    let mut whole = bytes.to_vec();
    whole.splice(hole as usize..hole as usize, HOLE.bytes());
    let decoded = json::parse(&decoded.unwrap_or_default());
    assert_eq!(json::parse(&whole), decoded, "the pipeline writes what a decoder would");
}

/// The object of a record. What its owners own is left as it is written, see [`json::parse_stored`].
#[must_use]
pub fn object(record: &Record) -> Value {
    json::parse_stored(record.value_bytes()).unwrap_or(Value::Null)
}

/// The bytes of a stored object in the form in which it is served.
#[must_use]
pub fn served_bytes(served: &Served, bytes: Bytes) -> Bytes {
    if !served.is_converted() {
        return bytes;
    }
    json::to_vec(&served.to_served(json::parse(&bytes).unwrap_or(Value::Null))).into()
}

/// The protobuf message of a stored object in the form in which it is served, without an envelope. It is made once per
/// object and commit, but for versions that are converted.
#[must_use]
pub fn message<'a>(served: &Served, record: &'a Record) -> Cow<'a, [u8]> {
    let encode = |bytes: &[u8]| encoded(&json::parse(bytes).unwrap_or(Value::Null), served.schema);
    if served.is_converted() {
        return Cow::Owned(encode(&served_bytes(served, record.value())));
    }
    Cow::Borrowed(record.in_second_form(encode))
}

/// An encoded protobuf message, without an envelope.
#[must_use]
pub fn encoded(value: &Value, of: Struct<'static>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    protobuf::encode(value, of, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served;

    #[test]
    fn an_object_is_written_with_its_type_first_and_a_hole_for_its_revision() {
        let served = served::find("", "v1", "configmaps").unwrap();
        let text = br#"{"metadata":{"name":"x","namespace":"a"},"data":{"k":"v"},"apiVersion":"v1","kind":"ConfigMap"}"#;
        let mut object = json::parse(text).unwrap();
        object.ensure_map("metadata").insert("resourceVersion", HOLE);
        let mut bytes = Vec::new();
        let hole = write_stored(&object, served.schema, &mut bytes).unwrap() as usize;
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with(&served.type_prefix), "{text}");
        assert!(text[..hole].ends_with("\"resourceVersion\":\""), "{text}");
        assert!(draft(served, object).is_some());
    }
}
