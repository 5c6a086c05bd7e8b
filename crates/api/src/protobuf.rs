//! Protobuf codec of Kubernetes objects, driven by the schema.
//!
//! On the wire, an object is a magic number and an envelope ([`Envelope`]) with its kind and its message.
//! [`decode`] returns the value that [`decode::decode`](crate::decode::decode) returns for the same object in
//! JSON, in bounded stack and nearly linear time. [`encode`] writes the bytes that Go writes for the same
//! object. Encoded messages are framed again by [`write_object`], [`ListWriter`] and [`write_watch_event`]
//! without being parsed.

use thiserror::Error;

use crate::decode::DecodeError;
use crate::json::{self, JsonError};
use crate::schema::{self, Struct};
use crate::status::Status;
use crate::value::Value;

mod envelope;
mod read;
pub(crate) mod wire;
mod write;

#[cfg(test)]
pub(crate) mod tests;

pub use envelope::{Envelope, ListWriter, open, write_object, write_watch_event};

/// Media type of objects.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Magic number before every envelope.
pub const MAGIC: &[u8] = b"k8s\0";

/// Maximum nesting of objects and arrays, as in JSON.
pub const DEPTH_MAX: usize = json::DEPTH_MAX;

/// Maximum number of repeated occurrences of messages that are expected once. Encoders never split a message;
/// decoders must merge the occurrences.
pub const REPETITIONS_MAX: usize = 64;

/// Invalid protobuf object.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProtoError {
    /// The input is empty.
    #[error("empty data")]
    Empty,
    /// Nothing follows the magic number.
    #[error("empty body")]
    EmptyBody,
    /// The magic number is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// The kind or version is not UTF-8.
    #[error("the type of the object is not UTF-8")]
    TypeMeta,
    /// The kind is unknown, or has no protobuf form.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    Kind {
        /// Group version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The input is truncated.
    #[error("unexpected EOF")]
    Short,
    /// A varint is too long.
    #[error("proto: integer overflow")]
    Overflow,
    /// Invalid tag.
    #[error("proto: illegal tag {0}")]
    Tag(u64),
    /// End of a group that was not started.
    #[error("proto: unexpected end of group")]
    EndGroup,
    /// Unknown wire type.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// Wire type does not match the field.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WireType {
        /// Wire type of the payload.
        wire_type: u8,
        /// Name of the field.
        field: Box<str>,
    },
    /// An IntOrString with an unknown type.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// Objects are nested too deep.
    #[error("exceeded max depth")]
    Depth,
    /// Too many repeated occurrences of messages.
    #[error("proto: too many repeated messages where one is expected")]
    Repetitions,
    /// An embedded JSON value is invalid.
    #[error(transparent)]
    Json(JsonError),
    /// A value does not conform to its type.
    #[error(transparent)]
    Value(#[from] DecodeError),
}

/// A decoded object.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Group version, as in `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The object, including kind and version.
    pub value: Value,
}

/// Decodes an object in its envelope.
///
/// # Errors
/// If the bytes are not an object of a built-in kind.
pub fn decode(bytes: &[u8]) -> Result<Object, ProtoError> {
    let envelope = open(bytes)?;
    let value =
        envelope.shape(read::Decoder::default().message(envelope.raw, envelope.definition()?, 1)?)?;
    Ok(Object { api_version: envelope.api_version.to_owned(), kind: envelope.kind.to_owned(), value })
}

/// Decodes a message without an envelope. The object then has no kind.
///
/// # Errors
/// If the bytes are not such a message.
pub fn decode_message(bytes: &[u8], schema: Struct<'_>) -> Result<Value, ProtoError> {
    let value = read::Decoder::default().message(bytes, schema, 1)?;
    Ok(crate::decode::decode(value, schema, &[])?.value)
}

/// Appends the message of a decoded object, without an envelope and without its kind.
pub fn encode(value: &Value, schema: Struct<'_>, out: &mut Vec<u8>) {
    write::Encoder::new(out).message(Some(value), schema);
}

/// Encodes an object in its envelope, with the kind and version of the object.
#[must_use]
pub fn to_vec(value: &Value, schema: Struct<'_>) -> Vec<u8> {
    let mut message = Vec::with_capacity(1024);
    encode(value, schema, &mut message);
    let mut out = Vec::new();
    write_object(value.str_at(&["apiVersion"]), value.str_at(&["kind"]), &message, &mut out);
    out
}

/// Encodes a Status in its envelope.
#[must_use]
pub fn status_to_vec(status: &Status) -> Vec<u8> {
    let schema = schema::builtin().meta("Status").expect("the table contains meta/v1");
    let value = json::parse(&status.to_json()).expect("a status is written as JSON");
    to_vec(&value, schema)
}

/// Definition of a kind with a protobuf form. The options and responses of `meta/v1` are known in every group
/// version, as clients send them so.
#[must_use]
pub fn find_definition(api_version: &str, kind: &str) -> Option<Struct<'static>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schemas = schema::builtin();
    schemas
        .kind(group, version, kind)
        .or_else(|| schemas.kind("meta.k8s.io", "v1", kind))
        .filter(|schema| has_protobuf_form(*schema))
}

/// `true` if objects of this definition have a protobuf form. Tables have none.
#[must_use]
pub(crate) fn has_protobuf_form(schema: Struct<'_>) -> bool {
    schema.fields().all(|field| field.number().is_some() || matches!(field.name(), "kind" | "apiVersion"))
}
