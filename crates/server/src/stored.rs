//! Objects in the form in which they are stored: JSON of the storage version, type fields first, with a hole for
//! the revision.

use bytes::Bytes;
#[cfg(any(test, debug_assertions))]
use setpoint_api::decode::decode;
use setpoint_api::decode::tidy;
use setpoint_api::schema::Struct;
use setpoint_api::{Value, json};
use setpoint_store::{Draft, Record};

use crate::served::Served;

/// What stands in the hole while an object is put together; any text that the decoder keeps.
const HOLE: &str = "0";

/// An object ready to be put.
pub fn draft(served: &Served, mut object: Value) -> Option<Draft> {
    object.ensure_map("metadata").insert("resourceVersion", HOLE);
    // All fields go into the order in which clients know them.
    let object = tidied(object, served.stored_schema)?;
    let mut bytes = Vec::with_capacity(1024);
    let hole = write(&object, &mut bytes)?;
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|map| map.iter());
    let labels = labels.filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())));
    Some(Draft::with_hole(bytes, hole).labels(labels).fields(served.rules.fields(&object)))
}

/// A decoded object that the pipeline has changed, in shape again.
fn tidied(object: Value, schema: Struct<'static>) -> Option<Value> {
    #[cfg(debug_assertions)]
    let decoded = decode(object.clone(), schema, &[]).ok()?.value;
    let object = tidy(object, schema).ok()?;
    #[cfg(debug_assertions)]
    assert_eq!(json::to_text(&object), json::to_text(&decoded), "the pipeline writes what a decoder would");
    Some(object)
}

/// Writes an object, and says where the digits of its revision go.
fn write(object: &Value, out: &mut Vec<u8>) -> Option<u32> {
    let mut hole = None;
    out.push(b'{');
    let types = ["kind", "apiVersion"];
    let map = object.as_map()?;
    let rest = map.iter().filter(|(key, _)| !types.contains(key));
    let first = types.iter().filter_map(|key| Some((*key, map.get(key)?)));
    for (i, (key, value)) in first.chain(rest).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::write_str(key, out);
        out.push(b':');
        match (key, value.as_map()) {
            ("metadata", Some(metadata)) => hole = write_metadata(metadata, out),
            _ => json::write(value, out),
        }
    }
    out.push(b'}');
    hole
}

fn write_metadata(metadata: &setpoint_api::Map, out: &mut Vec<u8>) -> Option<u32> {
    let mut hole = None;
    out.push(b'{');
    for (i, (key, value)) in metadata.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::write_str(key, out);
        out.push(b':');
        if key == "resourceVersion" {
            out.push(b'"');
            hole = u32::try_from(out.len()).ok();
            out.push(b'"');
        } else {
            json::write(value, out);
        }
    }
    out.push(b'}');
    hole
}

/// The object of a record.
#[must_use]
pub fn object(record: &Record) -> Value {
    json::parse(record.value_bytes()).unwrap_or(Value::Null)
}

/// The bytes of a stored object in the form in which it is served.
#[must_use]
pub fn served_bytes(served: &Served, bytes: Bytes) -> Bytes {
    if !served.is_converted() {
        return bytes;
    }
    json::to_vec(&served.to_served(json::parse(&bytes).unwrap_or(Value::Null))).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served;

    #[test]
    fn an_object_is_written_with_its_type_first_and_a_hole_for_its_revision() {
        let served = served::find("", "v1", "configmaps").unwrap();
        let text = br#"{"metadata":{"name":"x","namespace":"a"},"data":{"k":"v"},"apiVersion":"v1","kind":"ConfigMap"}"#;
        let object = json::parse(text).unwrap();
        let mut bytes = Vec::new();
        let mut stamped = object.clone();
        stamped.ensure_map("metadata").insert("resourceVersion", HOLE);
        let stamped = decode(stamped, served.schema, &[]).unwrap().value;
        let hole = write(&stamped, &mut bytes).unwrap() as usize;
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with(&served.type_prefix), "{text}");
        assert!(text[..hole].ends_with("\"resourceVersion\":\""), "{text}");
        assert!(draft(served, object).is_some());
    }
}
