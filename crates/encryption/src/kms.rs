//! Keys of a KMS plugin of v2.
//!
//! A random seed is made here and wrapped by the plugin; each value is sealed with a key derived from the seed (see
//! `cipher.rs`), and stored with the wrapped seed, the plugin's key id and its annotations. So one call opens all values
//! of a seed. The plugin's status is polled. While it confirms the key id, the seed stays; another key id makes a new
//! seed. As upstream, a failing plugin stops neither reads of known seeds nor, for [`WRITE_DURATION_MAX`], writes.
//!
//! [`KmsKeys`] holds the state of one plugin, and decides. Its owner makes the calls: [`messages`] has their bodies,
//! and [`grpc`] their framing.

pub mod grpc;
pub mod messages;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::{Mutex, RwLock};
use setpoint_api::names::dns;
use setpoint_api::quote::Quoted;

use self::messages::{EncryptResponse, StatusResponse, WrappedSeed};
use crate::cipher::{CipherFailure, CipherKey, Random};
use crate::key_ring::{OpenError, SealError, Sealed, bound};
use crate::secret::Secret;

/// Time for which values are sealed with a seed since its key id was last confirmed.
pub const WRITE_DURATION_MAX: Duration = Duration::from_secs(3 * 60);
/// Interval of status calls.
pub const STATUS_INTERVAL: Duration = Duration::from_secs(60);
/// Interval of status calls after a failure.
pub const STATUS_RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of a key id.
const KEY_ID_BYTES_MAX: usize = 1024;
/// Bytes of all annotations.
const ANNOTATIONS_BYTES_MAX: usize = 32 * 1024;
/// Bytes of a wrapped seed.
const WRAPPED_BYTES_MAX: usize = 1024;
const SEED_BYTES: usize = 32;
/// Seeds that are kept opened. Beyond it, all are forgotten.
const OPENED_MAX: usize = 4096;
/// Versions of the API that a plugin may serve.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// Unwraps a seed by a call of the plugin. May block for the call's timeout.
pub type Unwrap = dyn Fn(&WrappedSeed) -> Result<Secret, String> + Send + Sync;

/// Keys of one plugin.
pub struct KmsKeys {
    name: Box<str>,
    unwrap: Box<Unwrap>,
    current: RwLock<Option<Current>>,
    opened: Mutex<BTreeMap<[u8; 32], Arc<CipherKey>>>,
    /// Version in the first status, which must stay.
    version: Mutex<Option<String>>,
    failure: RwLock<Option<String>>,
}

/// Seed in use.
struct Current {
    id: Arc<str>,
    key: Arc<CipherKey>,
    wrapped: WrappedSeed,
    /// Uptime at which values are no longer sealed with it.
    expires_at: Duration,
}

/// Next step after a valid status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusOutcome {
    /// The seed in use stays.
    Confirmed,
    /// The key id is new: a new seed must be wrapped, and installed.
    NeedsSeed {
        /// Key id of the status.
        key_id: String,
    },
}

impl KmsKeys {
    /// Creates the keys of the plugin `name`, without a seed.
    #[must_use]
    pub fn new(name: &str, unwrap: Box<Unwrap>) -> KmsKeys {
        KmsKeys {
            name: name.into(),
            unwrap,
            current: RwLock::new(None),
            opened: Mutex::default(),
            version: Mutex::default(),
            failure: RwLock::new(None),
        }
    }

    /// Name of the provider.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a new random seed.
    #[must_use]
    pub fn new_seed(random: &Random) -> Secret {
        let mut seed = vec![0; SEED_BYTES];
        random(&mut seed);
        Secret::new(seed)
    }

