//! Envelope of a record: labels, fields and cause, encoded.

use std::fmt;

use bytes::Bytes;
use setpoint_api::Revision;

use crate::codec::{Reader, RecordDecodeError, put_bytes, put_varint};
use crate::commit::CommitCause;

/// Estimated bytes for the length of a text, and for the few numbers of an envelope. Usually exact.
const LENGTH_BYTES: usize = 2;
const NUMBERS_BYTES: usize = 16;
/// Initial capacity, enough for the pairs of most objects.
const PAIRS_CAPACITY: usize = 256;

/// Labels or fields, encoded pair by pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedPairs {
    count: u64,
    bytes: Vec<u8>,
}

impl EncodedPairs {
    fn append_to(&self, out: &mut Vec<u8>) {
        put_varint(out, self.count);
        out.extend_from_slice(&self.bytes);
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for EncodedPairs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> EncodedPairs {
        let mut encoded = EncodedPairs::default();
        for (key, value) in pairs {
            let (key, value) = (key.as_ref().as_bytes(), value.as_ref().as_bytes());
            if encoded.count == 0 {
                encoded.bytes.reserve(PAIRS_CAPACITY);
            }
            put_bytes(&mut encoded.bytes, key);
            put_bytes(&mut encoded.bytes, value);
            encoded.count += 1;
        }
        encoded
    }
}

/// Labels, fields and cause of a write, encoded once when it is proposed.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordEnvelope(pub(super) Bytes);

impl RecordEnvelope {
    /// Encodes an envelope.
    #[must_use]
    pub fn encode(cause: &CommitCause, labels: &EncodedPairs, fields: &EncodedPairs) -> RecordEnvelope {
        let texts = [&cause.user, &cause.manager, &cause.reconciler].into_iter().chain(&cause.paths);
        let cause_bytes = texts.map(|text| text.len() + LENGTH_BYTES).sum::<usize>() + NUMBERS_BYTES;
        let mut out = Vec::with_capacity(labels.bytes.len() + fields.bytes.len() + cause_bytes);
        labels.append_to(&mut out);
        fields.append_to(&mut out);
        put_bytes(&mut out, cause.user.as_bytes());
        put_bytes(&mut out, cause.manager.as_bytes());
        put_bytes(&mut out, cause.reconciler.as_bytes());
        put_varint(&mut out, cause.seen.0);
        put_varint(&mut out, cause.paths.len() as u64);
        for path in &cause.paths {
            put_bytes(&mut out, path.as_bytes());
        }
        RecordEnvelope(Bytes::from(out))
    }

    /// Validates encoded bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<RecordEnvelope, RecordDecodeError> {
        let labels = AttributePairs::validate(Reader::new(bytes))?;
        decode_cause(AttributePairs::validate(labels)?)?;
        Ok(RecordEnvelope(Bytes::copy_from_slice(bytes)))
    }

    /// Returns the encoded bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An envelope without pairs, of an unknown cause.
impl Default for RecordEnvelope {
    fn default() -> RecordEnvelope {
        let none = EncodedPairs::default();
        RecordEnvelope::encode(&CommitCause::default(), &none, &none)
    }
}

impl fmt::Debug for RecordEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Envelope").field(&self.0.len()).finish()
    }
}

/// Labels, fields and cause of a record, shared with it or unpacked.
#[derive(Clone, Debug)]
pub struct Attributes(pub(super) Bytes);

impl Attributes {
    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns the value of a selectable field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns all labels.
    #[must_use]
    pub fn labels(&self) -> AttributePairs<'_> {
        AttributePairs::decode(Reader::new(&self.0))
    }

    /// Returns all selectable fields.
    #[must_use]
    pub fn fields(&self) -> AttributePairs<'_> {
        AttributePairs::decode(self.labels().skip_all())
    }

    /// Returns the cause of the put or delete.
    #[must_use]
    pub fn cause(&self) -> CommitCause {
        decode_cause(self.fields().skip_all()).unwrap_or_default()
    }

    /// Returns the reconciler that put or deleted the object, with its key; `None` for other clients. See
    /// [`CommitCause::reconciler`].
    #[must_use]
    pub fn reconciler(&self) -> Option<&str> {
        let mut reader = self.fields().skip_all();
        let [_user, _manager] = [reader.str().ok()?, reader.str().ok()?];
        reader.str().ok().filter(|reconciler| !reconciler.is_empty())
    }

    /// Returns the encoded envelope.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Iterator over the pairs of an envelope, decoded in place.
#[derive(Clone, Debug)]
pub struct AttributePairs<'a> {
    remaining: u64,
    reader: Reader<'a>,
}

impl<'a> AttributePairs<'a> {
    fn decode(mut reader: Reader<'a>) -> AttributePairs<'a> {
        let remaining = reader.varint().unwrap_or(0);
        AttributePairs { remaining, reader }
    }

    /// Skips all pairs and returns the reader behind them.
    fn skip_all(mut self) -> Reader<'a> {
        for _ in 0..self.remaining * 2 {
            if self.reader.bytes().is_err() {
                break;
            }
        }
        self.reader
    }

    fn validate(mut reader: Reader<'a>) -> Result<Reader<'a>, RecordDecodeError> {
        for _ in 0..reader.varint()? {
            reader.str()?;
            reader.str()?;
        }
        Ok(reader)
    }
}

impl<'a> Iterator for AttributePairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        Some((self.reader.str().ok()?, self.reader.str().ok()?))
    }
}

fn decode_cause(mut reader: Reader<'_>) -> Result<CommitCause, RecordDecodeError> {
    let mut cause = CommitCause {
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
