//! Ciphers. Each authenticates its context, and takes a fresh random number per sealing.
//!
//! ```text
//! aesgcm, kms   info (32) | AES-256-GCM ciphertext | tag (16); key and nonce by HKDF-SHA256 of the key and info
//! aescbc        iv (16) | AES-256-CBC ciphertext | HMAC-SHA256 (32); both keys by HKDF-SHA256 of the key
//! secretbox     nonce (24) | XSalsa20-Poly1305 of SHA-256 of the context and the plaintext
//! ```
//!
//! Unlike upstream's AES-GCM, there is no limit of writes per key: each has a key of its own. Unlike upstream's AES-CBC,
//! the ciphertext is authenticated.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{digest, hmac};
use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Key as SecretboxKey, Nonce as SecretboxNonce, XSalsa20Poly1305};
use zeroize::Zeroizing;

use crate::secret::Secret;

const INFO_BYTES: usize = 32;
const KEY_BYTES: usize = 32;
const GCM_NONCE_BYTES: usize = 12;
const IV_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
const SECRETBOX_NONCE_BYTES: usize = 24;
const DIGEST_BYTES: usize = 32;

/// Source of random bytes, which must be fit for keys.
pub type Random = dyn Fn(&mut [u8]) + Send + Sync;

/// A failed cipher. There are no details, so that nothing leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CipherFailure;

/// Key of a cipher.
pub(crate) enum CipherKey {
    /// AES-256-GCM with a derived key per sealing.
    Gcm(Box<Prk>),
    /// AES-256-CBC with HMAC.
    Cbc { encryption: Zeroizing<[u8; KEY_BYTES]>, authentication: Box<hmac::Key> },
    /// XSalsa20-Poly1305.
    Secretbox(Box<XSalsa20Poly1305>),
}

/// Length of derived bytes.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn derive<const N: usize>(prk: &Prk, info: &[&[u8]]) -> Result<Zeroizing<[u8; N]>, CipherFailure> {
    let mut out = Zeroizing::new([0; N]);
    let filled = prk.expand(info, Length(N)).and_then(|okm| okm.fill(&mut *out));
    filled.map(|()| out).map_err(|_| CipherFailure)
}

fn extract(purpose: &[u8], key: &Secret) -> Prk {
    Salt::new(HKDF_SHA256, purpose).extract(key.expose())
}

impl CipherKey {
    pub fn gcm(key: &Secret) -> CipherKey {
        CipherKey::Gcm(Box::new(extract(b"setpoint aesgcm v1", key)))
    }

    pub fn cbc(key: &Secret) -> Result<CipherKey, CipherFailure> {
        let prk = extract(b"setpoint aescbc v1", key);
        let authentication = derive::<KEY_BYTES>(&prk, &[b"authentication"])?;
        Ok(CipherKey::Cbc {
            encryption: derive(&prk, &[b"encryption"])?,
            authentication: Box::new(hmac::Key::new(hmac::HMAC_SHA256, &*authentication)),
        })
    }

    pub fn secretbox(key: &Secret) -> Result<CipherKey, CipherFailure> {
        let key: &[u8; KEY_BYTES] = key.expose().try_into().map_err(|_| CipherFailure)?;
        Ok(CipherKey::Secretbox(Box::new(XSalsa20Poly1305::new(SecretboxKey::from_slice(key)))))
    }