    /// Takes a status that was requested at uptime `requested_at`.
    ///
    /// # Errors
    /// If the plugin is not healthy, or its status is invalid.
    pub fn apply_status(
        &self,
        status: &StatusResponse,
        requested_at: Duration,
    ) -> Result<StatusOutcome, String> {
        if status.healthz != "ok" {
            return Err(format!("got unexpected healthz status: {}", status.healthz));
        }
        if !VERSIONS.contains(&&*status.version) {
            return Err(format!("expected KMSv2 API version v2, got {}", status.version));
        }
        let mut version = self.version.lock();
        match &*version {
            Some(first) if *first != status.version => {
                return Err(format!(
                    "KMSv2 API version should not change after the initial status response version {first}, got {}",
                    status.version
                ));
            }
            Some(_) => {}
            None => *version = Some(status.version.clone()),
        }
        drop(version);
        validate_key_id(&status.key_id).map_err(|error| {
            format!("got invalid KMSv2 KeyID hash {}: {error}", Quoted(&key_id_hash(&status.key_id)))
        })?;
        if let Some(current) = &mut *self.current.write()
            && current.wrapped.key_id == status.key_id
        {
            current.expires_at = requested_at + WRITE_DURATION_MAX;
            return Ok(StatusOutcome::Confirmed);
        }
        Ok(StatusOutcome::NeedsSeed { key_id: status.key_id.clone() })
    }

    /// Puts a seed into use that was wrapped after a status with `key_id`, requested at uptime `requested_at`. The seed
    /// in use stays if the response is invalid.
    ///
    /// # Errors
    /// If the response is invalid, or has another key id than the status.
    pub fn install(
        &self,
        seed: &Secret,
        response: EncryptResponse,
        key_id: &str,
        requested_at: Duration,
    ) -> Result<(), String> {
        let wrapped = WrappedSeed {
            ciphertext: response.ciphertext,
            key_id: response.key_id,
            annotations: response.annotations,
        };
        validate(&wrapped)?;
        if wrapped.key_id != key_id {
            return Err(format!(
                "failed to rotate DEK: the status has the key ID hash {}, the encrypt response {}",
                Quoted(&key_id_hash(key_id)),
                Quoted(&key_id_hash(&wrapped.key_id))
            ));
        }
        if wrapped.ciphertext == seed.expose() {
            return Err("failed to rotate DEK: the plugin returned the seed unencrypted".to_owned());
        }
        let key = Arc::new(CipherKey::gcm(seed));
        self.remember(&wrapped, &key);
        let id = self.key_id(&wrapped.key_id).into();
        let expires_at = requested_at + WRITE_DURATION_MAX;
        *self.current.write() = Some(Current { id, key, wrapped, expires_at });
        Ok(())
    }

    /// Records the outcome of a poll, for the health check.
    pub fn record_poll(&self, outcome: Result<(), String>) {
        *self.failure.write() = outcome.err();
    }

    /// Fails with the failure of the last poll.
    ///
    /// # Errors
    /// If the last poll failed.
    pub fn check_health(&self) -> Result<(), String> {
        match &*self.failure.read() {
            Some(error) => Err(format!("kmsv2 Provider {} is not healthy, error: {error}", self.name)),
            None => Ok(()),
        }
    }

    /// Returns the id of the seed's key in use. Without a seed it is incomplete, and sealing fails.
    #[must_use]
    pub fn write_key(&self) -> Arc<str> {
        match &*self.current.read() {
            Some(current) => Arc::clone(&current.id),
            None => self.key_id("").into(),
        }
    }

    pub(crate) fn check_writable(&self, uptime: Duration) -> Result<(), String> {
        let current = self.current.read();
        let is_valid = current.as_ref().is_some_and(|current| uptime < current.expires_at);
        if is_valid {
            return Ok(());
        }
        let failure = self.failure.read();
        let failure = failure.as_deref().unwrap_or("its status has not been read in time");
        Err(format!(
            "KMS provider {} has not confirmed its key for {} seconds: {failure}; restore the plugin",
            Quoted(&self.name),
            WRITE_DURATION_MAX.as_secs()
        ))
    }

    pub(crate) fn seal(&self, context: &[u8], plain: &[u8], random: &Random) -> Result<Sealed, SealError> {
        let current = self.current.read();
        let Current { id, key, wrapped, .. } = current.as_ref().ok_or(SealError)?;
        let data = key.seal(&bound(id, context), plain, random)?;
        Ok(Sealed { key: Arc::clone(id), bytes: wrapped.encode_with(&data) })
    }

