//! EncryptionConfiguration: the providers of resources, in order.
//!
//! [`read`] parses a file of `apiserver.config.k8s.io/v1`. Unknown and repeated fields are rejected. Errors have
//! upstream's texts, and never contain a key. Not supported are KMS plugins of v1, which kube-apiserver disables by
//! default.

mod decode;
mod duration;
mod validate;

use std::fmt;
use std::time::Duration;

use setpoint_api::field_error::ErrorList;

use crate::secret::Secret;
pub use validate::read;

/// Encryption of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptionConfiguration {
    /// Rules; no rule is masked by an earlier one.
    pub resources: Vec<ResourceRule>,
}

impl EncryptionConfiguration {
    /// Settings of the KMS providers, in order.
    pub fn kms(&self) -> impl Iterator<Item = &KmsSettings> {
        let providers = self.resources.iter().flat_map(|rule| &rule.providers);
        providers.filter_map(|provider| match provider {
            Provider::Kms(settings) => Some(settings),
            _ => None,
        })
    }
}

/// Providers of some resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRule {
    /// Resources and patterns.
    pub resources: Vec<GroupResource>,
    /// Providers: the first seals, all open.
    pub providers: Vec<Provider>,
}

/// A resource of a group, or a pattern: `*.GROUP`, `*.*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResource {
    /// Group; empty for the core group.
    pub group: Box<str>,
    /// Resource, or `*`.
    pub resource: Box<str>,
}

impl GroupResource {
    /// Parses `RESOURCE.GROUP`, where the group may be absent or empty.
    #[must_use]
    pub fn parse(text: &str) -> GroupResource {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.group, &*self.resource) {
            ("", "*") => f.write_str("*."),
            ("", resource) => f.write_str(resource),
            (group, resource) => write!(f, "{resource}.{group}"),
        }
    }
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Stores values as they are.
    Identity,
    /// Cipher with keys of the configuration: the first seals, all open.
    Local(LocalCipher, Vec<NamedKey>),
    /// Keys of a KMS plugin.
    Kms(KmsSettings),
}

/// Cipher with keys of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCipher {
    /// AES-GCM.
    AesGcm,
    /// AES-CBC.
    AesCbc,
    /// XSalsa20-Poly1305.
    Secretbox,
}

impl LocalCipher {
    /// Name in configurations and in ids of keys.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LocalCipher::AesGcm => "aesgcm",
            LocalCipher::AesCbc => "aescbc",
            LocalCipher::Secretbox => "secretbox",
        }
    }

    /// Lengths of its keys in bytes.
    fn key_lengths(self) -> &'static [usize] {
        match self {
            LocalCipher::AesGcm | LocalCipher::AesCbc => &[16, 24, 32],
            LocalCipher::Secretbox => &[32],
        }
    }
}

/// A named key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    /// Name, stored with what the key seals.
    pub name: Box<str>,
    /// Key.
    pub secret: Secret,
}

/// Settings of a KMS plugin of v2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KmsSettings {
    /// Name, unique in the configuration.
    pub name: Box<str>,
    /// Path of the plugin's socket.
    pub socket: Box<str>,
    /// Time for one call.
    pub timeout: Duration,
}

/// Rejection of a configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The file is not an EncryptionConfiguration.
    #[error("error decoding encryption provider configuration file: {0}")]
    Load(String),
    /// The file is empty.
    #[error("encryption provider configuration file is empty")]
    Empty,
    /// Fields are invalid.
    #[error("{0}")]
    Invalid(ErrorList),
    /// A rule has no effect.
    #[error("error while building transformers: resource {resource:?} is masked by earlier rule {earlier:?}")]
    Masked {
        /// Resource of the rule.
        resource: String,
        /// Earlier rule.
        earlier: String,
    },
    /// A provider is not supported.
    #[error("{0}")]
    Unsupported(String),
}

#[cfg(test)]
mod tests;
