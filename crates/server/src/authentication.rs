//! Authentication of requests: shells around [`setpoint_authentication`].
//!
//! [`Authenticator`] tries the authenticators in upstream's order: headers of an authenticating proxy, the client
//! certificate, then the bearer token: the token file, service accounts, bootstrap tokens, external issuers, and the
//! webhook. Requests without any credentials are anonymous where that is configured; those with invalid ones never are.
//!
//! Verified tokens are cached by a keyed hash together with the revisions of the objects on which they depend, so that a
//! token fails with the first request after its pod, account, Secret or node has changed in the mirror. External
//! issuers and webhooks are asked asynchronously.

mod bearer;
mod error;
mod issuers;
mod metrics;
mod options;
mod state;
mod token_webhook;
mod verified_tokens;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use parking_lot::{Mutex, RwLock};
use setpoint_api::{Clock, Entropy, Identity, Time, Value};
use setpoint_authentication::authenticated_token::{AuthenticatedToken, TokenUse, intersect};
use setpoint_authentication::bootstrap_token::{self, BootstrapToken};
use setpoint_authentication::oidc;
use setpoint_authentication::request_header::RequestHeaders;
use setpoint_authentication::service_account::legacy_claims;
use setpoint_authentication::token_cache::{TokenDigest, TokenHasher};
use setpoint_authentication::user::with_authenticated_group;
use setpoint_store::{Snapshot, Store};

pub use error::AuthenticationError;
pub use metrics::AuthenticationMetrics;
pub use options::{AuthenticationOptions, DEFAULT_ISSUER, OidcOptions, TokenWebhookOptions};

use crate::exchange::{CertificateProof, Credentials};
use crate::webhooks::client::WebhookClient;
use issuers::{Attempt, ISSUER_CACHE_TTL, OidcIssuer};
use state::{AuthenticationState, Sources};
use token_webhook::TokenWebhook;
use verified_tokens::{SnapshotReader, VerifiedTokens};

pub(crate) use bearer::bearer_token;

/// Error of a token that no authenticator knows.
const INVALID_TOKEN: &str = "invalid bearer token";

/// Authenticated request.
#[derive(Clone, Debug, Default)]
pub struct Authenticated {
    /// User.
    pub identity: Identity,
    /// Warning for the client.
    pub warning: Option<&'static str>,
    /// Use of a token that has to be recorded.
    pub(crate) unrecorded_use: Option<TokenUse>,
}

impl From<Identity> for Authenticated {
    fn from(identity: Identity) -> Authenticated {
        Authenticated { identity: with_authenticated_group(identity), warning: None, unrecorded_use: None }
    }
}

impl From<AuthenticatedToken> for Authenticated {
    fn from(token: AuthenticatedToken) -> Authenticated {
        let AuthenticatedToken { identity, warning, unrecorded_use, .. } = token;
        Authenticated { identity: with_authenticated_group(identity), warning, unrecorded_use }
    }
}

/// Reasons why a request is not authenticated. They are logged, and not sent to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unauthenticated(pub Vec<String>);

/// Result that may need an answer of another process.
pub enum Pending<'a, T> {
    /// Result that was found in process.
    Ready(T),
    /// Result of another process.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<T> Pending<'_, T> {
    /// Waits for the result.
    pub async fn wait(self) -> T {
        match self {
            Pending::Ready(result) => result,
            Pending::Later(later) => later.await,
        }
    }
}

/// Result of an authentication.
pub type Authentication<'a> = Pending<'a, Result<Authenticated, Unauthenticated>>;
/// Result of the verification of a token, with the texts of all authenticators that failed.
pub type TokenVerification<'a> = Pending<'a, Result<AuthenticatedToken, String>>;

/// Authenticators of a server.
pub struct Authenticator {
    options: AuthenticationOptions,
    hasher: TokenHasher,
    state: RwLock<Arc<AuthenticationState>>,
    verified: Mutex<VerifiedTokens>,
    webhook: Option<TokenWebhook>,
    client: WebhookClient,
    clock: Arc<dyn Clock>,
    metrics: Arc<AuthenticationMetrics>,
}

