//! Records: immutable versions of objects, shared by all readers.
//!
//! A record consists of a small header, the path, which all versions of an object and their keys share, and
//! one run of bytes: the envelope as the log stores it, then the value as clients see it.
//!
//! ```text
//! <labels><fields><cause>{"kind":…,"resourceVersion":"17",…}
//!                                                    ^^ revision, inserted when the commit is applied
//! ```
//!
//! Labels, fields and the cause are decoded from the envelope on demand, which for most records is never. A
//! delete leaves a tombstone: the last value with the delete's revision and cause.
//!
//! Everything but the path can be packed (see `pack.rs`). A record that expires, such as an Event, is packed
//! when it is created: there are many of them, all alike and rarely read. Other records are packed in place
//! when they are idle and their table is large (see `idle.rs`). Readers share the unpacked bytes by
//! reference count, so packing never affects them.

mod envelope;

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::{Key, Resource, Revision, Time};

pub use self::envelope::{AttributePairs, Attributes, EncodedPairs, RecordEnvelope};
use crate::commit::{CommitCause, LogWrite, RecordBody};
use crate::pack::{Packed, Samples};

/// Memory of a record beside its bytes: the header, the reference count, and its part of the tree. Included
/// in budgets.
const RECORD_OVERHEAD_BYTES: usize = 160;

/// One version of one object. Cloning costs a pointer.
#[derive(Clone)]
pub struct Record(Arc<Inner>);

struct Inner {
    path: Arc<str>,
    revision: Revision,
    time: Time,
    expires: Option<Time>,
    /// Offset of the revision's digits in the value.
    revision_offset: u32,
    /// End of the envelope, and start of the value.
    envelope_end: u32,
    value_end: u32,
    /// Number of digits of the revision; 0 if the value does not contain it.
    digits: u8,
    tombstone: bool,
    /// `true` if packing has been tried since the record became idle.
    pack_tried: AtomicBool,
    data: Mutex<Data>,
}

/// Envelope and value.
enum Data {
    Plain {
        bytes: Bytes,
        /// Value in another encoding, once it has been requested.
        cached: Option<Box<Bytes>>,
    },
    Packed(Packed),
}

impl Record {
    /// Returns the record that `write` makes at `revision`, after `before`.
    pub(crate) fn apply(write: &LogWrite, revision: Revision, time: Time, before: Option<&Record>) -> Record {
        match (&write.body, before) {
            (Some(body), _) => Record::put(write, body, revision, time, before),
            (None, Some(before)) => Record::tombstone(write, before, revision, time),
            (None, None) => {
                let empty = RecordBody { bytes: Bytes::new(), revision_offset: None, expires: None };
                let record = Record::put(write, &empty, revision, time, None);
                Record::tombstone(write, &record, revision, time)
            }
        }
    }

    fn put(
        write: &LogWrite,
        body: &RecordBody,
        revision: Revision,
        time: Time,
        before: Option<&Record>,
    ) -> Record {
        let split = body.revision_offset.map_or(body.bytes.len(), |revision_offset| revision_offset as usize);
        let (head, tail) = body.bytes.split_at(split);
        let revision_offset = body.revision_offset;
        Record(Arc::new(Inner {
            expires: body.expires,
            ..Inner::assemble(write, before, (head, revision_offset, tail), revision, time)
        }))
    }

    fn tombstone(write: &LogWrite, before: &Record, revision: Revision, time: Time) -> Record {
        let value = before.value();
        let parts = before.split_at_revision(&value);
        Record(Arc::new(Inner {
            tombstone: true,
            ..Inner::assemble(write, Some(before), parts, revision, time)
        }))
    }

    /// Packs the record if it expires.
    pub(crate) fn pack(&self, samples: &mut Samples) {
        if self.0.expires.is_some() {
            self.pack_with(samples);
        }
    }

    /// `true` if it was committed at or before `before`, is not packed, and packing it has not been tried.
    pub(crate) fn can_be_packed(&self, before: Time) -> bool {
        self.0.time <= before && !self.0.pack_tried.load(atomic::Ordering::Relaxed)
    }

    /// Packs an idle record. Tried only once: a record that packs badly stays unpacked.
    pub(crate) fn pack_idle(&self, samples: &mut Samples) {
        if !self.0.pack_tried.swap(true, atomic::Ordering::Relaxed) {
            self.pack_with(samples);
        }
    }

