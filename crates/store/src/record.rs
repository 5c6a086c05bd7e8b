//! One version of one object, shared by all who read it.
//!
//! A record is two allocations, whatever it holds: a small header, and one run of bytes with the path, then the envelope
//! as the log keeps it, then the value as clients see it:
//!
//! ```text
//! shop/web<labels><fields><cause>{"kind":…,"resourceVersion":"17",…}
//!                                                            ^^ the hole, filled when the commit was applied
//! ```
//!
//! Labels, fields and the cause are read out of the envelope when somebody asks, which for most records is
//! never. A delete leaves a tombstone: the last value under the delete's revision, with the delete's cause.
//!
//! Of a record that the store will delete by itself all but the path is packed (see `pack.rs`): it is news, of which there
//! is much, all alike, and hardly read. Everything else is read where it lies.

mod envelope;

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use setpoint_api::{Revision, Time};

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
    revision: Revision,
    time: Time,
    expires: Option<Time>,
    /// Where in the value the digits of the revision stand.
    hole: u32,
    /// Where the path ends and the envelope begins.
    path_end: u32,
    /// Where the envelope ends and the value begins.
    envelope_end: u32,
    value_end: u32,
    /// How many digits the revision has; 0 if the value does not show it.
    digits: u8,
    tombstone: bool,
    data: Data,
    /// The value in another form, once somebody has asked for it.
    second: OnceLock<Box<[u8]>>,
}

/// Path, envelope and value.
enum Data {
    Plain(Bytes),
    /// With the path as it is.
    Packed(Packed),
}

impl Record {
    /// The record that `write` makes at `revision`, after `before`.
    pub(crate) fn apply(write: &Write, revision: Revision, time: Time, before: Option<&Record>) -> Record {
        match (&write.body, before) {
            (Some(body), _) => Record::put(write, body, revision, time),
            (None, Some(before)) => Record::tombstone(write, before, revision, time),
            (None, None) => {
                let nothing = Body { bytes: Bytes::new(), hole: None, expires: None };
                let record = Record::put(write, &nothing, revision, time);
                Record::tombstone(write, &record, revision, time)
            }
        }
    }

    fn put(write: &Write, body: &Body, revision: Revision, time: Time) -> Record {
        let split = body.hole.map_or(body.bytes.len(), |hole| hole as usize);
        let (head, tail) = body.bytes.split_at(split);
        let hole = body.hole;
        Record::assemble(write, (head, hole, tail), body.expires, revision, time, false)
    }

    fn tombstone(write: &Write, before: &Record, revision: Revision, time: Time) -> Record {
        let value = before.value_bytes();
        Record::assemble(write, before.around_hole(&value), None, revision, time, true)
    }

    fn assemble(
        write: &Write,
        (head, hole, tail): (&[u8], Option<u32>, &[u8]),
        expires: Option<Time>,
        revision: Revision,
        time: Time,
        tombstone: bool,
    ) -> Record {
        let mut digits = Digits::of(revision);
        if hole.is_none() {
            digits.length = 0;
        }
        let parts = [write.key.path().as_bytes(), write.envelope.bytes(), head, digits.as_bytes(), tail];
        let data = parts.concat();
        let path_end = parts[0].len();
        Record(Arc::new(Inner {
            revision,
            time,
            expires,
            hole: hole.unwrap_or_default(),
            path_end: offset(path_end),
            envelope_end: offset(path_end + parts[1].len()),
            value_end: offset(data.len()),
            digits: digits.length,
            tombstone,
            data: Data::Plain(Bytes::from(data)),
            second: OnceLock::new(),
        }))
    }

