//! Key ring: the providers of each resource, with their keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use setpoint_api::Clock;
use thiserror::Error;

use crate::cipher::{CipherFailure, CipherKey, Random};
use crate::config::{EncryptionConfiguration, GroupResource, LocalCipher, NamedKey, Provider};
use crate::kms::KmsKeys;

/// Sealed bytes with the id of their key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Id of the key: `k8s:enc:aesgcm:v1:NAME`, or `k8s:enc:kms:v2:PROVIDER:KEY-ID`.
    pub key: Arc<str>,
    /// Ciphertext.
    pub bytes: Vec<u8>,
}

/// Reason for which bytes cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// No provider of the resource has the key.
    #[error("the key is not configured")]
    MissingKey,
    /// The KMS plugin does not open its key.
    #[error("{0}")]
    Unavailable(String),
    /// The bytes have been changed, or belong to another context or another key of this name.
    #[error("the sealed bytes do not match")]
    Damaged,
}

/// Failure to seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the cipher failed")]
pub struct SealError;

/// Keys of an EncryptionConfiguration. Immutable, except for the keys of KMS plugins.
pub struct KeyRing {
    rules: BTreeMap<GroupResource, Vec<Arc<ProviderKeys>>>,
    kms: Vec<Arc<KmsKeys>>,
    random: Arc<Random>,
    clock: Arc<dyn Clock>,
}

enum ProviderKeys {
    Identity,
    Local(Vec<LocalKey>),
    Kms(Arc<KmsKeys>),
}

struct LocalKey {
    id: Arc<str>,
    cipher: CipherKey,
}

impl KeyRing {
    /// Creates the key ring of a configuration. `kms` returns the keys of the KMS provider of a name.
    ///
    /// # Errors
    /// If a cipher rejects a key.
    pub fn new(
        config: &EncryptionConfiguration,
        kms: &dyn Fn(&str) -> Arc<KmsKeys>,
        random: Arc<Random>,
        clock: Arc<dyn Clock>,
    ) -> Result<KeyRing, SealError> {
        let mut ring = KeyRing { rules: BTreeMap::new(), kms: Vec::new(), random, clock };
        for rule in &config.resources {
            let mut providers = Vec::with_capacity(rule.providers.len());
            for provider in &rule.providers {
                providers.push(Arc::new(match provider {
                    Provider::Identity => ProviderKeys::Identity,
                    Provider::Local(cipher, keys) => ProviderKeys::Local(local_keys(*cipher, keys)?),
                    Provider::Kms(settings) => {
                        let keys = kms(&settings.name);
                        ring.kms.push(Arc::clone(&keys));
                        ProviderKeys::Kms(keys)
                    }
                }));
            }
            for resource in &rule.resources {
                ring.rules.entry(resource.clone()).or_default().extend(providers.iter().cloned());
            }
        }
        Ok(ring)
    }

    /// Keys of the KMS providers, in the order of the configuration.
    #[must_use]
    pub fn kms(&self) -> &[Arc<KmsKeys>] {
        &self.kms
    }

    /// Returns the id of the key that seals a resource now; `None` if it is not sealed.
    #[must_use]
    pub fn write_key(&self, resource: &str) -> Option<Arc<str>> {
        match &**self.providers(resource).first()? {
            ProviderKeys::Identity => None,
            ProviderKeys::Local(keys) => keys.first().map(|key| Arc::clone(&key.id)),
            ProviderKeys::Kms(keys) => Some(keys.write_key()),
        }
    }

    /// Fails, with the reason, if the key of a resource must not seal new values now.
    ///
    /// # Errors
    /// If its KMS plugin has not confirmed the key for too long.
    pub fn check_writable(&self, resource: &str) -> Result<(), String> {
        match self.providers(resource).first().map(|provider| &**provider) {
            Some(ProviderKeys::Kms(keys)) => keys.check_writable(self.clock.uptime()),
            _ => Ok(()),
        }
    }

    /// Seals bytes of a resource, bound to a context. Returns `None` if the resource is not sealed.
    ///
    /// # Errors
    /// If the cipher fails.
    pub fn seal(&self, resource: &str, context: &[u8], plain: &[u8]) -> Result<Option<Sealed>, SealError> {
        let Some(provider) = self.providers(resource).first() else { return Ok(None) };
        match &**provider {
            ProviderKeys::Identity => Ok(None),
            ProviderKeys::Local(keys) => {
                let key = keys.first().ok_or(SealError)?;
                let bytes = key.cipher.seal(&bound(&key.id, context), plain, &*self.random)?;
                Ok(Some(Sealed { key: Arc::clone(&key.id), bytes }))
            }
            ProviderKeys::Kms(keys) => keys.seal(context, plain, &*self.random).map(Some),
        }
    }

    /// Opens bytes that were sealed with a key of a provider of the resource. Calls a KMS plugin once per key.
    ///
    /// # Errors
    /// If there is no such key, its plugin fails, or the bytes do not match.
    pub fn open(
        &self,
        resource: &str,
        key: &str,
        context: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, OpenError> {
        let mut error = OpenError::MissingKey;
        for provider in self.providers(resource) {
            match &**provider {
                ProviderKeys::Identity => {}
                ProviderKeys::Local(keys) => {
                    for found in keys.iter().filter(|found| *found.id == *key) {
                        match found.cipher.open(&bound(key, context), sealed) {
                            Ok(plain) => return Ok(plain),
                            Err(CipherFailure) => error = OpenError::Damaged,
                        }
                    }
                }
                ProviderKeys::Kms(keys) => match keys.open(key, context, sealed) {
                    Err(OpenError::MissingKey) => {}
                    Err(failed) => error = failed,
                    Ok(plain) => return Ok(plain),
                },
            }
        }
        Err(error)
    }

    /// Providers of a resource: those of its own rule, of the rule of its group, or of the rule of all resources.
    fn providers(&self, resource: &str) -> &[Arc<ProviderKeys>] {
        let exact = GroupResource::parse(resource);
        let group = GroupResource { resource: "*".into(), group: exact.group.clone() };
        let all = GroupResource { resource: "*".into(), group: "*".into() };
        let rule = [exact, group, all].iter().find_map(|rule| self.rules.get(rule));
        rule.map_or(&[], |providers| providers)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("resources", &self.rules.keys()).finish_non_exhaustive()
    }
}

impl From<CipherFailure> for SealError {
    fn from(_: CipherFailure) -> SealError {
        SealError
    }
}

fn local_keys(cipher: LocalCipher, keys: &[NamedKey]) -> Result<Vec<LocalKey>, SealError> {
    let local_key = |key: &NamedKey| {
        let id = format!("k8s:enc:{}:v1:{}", cipher.name(), key.name).into();
        let cipher = match cipher {
            LocalCipher::AesGcm => CipherKey::gcm(&key.secret),
            LocalCipher::AesCbc => CipherKey::cbc(&key.secret)?,
            LocalCipher::Secretbox => CipherKey::secretbox(&key.secret)?,
        };
        Ok(LocalKey { id, cipher })
    };
    keys.iter().map(local_key).collect()
}

/// Returns a context that is bound to the id of the key too.
pub(crate) fn bound(key: &str, context: &[u8]) -> Vec<u8> {
    let length = (key.len() as u64).to_le_bytes();
    [&length[..], key.as_bytes(), context].concat()
}

#[cfg(test)]
mod tests;
