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

/// Writer of a list from encoded messages.
///
/// The length of all items precedes the first one, so it must be known: sum up [`ListWriter::item_len`]. The
/// output is that of [`ListWriter::start`], of each item, and of [`ListWriter::end`], and can be streamed.
#[derive(Debug)]
pub struct ListWriter {
    /// Remaining bytes of items.
    left: usize,
}

impl ListWriter {
    /// Bytes of an item whose message has this length.
    #[must_use]
    pub const fn item_len(message_len: usize) -> usize {
        1 + varint_len(message_len as u64) + message_len
    }

    /// Appends the bytes before the items: `metadata` is the encoded list metadata, `items_len` the sum over
    /// all items.
    #[must_use]
    pub fn start(
        api_version: &str,
        kind: &str,
        metadata: &[u8],
        items_len: usize,
        out: &mut Vec<u8>,
    ) -> ListWriter {
        write_front(api_version, kind, out);
        write_head(2, ListWriter::item_len(metadata.len()) + items_len, out);
        write_bytes(1, metadata, out);
        ListWriter { left: items_len }
    }

    /// Appends the bytes before a message of this length, for callers that send the message separately.
    ///
    /// # Panics
    /// If the items exceed the length given at the start: the bytes that were sent already would be wrong.
    fn item_head(&mut self, message_len: usize, out: &mut Vec<u8>) {
        let left = self.left.checked_sub(ListWriter::item_len(message_len));
        self.left = left.expect("the length of all items was given at the start");
        write_head(2, message_len, out);
    }

    /// Appends an item.
    ///
    /// # Panics
    /// As [`ListWriter::item_head`].
    pub fn item(&mut self, message: &[u8], out: &mut Vec<u8>) {
        self.item_head(message.len(), out);
        out.extend_from_slice(message);
    }

    /// Appends the bytes after the items.
    ///
    /// # Panics
    /// If items are missing.
    pub fn end(self, out: &mut Vec<u8>) {
        assert_eq!(self.left, 0, "bytes of items are missing");
        out.extend_from_slice(TAIL);
    }
}