impl Authenticator {
    /// Reads all files of the options.
    ///
    /// # Errors
    /// If a file cannot be read, or is malformed.
    pub fn new(
        options: AuthenticationOptions,
        clock: Arc<dyn Clock>,
        entropy: &Entropy,
    ) -> Result<Authenticator, AuthenticationError> {
        let hasher = TokenHasher::new([(); 4].map(|()| entropy()));
        let sources = Sources::read(&options)?;
        let webhook = options.webhook.as_ref().map(TokenWebhook::new).transpose()?;
        let state = AuthenticationState::build(sources, &options, &hasher, None)?;
        Ok(Authenticator {
            options,
            hasher,
            state: RwLock::new(Arc::new(state)),
            verified: Mutex::default(),
            webhook,
            client: WebhookClient::default(),
            clock,
            metrics: Arc::default(),
        })
    }

    /// Counts in these metrics.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<AuthenticationMetrics>) -> Authenticator {
        Authenticator { metrics, ..self }
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<AuthenticationMetrics> {
        &self.metrics
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &AuthenticationOptions {
        &self.options
    }

    /// Keys, issuers and token file that are in use.
    #[must_use]
    pub(crate) fn state(&self) -> Arc<AuthenticationState> {
        Arc::clone(&self.state.read())
    }

    /// Issues the token of a ServiceAccount in the Secret of this name. It does not expire.
    ///
    /// # Errors
    /// If it cannot be signed: the reason.
    pub fn legacy_token(&self, account: &Value, secret_name: &str) -> Result<String, String> {
        let signed = self.state().signing_key.sign(&legacy_claims(account, secret_name));
        signed.map_err(|error| format!("failed to generate token: {error}"))
    }

    /// Audiences of this server.
    #[must_use]
    pub fn audiences(&self) -> Vec<String> {
        self.options.audiences()
    }

    /// Reads the files again. `true` if one has changed. Tokens are verified again then; after an error everything stays
    /// as it was.
    ///
    /// # Errors
    /// If a file cannot be read, or is malformed.
    pub fn reload(&self) -> Result<bool, AuthenticationError> {
        let (sources, current) = (Sources::read(&self.options)?, self.state());
        if sources == current.sources {
            return Ok(false);
        }
        let state = AuthenticationState::build(sources, &self.options, &self.hasher, Some(&current))?;
        *self.state.write() = Arc::new(state);
        self.verified.lock().clear();
        Ok(true)
    }

    /// Authenticates a request.
    pub fn authenticate<'a>(&'a self, credentials: &Credentials<'_>, store: &'a Store) -> Authentication<'a> {
        match self.attempt(credentials, store) {
            Pending::Ready(result) => {
                self.metrics.count_attempt(&result);
                Pending::Ready(result)
            }
            Pending::Later(later) => Pending::Later(Box::pin(async move {
                let result = later.await;
                self.metrics.count_attempt(&result);
                result
            })),
        }
    }

    fn attempt<'a>(&'a self, credentials: &Credentials<'_>, store: &'a Store) -> Authentication<'a> {
        let Credentials { headers, path, certificate } = credentials;
        let mut errors = Vec::new();
        if let Some(identity) = self.by_certificate(headers, certificate.as_ref(), &mut errors) {
            return Pending::Ready(Ok(identity.into()));
        }
        let Some(token) = bearer_token(headers) else {
            // Invalid credentials do not make a request anonymous.
            let anonymous = self.state().anonymous.identity(path).filter(|_| errors.is_empty());
            return Pending::Ready(anonymous.map(Authenticated::from).ok_or(Unauthenticated(errors)));
        };
        let finish = move |verified: Result<AuthenticatedToken, String>| {
            verified.map(Authenticated::from).map_err(|error| {
                errors.push(error);
                Unauthenticated(errors)
            })
        };
        match self.verify(&token, None, store) {
            Pending::Ready(verified) => Pending::Ready(finish(verified)),
            Pending::Later(later) => Pending::Later(Box::pin(async move { finish(later.await) })),
        }
    }

    /// User that an authenticating proxy names, or that the client certificate proves.
    fn by_certificate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&CertificateProof>,
        errors: &mut Vec<String>,
    ) -> Option<Identity> {
        let proof = certificate?;
        if let (Some(names), Some(proxy)) = (&self.options.request_headers, &proof.proxy) {
            if names.allows(proxy) {
                match names.identity(headers) {
                    Ok(Some(identity)) => return Some(identity),
                    Ok(None) => {}
                    Err(error) => errors.push(error.to_string()),
                }
            } else {
                errors.push(format!("x509: subject with cn={proxy} is not in the allowed list"));
            }
        }
        match &proof.identity {
            Ok(identity) => identity.clone(),
            Err(error) => {
                errors.push(error.clone());
                None
            }
        }
    }

    /// Removes the credentials from the headers of an authenticated request, so that nothing behind can leak or believe
    /// them.
    pub fn strip_credentials(&self, headers: &mut HeaderMap) {
        headers.remove(http::header::AUTHORIZATION);
        bearer::strip_subprotocol_token(headers);
        RequestHeaders::standard().strip(headers);
        if let Some(names) = &self.options.request_headers {
            names.strip(headers);
        }
    }

    /// Verifies a token for one of these audiences; for this server if there are none.
    pub fn verify<'a>(
        &'a self,
        token: &str,
        audiences: Option<&[String]>,
        store: &'a Store,
    ) -> TokenVerification<'a> {
        let begun = self.clock.uptime();
        let took = move || self.clock.uptime().saturating_sub(begun);
        let digest = self.hasher.digest(token, &[]);
        let (snapshot, now) = (store.snapshot(), self.clock.now());
        if audiences.is_none()
            && let Some(token) = self.verified.lock().get(&digest, &snapshot, now)
        {
            self.metrics.count_lookup(true, took());
            return Pending::Ready(Ok(token));
        }
        let fetch = self.metrics.begin_fetch();
        let state = self.state();
        let own = self.options.audiences();
        let attempt = TokenAttempt {
            authenticator: self,
            state,
            digest,
            requested: audiences.map_or_else(|| own.clone(), <[String]>::to_vec),
            implicit: own,
            is_cached: audiences.is_none(),
            errors: Vec::new(),
        };
        let end = move |verified: Result<AuthenticatedToken, String>| {
            fetch.end(verified.is_ok());
            self.metrics.count_lookup(false, took());
            verified
        };
        match attempt.run(token, &snapshot, now) {
            Pending::Ready(verified) => Pending::Ready(end(verified)),
            Pending::Later(later) => Pending::Later(Box::pin(async move { end(later.await) })),
        }
    }
}

