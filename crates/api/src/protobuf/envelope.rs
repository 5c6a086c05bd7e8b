//! Framing of messages: the envelope with the kind, lists, and watch events.
//!
//! Messages are not parsed here, so an object that was encoded once serves single responses, lists and events.

use super::wire::{Payload, Reader, close, open as open_field, varint_len, write_bytes};
use super::write::write_head;
use super::{MAGIC, ProtoError, find_definition};
use crate::decode;
use crate::schema::Struct;
use crate::value::Value;

/// End of an envelope: no content encoding, no content type.
const TAIL: &[u8] = &[0x1a, 0, 0x22, 0];

/// A parsed envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Group version of the object; empty if the client omitted it.
    pub api_version: &'a str,
    /// Kind of the object; empty if the client omitted it.
    pub kind: &'a str,
    /// The message.
    pub raw: &'a [u8],
}

impl Envelope<'_> {
    /// Definition of the object.
    ///
    /// # Errors
    /// If the kind is unknown, or has no protobuf form.
    pub fn definition(&self) -> Result<Struct<'static>, ProtoError> {
        find_definition(self.api_version, self.kind).ok_or_else(|| ProtoError::Kind {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
        })
    }

    /// Decodes the value against its schema, with kind and version from the envelope.
    pub(super) fn shape(&self, mut value: Value) -> Result<Value, ProtoError> {
        let map = value.make_map();
        map.insert_first("apiVersion", self.api_version);
        map.insert_first("kind", self.kind);
        Ok(decode::decode(value, self.definition()?, &[])?.value)
    }
}

/// Parses an envelope without its message.
///
/// # Errors
/// If the bytes are not an envelope, with upstream's text.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, ProtoError> {
    if bytes.is_empty() {
        return Err(ProtoError::Empty);
    }
    let body = bytes.strip_prefix(MAGIC).ok_or(ProtoError::Magic)?;
    if body.is_empty() {
        return Err(ProtoError::EmptyBody);
    }
    let mut envelope = Envelope { api_version: "", kind: "", raw: &[] };
    let mut reader = Reader::new(body);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(meta)) => {
                let mut reader = Reader::new(meta);
                while let Some((number, payload)) = reader.next()? {
                    match (number, payload) {
                        (1, Payload::Bytes(text)) => envelope.api_version = utf8(text)?,
                        (2, Payload::Bytes(text)) => envelope.kind = utf8(text)?,
                        (1 | 2, payload) => return Err(payload.mismatch("TypeMeta")),
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(raw)) => envelope.raw = raw,
            (1 | 2, payload) => return Err(payload.mismatch("Unknown")),
            _ => {}
        }
    }
    Ok(envelope)
}

fn utf8(bytes: &[u8]) -> Result<&str, ProtoError> {
    std::str::from_utf8(bytes).map_err(|_| ProtoError::TypeMeta)
}

/// Appends the magic number and the kind.
fn write_front(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    let start = open_field(1, out);
    write_bytes(1, api_version.as_bytes(), out);
    write_bytes(2, kind.as_bytes(), out);
    close(start, out);
}

/// Appends an encoded object in its envelope.
pub fn write_object(api_version: &str, kind: &str, message: &[u8], out: &mut Vec<u8>) {
    out.reserve(message.len() + api_version.len() + kind.len() + 32);
    write_front(api_version, kind, out);
    write_bytes(2, message, out);
    out.extend_from_slice(TAIL);
}

/// Appends a watch event, without the length that frames it in a stream. The object is in its envelope, the
/// event is not.
pub fn write_watch_event(event: &str, api_version: &str, kind: &str, message: &[u8], out: &mut Vec<u8>) {
    out.reserve(message.len() + api_version.len() + kind.len() + 48);
    write_bytes(1, event.as_bytes(), out);
    let object = open_field(2, out);
    let raw = open_field(1, out);
    write_object(api_version, kind, message, out);
    close(raw, out);
    close(object, out);
}

/// Writer of a list whose items were encoded before.
///
/// The length of all items precedes the first one: it is the sum of [`ListWriter::item_len`]. The list is what
/// [`ListWriter::head`], [`ListWriter::item`] for each item and [`ListWriter::end`] append, and can be sent in pieces.
#[derive(Clone, Copy, Debug)]
pub struct ListWriter;

impl ListWriter {
    /// Returns the bytes that an item takes whose message has this length.
    #[must_use]
    pub const fn item_len(message_len: usize) -> usize {
        1 + varint_len(message_len as u64) + message_len
    }

    /// Appends the part before the items: `metadata` is the encoded metadata of the list, `items_len` the length of
    /// all items.
    pub fn head(api_version: &str, kind: &str, metadata: &[u8], items_len: usize, out: &mut Vec<u8>) {
        write_front(api_version, kind, out);
        write_head(2, ListWriter::item_len(metadata.len()) + items_len, out);
        write_bytes(1, metadata, out);
    }

    /// Appends an item.
    pub fn item(message: &[u8], out: &mut Vec<u8>) {
        write_head(2, message.len(), out);
        out.extend_from_slice(message);
    }

    /// Appends the part after the items.
    pub fn end(out: &mut Vec<u8>) {
        out.extend_from_slice(TAIL);
    }
}