    pub fn seal(&self, context: &[u8], plain: &[u8], random: &Random) -> Result<Vec<u8>, CipherFailure> {
        match self {
            CipherKey::Gcm(prk) => {
                let mut out = vec![0; INFO_BYTES];
                random(&mut out);
                let (key, nonce) = gcm_key(prk, &out)?;
                let mut sealed = plain.to_vec();
                key.seal_in_place_append_tag(nonce, Aad::from(context), &mut sealed)
                    .map_err(|_| CipherFailure)?;
                out.extend_from_slice(&sealed);
                Ok(out)
            }
            CipherKey::Cbc { encryption, authentication } => {
                let mut out = vec![0; IV_BYTES];
                random(&mut out);
                let iv: [u8; IV_BYTES] = out[..].try_into().map_err(|_| CipherFailure)?;
                let mut sealed = plain.to_vec();
                let key = cbc_key(encryption)
                    .and_then(|key| PaddedBlockEncryptingKey::cbc_pkcs7(key).map_err(|_| CipherFailure))?;
                let iv = EncryptionContext::Iv128(FixedLength::from(iv));
                key.less_safe_encrypt(&mut sealed, iv).map_err(|_| CipherFailure)?;
                out.extend_from_slice(&sealed);
                let mac = cbc_mac(authentication, context, &out);
                out.extend_from_slice(mac.as_ref());
                Ok(out)
            }
            CipherKey::Secretbox(cipher) => {
                let mut out = vec![0; SECRETBOX_NONCE_BYTES];
                random(&mut out);
                let bound = Zeroizing::new([digest(context).as_ref(), plain].concat());
                let nonce = SecretboxNonce::from_slice(&out);
                let sealed = cipher.encrypt(nonce, bound.as_slice()).map_err(|_| CipherFailure)?;
                out.extend_from_slice(&sealed);
                Ok(out)
            }
        }
    }

    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CipherFailure> {
        match self {
            CipherKey::Gcm(prk) => {
                let (info, sealed) = sealed.split_at_checked(INFO_BYTES).ok_or(CipherFailure)?;
                let (key, nonce) = gcm_key(prk, info)?;
                let mut plain = sealed.to_vec();
                let length = key
                    .open_in_place(nonce, Aad::from(context), &mut plain)
                    .map_err(|_| CipherFailure)?
                    .len();
                plain.truncate(length);
                Ok(plain)
            }
            CipherKey::Cbc { encryption, authentication } => {
                let end = sealed.len().checked_sub(MAC_BYTES).ok_or(CipherFailure)?;
                let (sealed, mac) = sealed.split_at(end);
                let expected = cbc_mac(authentication, context, sealed);
                aws_lc_rs::constant_time::verify_slices_are_equal(expected.as_ref(), mac)
                    .map_err(|_| CipherFailure)?;
                let (iv, sealed) = sealed.split_at_checked(IV_BYTES).ok_or(CipherFailure)?;
                let iv: [u8; IV_BYTES] = iv.try_into().map_err(|_| CipherFailure)?;
                let key = cbc_key(encryption)
                    .and_then(|key| PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| CipherFailure))?;
                let mut plain = sealed.to_vec();
                let iv = DecryptionContext::Iv128(FixedLength::from(iv));
                let length = key.decrypt(&mut plain, iv).map_err(|_| CipherFailure)?.len();
                plain.truncate(length);
                Ok(plain)
            }
            CipherKey::Secretbox(cipher) => {
                let (nonce, sealed) = sealed.split_at_checked(SECRETBOX_NONCE_BYTES).ok_or(CipherFailure)?;
                let opened = cipher.decrypt(SecretboxNonce::from_slice(nonce), sealed);
                let mut bound = opened.map_err(|_| CipherFailure)?;
                if !bound.starts_with(digest(context).as_ref()) {
                    return Err(CipherFailure);
                }
                bound.drain(..DIGEST_BYTES);
                Ok(bound)
            }
        }
    }
}

fn gcm_key(prk: &Prk, info: &[u8]) -> Result<(LessSafeKey, Nonce), CipherFailure> {
    let derived = derive::<{ KEY_BYTES + GCM_NONCE_BYTES }>(prk, &[info])?;
    let (key, nonce) = derived.split_at(KEY_BYTES);
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| CipherFailure)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| CipherFailure)?;
    Ok((LessSafeKey::new(key), nonce))
}

fn cbc_key(bytes: &[u8; KEY_BYTES]) -> Result<UnboundCipherKey, CipherFailure> {
    UnboundCipherKey::new(&AES_256, bytes).map_err(|_| CipherFailure)
}

/// Authenticates the context, by its digest because of its variable length, and the ciphertext with its IV.
fn cbc_mac(key: &hmac::Key, context: &[u8], sealed: &[u8]) -> hmac::Tag {
    let mut mac = hmac::Context::with_key(key);
    mac.update(digest(context).as_ref());
    mac.update(sealed);
    mac.sign()
}

fn digest(context: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, context)
}
