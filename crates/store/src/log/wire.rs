//! Binary encoding of commits, the same in every log.

use bytes::Bytes;
use std::collections::BTreeSet;

use setpoint_api::{Key, Resource, Revision, Time};

use crate::codec::{Reader, RecordDecodeError, put_bytes, put_signed, put_varint};
use crate::commit::{Commit, LogWrite, RecordBody};
use crate::record::{Record, RecordEnvelope};

const DELETE: u8 = 0;
const PUT: u8 = 1;
const HAS_REVISION_OFFSET: u8 = 2;
const HAS_EXPIRY: u8 = 4;

/// Appends a commit: its revision, its time, and its writes.
pub fn encode_commit<'a>(
    out: &mut Vec<u8>,
    revision: Revision,
    time: Time,
    writes: impl ExactSizeIterator<Item = &'a LogWrite>,
) {
    put_varint(out, revision.0);
    put_signed(out, time.0);
    put_varint(out, writes.len() as u64);
    for write in writes {
        let (resource, path) = (write.key.resource(), write.key.path());
        put_head(out, write.body.as_ref(), resource, path, write.envelope.bytes());
        if let Some(body) = &write.body {
            put_bytes(out, &body.bytes);
        }
    }
}

/// Appends an object as the commit that put it, so that a checkpoint is decoded like any other part of the
/// log.
pub fn encode_record(out: &mut Vec<u8>, resource: &Resource, record: &Record) {
    put_varint(out, record.revision().0);
    put_signed(out, record.time().0);
    put_varint(out, 1);
    let value = record.value();
    let (head, revision_offset, tail) = record.split_at_revision(&value);
    let body = RecordBody { bytes: Bytes::new(), revision_offset, expires: record.expires() };
    put_head(out, Some(&body), resource, record.path(), record.attributes().bytes());
    put_varint(out, (head.len() + tail.len()) as u64);
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
}

/// Appends a write without the bytes of its value.
fn put_head(out: &mut Vec<u8>, body: Option<&RecordBody>, resource: &Resource, path: &str, envelope: &[u8]) {
    let tag = body.map_or(DELETE, |body| {
        let revision_offset = if body.revision_offset.is_some() { HAS_REVISION_OFFSET } else { 0 };
        let expiry = if body.expires.is_some() { HAS_EXPIRY } else { 0 };
        PUT | revision_offset | expiry
    });
    out.push(tag);
    put_bytes(out, resource.as_str().as_bytes());
    put_bytes(out, path.as_bytes());
    put_bytes(out, envelope);
    if let Some(revision_offset) = body.and_then(|body| body.revision_offset) {
        put_varint(out, u64::from(revision_offset));
    }
    if let Some(expires) = body.and_then(|body| body.expires) {
        put_signed(out, expires.0);
    }
}

/// Decodes one commit from the front of `input`. Values are slices of `input`, not copies.
pub fn decode_commit(input: &mut Bytes, names: &mut Interner) -> Result<Commit, RecordDecodeError> {
    let whole = input.clone();
    let mut reader = Reader::new(&whole);
    let revision = Revision(reader.varint()?);
    let time = Time(reader.signed()?);
    let count = reader.length()?;
    let mut writes = Vec::with_capacity(count.min(crate::commit::COMMIT_CHANGES_MAX));
    for _ in 0..count {
        writes.push(decode_write(&whole, &mut reader, names)?);
    }
    *input = whole.slice_ref(reader.rest());
    Ok(Commit { revision, time, writes })
}

fn decode_write(
    whole: &Bytes,
    reader: &mut Reader<'_>,
    names: &mut Interner,
) -> Result<LogWrite, RecordDecodeError> {
    let tag = reader.byte()?;
    if tag > (PUT | HAS_REVISION_OFFSET | HAS_EXPIRY) || (tag & PUT == 0 && tag != DELETE) {
        return Err(RecordDecodeError::Tag(tag));
    }
    let resource = names.resource(reader.str()?)?;
    let key = Key::from_path(&resource, reader.str()?).map_err(|_| RecordDecodeError::Key)?;
    let envelope = RecordEnvelope::decode(reader.bytes()?)?;
    if tag == DELETE {
        return Ok(LogWrite { key, body: None, envelope });
    }
    let revision_offset = if tag & HAS_REVISION_OFFSET == 0 { None } else { Some(reader.varint()?) };
    let expires = if tag & HAS_EXPIRY == 0 { None } else { Some(Time(reader.signed()?)) };
    let bytes = reader.bytes()?;
    let revision_offset = match revision_offset {
        Some(revision_offset) if revision_offset > bytes.len() as u64 => {
            return Err(RecordDecodeError::Range);
        }
        Some(revision_offset) => Some(u32::try_from(revision_offset).map_err(|_| RecordDecodeError::Range)?),
        None => None,
    };
    Ok(LogWrite {
        key,
        body: Some(RecordBody { bytes: whole.slice_ref(bytes), revision_offset, expires }),
        envelope,
    })
}

/// Interner of resource names, which all keys of a resource share.
#[derive(Debug, Default)]
pub struct Interner(BTreeSet<Resource>);

impl Interner {
    fn resource(&mut self, name: &str) -> Result<Resource, RecordDecodeError> {
        if let Some(resource) = self.0.get(name) {
            return Ok(resource.clone());
        }
        let resource = Resource::new(name).map_err(|_| RecordDecodeError::Key)?;
        self.0.insert(resource.clone());
        Ok(resource)
    }
}

#[cfg(test)]
mod tests;
