//! Objects as the protobuf that Kubernetes speaks, in and out, by the schema alone.
//!
//! An object on the wire is four bytes of magic and an envelope ([`Envelope`]) that says its kind and holds its
//! message. [`decode`] gives the value that [`decode::decode`](crate::decode::decode) gives for the same object
//! in JSON, in bounded stack and in time that is nearly linear in the input. [`encode`] gives the bytes that Go
//! gives for the same object. Messages that were encoded once are framed again by [`write_object`],
//! [`ListWriter`] and [`write_watch_event`] without a look inside.

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

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The media type of the events of a watch.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The bytes before every envelope.
pub const MAGIC: &[u8] = b"k8s\0";

/// How deep objects and arrays may nest, as in JSON.
pub const DEPTH_MAX: usize = json::DEPTH_MAX;

/// How often messages may come in more than one piece. Writers do not do that; readers must put up with it.
pub const PIECES_MAX: usize = 64;

/// Why bytes are no object.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ProtoError {
    /// There is nothing.
    #[error("empty data")]
    Empty,
    /// There is nothing after the magic number.
    #[error("empty body")]
    EmptyBody,
    /// The magic number is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// The kind or its version is no text.
    #[error("the type of the object is not UTF-8")]
    TypeMeta,
    /// There is no such kind, or protobuf does not carry it.
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    Kind {
        /// The group version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The bytes end too early.
    #[error("unexpected EOF")]
    Short,
    /// A number has too many bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A tag that cannot be.
    #[error("proto: illegal tag {0}")]
    Tag(u64),
    /// The end of a group that did not start.
    #[error("proto: unexpected end of group")]
    EndGroup,
    /// A payload of a kind that does not exist.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// A field has a payload of another kind.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WireType {
        /// The kind of payload.
        wire_type: u8,
        /// The field.
        field: Box<str>,
    },
    /// A number or text that is neither.
    #[error("impossible IntOrString.Type")]
    IntOrString,
    /// Objects are nested too deep.
    #[error("exceeded max depth")]
    Depth,
    /// Messages come in too many pieces.
    #[error("proto: too many repeated messages where one is expected")]
    Pieces,
    /// A value that should be JSON is not.
    #[error(transparent)]
    Json(JsonError),
    /// A value is not what its type allows.
    #[error(transparent)]
    Value(#[from] DecodeError),
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The group version, as in `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The object itself, with both of these in it.
    pub value: Value,
}

/// Reads an object in its envelope.
///
/// # Errors
/// If the bytes are no object of a built-in kind.
pub fn decode(bytes: &[u8]) -> Result<Object, ProtoError> {
    let envelope = open(bytes)?;
    let value =
        envelope.shape(read::Decoder::default().message(envelope.raw, envelope.definition()?, 1)?)?;
    Ok(Object { api_version: envelope.api_version.to_owned(), kind: envelope.kind.to_owned(), value })
}

/// Reads a message without an envelope. The object then has no kind.
///
/// # Errors
/// If the bytes are no such message.
pub fn decode_message(bytes: &[u8], of: Struct<'_>) -> Result<Value, ProtoError> {
    let value = read::Decoder::default().message(bytes, of, 1)?;
    Ok(crate::decode::decode(value, of, &[])?.value)
}

/// Appends the message of a decoded object, without an envelope. Its kind is not part of it.
pub fn encode(value: &Value, of: Struct<'_>, out: &mut Vec<u8>) {
    write::Encoder::new(out).message(Some(value), of);
}

/// An object in its envelope, with the kind that it says it is.
#[must_use]
pub fn to_vec(value: &Value, of: Struct<'_>) -> Vec<u8> {
    let mut message = Vec::with_capacity(1024);
    encode(value, of, &mut message);
    let mut out = Vec::new();
    write_object(value.str_at(&["apiVersion"]), value.str_at(&["kind"]), &message, &mut out);
    out
}

/// The bytes of an answer that is no object of a kind, in their envelope.
#[must_use]
pub fn status_to_vec(status: &Status) -> Vec<u8> {
    let of = schema::builtin().meta("Status").expect("the table has the shared types");
    let value = json::parse(&status.to_json()).expect("a status is written as JSON");
    to_vec(&value, of)
}

/// The definition of a kind that protobuf carries. Options and answers that all groups share are known in every
/// group version, as clients name them so.
#[must_use]
pub fn define(api_version: &str, kind: &str) -> Option<Struct<'static>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schemas = schema::builtin();
    schemas
        .kind(group, version, kind)
        .or_else(|| schemas.kind("meta.k8s.io", "v1", kind))
        .filter(|of| is_carried(*of))
}

/// Whether protobuf carries objects of this definition. It does not carry tables.
#[must_use]
pub fn is_carried(of: Struct<'_>) -> bool {
    of.fields().all(|field| field.number().is_some() || matches!(field.name(), "kind" | "apiVersion"))
}