    pub(crate) fn open(&self, key: &str, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let prefix = self.key_id("");
        let Some(key_id) = key.strip_prefix(&*prefix) else { return Err(OpenError::MissingKey) };
        let (wrapped, data) = WrappedSeed::decode(key_id, sealed).map_err(|_| OpenError::Damaged)?;
        validate(&wrapped).map_err(|_| OpenError::Damaged)?;
        let cipher = self.opened_key(&wrapped)?;
        cipher.open(&bound(key, context), &data).map_err(|CipherFailure| OpenError::Damaged)
    }

    /// Returns the key of a wrapped seed, by a call of the plugin if it is not known.
    fn opened_key(&self, wrapped: &WrappedSeed) -> Result<Arc<CipherKey>, OpenError> {
        if let Some(key) = self.opened.lock().get(&fingerprint(wrapped)) {
            return Ok(Arc::clone(key));
        }
        let unavailable =
            |error| OpenError::Unavailable(format!("KMS provider {}: {error}", Quoted(&self.name)));
        let seed = (self.unwrap)(wrapped).map_err(unavailable)?;
        if seed.expose().len() != SEED_BYTES {
            let length = seed.expose().len();
            let error = format!("decrypt returned a seed of {length} bytes, expected {SEED_BYTES}");
            return Err(unavailable(error));
        }
        let key = Arc::new(CipherKey::gcm(&seed));
        self.remember(wrapped, &key);
        Ok(key)
    }

    fn remember(&self, wrapped: &WrappedSeed, key: &Arc<CipherKey>) {
        let mut opened = self.opened.lock();
        if opened.len() >= OPENED_MAX {
            opened.clear();
        }
        opened.insert(fingerprint(wrapped), Arc::clone(key));
    }

    fn key_id(&self, key_id: &str) -> String {
        format!("k8s:enc:kms:v2:{}:{key_id}", self.name)
    }
}

impl fmt::Debug for KmsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KmsKeys").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the hash of a key id, for logs and metrics; empty for an empty one.
#[must_use]
pub fn key_id_hash(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    let hash = digest(&SHA256, key_id.as_bytes());
    let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn fingerprint(wrapped: &WrappedSeed) -> [u8; 32] {
    let text = [wrapped.encode_with(&[]), wrapped.key_id.clone().into_bytes()].concat();
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, &text).as_ref());
    out
}

fn validate(wrapped: &WrappedSeed) -> Result<(), String> {
    let length = wrapped.ciphertext.len();
    if length == 0 {
        return Err("failed to validate encrypted DEK source: encrypted DEK source is empty".to_owned());
    }
    if length > WRAPPED_BYTES_MAX {
        return Err(format!(
            "failed to validate encrypted DEK source: encrypted DEK source is {length} bytes, which exceeds the max size of \
             {WRAPPED_BYTES_MAX}"
        ));
    }
    validate_key_id(&wrapped.key_id).map_err(|error| format!("failed to validate key id: {error}"))?;
    validate_annotations(&wrapped.annotations)
        .map_err(|error| format!("failed to validate annotations: {error}"))
}

fn validate_key_id(key_id: &str) -> Result<(), String> {
    let length = key_id.len();
    if length == 0 {
        return Err("keyID is empty".to_owned());
    }
    if length > KEY_ID_BYTES_MAX {
        return Err(format!("keyID is {length} bytes, which exceeds the max size of {KEY_ID_BYTES_MAX}"));
    }
    Ok(())
}

fn validate_annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    for name in annotations.keys() {
        if !name.contains('.') || dns::subdomain(name).into_iter().next().is_some() {
            return Err(format!(
                "annotations: Invalid value: {}: should be a domain with at least two segments separated by dots",
                Quoted(name)
            ));
        }
    }
    let total: usize = annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if total > ANNOTATIONS_BYTES_MAX {
        return Err(format!(
            "total size of annotations is {total}, which exceeds the max size of {ANNOTATIONS_BYTES_MAX}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
