//! Keys and certificates in PEM files.

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::PublicKey as RsaPublicKey;
use setpoint_api::kinds::certificates::pem::next_block;

use super::{KeyError, SigningKey, VerifyingKey};

/// Returns the public keys of a file: those of its public keys, private keys and certificates. Other blocks are
/// skipped.
///
/// # Errors
/// If there are none.
pub fn public_keys(text: &[u8]) -> Result<Vec<VerifyingKey>, KeyError> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some((block, after)) = next_block(rest) {
        rest = after;
        let private = |_| SigningKey::from_der(&block.bytes).map(|key| key.public().clone());
        keys.extend(public_key(&block.bytes).or_else(private));
    }
    if keys.is_empty() { Err(KeyError::NoPublicKey) } else { Ok(keys) }
}

fn public_key(der: &[u8]) -> Result<VerifyingKey, KeyError> {
    if let Ok(([], certificate)) = x509_parser::parse_x509_certificate(der) {
        return VerifyingKey::from_spki(certificate.public_key().raw);
    }
    VerifyingKey::from_spki(der).or_else(|_| {
        let key = RsaPublicKey::from_der(der).map_err(|_| KeyError::Unsupported)?;
        VerifyingKey::from_spki(key.as_der().map_err(|_| KeyError::Unsupported)?.as_ref())
    })
}

/// Returns the first private key of a file.
///
/// # Errors
/// If there is none.
pub fn signing_key(text: &[u8]) -> Result<SigningKey, KeyError> {
    let mut rest = text;
    while let Some((block, after)) = next_block(rest) {
        if let Ok(key) = SigningKey::from_der(&block.bytes) {
            return Ok(key);
        }
        rest = after;
    }
    Err(KeyError::NoPrivateKey)
}

/// Returns the certificates of a file, in DER.
///
/// # Errors
/// If there are none, or one is malformed.
pub fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, KeyError> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((block, after)) = next_block(rest) {
        rest = after;
        if block.label != "CERTIFICATE" || block.has_headers {
            continue;
        }
        let is_whole =
            x509_parser::parse_x509_certificate(&block.bytes).is_ok_and(|(rest, _)| rest.is_empty());
        if !is_whole {
            return Err(KeyError::NoCertificate);
        }
        found.push(block.bytes);
    }
    if found.is_empty() { Err(KeyError::NoCertificate) } else { Ok(found) }
}
