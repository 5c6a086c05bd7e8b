//! External issuers: their keys are fetched when a token needs them, at most once at a time and in bounded intervals.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use setpoint_api::quote::Quoted;
use setpoint_api::{Clock, Time};
use setpoint_authentication::authenticated_token::AuthenticatedToken;
use setpoint_authentication::oidc::JwtVerifier;
use setpoint_authentication::oidc::config::JwtAuthenticator;
use setpoint_authentication::oidc::provider::{self, ProviderKeys};

use crate::webhooks::client::{DocumentRequest, WebhookClient};
use crate::webhooks::endpoint::document_endpoint;

/// Time for which a verified token of an issuer is cached, as upstream caches all tokens.
pub(super) const ISSUER_CACHE_TTL: Duration = Duration::from_secs(10);
/// Time for a document.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a document.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Verification with the keys that are known.
pub(super) enum Attempt {
    Verified(Box<AuthenticatedToken>),
    Rejected(String),
    /// The keys have to be fetched first.
    NeedsKeys,
}

/// An external issuer.
pub(crate) struct OidcIssuer {
    verifier: JwtVerifier,
    known: RwLock<Arc<ProviderKeys>>,
    /// Held during a fetch.
    fetching: tokio::sync::Mutex<()>,
}

impl OidcIssuer {
    pub fn new(verifier: JwtVerifier) -> OidcIssuer {
        OidcIssuer { verifier, known: RwLock::default(), fetching: tokio::sync::Mutex::default() }
    }

    pub fn config(&self) -> &JwtAuthenticator {
        self.verifier.config()
    }

    pub fn url(&self) -> &str {
        &self.config().issuer.url
    }

    fn known(&self) -> Arc<ProviderKeys> {
        Arc::clone(&self.known.read())
    }

    /// Verifies a token with the keys that are known.
    pub(super) fn try_authenticate(&self, token: &str, now: Time) -> Attempt {
        let jwt = match self.verifier.parse(token) {
            Ok(jwt) => jwt,
            Err(error) => return Attempt::Rejected(error.to_string()),
        };
        let known = self.known();
        if !self.verifier.has_valid_signature(&jwt, &known.keys) {
            return if known.can_refresh(now) {
                Attempt::NeedsKeys
            } else {
                Attempt::Rejected(self.key_error(&known))
            };
        }
        match self.verifier.authenticate(&jwt, now) {
            Ok(verified) => Attempt::Verified(Box::new(verified)),
            Err(error) => Attempt::Rejected(error.to_string()),
        }
    }

    fn key_error(&self, known: &ProviderKeys) -> String {
        match &known.failure {
            _ if !known.is_ready() => "oidc: authenticator not initialized".to_owned(),
            Some(failure) => self.verifier.signature_error(&format!("fetching keys {failure}")).to_string(),
            None => self.verifier.signature_error("failed to verify id token signature").to_string(),
        }
    }

    /// Verifies a token, with the keys of the issuer as they are now if it needs them.
    pub async fn authenticate(
        &self,
        token: &str,
        client: &WebhookClient,
        clock: &dyn Clock,
    ) -> Result<AuthenticatedToken, String> {
        let before = self.known();
        let guard = self.fetching.lock().await;
        // Another request may have fetched the keys meanwhile.
        if Arc::ptr_eq(&before, &self.known()) {
            let fetched = self.fetch(&before, client, clock.now()).await;
            if let Some(failure) = &fetched.failure {
                tracing::warn!(issuer = self.url(), failure, "keys of an issuer cannot be fetched");
            }
            *self.known.write() = Arc::new(fetched);
        }
        drop(guard);
        match self.try_authenticate(token, clock.now()) {
            Attempt::Verified(verified) => Ok(*verified),
            Attempt::Rejected(error) => Err(error),
            Attempt::NeedsKeys => Err(self.key_error(&self.known())),
        }
    }

    async fn fetch(&self, before: &ProviderKeys, client: &WebhookClient, now: Time) -> ProviderKeys {
        let mut fetched = ProviderKeys { attempted: Some(now), failure: None, ..before.clone() };
        match self.fetch_keys(&mut fetched, client).await {
            Ok(()) => {}
            Err(failure) => fetched.failure = Some(failure),
        }
        fetched
    }

    /// Fetches the keys; and the discovery document before, unless it is known.
    async fn fetch_keys(&self, fetched: &mut ProviderKeys, client: &WebhookClient) -> Result<(), String> {
        let issuer = &self.config().issuer;
        let url = match &fetched.keys_url {
            Some(url) => url.clone(),
            None => {
                let document = self.get(&provider::discovery_url(issuer), client).await?;
                provider::keys_url(issuer, &document).map_err(|error| error.to_string())?
            }
        };
        let document =
            self.get(&url, client).await.map_err(|error| format!("oidc: get keys failed {error}"))?;
        fetched.keys = provider::keys(&document).map_err(|error| error.to_string())?;
        fetched.keys_url = Some(url);
        Ok(())
    }

    async fn get(&self, url: &str, client: &WebhookClient) -> Result<bytes::Bytes, String> {
        let failed = |why: &dyn std::fmt::Display| format!("Get {}: {why}", Quoted(url));
        let ca = self.config().issuer.certificate_authority.clone();
        let (endpoint, target) =
            document_endpoint(url, ca.into()).ok_or_else(|| failed(&"the URL is not an HTTPS URL"))?;
        let request = DocumentRequest {
            endpoint,
            target,
            timeout: FETCH_TIMEOUT,
            response_bytes_max: DOCUMENT_BYTES_MAX,
        };
        client.fetch(request).await.map_err(|error| failed(&error))
    }
}