    /// Packs it, if it is news and nobody else holds it yet.
    pub(crate) fn pack(&mut self, samples: &mut Samples) {
        if self.0.expires.is_none() {
            return;
        }
        let Some(inner) = Arc::get_mut(&mut self.0) else { return };
        if let Data::Plain(data) = &inner.data
            && let Some(packed) = samples.pack(data, inner.path_end as usize)
        {
            inner.data = Data::Packed(packed);
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

    /// The value as clients see it, shared.
    #[must_use]
    pub fn value(&self) -> Bytes {
        let value = self.0.envelope_end as usize..;
        match &self.0.data {
            Data::Plain(data) => data.slice(value),
            Data::Packed(packed) => Bytes::from(self.unpack(packed, self.0.value_end)).slice(value),
        }
    }

    /// Returns the bytes of the value, which is not unpacked for it.
    #[must_use]
    pub fn value_len(&self) -> usize {
        (self.0.value_end - self.0.envelope_end) as usize
    }

    /// The value as clients see it, borrowed unless it is packed.
    #[must_use]
    pub fn value_bytes(&self) -> Cow<'_, [u8]> {
        let start = self.0.envelope_end as usize;
        match &self.0.data {
            Data::Plain(data) => Cow::Borrowed(&data[start..]),
            Data::Packed(packed) => {
                let mut data = self.unpack(packed, self.0.value_end);
                data.drain(..start);
                Cow::Owned(data)
            }
        }
    }

    /// The value as clients see it, where it lies; nothing if it is packed.
    #[must_use]
    pub fn value_in_place(&self) -> Option<&[u8]> {
        match &self.0.data {
            Data::Plain(data) => Some(&data[self.0.envelope_end as usize..]),
            Data::Packed(_) => None,
        }
    }

    fn unpack(&self, packed: &Packed, until: u32) -> Vec<u8> {
        packed.unpack(self.0.path_end as usize, until as usize)
    }

    /// The value in the one other form that clients ask for, made of the first when somebody asks, and unless the first
    /// is packed once for all who do.
    pub fn in_second_form(&self, make: impl FnOnce(&[u8]) -> Vec<u8>) -> Cow<'_, [u8]> {
        match self.value_in_place() {
            Some(value) => Cow::Borrowed(self.0.second.get_or_init(|| make(value).into())),
            None => Cow::Owned(make(&self.value_bytes())),
        }
    }

    /// The value as it would be had `revision` put it: what a watcher gets whose selector it left.
    #[must_use]
    pub fn value_at(&self, revision: Revision) -> Bytes {
        if self.0.digits == 0 {
            return self.value();
        }
        let value = self.value_bytes();
        let (head, _, tail) = self.around_hole(&value);
        Bytes::from([head, Digits::of(revision).as_bytes(), tail].concat())
    }

    /// The value without its revision, and where the revision goes.
    #[must_use]
    pub fn body(&self) -> Body {
        let value = self.value_bytes();
        let (head, hole, tail) = self.around_hole(&value);
        let bytes = if hole.is_some() { Bytes::from([head, tail].concat()) } else { self.value() };
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
        std::str::from_utf8(self.path_bytes()).expect("the path was copied from a key")
    }

    /// The path as bytes, which order as the text does and cost no look at each of them.
    #[must_use]
    pub fn path_bytes(&self) -> &[u8] {
        let data = match &self.0.data {
            Data::Plain(data) => data,
            Data::Packed(packed) => &*packed.bytes,
        };
        &data[..self.0.path_end as usize]
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
    pub fn tags(&self) -> Tags<'_> {
        let envelope = self.0.path_end as usize..self.0.envelope_end as usize;
        Tags(match &self.0.data {
            Data::Plain(data) => Cow::Borrowed(&data[envelope]),
            Data::Packed(packed) => {
                let mut data = self.unpack(packed, self.0.envelope_end);
                data.truncate(envelope.end);
                data.drain(..envelope.start);
                Cow::Owned(data)
            }
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
        Envelope(match &self.0.data {
            Data::Plain(data) => data.slice(self.0.path_end as usize..self.0.envelope_end as usize),
            Data::Packed(_) => Bytes::copy_from_slice(self.tags().bytes()),
        })
    }

    /// What it costs in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let data = match &self.0.data {
            Data::Plain(data) => data.len(),
            Data::Packed(packed) => packed.bytes.len(),
        };
        data + RECORD_OVERHEAD_BYTES
    }

    /// What it holds: value, path and envelope, packed or not.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.0.value_end as usize
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
    use setpoint_api::{Key, Resource};

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
        assert_eq!(record.value_bytes(), &br#"{"rv":"120"}"#[..]);
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
        assert_eq!(after.value_bytes(), &br#"{"rv":"10"}"#[..]);
    }

    #[test]
    fn news_is_packed_and_reads_as_it_would_otherwise() {
        const TEXT: &str = r#"{"rv":"","message":"a pod was given its node, which is far from all others, and likes it there"}"#;
        let mut samples = Samples::default();
        for (expires, is_packed) in [(None, false), (Some(Time(9)), true)] {
            let mut write = write(TEXT, Some(7));
            write.body.as_mut().unwrap().expires = expires;
            let plain = Record::apply(&write, Revision(1234), Time(7), None);
            let mut record = Record::apply(&write, Revision(1234), Time(7), None);
            record.pack(&mut samples);
            assert_eq!(record.value_in_place().is_none(), is_packed);
            assert_eq!(record.bytes() < plain.bytes(), is_packed);
            assert_eq!((record.value(), record.value_bytes()), (plain.value(), plain.value_bytes()));
            assert_eq!(record.in_second_form(<[u8]>::to_vec), plain.value_bytes());
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

    #[test]
    fn a_header_is_as_small_as_the_allocator_likes_it() {
        assert!(size_of::<Inner>() <= 128 - 2 * size_of::<usize>(), "{}", size_of::<Inner>());
    }
}
