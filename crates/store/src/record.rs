//! One version of one object, shared by all who read it.
//!
//! A record is a small header, the path, which all versions of an object and all keys made of it share, and one run of
//! bytes: the envelope as the log keeps it, then the value as clients see it.
//!
//! ```text
//! <labels><fields><cause>{"kind":…,"resourceVersion":"17",…}
//!                                                    ^^ the hole, filled when the commit was applied
//! ```
//!
//! Labels, fields and the cause are read out of the envelope when somebody asks, which for most records is
//! never. A delete leaves a tombstone: the last value under the delete's revision, with the delete's cause.
//!
//! All but the path can be packed (see `pack.rs`). A record that the store will delete by itself is packed when it is
//! made: it is news, of which there is much, all alike, and hardly read. Others are packed where they lie once they have
//! not changed for a while and there are many of them (see `idle.rs`). Every reader gets bytes of its own to share, so
//! that packing interrupts no reader.

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

pub use self::envelope::{Envelope, Listed, Pairs, Tags};
use crate::commit::{Body, Cause, Write};
use crate::pack::{Packed, Samples};

/// What every record costs in memory beside its bytes: the header, the reference count, and its share of the
/// tree. Budgets count it.
pub const RECORD_OVERHEAD_BYTES: usize = 160;

/// One version of one object. Cloning it costs a pointer.
#[derive(Clone)]
pub struct Record(Arc<Inner>);

struct Inner {
    path: Arc<str>,
    revision: Revision,
    time: Time,
    expires: Option<Time>,
    /// Where in the value the digits of the revision stand.
    hole: u32,
    /// Where the envelope ends and the value begins.
    envelope_end: u32,
    value_end: u32,
    /// How many digits the revision has; 0 if the value does not show it.
    digits: u8,
    tombstone: bool,
    /// Whether packing has been tried once it was idle.
    tried: AtomicBool,
    data: Mutex<Data>,
}

/// Envelope and value.
enum Data {
    Plain {
        bytes: Bytes,
        /// The value in another form, once somebody has asked for it.
        second: Option<Box<Bytes>>,
    },
    Packed(Packed),
}

impl Record {
    /// The record that `write` makes at `revision`, after `before`.
    pub(crate) fn apply(write: &Write, revision: Revision, time: Time, before: Option<&Record>) -> Record {
        match (&write.body, before) {
            (Some(body), _) => Record::put(write, body, revision, time, before),
            (None, Some(before)) => Record::tombstone(write, before, revision, time),
            (None, None) => {
                let nothing = Body { bytes: Bytes::new(), hole: None, expires: None };
                let record = Record::put(write, &nothing, revision, time, None);
                Record::tombstone(write, &record, revision, time)
            }
        }
    }

    fn put(write: &Write, body: &Body, revision: Revision, time: Time, before: Option<&Record>) -> Record {
        let split = body.hole.map_or(body.bytes.len(), |hole| hole as usize);
        let (head, tail) = body.bytes.split_at(split);
        let hole = body.hole;
        Record(Arc::new(Inner {
            expires: body.expires,
            ..Inner::assemble(write, before, (head, hole, tail), revision, time)
        }))
    }

    fn tombstone(write: &Write, before: &Record, revision: Revision, time: Time) -> Record {
        let value = before.value();
        let parts = before.around_hole(&value);
        Record(Arc::new(Inner {
            tombstone: true,
            ..Inner::assemble(write, Some(before), parts, revision, time)
        }))
    }

    /// Packs it if it is news.
    pub(crate) fn pack(&self, samples: &mut Samples) {
        if self.0.expires.is_some() {
            self.pack_with(samples);
        }
    }

    /// `true` if it was committed at or before `before`, is not packed, and packing it has not been tried.
    pub(crate) fn can_be_packed(&self, before: Time) -> bool {
        self.0.time <= before && !self.0.tried.load(atomic::Ordering::Relaxed)
    }

    /// Packs it, whatever it is, once: what does not pay is left as it is.
    pub(crate) fn pack_idle(&self, samples: &mut Samples) {
        if !self.0.tried.swap(true, atomic::Ordering::Relaxed) {
            self.pack_with(samples);
        }
    }

