//! Storage codec: JSON of the storage version, type fields first, with a hole for the resource version.
//!
//! The store fills the hole in place, so a commit does not encode the object again.

use std::time::Duration;

use bytes::Bytes;
use setpoint_api::kind_schema::KindSchema;
use setpoint_api::schema::Struct;
use setpoint_api::{Time, Value, json, protobuf};
use setpoint_store::{Draft, Record};

use setpoint_api::ResourceType;

/// Placeholder in the hole while an object is encoded; any text that the decoder keeps.
const HOLE: &str = "0";

/// Time to live of Events after their last change, as upstream's.
const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Encodes an object for a commit, its fields in the order of the schema.
pub fn draft(resource_type: &ResourceType, mut object: Value, now: Time) -> Option<Draft> {
    let (bytes, hole) = text(resource_type, &mut object)?;
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|map| map.iter());
    let labels = labels.filter_map(|(key, value)| Some((key.to_owned(), value.as_str()?.to_owned())));
    let draft =
        Draft::with_revision_at(bytes, hole).labels(labels).fields(resource_type.rules.fields(&object));
    Some(set_expiry(draft, resource_type, now))
}

/// Sets the expiry of objects that have one.
pub(crate) fn set_expiry(draft: Draft, resource_type: &ResourceType, now: Time) -> Draft {
    if resource_type.resource.as_str() == "events" { draft.expires(now.after(EVENT_TTL)) } else { draft }
}

/// Encodes an object. Returns its bytes and the offset of its resource version.
pub(crate) fn text(resource_type: &ResourceType, object: &mut Value) -> Option<(Vec<u8>, u32)> {
    if let Some(custom) = &resource_type.custom
        && custom.kind.definition.conversion.is_none()
    {
        object.make_map().insert("apiVersion", custom.kind.storage_api_version.as_str());
    }
    let (bytes, hole) = text_of(&resource_type.stored_schema, object)?;
    #[cfg(debug_assertions)]
    if resource_type.custom.is_none() {
        assert_in_shape(object, &resource_type.stored_schema, &bytes, hole);
    }
    Some((bytes, hole))
}

/// Encodes an object of a schema. Returns its bytes and the offset of its resource version.
pub(crate) fn text_of(schema: &KindSchema, object: &mut Value) -> Option<(Vec<u8>, u32)> {
    object.ensure_map("metadata").insert("resourceVersion", HOLE);
    let mut bytes = Vec::with_capacity(2048);
    let hole = schema.write_stored(object, &mut bytes)?;
    Some((bytes, hole))
}

/// Asserts, in debug builds, that decoding does not change the bytes.
#[cfg(debug_assertions)]
fn assert_in_shape(object: &Value, schema: &KindSchema, bytes: &[u8], hole: u32) {
    let open = json::parse(&json::to_vec(object)).unwrap_or_default();
    let decoded = schema.decode(open, &[]).map(|decoded| json::to_vec(&decoded.value));
    let mut whole = bytes.to_vec();
    whole.splice(hole as usize..hole as usize, HOLE.bytes());
    let decoded = json::parse(&decoded.unwrap_or_default());
    assert_eq!(json::parse(&whole), decoded, "the pipeline writes what a decoder would");
}

/// Decodes the object of a record. Managed fields stay encoded, see [`json::parse_stored`].
#[must_use]
pub fn object(record: &Record) -> Value {
    json::parse_stored(&record.value()).unwrap_or(Value::Null)
}

/// As [`object`], for a status write or a binding: fields that these do not read stay encoded too.
#[must_use]
pub fn partial(resource_type: &ResourceType, record: &Record) -> Value {
    if resource_type.custom.is_some() {
        return live(resource_type, record);
    }
    json::parse_with_raw_spec(&record.value(), resource_type.rules.raw_spec_fields()).unwrap_or(Value::Null)
}

/// Decodes the object of a record as the pipeline handles it: in the storage version, or in the served version of a
/// custom kind.
#[must_use]
pub fn live(resource_type: &ResourceType, record: &Record) -> Value {
    let object = object(record);
    if resource_type.custom.is_none() || is_current(resource_type, record) {
        return object;
    }
    resource_type.to_served(object)
}

