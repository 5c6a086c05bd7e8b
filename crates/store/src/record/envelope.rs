//! What a record says about itself beside its value: labels, fields, and why it was put.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use setpoint_api::Revision;

use crate::codec::{DecodeError, Reader, put_bytes, put_pairs, put_varint};
use crate::commit::Cause;

/// Labels, fields and cause of a write, encoded once when it is proposed.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope(pub(super) Bytes);

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

/// Labels, fields and cause of a record, where they lie, or unpacked to be read.
#[derive(Clone, Debug)]
pub struct Tags<'a>(pub(super) Cow<'a, [u8]>);

impl Tags<'_> {
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
    #[must_use]
    pub fn labels(&self) -> Pairs<'_> {
        Pairs::first(Reader::new(&self.0))
    }

    /// All selectable fields.
    #[must_use]
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

    /// All of it, encoded.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
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
