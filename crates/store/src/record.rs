//! One version of one object, shared by all who read it.
//!
//! A record is two allocations, whatever it holds: a small header, and one run of bytes with the value as
//! clients see it, then the path, then the envelope as the log keeps it:
//!
//! ```text
//! {"kind":…,"resourceVersion":"17",…}shop/web<labels><fields><cause>
//!                             ^^ the hole, filled when the commit was applied
//! ```
//!
//! Labels, fields and the cause are read out of the envelope when somebody asks, which for most records is
//! never. A delete leaves a tombstone: the last value under the delete's revision, with the delete's cause.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use setpoint_api::{Revision, Time};

use crate::codec::{DecodeError, Reader, put_bytes, put_pairs, put_varint};
use crate::commit::{Body, Cause, Write};

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
    /// Where the digits of the revision stand, and how many; none if the value does not show it.
    hole: Option<(u32, u8)>,
    value_end: u32,
    path_end: u32,
    tombstone: bool,
    data: Bytes,
    /// The value in another form, once somebody has asked for it.
    second: OnceLock<Box<[u8]>>,
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
        Record::assemble(write, before.around_hole(), None, revision, time, true)
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
        let (path, envelope) = (write.key.path().as_bytes(), write.envelope.bytes());
        let value_end = head.len() + digits.as_bytes().len() + tail.len();
        let mut data = Vec::with_capacity(value_end + path.len() + envelope.len());
        data.extend_from_slice(head);
        data.extend_from_slice(digits.as_bytes());
        data.extend_from_slice(tail);
        data.extend_from_slice(path);
        data.extend_from_slice(envelope);
        Record(Arc::new(Inner {
            revision,
            time,
            expires,
            hole: hole.map(|at| (at, digits.length)),
            value_end: offset(value_end),
            path_end: offset(value_end + path.len()),
            tombstone,
            data: Bytes::from(data.into_boxed_slice()),
            second: OnceLock::new(),
        }))
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
        self.0.data.slice(..self.0.value_end as usize)
    }

    /// The value as clients see it, borrowed.
    #[must_use]
    pub fn value_bytes(&self) -> &[u8] {
        &self.0.data[..self.0.value_end as usize]
    }

    /// The value in the one other form that clients ask for, made of the first when somebody asks, once for all who do.
    pub fn in_second_form(&self, make: impl FnOnce(&[u8]) -> Vec<u8>) -> &[u8] {
        self.0.second.get_or_init(|| make(self.value_bytes()).into())
    }

    /// The value as it would be had `revision` put it: what a watcher gets whose selector it left.
    #[must_use]
    pub fn value_at(&self, revision: Revision) -> Bytes {
        if self.0.hole.is_none() {
            return self.value();
        }
        let (head, _, tail) = self.around_hole();
        Bytes::from([head, Digits::of(revision).as_bytes(), tail].concat())
    }

    /// The value without its revision, and where the revision goes.
    #[must_use]
    pub fn body(&self) -> Body {
        let (head, hole, tail) = self.around_hole();
        let bytes = if hole.is_some() { Bytes::from([head, tail].concat()) } else { self.value() };
        Body { bytes, hole, expires: self.0.expires }
    }

    /// The value before the revision's digits, where they stand, and the value after them.
    pub(crate) fn around_hole(&self) -> (&[u8], Option<u32>, &[u8]) {
        let value = self.value_bytes();
        match self.0.hole {
            Some((at, length)) => (&value[..at as usize], Some(at), &value[at as usize + length as usize..]),
            None => (value, None, &[]),
        }
    }

    /// `namespace/name`, or `name`.
    #[must_use]
    pub fn path(&self) -> &str {
        std::str::from_utf8(self.path_bytes()).expect("the path was copied from a key")
    }

    /// The path as bytes, which order as the text does and cost no look at each of them.
    #[must_use]
    pub fn path_bytes(&self) -> &[u8] {
        &self.0.data[self.0.value_end as usize..self.0.path_end as usize]
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

    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The value of a selectable field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// All labels.
    pub fn labels(&self) -> Pairs<'_> {
        Pairs::first(Reader::new(self.envelope_bytes()))
    }

    /// All selectable fields.
    pub fn fields(&self) -> Pairs<'_> {
        Pairs::first(self.labels().skip_all())
    }

    /// Why it was put, or deleted.
    #[must_use]
    pub fn cause(&self) -> Cause {
        read_cause(self.fields().skip_all()).unwrap_or_default()
    }

    /// The reconciler that put or deleted it, and for which key; nothing for everyone else. See [`Cause::reconciler`].
    #[must_use]
    pub fn reconciler(&self) -> Option<&str> {
        let mut reader = self.fields().skip_all();
        let [_user, _manager] = [reader.str().ok()?, reader.str().ok()?];
        reader.str().ok().filter(|reconciler| !reconciler.is_empty())
    }

    /// Labels, fields and cause, encoded.
    #[must_use]
    pub fn envelope(&self) -> Envelope {
        Envelope(self.0.data.slice(self.0.path_end as usize..))
    }

    /// Labels, fields and cause, encoded and borrowed.
    #[must_use]
    pub(crate) fn envelope_bytes(&self) -> &[u8] {
        &self.0.data[self.0.path_end as usize..]
    }

    /// What it costs in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.data.len() + RECORD_OVERHEAD_BYTES
    }

    /// What it holds: value, path and envelope.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.0.data.len()
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

