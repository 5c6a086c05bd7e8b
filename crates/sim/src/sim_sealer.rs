//! Sealer for tests: deterministic, without secrecy. Its keys can be replaced while a store runs.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::Resource;
use setpoint_store::Sealer;
use setpoint_store::seal::{Context, OpenError, SealedBytes};

/// Sealer with named keys: the first seals, all open. Without keys, nothing is sealed.
#[derive(Debug, Default)]
pub struct SimSealer(Mutex<Keys>);

#[derive(Clone, Debug, Default)]
struct Keys {
    /// Sealed resource; `None` for all.
    resource: Option<Resource>,
    names: Vec<Arc<str>>,
    /// Added to each byte, so that keys of one name can differ.
    salt: u8,
    is_writable: bool,
}

impl SimSealer {
    /// Returns a sealer of a resource, or of all.
    #[must_use]
    pub fn new(resource: Option<Resource>, names: &[&str]) -> Arc<SimSealer> {
        let names = names.iter().map(|name| Arc::from(*name)).collect();
        Arc::new(SimSealer(Mutex::new(Keys { resource, names, salt: 0, is_writable: true })))
    }

    /// Replaces the keys.
    pub fn rotate(&self, names: &[&str]) {
        self.0.lock().names = names.iter().map(|name| Arc::from(*name)).collect();
    }

    /// Replaces all keys by others of the same names.
    pub fn replace(&self, salt: u8) {
        self.0.lock().salt = salt;
    }

    /// Sets whether puts of sealed resources are admitted.
    pub fn set_writable(&self, is_writable: bool) {
        self.0.lock().is_writable = is_writable;
    }
}

/// Checksum of the context and the plaintext.
fn checksum(context: &Context<'_>, salt: u8, plain: &[u8]) -> [u8; 8] {
    let text = [&context.to_bytes()[..], &[salt], plain].concat();
    let sum = text
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    sum.to_le_bytes()
}

fn mix(bytes: &mut [u8], salt: u8) {
    bytes.iter_mut().for_each(|byte| *byte ^= 0x5a ^ salt);
}

impl Sealer for SimSealer {
    fn write_key(&self, resource: &Resource) -> Option<Arc<str>> {
        let keys = self.0.lock();
        let is_sealed = keys.resource.as_ref().is_none_or(|sealed| sealed == resource);
        keys.names.first().filter(|_| is_sealed).cloned()
    }

    fn check_writable(&self, resource: &Resource) -> Result<(), String> {
        let is_rejected = self.write_key(resource).is_some() && !self.0.lock().is_writable;
        if is_rejected { Err("the keys are locked".to_owned()) } else { Ok(()) }
    }

    fn seal(&self, context: &Context<'_>, plain: &[u8]) -> Result<Option<SealedBytes>, String> {
        let Some(key) = self.write_key(context.resource) else { return Ok(None) };
        let salt = self.0.lock().salt;
        let mut bytes = checksum(context, salt, plain).to_vec();
        bytes.extend_from_slice(plain);
        mix(&mut bytes, salt);
        Ok(Some(SealedBytes { key, bytes: bytes.into() }))
    }

    fn open(&self, context: &Context<'_>, sealed: &SealedBytes) -> Result<Option<Vec<u8>>, OpenError> {
        let keys = self.0.lock().clone();
        if !keys.names.contains(&sealed.key) {
            return Err(OpenError::MissingKey);
        }
        let mut bytes = sealed.bytes.to_vec();
        mix(&mut bytes, keys.salt);
        let (sum, plain) = bytes.split_at_checked(8).ok_or(OpenError::Damaged)?;
        if *sum != checksum(context, keys.salt, plain) {
            return Err(OpenError::Damaged);
        }
        Ok(Some(plain.to_vec()))
    }
}