/// Verification of one token under way.
struct TokenAttempt<'a> {
    authenticator: &'a Authenticator,
    state: Arc<AuthenticationState>,
    digest: TokenDigest,
    requested: Vec<String>,
    /// Audiences of this server, for authenticators that know none.
    implicit: Vec<String>,
    is_cached: bool,
    errors: Vec<String>,
}

impl<'a> TokenAttempt<'a> {
    fn run(mut self, token: &str, snapshot: &Snapshot, now: Time) -> TokenVerification<'a> {
        if let Some(verified) = self.verify_locally(token, snapshot, now) {
            let verified = self.accept(verified, snapshot);
            return Pending::Ready(Ok(verified));
        }
        let issuer = oidc::token_issuer(token).and_then(|url| self.state.issuer(&url));
        let issuer = issuer.filter(|_| !self.shared_audiences().is_empty());
        if let Some(issuer) = issuer {
            match issuer.try_authenticate(token, now) {
                Attempt::Verified(verified) => {
                    let verified = self.accept_issued(*verified, snapshot, now);
                    return Pending::Ready(Ok(verified));
                }
                Attempt::Rejected(error) => self.errors.push(error),
                Attempt::NeedsKeys => {
                    let (issuer, token, snapshot) = (Arc::clone(&issuer), token.to_owned(), snapshot.clone());
                    return Pending::Later(Box::pin(self.ask_issuer(issuer, token, snapshot)));
                }
            }
        }
        if self.authenticator.webhook.is_some() {
            let (token, snapshot) = (token.to_owned(), snapshot.clone());
            return Pending::Later(Box::pin(self.ask_webhook(token, snapshot)));
        }
        Pending::Ready(Err(self.into_error()))
    }

    /// Verifies the token with what this process knows.
    fn verify_locally(&mut self, token: &str, snapshot: &Snapshot, now: Time) -> Option<AuthenticatedToken> {
        let audiences = self.shared_audiences();
        let agnostic = |identity: Identity| AuthenticatedToken {
            identity,
            audiences: audiences.clone(),
            ..AuthenticatedToken::default()
        };
        let is_for_us = !audiences.is_empty();
        if let Some(identity) = self.state.token_file.as_ref().and_then(|file| file.identity(&self.digest))
            && is_for_us
        {
            return Some(agnostic(identity.clone()));
        }
        let reader = SnapshotReader(snapshot);
        match self.state.service_accounts.authenticate(token, &self.requested, &reader, now) {
            Ok(Some(verified)) => return Some(verified),
            Ok(None) => {}
            Err(error) => self.errors.push(error.to_string()),
        }
        let allows_bootstrap = self.authenticator.options.allows_bootstrap_tokens && is_for_us;
        let bootstrap = BootstrapToken::parse(token).filter(|_| allows_bootstrap)?;
        let (secret, object) = reader.secret(bootstrap_token::NAMESPACE, &bootstrap.secret_name());
        let object = object?;
        let mut verified = agnostic(bootstrap.identity(&object, now)?);
        verified.objects.push(secret);
        if let Some(expires) = bootstrap_token::expiration(&object) {
            verified.limit(Time(expires.0 - 1));
        }
        Some(verified)
    }

    /// Requested audiences that this server has.
    fn shared_audiences(&self) -> Vec<String> {
        intersect(&self.implicit, &self.requested)
    }

    async fn ask_issuer(
        mut self,
        issuer: Arc<OidcIssuer>,
        token: String,
        snapshot: Snapshot,
    ) -> Result<AuthenticatedToken, String> {
        let Authenticator { client, clock, .. } = self.authenticator;
        match issuer.authenticate(&token, client, &**clock).await {
            Ok(verified) => return Ok(self.accept_issued(verified, &snapshot, clock.now())),
            Err(error) => self.errors.push(error),
        }
        self.ask_webhook(token, snapshot).await
    }

    async fn ask_webhook(mut self, token: String, snapshot: Snapshot) -> Result<AuthenticatedToken, String> {
        let Authenticator { client, clock, webhook, hasher, .. } = self.authenticator;
        let Some(webhook) = webhook else { return Err(self.into_error()) };
        let digest = hasher.digest(&token, &self.requested);
        let audiences = (self.requested.as_slice(), self.implicit.as_slice());
        match webhook.authenticate((&token, digest), audiences, client, &**clock).await {
            Ok(Some(verified)) => return Ok(self.accept(verified, &snapshot)),
            Ok(None) => {}
            Err(error) => self.errors.push(error),
        }
        Err(self.into_error())
    }

    /// Completes a token of an external issuer, whose tokens are for this server, and caches it briefly.
    fn accept_issued(
        &self,
        verified: AuthenticatedToken,
        snapshot: &Snapshot,
        now: Time,
    ) -> AuthenticatedToken {
        let mut verified = AuthenticatedToken { audiences: self.shared_audiences(), ..verified };
        verified.limit(now.after(ISSUER_CACHE_TTL));
        self.accept(verified, snapshot)
    }

    /// Caches a verified token, unless the keys have been replaced meanwhile.
    fn accept(&self, verified: AuthenticatedToken, snapshot: &Snapshot) -> AuthenticatedToken {
        if self.is_cached {
            let mut cache = self.authenticator.verified.lock();
            // The lock orders this with the clearing of the cache by a reload.
            if Arc::ptr_eq(&self.authenticator.state(), &self.state) {
                cache.insert(self.digest, &verified, snapshot);
            }
        }
        verified
    }

    /// Text of all errors, as upstream joins them.
    fn into_error(mut self) -> String {
        self.errors.dedup();
        match &self.errors[..] {
            [] => INVALID_TOKEN.to_owned(),
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}
