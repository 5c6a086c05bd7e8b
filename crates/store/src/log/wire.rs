//! Binary encoding of commits, the same in every log.
//!
//! A write is a tag, its resource and its path, followed by its content: the envelope, the optional parts that the tag
//! announces, and the value. If the resource is sealed (see [`seal`](crate::seal)), the content is replaced by the id of
//! the key and the sealed content.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::{Key, Resource, Revision, Time};
use thiserror::Error;

use crate::codec::{Reader, RecordDecodeError, put_bytes, put_signed, put_varint};
use crate::commit::{Commit, LogWrite, RecordBody};
use crate::record::{Record, RecordEnvelope};
use crate::seal::{Context, OpenError, SealedBytes, SealedWrite, Sealer, Sealing};

const DELETE: u8 = 0;
const PUT: u8 = 1;
const HAS_REVISION_OFFSET: u8 = 2;
const HAS_EXPIRY: u8 = 4;
const SEALED: u8 = 8;

/// Failure to decode a commit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommitDecodeError {
    /// The bytes are malformed.
    #[error(transparent)]
    Malformed(#[from] RecordDecodeError),
    /// A sealed write cannot be opened.
    #[error("{resource} {path} at revision {revision}, sealed with key {key:?}: {error}")]
    Sealed {
        /// Resource of the object.
        resource: Resource,
        /// Path of the object.
        path: String,
        /// Revision of the write.
        revision: Revision,
        /// Id of the key.
        key: Arc<str>,
        /// Reason.
        error: OpenError,
    },
}

/// Appends a commit: its revision, its time, and its writes.
pub fn encode_commit<'a>(
    out: &mut Vec<u8>,
    revision: Revision,
    time: Time,
    writes: impl ExactSizeIterator<Item = &'a LogWrite>,
) {
    put_commit_head(out, revision, time, writes.len());
    writes.for_each(|write| put_plain(out, write));
}

/// Appends a commit as [`encode_commit`], with the writes of sealed resources sealed.
///
/// # Errors
/// If the sealer fails.
pub(crate) fn encode_commit_sealed<'a>(
    out: &mut Vec<u8>,
    revision: Revision,
    time: Time,
    mut writes: impl ExactSizeIterator<Item = &'a LogWrite>,
    sealer: &dyn Sealer,
) -> Result<(), String> {
    put_commit_head(out, revision, time, writes.len());
    writes.try_for_each(|write| {
        let key = (write.key.resource(), write.key.path());
        if let Some(SealedWrite { tag, sealed }) = write.sealed.as_deref() {
            put_sealed(out, *tag, key, sealed);
            return Ok(());
        }
        let tag = tag(write.body.as_ref());
        let content = |out: &mut Vec<u8>| put_content(out, write);
        put_write(out, (tag, key, revision), content, sealer)
    })
}

/// Appends an object as the commit that put it, so that a checkpoint is decoded like any other part of the
/// log.
pub fn encode_record(out: &mut Vec<u8>, resource: &Resource, record: &Record) {
    put_commit_head(out, record.revision(), record.time(), 1);
    put_head(out, record_tag(record), (resource, record.path()));
    put_record_content(out, record);
}

/// Appends an object as [`encode_record`], sealed if its resource is.
///
/// # Errors
/// If the sealer fails.
pub(crate) fn encode_record_sealed(
    out: &mut Vec<u8>,
    resource: &Resource,
    record: &Record,
    sealer: &dyn Sealer,
) -> Result<(), String> {
    put_commit_head(out, record.revision(), record.time(), 1);
    let head = (record_tag(record), (resource, record.path()), record.revision());
    put_write(out, head, |out| put_record_content(out, record), sealer)
}

/// Seals an object as a checkpoint does, for an export. Returns `None` if its resource is not sealed.
///
/// # Errors
/// If the sealer fails.
pub fn seal_record(
    resource: &Resource,
    record: &Record,
    sealer: &dyn Sealer,
) -> Result<Option<SealedWrite>, String> {
    let tag = record_tag(record) | SEALED;
    let context = Context { resource, path: record.path(), revision: record.revision(), tag };
    let mut content = Vec::new();
    put_record_content(&mut content, record);
    Ok(sealer.seal(&context, &content)?.map(|sealed| SealedWrite { tag, sealed }))
}

/// Opens a sealed write, as from an export. A sealer that leaves it sealed counts as one without the key.
///
/// # Errors
/// If it cannot be opened.
pub fn open_write(
    key: &Key,
    revision: Revision,
    write: &SealedWrite,
    sealer: &dyn Sealer,
) -> Result<LogWrite, CommitDecodeError> {
    check_tag(write.tag)?;
    let context = Context { resource: key.resource(), path: key.path(), revision, tag: write.tag };
    match open(&context, &write.sealed, sealer)? {
        Some(content) => Ok(decode_content(key.clone(), write.tag, &content)?),
        None => Err(sealed_error(&context, &write.sealed, OpenError::MissingKey)),
    }
}

