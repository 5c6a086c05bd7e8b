//! Messages of the KMS v2 API, and the stored form of a sealed value.
//!
//! They are protobuf messages of strings, bytes and maps of bytes. Unknown fields are skipped, as protobuf demands.

use std::collections::BTreeMap;

use crate::secret::Secret;

/// Response to `Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusResponse {
    /// Version of the API: `v2`.
    pub version: String,
    /// `ok`, or the plugin's failure.
    pub healthz: String,
    /// Id of the key that wraps now.
    pub key_id: String,
}

/// Response to `Encrypt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptResponse {
    /// Wrapped bytes.
    pub ciphertext: Vec<u8>,
    /// Id of the key that wrapped them.
    pub key_id: String,
    /// Data of the plugin, to be sent when they are unwrapped.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// A seed as its plugin wrapped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedSeed {
    /// Wrapped seed.
    pub ciphertext: Vec<u8>,
    /// Id of the plugin's key.
    pub key_id: String,
    /// Data of the plugin.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// Malformed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is not valid protobuf")]
pub struct MessageError;

const WIRE_VARINT: u64 = 0;
const WIRE_FIXED64: u64 = 1;
const WIRE_BYTES: u64 = 2;
const WIRE_FIXED32: u64 = 5;

/// Encodes an `EncryptRequest`.
#[must_use]
pub fn encrypt_request(plaintext: &Secret, uid: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 1, plaintext.expose());
    put(&mut out, 2, uid.as_bytes());
    out
}

/// Encodes a `DecryptRequest`.
#[must_use]
pub fn decrypt_request(wrapped: &WrappedSeed, uid: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 1, &wrapped.ciphertext);
    put(&mut out, 2, uid.as_bytes());
    put(&mut out, 3, wrapped.key_id.as_bytes());
    put_map(&mut out, 4, &wrapped.annotations);
    out
}

impl StatusResponse {
    /// Decodes it.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn decode(bytes: &[u8]) -> Result<StatusResponse, MessageError> {
        let mut status = StatusResponse::default();
        each_field(bytes, &mut |number, value| {
            match number {
                1 => status.version = text(value)?,
                2 => status.healthz = text(value)?,
                3 => status.key_id = text(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(status)
    }
}

impl EncryptResponse {
    /// Decodes it.
    ///
    /// # Errors
    /// If it is malformed.
    pub fn decode(bytes: &[u8]) -> Result<EncryptResponse, MessageError> {
        let mut response = EncryptResponse::default();
        each_field(bytes, &mut |number, value| {
            match number {
                1 => response.ciphertext = value.to_vec(),
                2 => response.key_id = text(value)?,
                3 => insert(&mut response.annotations, value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(response)
    }
}

/// Decodes a `DecryptResponse`.
///
/// # Errors
/// If it is malformed.
pub fn decrypt_response(bytes: &[u8]) -> Result<Secret, MessageError> {
    let mut plaintext = Secret::new(Vec::new());
    each_field(bytes, &mut |number, value| {
        if number == 1 {
            plaintext = Secret::new(value.to_vec());
        }
        Ok(())
    })?;
    Ok(plaintext)
}

impl WrappedSeed {
    /// Encodes it with the data that the seed seals. The key id is stored beside it.
    pub(crate) fn encode_with(&self, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(data.len() + self.ciphertext.len() + 16);
        put(&mut out, 1, data);
        put(&mut out, 3, &self.ciphertext);
        put_map(&mut out, 4, &self.annotations);
        out
    }

    /// Decodes the output of [`WrappedSeed::encode_with`].
    pub(crate) fn decode(key_id: &str, bytes: &[u8]) -> Result<(WrappedSeed, Vec<u8>), MessageError> {
        let mut data = Vec::new();
        let mut wrapped =
            WrappedSeed { ciphertext: Vec::new(), key_id: key_id.to_owned(), annotations: BTreeMap::new() };
        each_field(bytes, &mut |number, value| {
            match number {
                1 => data = value.to_vec(),
                3 => wrapped.ciphertext = value.to_vec(),
                4 => insert(&mut wrapped.annotations, value)?,
                _ => return Err(MessageError),
            }
            Ok(())
        })?;
        Ok((wrapped, data))
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field of bytes; an empty one is left out, as in proto3.
fn put(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    if !value.is_empty() {
        put_always(out, number, value);
    }
}

fn put_always(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    put_varint(out, number << 3 | WIRE_BYTES);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn put_map(out: &mut Vec<u8>, number: u64, map: &BTreeMap<String, Vec<u8>>) {
    for (key, value) in map {
        let mut entry = Vec::new();
        put_always(&mut entry, 1, key.as_bytes());
        put_always(&mut entry, 2, value);
        put_always(out, number, &entry);
    }
}

fn insert(map: &mut BTreeMap<String, Vec<u8>>, entry: &[u8]) -> Result<(), MessageError> {
    let (mut key, mut found) = (String::new(), Vec::new());
    each_field(entry, &mut |number, value| {
        match number {
            1 => key = text(value)?,
            2 => found = value.to_vec(),
            _ => {}
        }
        Ok(())
    })?;
    map.insert(key, found);
    Ok(())
}

fn text(value: &[u8]) -> Result<String, MessageError> {
    String::from_utf8(value.to_vec()).map_err(|_| MessageError)
}

/// Reads a field of bytes, by its number.
type FieldReader<'a> = dyn FnMut(u64, &[u8]) -> Result<(), MessageError> + 'a;

/// Passes the fields of bytes to `each`, and skips the others.
fn each_field(mut bytes: &[u8], each: &mut FieldReader<'_>) -> Result<(), MessageError> {
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        match tag & 7 {
            WIRE_VARINT => drop(varint(&mut bytes)?),
            WIRE_FIXED64 => drop(take(&mut bytes, 8)?),
            WIRE_FIXED32 => drop(take(&mut bytes, 4)?),
            WIRE_BYTES => {
                let length = varint(&mut bytes)?;
                let value = take(&mut bytes, length)?;
                each(tag >> 3, value)?;
            }
            _ => return Err(MessageError),
        }
    }
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Result<u64, MessageError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes, 1)? else { return Err(MessageError) };
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(MessageError)
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8], MessageError> {
    let length = usize::try_from(length).map_err(|_| MessageError)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(MessageError)?;
    *bytes = rest;
    Ok(taken)
}