    fn pack_with(&self, samples: &mut Samples) {
        let bytes = match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.clone(),
            Data::Packed(_) => return,
        };
        // The path is part of the input because most values contain the name.
        if let Some(packed) = samples.pack(self.path_bytes(), &bytes) {
            *self.0.data.lock() = Data::Packed(packed);
        }
    }

    /// Revision that put it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// Time of the commit.
    #[must_use]
    pub fn time(&self) -> Time {
        self.0.time
    }

    /// Time at which the store deletes it.
    #[must_use]
    pub fn expires(&self) -> Option<Time> {
        self.0.expires
    }

    /// `true` if the object is deleted; the value is then the last one, with the delete's revision.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.0.tombstone
    }

    /// Returns the value as clients see it. Shared if the record is not packed, otherwise unpacked for each
    /// call.
    #[must_use]
    pub fn value(&self) -> Bytes {
        let start = self.0.envelope_end as usize;
        match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.slice(start..),
            Data::Packed(packed) => self.unpack(packed, start..self.0.value_end as usize),
        }
    }

    /// Returns the length of the value in bytes, without unpacking it.
    #[must_use]
    pub fn value_len(&self) -> usize {
        (self.0.value_end - self.0.envelope_end) as usize
    }

    /// Returns the value from an offset on, sharing the record's memory; `None` if the record is packed.
    #[must_use]
    pub fn plain_value(&self, from: usize) -> Option<Bytes> {
        match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => Some(bytes.slice(self.0.envelope_end as usize + from..)),
            Data::Packed(_) => None,
        }
    }

    /// Appends the value from an offset on.
    pub fn append_value(&self, from: usize, out: &mut Vec<u8>) {
        let start = self.0.envelope_end as usize + from;
        match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => out.extend_from_slice(&bytes[start..]),
            Data::Packed(packed) => {
                out.extend_from_slice(&self.unpack(packed, start..self.0.value_end as usize));
            }
        }
    }

    fn unpack(&self, packed: &Packed, range: Range<usize>) -> Bytes {
        let path = self.path_bytes();
        let data = packed.unpack(path, path.len() + range.end);
        Bytes::from(data).slice(path.len() + range.start..path.len() + range.end)
    }

    /// Returns the value in another encoding (protobuf). `encode` converts it at the first request; the result
    /// is kept until the record is packed.
    pub fn cached_encoding(&self, encode: impl FnOnce(&[u8]) -> Vec<u8>) -> Bytes {
        if let Data::Plain { cached: Some(cached), .. } = &*self.0.data.lock() {
            return Bytes::clone(cached);
        }
        let encoded = Bytes::from(encode(&self.value()));
        if let Data::Plain { cached, .. } = &mut *self.0.data.lock() {
            *cached = Some(Box::new(encoded.clone()));
        }
        encoded
    }

    /// Returns the value as if `revision` had put it, for watches whose selector the object no longer
    /// matches.
    #[must_use]
    pub fn value_at(&self, revision: Revision) -> Bytes {
        if self.0.digits == 0 {
            return self.value();
        }
        let value = self.value();
        let (head, _, tail) = self.split_at_revision(&value);
        Bytes::from([head, Digits::of(revision).as_bytes(), tail].concat())
    }

    /// Returns the same version of the object with another text: its form in another API version. The revision is
    /// inserted at its offset.
    #[must_use]
    pub fn with_text(&self, text: &[u8], revision_offset: u32) -> Record {
        let envelope = self.attributes().0;
        let (head, tail) = text.split_at(revision_offset as usize);
        let digits = Digits::of(self.0.revision);
        let data = [&envelope[..], head, digits.as_bytes(), tail].concat();
        Record(Arc::new(Inner {
            path: Arc::clone(&self.0.path),
            revision: self.0.revision,
            time: self.0.time,
            expires: self.0.expires,
            revision_offset,
            envelope_end: self.0.envelope_end,
            value_end: offset(data.len()),
            digits: digits.length,
            tombstone: self.0.tombstone,
            pack_tried: AtomicBool::new(true),
            data: Mutex::new(Data::Plain { bytes: Bytes::from(data), cached: None }),
        }))
    }

    /// Returns the value without its revision, and the offset of the revision.
    #[must_use]
    pub fn body(&self) -> RecordBody {
        let value = self.value();
        let (head, revision_offset, tail) = self.split_at_revision(&value);
        let bytes = if revision_offset.is_some() { Bytes::from([head, tail].concat()) } else { value };
        RecordBody { bytes, revision_offset, expires: self.0.expires }
    }

    /// `true` if the value contains its revision.
    pub(crate) fn has_revision(&self) -> bool {
        self.0.digits != 0
    }

    /// Splits `value`, the record's own, into the part before the revision's digits, their offset, and the
    /// part after them.
    pub(crate) fn split_at_revision<'v>(&self, value: &'v [u8]) -> (&'v [u8], Option<u32>, &'v [u8]) {
        let (at, digits) = (self.0.revision_offset as usize, usize::from(self.0.digits));
        if digits == 0 {
            return (value, None, &[]);
        }
        (&value[..at], Some(self.0.revision_offset), &value[at + digits..])
    }

    /// Path: `namespace/name`, or `name`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the key. `resource` is the resource of the record's table.
    #[must_use]
    pub fn key(&self, resource: &Resource) -> Key {
        Key::of_path(resource, &self.0.path)
    }

    /// Path as bytes, which have the same order as the text.
    #[must_use]
    pub fn path_bytes(&self) -> &[u8] {
        self.0.path.as_bytes()
    }

    /// Namespace; `None` for a cluster-scoped object.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.path().split_once('/').map(|(namespace, _)| namespace)
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path().split_once('/').map_or(self.path(), |(_, name)| name)
    }

    /// Returns labels, fields and cause.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let end = self.0.envelope_end as usize;
        Attributes(match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.slice(..end),
            Data::Packed(packed) => self.unpack(packed, 0..end),
        })
    }

    /// Returns the cause of the put or delete.
    #[must_use]
    pub fn cause(&self) -> CommitCause {
        self.attributes().cause()
    }

    /// Returns labels, fields and cause, encoded.
    #[must_use]
    pub fn envelope(&self) -> RecordEnvelope {
        RecordEnvelope(self.attributes().0)
    }

    /// Current memory of the record in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let data = match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.len(),
            Data::Packed(packed) => packed.bytes.len(),
        };
        data + self.0.path.len() + RECORD_OVERHEAD_BYTES
    }

    /// Bytes of value, path and envelope, regardless of packing.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.0.path.len() + self.0.value_end as usize
    }
}

