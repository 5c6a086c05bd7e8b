//! Protobuf wire format: varints, tags and payloads.

use super::ProtoError;

/// Wire types.
pub(super) mod payload {
    pub(in crate::protobuf) const VARINT: u8 = 0;
    pub(in crate::protobuf) const FIXED64: u8 = 1;
    pub(in crate::protobuf) const BYTES: u8 = 2;
    pub(in crate::protobuf) const GROUP_START: u8 = 3;
    pub(in crate::protobuf) const GROUP_END: u8 = 4;
    pub(in crate::protobuf) const FIXED32: u8 = 5;
}

/// Payload of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// A group or a 32-bit number, which no kind uses: skipped.
    Other(u8),
}

impl Payload<'_> {
    /// Error for a payload of the wrong wire type.
    pub(super) fn mismatch(self, field: &str) -> ProtoError {
        let wire_type = match self {
            Payload::Varint(_) => payload::VARINT,
            Payload::Fixed64(_) => payload::FIXED64,
            Payload::Bytes(_) => payload::BYTES,
            Payload::Other(wire_type) => wire_type,
        };
        ProtoError::WireType { wire_type, field: field.into() }
    }
}

/// Reader of the fields of one message.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next field: its number and payload; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, ProtoError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or(ProtoError::Tag(tag))?;
        let payload = match (tag & 7) as u8 {
            payload::VARINT => Payload::Varint(self.varint()?),
            payload::FIXED64 => Payload::Fixed64(self.fixed64()?),
            payload::BYTES => Payload::Bytes(self.bytes()?),
            other => {
                self.skip(other)?;
                Payload::Other(other)
            }
        };
        Ok(Some((number, payload)))
    }

    /// Reads a varint.
    pub(super) fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut number = 0;
        for (at, byte) in self.rest.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(if self.rest.len() < 10 { ProtoError::Short } else { ProtoError::Overflow })
    }

    /// Reads a 64-bit number.
    pub(super) fn fixed64(&mut self) -> Result<u64, ProtoError> {
        let (eight, rest) = self.rest.split_first_chunk::<8>().ok_or(ProtoError::Short)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*eight))
    }

    /// Reads length-prefixed bytes.
    fn bytes(&mut self) -> Result<&'a [u8], ProtoError> {
        let len = self.varint()?;
        let taken = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (bytes, rest) = taken.ok_or(ProtoError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Skips an unused payload; a group with its contents, without recursion.
    fn skip(&mut self, wire_type: u8) -> Result<(), ProtoError> {
        let mut groups = 0_usize;
        let mut wire_type = wire_type;
        loop {
            match wire_type {
                payload::VARINT => drop(self.varint()?),
                payload::FIXED64 => drop(self.fixed64()?),
                payload::BYTES => drop(self.bytes()?),
                payload::GROUP_START => groups += 1,
                payload::GROUP_END => groups = groups.checked_sub(1).ok_or(ProtoError::EndGroup)?,
                payload::FIXED32 => self.rest = self.rest.get(4..).ok_or(ProtoError::Short)?,
                other => return Err(ProtoError::IllegalWireType(other)),
            }
            if groups == 0 {
                return Ok(());
            }
            wire_type = (self.varint()? & 7) as u8;
        }
    }
}

/// Encoded bytes of a varint.
pub(super) const fn varint_len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a varint.
pub(crate) fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a tag.
pub(crate) fn write_tag(number: u32, wire_type: u8, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | u64::from(wire_type), out);
}

/// Appends a field of bytes.
pub(crate) fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_tag(number, payload::BYTES, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a varint field.
pub(crate) fn write_number(number: u32, value: u64, out: &mut Vec<u8>) {
    write_tag(number, payload::VARINT, out);
    write_varint(value, out);
}

/// Starts a message field: reserves one byte for the length until [`close`] fills it in.
pub(crate) fn open(number: u32, out: &mut Vec<u8>) -> usize {
    write_tag(number, payload::BYTES, out);
    out.push(0);
    out.len()
}

/// Ends the message that started at `start`. A length of more than one byte moves the message back.
pub(crate) fn close(start: usize, out: &mut Vec<u8>) {
    let len = (out.len() - start) as u64;
    let extra = varint_len(len) - 1;
    if extra == 0 {
        out[start - 1] = len as u8;
        return;
    }
    let end = out.len();
    out.resize(end + extra, 0);
    out.copy_within(start..end, start + extra);
    let mut rest = len;
    for byte in &mut out[start - 1..start + extra] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[start + extra - 1] &= 0x7f;
}