/// Labels, fields and cause of a write, encoded once when it is proposed.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope(Bytes);

impl Envelope {
    /// Encodes them.
    pub fn encode<S: AsRef<str>>(cause: &Cause, labels: &[(S, S)], fields: &[(S, S)]) -> Envelope {
        let mut out = Vec::with_capacity(64);
        put_pairs(&mut out, labels);
        put_pairs(&mut out, fields);
        put_bytes(&mut out, cause.user.as_bytes());
        put_bytes(&mut out, cause.manager.as_bytes());
        put_bytes(&mut out, cause.reconciler.as_bytes());
        put_varint(&mut out, cause.seen.0);
        put_varint(&mut out, cause.paths.len() as u64);
        for path in &cause.paths {
            put_bytes(&mut out, path.as_bytes());
        }
        Envelope(Bytes::from(out))
    }

    /// Takes encoded bytes, if they can be read to the end.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
        let labels = Pairs::check(Reader::new(bytes))?;
        read_cause(Pairs::check(labels)?)?;
        Ok(Envelope(Bytes::copy_from_slice(bytes)))
    }

    /// The encoded bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Envelope").field(&self.0.len()).finish()
    }
}

/// The pairs of an envelope, read in place.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    left: u64,
    reader: Reader<'a>,
}

impl<'a> Pairs<'a> {
    fn first(mut reader: Reader<'a>) -> Pairs<'a> {
        let left = reader.varint().unwrap_or(0);
        Pairs { left, reader }
    }

    /// Passes over all pairs and gives what comes after them.
    fn skip_all(mut self) -> Reader<'a> {
        for _ in 0..self.left * 2 {
            if self.reader.bytes().is_err() {
                break;
            }
        }
        self.reader
    }

    fn check(mut reader: Reader<'a>) -> Result<Reader<'a>, DecodeError> {
        for _ in 0..reader.varint()? {
            reader.str()?;
            reader.str()?;
        }
        Ok(reader)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((self.reader.str().ok()?, self.reader.str().ok()?))
    }
}

fn read_cause(mut reader: Reader<'_>) -> Result<Cause, DecodeError> {
    let mut cause = Cause {
        user: reader.str()?.to_owned(),
        manager: reader.str()?.to_owned(),
        reconciler: reader.str()?.to_owned(),
        seen: Revision(reader.varint()?),
        paths: Vec::new(),
    };
    for _ in 0..reader.varint()? {
        cause.paths.push(reader.str()?.to_owned());
    }
    reader.end().map(|()| cause)
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
        assert_eq!(record.value_bytes(), br#"{"rv":"120"}"#);
        assert_eq!(&record.value_at(Revision(7))[..], br#"{"rv":"7"}"#);
        assert_eq!(&record.body().bytes[..], br#"{"rv":""}"#);
        assert_eq!(record.body().hole, Some(7));
    }

    #[test]
    fn the_envelope_is_read_in_place() {
        let record = Record::apply(&write("x", None), Revision(3), Time(7), None);
        assert_eq!((record.path(), record.namespace(), record.name()), ("shop/web", Some("shop"), "web"));
        assert_eq!((record.label("tier"), record.label("none")), (Some("front"), None));
        assert_eq!(record.field("spec.nodeName"), Some("n1"));
        assert_eq!((record.cause().user.as_str(), record.cause().paths.len()), ("ann", 1));
        assert_eq!(Envelope::decode(record.envelope().bytes()), Ok(record.envelope()));
        assert_eq!(Envelope::decode(&[]), Err(DecodeError::Short));
    }

    #[test]
    fn a_tombstone_shows_the_last_value_under_the_new_revision() {
        let before = Record::apply(&write(r#"{"rv":""}"#, Some(7)), Revision(9), Time(7), None);
        let delete = Write { body: None, ..write("", None) };
        let after = Record::apply(&delete, Revision(10), Time(8), Some(&before));
        assert!(after.is_tombstone());
        assert_eq!(after.value_bytes(), br#"{"rv":"10"}"#);
    }
}