impl Inner {
    /// Returns the header of a put without expiry, with its bytes.
    fn assemble(
        write: &LogWrite,
        before: Option<&Record>,
        (head, revision_offset, tail): (&[u8], Option<u32>, &[u8]),
        revision: Revision,
        time: Time,
    ) -> Inner {
        let mut digits = Digits::of(revision);
        if revision_offset.is_none() {
            digits.length = 0;
        }
        let parts = [write.envelope.bytes(), head, digits.as_bytes(), tail];
        let data = parts.concat();
        Inner {
            path: Arc::clone(before.map_or_else(|| write.key.shared_path(), |before| &before.0.path)),
            revision,
            time,
            expires: None,
            revision_offset: revision_offset.unwrap_or_default(),
            envelope_end: offset(parts[0].len()),
            value_end: offset(data.len()),
            digits: digits.length,
            tombstone: false,
            pack_tried: AtomicBool::new(false),
            data: Mutex::new(Data::Plain { bytes: Bytes::from(data), cached: None }),
        }
    }
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a commit is at most COMMIT_BYTES_MAX long")
}

/// Records are ordered by path, so that a tree of them is an index by path.
impl Ord for Record {
    fn cmp(&self, other: &Record) -> Ordering {
        self.path_bytes().cmp(other.path_bytes())
    }
}

impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Record) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.path_bytes() == other.path_bytes()
    }
}

impl Eq for Record {}

impl Borrow<[u8]> for Record {
    fn borrow(&self) -> &[u8] {
        self.path_bytes()
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.is_tombstone() { " deleted" } else { "" };
        write!(f, "{}@{}{suffix}", self.path(), self.revision())
    }
}

/// Decimal digits of a revision, without an allocation.
struct Digits {
    buffer: [u8; 20],
    length: u8,
}