/// `true` if a record has the bytes that are served: it is stored in the served version, by its current schema.
#[must_use]
pub fn is_current(resource_type: &ResourceType, record: &Record) -> bool {
    match &resource_type.custom {
        Some(custom) => {
            custom.version().storage
                && record.revision() > custom.kind.revision
                && record.value().starts_with(resource_type.type_prefix.as_bytes())
        }
        None => !resource_type.is_converted(),
    }
}

/// Returns the bytes of a stored object in the served version.
#[must_use]
pub(crate) fn served(resource_type: &ResourceType, record: &Record) -> Bytes {
    if is_current(resource_type, record) {
        return record.value();
    }
    served_bytes(resource_type, record.value())
}

/// Converts stored bytes to the served version.
#[must_use]
pub(crate) fn served_bytes(resource_type: &ResourceType, bytes: Bytes) -> Bytes {
    if !resource_type.is_converted() {
        return bytes;
    }
    json::to_vec(&resource_type.to_served(json::parse(&bytes).unwrap_or(Value::Null))).into()
}

/// Protobuf message of a stored object in the served version, without an envelope. Cached per object and commit,
/// except for converted versions.
#[must_use]
pub fn message(resource_type: &ResourceType, record: &Record) -> Bytes {
    let encode =
        |bytes: &[u8]| encoded(&json::parse(bytes).unwrap_or(Value::Null), resource_type.schema.built_in());
    if resource_type.is_converted() {
        return Bytes::from(encode(&served_bytes(resource_type, record.value())));
    }
    record.cached_encoding(encode)
}

/// An encoded protobuf message, without an envelope; empty for a custom kind, which has no protobuf form.
#[must_use]
pub fn encoded(value: &Value, of: Option<Struct<'static>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    if let Some(of) = of {
        protobuf::encode(value, of, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;
    use setpoint_store::{CommitCause, Precondition, Proposal, Retention, Store};

    use super::*;
    use setpoint_api::resource_types;

    #[test]
    fn event_expires_an_hour_after_its_last_write() {
        let store = Store::in_memory(Retention::default());
        let now = Time::from_seconds(1_800_000_000);
        let key = |plural, name| resource_types::find("", "v1", plural).unwrap().key("a", name).unwrap();
        for (plural, name) in [("events", "news"), ("configmaps", "facts")] {
            let resource_type = resource_types::find("", "v1", plural).unwrap();
            let object = value!({
                "kind": (&*resource_type.info.kind), "apiVersion": "v1", "metadata": {"name": (name), "namespace": "a"},
            });
            let object = resource_type.stored_schema.decode(object, &[]).unwrap().value;
            let draft = draft(resource_type, object, now).unwrap();
            store
                .commit(Proposal::new(CommitCause::default(), now).put(
                    key(plural, name),
                    Precondition::Absent,
                    draft,
                ))
                .unwrap();
        }
        assert_eq!(store.next_expiry(), Some(now.after(EVENT_TTL)));
        assert_eq!(store.expire(now.after(EVENT_TTL / 2)).unwrap(), 0);
        assert_eq!(store.expire(now.after(EVENT_TTL)).unwrap(), 1);
        assert!(store.snapshot().get(&key("events", "news")).is_none());
        assert!(store.snapshot().get(&key("configmaps", "facts")).is_some(), "what is no news stays");
    }

    #[test]
    fn object_is_encoded_with_type_first_and_a_revision_hole() {
        let resource_type = resource_types::find("", "v1", "configmaps").unwrap();
        let text = br#"{"metadata":{"name":"x","namespace":"a"},"data":{"k":"v"},"apiVersion":"v1","kind":"ConfigMap"}"#;
        let mut object = json::parse(text).unwrap();
        object.ensure_map("metadata").insert("resourceVersion", HOLE);
        let mut bytes = Vec::new();
        let hole = resource_type.schema.write_stored(&object, &mut bytes).unwrap() as usize;
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with(&resource_type.type_prefix), "{text}");
        assert!(text[..hole].ends_with("\"resourceVersion\":\""), "{text}");
        assert!(draft(resource_type, object, Time::EPOCH).is_some());
    }
}
