//! Binary encoding of numbers, strings and pairs.
//!
//! Integers are LEB128 varints, signed ones zigzag-encoded first; strings and byte strings are
//! length-prefixed. Decoding is safe on arbitrary bytes: it returns an error, never panics, and never
//! allocates more than the size of the input.

use thiserror::Error;

/// Decoding error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordDecodeError {
    /// The input ends inside an item.
    #[error("the data ends too early")]
    Short,
    /// A number is out of range.
    #[error("a number is out of range")]
    Range,
    /// A string is not UTF-8.
    #[error("a string is not valid UTF-8")]
    Utf8,
    /// A tag is unknown.
    #[error("unknown tag {0}")]
    Tag(u8),
    /// A key is malformed.
    #[error("a key is malformed")]
    Key,
    /// Bytes are left after the last item.
    #[error("{0} bytes are left over")]
    Trailing(usize),
}

/// Appends `value` as a varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` as a zigzag varint, so that small negative numbers stay short.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends the length of `bytes` and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Decoder over a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Decodes one byte.
    pub fn byte(&mut self) -> Result<u8, RecordDecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(RecordDecodeError::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Decodes a varint.
    pub fn varint(&mut self) -> Result<u64, RecordDecodeError> {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || (shift == 63 && bits > 1) {
                return Err(RecordDecodeError::Range);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// Decodes a zigzag varint.
    pub fn signed(&mut self) -> Result<i64, RecordDecodeError> {
        let raw = self.varint()?;
        Ok(((raw >> 1) as i64) ^ -((raw & 1) as i64))
    }

    /// Decodes a length, which must not exceed the remaining bytes.
    pub fn length(&mut self) -> Result<usize, RecordDecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| RecordDecodeError::Range)?;
        if length > self.rest.len() { Err(RecordDecodeError::Short) } else { Ok(length) }
    }

    /// Decodes a byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8], RecordDecodeError> {
        let length = self.length()?;
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    /// Decodes a string.
    pub fn str(&mut self) -> Result<&'a str, RecordDecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| RecordDecodeError::Utf8)
    }

    /// Fails if bytes are left.
    pub fn end(self) -> Result<(), RecordDecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(RecordDecodeError::Trailing(self.rest.len())) }
    }

    /// Returns the remaining bytes.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_strings_round_trip(a: u64, b: i64, s: String, raw: Vec<u8>) {
            let mut out = Vec::new();
            put_varint(&mut out, a);
            put_signed(&mut out, b);
            put_bytes(&mut out, s.as_bytes());
            put_bytes(&mut out, &raw);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(a));
            prop_assert_eq!(reader.signed(), Ok(b));
            prop_assert_eq!(reader.str(), Ok(s.as_str()));
            prop_assert_eq!(reader.bytes(), Ok(raw.as_slice()));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(raw: Vec<u8>) {
            let mut reader = Reader::new(&raw);
            while reader.varint().is_ok() && reader.bytes().is_ok() && reader.signed().is_ok() {}
        }
    }

    #[test]
    fn varint_beyond_64_bits_is_rejected() {
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(RecordDecodeError::Range));
        assert_eq!(Reader::new(&[0x80; 3]).varint(), Err(RecordDecodeError::Short));
        let mut most = vec![0xff; 9];
        most.push(1);
        assert_eq!(Reader::new(&most).varint(), Ok(u64::MAX));
    }
}