fn put_commit_head(out: &mut Vec<u8>, revision: Revision, time: Time, writes: usize) {
    put_varint(out, revision.0);
    put_signed(out, time.0);
    put_varint(out, writes as u64);
}

fn put_head(out: &mut Vec<u8>, tag: u8, (resource, path): (&Resource, &str)) {
    out.push(tag);
    put_bytes(out, resource.as_str().as_bytes());
    put_bytes(out, path.as_bytes());
}

fn put_plain(out: &mut Vec<u8>, write: &LogWrite) {
    put_head(out, tag(write.body.as_ref()), (write.key.resource(), write.key.path()));
    put_content(out, write);
}

fn put_sealed(out: &mut Vec<u8>, tag: u8, key: (&Resource, &str), sealed: &SealedBytes) {
    put_head(out, tag, key);
    put_bytes(out, sealed.key.as_bytes());
    put_bytes(out, &sealed.bytes);
}

/// Appends a write, sealed if its resource is.
fn put_write(
    out: &mut Vec<u8>,
    (tag, key, revision): (u8, (&Resource, &str), Revision),
    content: impl Fn(&mut Vec<u8>),
    sealer: &dyn Sealer,
) -> Result<(), String> {
    let (resource, path) = key;
    if sealer.write_key(resource).is_some() {
        let mut plain = Vec::new();
        content(&mut plain);
        let context = Context { resource, path, revision, tag: tag | SEALED };
        if let Some(sealed) = sealer.seal(&context, &plain)? {
            put_sealed(out, tag | SEALED, key, &sealed);
            return Ok(());
        }
    }
    put_head(out, tag, key);
    content(out);
    Ok(())
}

fn tag(body: Option<&RecordBody>) -> u8 {
    body.map_or(DELETE, |body| {
        let revision_offset = if body.revision_offset.is_some() { HAS_REVISION_OFFSET } else { 0 };
        let expiry = if body.expires.is_some() { HAS_EXPIRY } else { 0 };
        PUT | revision_offset | expiry
    })
}

fn record_tag(record: &Record) -> u8 {
    let revision_offset = if record.has_revision() { HAS_REVISION_OFFSET } else { 0 };
    let expiry = if record.expires().is_some() { HAS_EXPIRY } else { 0 };
    PUT | revision_offset | expiry
}

fn put_content(out: &mut Vec<u8>, write: &LogWrite) {
    put_bytes(out, write.envelope.bytes());
    if let Some(body) = &write.body {
        put_options(out, body.revision_offset, body.expires);
        put_bytes(out, &body.bytes);
    }
}

fn put_record_content(out: &mut Vec<u8>, record: &Record) {
    let value = record.value();
    let (head, revision_offset, tail) = record.split_at_revision(&value);
    put_bytes(out, record.attributes().bytes());
    put_options(out, revision_offset, record.expires());
    put_varint(out, (head.len() + tail.len()) as u64);
    out.extend_from_slice(head);
    out.extend_from_slice(tail);
}

fn put_options(out: &mut Vec<u8>, revision_offset: Option<u32>, expires: Option<Time>) {
    if let Some(revision_offset) = revision_offset {
        put_varint(out, u64::from(revision_offset));
    }
    if let Some(expires) = expires {
        put_signed(out, expires.0);
    }
}

/// Decodes one commit from the front of `input`. Values are slices of `input`, not copies. Sealed writes cannot be
/// decoded.
pub fn decode_commit(input: &mut Bytes, names: &mut Interner) -> Result<Commit, CommitDecodeError> {
    let mut decoder = CommitDecoder { names: std::mem::take(names), sealer: None, sealing: None };
    let decoded = decoder.decode(input);
    *names = decoder.names;
    decoded
}

/// Decoder of commits, which opens sealed writes.
pub(crate) struct CommitDecoder<'a> {
    names: Interner,
    sealer: Option<&'a dyn Sealer>,
    /// Records the keys of stored writes there.
    sealing: Option<&'a Sealing>,
}