    fn pack_with(&self, samples: &mut Samples) {
        let bytes = match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.clone(),
            Data::Packed(_) => return,
        };
        // The name stands in most values too.
        if let Some(packed) = samples.pack(self.path_bytes(), &bytes) {
            *self.0.data.lock() = Data::Packed(packed);
        }
    }

    /// The revision that put it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// When it was put.
    #[must_use]
    pub fn time(&self) -> Time {
        self.0.time
    }

    /// When the store deletes it by itself.
    #[must_use]
    pub fn expires(&self) -> Option<Time> {
        self.0.expires
    }

    /// Whether it stands for a deleted object; its value is then the last one, under the delete's revision.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.0.tombstone
    }

    /// The value as clients see it, shared; unpacked for each who asks if it is packed.
    #[must_use]
    pub fn value(&self) -> Bytes {
        let start = self.0.envelope_end as usize;
        match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.slice(start..),
            Data::Packed(packed) => self.unpack(packed, start..self.0.value_end as usize),
        }
    }

    /// Returns the bytes of the value, which is not unpacked for it.
    #[must_use]
    pub fn value_len(&self) -> usize {
        (self.0.value_end - self.0.envelope_end) as usize
    }

    /// The value as clients see it from a byte on, which takes no memory beside the record's; nothing if it is packed.
    #[must_use]
    pub fn plain_value(&self, from: usize) -> Option<Bytes> {
        match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => Some(bytes.slice(self.0.envelope_end as usize + from..)),
            Data::Packed(_) => None,
        }
    }

    /// Appends the value as clients see it, from a byte on.
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

    /// The value in the one other form that clients ask for, made of the first when somebody asks, and kept for all who
    /// do until the first is packed.
    pub fn in_second_form(&self, make: impl FnOnce(&[u8]) -> Vec<u8>) -> Bytes {
        if let Data::Plain { second: Some(second), .. } = &*self.0.data.lock() {
            return Bytes::clone(second);
        }
        let made = Bytes::from(make(&self.value()));
        if let Data::Plain { second, .. } = &mut *self.0.data.lock() {
            *second = Some(Box::new(made.clone()));
        }
        made
    }

    /// The value as it would be had `revision` put it: what a watcher gets whose selector it left.
    #[must_use]
    pub fn value_at(&self, revision: Revision) -> Bytes {
        if self.0.digits == 0 {
            return self.value();
        }
        let value = self.value();
        let (head, _, tail) = self.around_hole(&value);
        Bytes::from([head, Digits::of(revision).as_bytes(), tail].concat())
    }

    /// The value without its revision, and where the revision goes.
    #[must_use]
    pub fn body(&self) -> Body {
        let value = self.value();
        let (head, hole, tail) = self.around_hole(&value);
        let bytes = if hole.is_some() { Bytes::from([head, tail].concat()) } else { value };
        Body { bytes, hole, expires: self.0.expires }
    }

    /// `value`, which is its own, before the revision's digits, where they stand, and after them.
    pub(crate) fn around_hole<'v>(&self, value: &'v [u8]) -> (&'v [u8], Option<u32>, &'v [u8]) {
        let (at, digits) = (self.0.hole as usize, usize::from(self.0.digits));
        if digits == 0 {
            return (value, None, &[]);
        }
        (&value[..at], Some(self.0.hole), &value[at + digits..])
    }

    /// `namespace/name`, or `name`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Its key: `resource` is the one whose table it is in.
    #[must_use]
    pub fn key(&self, resource: &Resource) -> Key {
        Key::of_path(resource, &self.0.path)
    }

    /// The path as bytes, which order as the text does.
    #[must_use]
    pub fn path_bytes(&self) -> &[u8] {
        self.0.path.as_bytes()
    }

    /// The namespace, if it has one.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.path().split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path().split_once('/').map_or(self.path(), |(_, name)| name)
    }

    /// Labels, fields and cause, to be read.
    #[must_use]
    pub fn tags(&self) -> Tags {
        let end = self.0.envelope_end as usize;
        Tags(match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.slice(..end),
            Data::Packed(packed) => self.unpack(packed, 0..end),
        })
    }

    /// Why it was put, or deleted.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.tags().cause()
    }

    /// Labels, fields and cause, encoded.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        Envelope(self.tags().0)
    }

    /// What it costs in memory now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let data = match &*self.0.data.lock() {
            Data::Plain { bytes, .. } => bytes.len(),
            Data::Packed(packed) => packed.bytes.len(),
        };
        data + self.0.path.len() + RECORD_OVERHEAD_BYTES
    }

    /// What it holds: value, path and envelope, packed or not.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.0.path.len() + self.0.value_end as usize
    }
}

impl Inner {
    /// The header of a put that does not expire, with its bytes.
    fn assemble(
        write: &Write,
        before: Option<&Record>,
        (head, hole, tail): (&[u8], Option<u32>, &[u8]),
        revision: Revision,
        time: Time,
    ) -> Inner {
        let mut digits = Digits::of(revision);
        if hole.is_none() {
            digits.length = 0;
        }
        let parts = [write.envelope.bytes(), head, digits.as_bytes(), tail];
        let data = parts.concat();
        Inner {
            path: Arc::clone(before.map_or_else(|| write.key.shared_path(), |before| &before.0.path)),
            revision,
            time,
            expires: None,
            hole: hole.unwrap_or_default(),
            envelope_end: offset(parts[0].len()),
            value_end: offset(data.len()),
            digits: digits.length,
            tombstone: false,
            tried: AtomicBool::new(false),
            data: Mutex::new(Data::Plain { bytes: Bytes::from(data), second: None }),
        }
    }
}

fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a commit is at most COMMIT_BYTES_MAX long")
}

/// Records order by path, so that a tree of them is an index by path.
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
        let mark = if self.is_tombstone() { " deleted" } else { "" };
        write!(f, "{}@{}{mark}", self.path(), self.revision())
    }
}

/// The decimal digits of a revision, without an allocation.
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
    use crate::commit::{Draft, Expect, Proposal};

    fn write(value: &'static str, hole: Option<u32>) -> Write {
        let key = Key::from_path(&Resource::new("pods").unwrap(), "shop/web").unwrap();
        let cause = Cause { user: "ann".into(), paths: vec!["spec".into()], ..Cause::default() };
        let draft = hole.map_or(Draft::new(value), |at| Draft::with_hole(value, at));
        let draft = draft.labels([("app", "web"), ("tier", "front")]).fields([("spec.nodeName", "n1")]);
        let mut proposal = Proposal::new(cause, Time(7)).put(key, Expect::Any, draft);
        proposal.changes.remove(0).write
    }

    #[test]
    fn the_hole_is_filled_with_the_revision() {
        let record = Record::apply(&write(r#"{"rv":""}"#, Some(7)), Revision(120), Time(7), None);
        assert_eq!(record.value(), &br#"{"rv":"120"}"#[..]);
        assert_eq!(&record.value_at(Revision(7))[..], br#"{"rv":"7"}"#);
        assert_eq!(&record.body().bytes[..], br#"{"rv":""}"#);
        assert_eq!(record.body().hole, Some(7));
    }

    #[test]
    fn the_envelope_is_read_in_place() {
        let record = Record::apply(&write("x", None), Revision(3), Time(7), None);
        assert_eq!((record.path(), record.namespace(), record.name()), ("shop/web", Some("shop"), "web"));
        let tags = record.tags();
        assert_eq!((tags.label("tier"), tags.label("none")), (Some("front"), None));
        assert_eq!(tags.field("spec.nodeName"), Some("n1"));
        assert_eq!((record.cause().user.as_str(), record.cause().paths.len()), ("ann", 1));
        assert_eq!(Envelope::decode(record.envelope().bytes()), Ok(record.envelope()));
        assert_eq!(Envelope::decode(&[]), Err(crate::codec::DecodeError::Short));
    }

    #[test]
    fn a_tombstone_shows_the_last_value_under_the_new_revision() {
        let before = Record::apply(&write(r#"{"rv":""}"#, Some(7)), Revision(9), Time(7), None);
        let delete = Write { body: None, ..write("", None) };
        let after = Record::apply(&delete, Revision(10), Time(8), Some(&before));
        assert!(after.is_tombstone());
        assert_eq!(after.value(), &br#"{"rv":"10"}"#[..]);
    }

    #[test]
    fn news_is_packed_and_reads_as_it_would_otherwise() {
        const TEXT: &str = r#"{"rv":"","message":"a pod was given its node, which is far from all others, and likes it there"}"#;
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
            assert_eq!(record.in_second_form(<[u8]>::to_vec), plain.value());
            assert_eq!((record.path(), record.envelope()), (plain.path(), plain.envelope()));
            assert_eq!((record.cause(), record.body()), (plain.cause(), plain.body()));
            assert_eq!(record.tags().field("spec.nodeName"), Some("n1"));
            assert_eq!(record.value_at(Revision(9)), plain.value_at(Revision(9)));
            assert_eq!(record.data_bytes(), plain.data_bytes());
            let delete = Write { body: None, ..write };
            let gone = Record::apply(&delete, Revision(1235), Time(8), Some(&record));
            assert_eq!(gone.value(), plain.value_at(Revision(1235)));
        }
    }

    proptest::proptest! {
        #[test]
        fn idle_records_read_as_they_would_otherwise(
            values in proptest::collection::vec("(abc|[a-z]{0,3}|\\{\"x\":\"){0,80}", 1..12),
            hole in proptest::prelude::any::<bool>(),
        ) {
            let mut samples = Samples::default();
            for value in values {
                let mut write = write("", None);
                write.body.as_mut().unwrap().hole = hole.then_some(value.len() as u32 / 2);
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
    fn a_header_is_as_small_as_the_allocator_likes_it() {
        assert!(size_of::<Inner>() <= 128 - 2 * size_of::<usize>(), "{}", size_of::<Inner>());
    }
}
