//! The bytes of things: how numbers, strings and pairs are written into records.
//!
//! Integers are LEB128 varints, signed ones zigzag first; strings and byte strings carry their length.
//! Decoding trusts nothing: arbitrary bytes give an error, never a panic, and never an allocation that is
//! larger than the input.

use thiserror::Error;

/// Why bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The input ends inside an item.
    #[error("the data ends too early")]
    Short,
    /// A number takes more bits than it may.
    #[error("a number is out of range")]
    Range,
    /// A string is not UTF-8.
    #[error("a string is not valid UTF-8")]
    Utf8,
    /// A tag has no meaning.
    #[error("unknown tag {0}")]
    Tag(u8),
    /// A key that could not have been written.
    #[error("a key is malformed")]
    Key,
    /// Bytes are left over where none should be.
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

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Takes one byte.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Takes a varint.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || (shift == 63 && bits > 1) {
                return Err(DecodeError::Range);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// Takes a zigzag varint.
    pub fn signed(&mut self) -> Result<i64, DecodeError> {
        let raw = self.varint()?;
        Ok(((raw >> 1) as i64) ^ -((raw & 1) as i64))
    }

    /// Takes a length that can still be there.
    pub fn length(&mut self) -> Result<usize, DecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| DecodeError::Range)?;
        if length > self.rest.len() { Err(DecodeError::Short) } else { Ok(length) }
    }

    /// Takes a byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.length()?;
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    /// Takes a string.
    pub fn str(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Utf8)
    }

    /// Says that nothing may be left.
    pub fn end(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.rest.len())) }
    }

    /// What has not been read.
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
        fn numbers_and_strings_come_back(a: u64, b: i64, s: String, raw: Vec<u8>) {
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
    fn a_varint_past_64_bits_is_refused() {
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(DecodeError::Range));
        assert_eq!(Reader::new(&[0x80; 3]).varint(), Err(DecodeError::Short));
        let mut most = vec![0xff; 9];
        most.push(1);
        assert_eq!(Reader::new(&most).varint(), Ok(u64::MAX));
    }
}