impl<'a> CommitDecoder<'a> {
    pub fn new(sealer: Option<&'a dyn Sealer>) -> CommitDecoder<'a> {
        CommitDecoder { names: Interner::default(), sealer, sealing: None }
    }

    /// Returns a decoder that records the keys of stored writes.
    pub fn recording(sealing: Option<&'a Sealing>) -> CommitDecoder<'a> {
        let sealer = sealing.map(|sealing| &**sealing.sealer());
        CommitDecoder { names: Interner::default(), sealer, sealing }
    }

    /// Decodes one commit from the front of `input`. Values are slices of `input`, or of an opened copy.
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Commit, CommitDecodeError> {
        let whole = input.clone();
        let mut reader = Reader::new(&whole);
        let revision = Revision(reader.varint()?);
        let time = Time(reader.signed()?);
        let count = reader.length()?;
        let mut writes = Vec::with_capacity(count.min(crate::commit::COMMIT_CHANGES_MAX));
        for _ in 0..count {
            writes.push(self.decode_write(&whole, &mut reader, revision)?);
        }
        *input = whole.slice_ref(reader.rest());
        Ok(Commit { revision, time, writes })
    }

    fn decode_write(
        &mut self,
        whole: &Bytes,
        reader: &mut Reader<'_>,
        revision: Revision,
    ) -> Result<LogWrite, CommitDecodeError> {
        let tag = reader.byte()?;
        check_tag(tag)?;
        let resource = self.names.resource(reader.str()?)?;
        let path = reader.str()?;
        let key = Key::from_path(&resource, path).map_err(|_| RecordDecodeError::Key)?;
        if tag & SEALED == 0 {
            self.record_stored(&resource, revision, None);
            return Ok(decode_parts(key, tag, whole, reader)?);
        }
        let sealed_key = Arc::from(reader.str()?);
        let sealed = SealedBytes { key: sealed_key, bytes: whole.slice_ref(reader.bytes()?) };
        self.record_stored(&resource, revision, Some(&sealed.key));
        let context = Context { resource: &resource, path, revision, tag };
        let Some(sealer) = self.sealer else {
            return Err(sealed_error(&context, &sealed, OpenError::NoConfiguration));
        };
        match open(&context, &sealed, sealer)? {
            Some(content) => Ok(decode_content(key, tag, &content)?),
            None => Ok(LogWrite {
                key,
                body: (tag & PUT != 0).then(RecordBody::default),
                envelope: RecordEnvelope::default(),
                sealed: Some(Box::new(SealedWrite { tag, sealed })),
            }),
        }
    }

    fn record_stored(&self, resource: &Resource, revision: Revision, key: Option<&str>) {
        if let Some(sealing) = self.sealing {
            sealing.record_stored(resource, revision, key);
        }
    }
}

fn open(
    context: &Context<'_>,
    sealed: &SealedBytes,
    sealer: &dyn Sealer,
) -> Result<Option<Bytes>, CommitDecodeError> {
    let opened = sealer.open(context, sealed).map_err(|error| sealed_error(context, sealed, error))?;
    Ok(opened.map(Bytes::from))
}

fn sealed_error(context: &Context<'_>, sealed: &SealedBytes, error: OpenError) -> CommitDecodeError {
    CommitDecodeError::Sealed {
        resource: context.resource.clone(),
        path: context.path.to_owned(),
        revision: context.revision,
        key: Arc::clone(&sealed.key),
        error,
    }
}

fn check_tag(tag: u8) -> Result<(), RecordDecodeError> {
    let plain = tag & !SEALED;
    let is_known = plain <= (PUT | HAS_REVISION_OFFSET | HAS_EXPIRY) && (plain & PUT != 0 || plain == DELETE);
    if is_known { Ok(()) } else { Err(RecordDecodeError::Tag(tag)) }
}

/// Decodes the opened content of a write, which must be complete.
fn decode_content(key: Key, tag: u8, content: &Bytes) -> Result<LogWrite, RecordDecodeError> {
    let mut reader = Reader::new(content);
    let write = decode_parts(key, tag, content, &mut reader)?;
    reader.end().map(|()| write)
}

/// Decodes the content of a write. The value is a slice of `whole`.
fn decode_parts(
    key: Key,
    tag: u8,
    whole: &Bytes,
    reader: &mut Reader<'_>,
) -> Result<LogWrite, RecordDecodeError> {
    let envelope = RecordEnvelope::decode(reader.bytes()?)?;
    if tag & PUT == 0 {
        return Ok(LogWrite { key, body: None, envelope, sealed: None });
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
    let body = RecordBody { bytes: whole.slice_ref(bytes), revision_offset, expires };
    Ok(LogWrite { key, body: Some(body), envelope, sealed: None })
}

/// Interner of resource names, which all keys of a resource share.
#[derive(Debug, Default)]
pub struct Interner(BTreeSet<Resource>);

impl Interner {
    fn resource(&mut self, name: &str) -> Result<Resource, RecordDecodeError> {
        if let Some(known) = self.0.get(name) {
            return Ok(known.clone());
        }
        let resource = Resource::new(name).map_err(|_| RecordDecodeError::Key)?;
        self.0.insert(resource.clone());
        Ok(resource)
    }
}

#[cfg(test)]
mod tests;