impl Digits {
    fn of(revision: Revision) -> Digits {
        let (mut buffer, mut length, mut rest) = ([0; 20], 0u8, revision.0);
        loop {
            length += 1;
            buffer[20 - length as usize] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return Digits { buffer, length };
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.buffer[20 - self.length as usize..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::{Draft, Precondition, Proposal};

    fn write(value: &'static str, revision_offset: Option<u32>) -> LogWrite {
        let key = Key::from_path(&Resource::new("pods").unwrap(), "shop/web").unwrap();
        let cause = CommitCause { user: "ann".into(), paths: vec!["spec".into()], ..CommitCause::default() };
        let draft = revision_offset.map_or(Draft::new(value), |at| Draft::with_revision_at(value, at));
        let draft = draft.labels([("app", "web"), ("tier", "front")]).fields([("spec.nodeName", "n1")]);
        let mut proposal = Proposal::new(cause, Time(7)).put(key, Precondition::Any, draft);
        proposal.changes.remove(0).write
    }

    #[test]
    fn revision_is_inserted_at_its_offset() {
        let record = Record::apply(&write(r#"{"rv":""}"#, Some(7)), Revision(120), Time(7), None);
        assert_eq!(record.value(), &br#"{"rv":"120"}"#[..]);
        assert_eq!(&record.value_at(Revision(7))[..], br#"{"rv":"7"}"#);
        assert_eq!(&record.body().bytes[..], br#"{"rv":""}"#);
        assert_eq!(record.body().revision_offset, Some(7));
    }

    #[test]
    fn other_text_keeps_revision_and_attributes() {
        let record = Record::apply(&write(r#"{"rv":""}"#, Some(7)), Revision(120), Time(7), None);
        let other = record.with_text(br#"{"spec":1,"rv":""}"#, 16);
        assert_eq!(other.value(), &br#"{"spec":1,"rv":"120"}"#[..]);
        assert_eq!(&other.value_at(Revision(7))[..], br#"{"spec":1,"rv":"7"}"#);
        assert_eq!((other.path(), other.revision(), other.time()), (record.path(), Revision(120), Time(7)));
        assert_eq!(other.attributes().label("tier"), Some("front"));
    }

    #[test]
    fn envelope_is_decoded_in_place() {
        let record = Record::apply(&write("x", None), Revision(3), Time(7), None);
        assert_eq!((record.path(), record.namespace(), record.name()), ("shop/web", Some("shop"), "web"));
        let attributes = record.attributes();
        assert_eq!((attributes.label("tier"), attributes.label("none")), (Some("front"), None));
        assert_eq!(attributes.field("spec.nodeName"), Some("n1"));
        assert_eq!((record.cause().user.as_str(), record.cause().paths.len()), ("ann", 1));
        assert_eq!(RecordEnvelope::decode(record.envelope().bytes()), Ok(record.envelope()));
        assert_eq!(RecordEnvelope::decode(&[]), Err(crate::codec::RecordDecodeError::Short));
    }

    #[test]
    fn tombstone_has_the_last_value_with_the_new_revision() {
        let before = Record::apply(&write(r#"{"rv":""}"#, Some(7)), Revision(9), Time(7), None);
        let delete = LogWrite { body: None, ..write("", None) };
        let after = Record::apply(&delete, Revision(10), Time(8), Some(&before));
        assert!(after.is_tombstone());
        assert_eq!(after.value(), &br#"{"rv":"10"}"#[..]);
    }

    #[test]
    fn expiring_records_are_packed_and_read_the_same() {
        const TEXT: &str = r#"{"rv":"","message":"Successfully assigned default/a-pod00 to a-node-with-a-very-very-long-name"}"#;
        let mut samples = Samples::default();
        for (expires, is_packed) in [(None, false), (Some(Time(9)), true)] {
            let mut write = write(TEXT, Some(7));
            write.body.as_mut().unwrap().expires = expires;
            let plain = Record::apply(&write, Revision(1234), Time(7), None);
            let record = Record::apply(&write, Revision(1234), Time(7), None);
            record.pack(&mut samples);
            assert_eq!(record.plain_value(0).is_none(), is_packed);
            assert_eq!(record.bytes() < plain.bytes(), is_packed);
            assert_eq!(record.value(), plain.value());
            assert_eq!(record.cached_encoding(<[u8]>::to_vec), plain.value());
            assert_eq!((record.path(), record.envelope()), (plain.path(), plain.envelope()));
            assert_eq!((record.cause(), record.body()), (plain.cause(), plain.body()));
            assert_eq!(record.attributes().field("spec.nodeName"), Some("n1"));
            assert_eq!(record.value_at(Revision(9)), plain.value_at(Revision(9)));
            assert_eq!(record.data_bytes(), plain.data_bytes());
            let delete = LogWrite { body: None, ..write };
            let tombstone = Record::apply(&delete, Revision(1235), Time(8), Some(&record));
            assert_eq!(tombstone.value(), plain.value_at(Revision(1235)));
        }
    }

    proptest::proptest! {
        #[test]
        fn packed_idle_records_read_the_same(
            values in proptest::collection::vec("(abc|[a-z]{0,3}|\\{\"x\":\"){0,80}", 1..12),
            revision_offset in proptest::prelude::any::<bool>(),
        ) {
            let mut samples = Samples::default();
            for value in values {
                let mut write = write("", None);
                write.body.as_mut().unwrap().revision_offset = revision_offset.then_some(value.len() as u32 / 2);
                write.body.as_mut().unwrap().bytes = Bytes::from(value);
                let [plain, record] = [0; 2].map(|_| Record::apply(&write, Revision(77), Time(7), None));
                record.pack_idle(&mut samples);
                assert!(!record.can_be_packed(Time(7)), "a record is packed at most once");
                assert_eq!((record.value(), record.body()), (plain.value(), plain.body()));
                assert_eq!((record.envelope(), record.cause()), (plain.envelope(), plain.cause()));
                assert_eq!(record.value_at(Revision(8)), plain.value_at(Revision(8)));
                assert_eq!(record.data_bytes(), plain.data_bytes());
            }
        }
    }

    #[test]
    fn header_fits_an_allocator_size_class() {
        assert!(size_of::<Inner>() <= 128 - 2 * size_of::<usize>(), "{}", size_of::<Inner>());
    }
}
