//! Documents of issuers: discovery and keys, and the times at which they are fetched.

use std::time::Duration;

use setpoint_api::quote::Quoted;
use setpoint_api::{Time, json};
use thiserror::Error;

use super::config::Issuer;
use crate::keys::{VerifyingKey, keys_of_jwks};

/// Path of the discovery document below the URL of the issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// Minimum time between two fetches of the keys because of an unknown key.
pub const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Time between attempts to fetch from an issuer that failed.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Keys of an issuer.
const KEYS_MAX: usize = 1024;

/// Unusable document of an issuer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// The discovery document is not JSON.
    #[error("oidc: failed to decode provider discovery object: {0}")]
    Discovery(String),
    /// The document is about another issuer.
    #[error(
        "oidc: issuer did not match the issuer returned by provider, expected {} got {}",
        Quoted(.expected),
        Quoted(.found)
    )]
    Issuer {
        /// Configured issuer.
        expected: String,
        /// Issuer of the document.
        found: String,
    },
    /// The document has no URL of keys.
    #[error("provider did not return JWKS URL")]
    NoKeysUrl,
    /// The keys cannot be decoded.
    #[error("oidc: failed to decode keys: {0}")]
    Keys(String),
}

/// URL of the discovery document of an issuer.
#[must_use]
pub fn discovery_url(issuer: &Issuer) -> String {
    if issuer.discovery_url.is_empty() {
        format!("{}{WELL_KNOWN}", issuer.url.strip_suffix('/').unwrap_or(&issuer.url))
    } else {
        issuer.discovery_url.clone()
    }
}

/// Returns the URL of the keys in a discovery document.
///
/// # Errors
/// If the document is malformed or about another issuer.
pub fn keys_url(issuer: &Issuer, document: &[u8]) -> Result<String, ProviderError> {
    let document = json::parse(document).map_err(|error| ProviderError::Discovery(error.to_string()))?;
    let found = document.str_at(&["issuer"]);
    if found != issuer.url {
        return Err(ProviderError::Issuer { expected: issuer.url.clone(), found: found.to_owned() });
    }
    match document.str_at(&["jwks_uri"]) {
        "" => Err(ProviderError::NoKeysUrl),
        url => Ok(url.to_owned()),
    }
}

/// Returns the keys of a JSON Web Key Set, at most a bounded number.
///
/// # Errors
/// If it is malformed.
pub fn keys(document: &[u8]) -> Result<Vec<VerifyingKey>, ProviderError> {
    let document = json::parse(document).map_err(|error| ProviderError::Keys(error.to_string()))?;
    let mut keys =
        keys_of_jwks(&document).ok_or_else(|| ProviderError::Keys("there is no list of keys".to_owned()))?;
    keys.truncate(KEYS_MAX);
    Ok(keys)
}

/// Keys of an issuer as far as they are known, with the times of fetches.
#[derive(Clone, Debug, Default)]
pub struct ProviderKeys {
    /// URL of the keys; `None` until the discovery document has been fetched.
    pub keys_url: Option<String>,
    /// Keys.
    pub keys: Vec<VerifyingKey>,
    /// Time of the last attempt to fetch.
    pub attempted: Option<Time>,
    /// Failure of the last attempt.
    pub failure: Option<String>,
}

impl ProviderKeys {
    /// `true` if a token with an unknown key, or the first token, may cause a fetch now.
    #[must_use]
    pub fn can_refresh(&self, now: Time) -> bool {
        let interval = if self.failure.is_some() { RETRY_INTERVAL } else { REFRESH_INTERVAL_MIN };
        // A clock that was set back does not delay a fetch.
        self.attempted.is_none_or(|attempted| attempted > now || now >= attempted.after(interval))
    }

    /// `true` if the keys have been fetched.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.keys_url.is_some()
    }
}
