//! Webhook that reviews tokens.

use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::{Clock, Time};
use setpoint_authentication::authenticated_token::AuthenticatedToken;
use setpoint_authentication::token_cache::{TokenCache, TokenDigest};
use setpoint_authentication::token_review::{self, ReviewVersion};

use super::error::AuthenticationError;
use super::options::TokenWebhookOptions;
use crate::webhooks::client::{CallError, WebhookCall, WebhookClient};
use crate::webhooks::endpoint::WebhookEndpoint;
use crate::webhooks::kubeconfig;

/// Time for a call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a response.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Calls for one token, if the webhook fails, and the first pause between them; each is half as long again. Upstream's
/// values.
const ATTEMPTS_MAX: u32 = 5;
const BACKOFF: Duration = Duration::from_millis(500);

/// Cached answer.
struct Reviewed {
    /// `None` if the webhook does not know the token.
    token: Option<AuthenticatedToken>,
    until: Time,
}

/// Webhook that reviews tokens.
pub(super) struct TokenWebhook {
    endpoint: WebhookEndpoint,
    version: ReviewVersion,
    cache_ttl: Duration,
    reviewed: Mutex<TokenCache<Reviewed>>,
}

impl TokenWebhook {
    pub fn new(options: &TokenWebhookOptions) -> Result<TokenWebhook, AuthenticationError> {
        Ok(TokenWebhook {
            endpoint: kubeconfig::read_endpoint(&options.config_file)?,
            version: options.version,
            cache_ttl: options.cache_ttl,
            reviewed: Mutex::default(),
        })
    }

    /// Reviews a token for the requested audiences; `None` if the webhook does not know it. Its digest is that of the
    /// token with the audiences.
    pub async fn authenticate(
        &self,
        (token, digest): (&str, TokenDigest),
        (requested, implicit): (&[String], &[String]),
        client: &WebhookClient,
        clock: &dyn Clock,
    ) -> Result<Option<AuthenticatedToken>, String> {
        let cached = |now: Time| {
            let reviewed = self.reviewed.lock();
            reviewed
                .get(&digest)
                .filter(|reviewed| now <= reviewed.until)
                .map(|reviewed| reviewed.token.clone())
        };
        if let Some(token) = cached(clock.now()) {
            return Ok(token);
        }
        let body = token_review::request(self.version, token, requested);
        let response = self.call(body.into(), client).await;
        let response = response.map_err(|error| error.describe(&self.endpoint.url(TIMEOUT.as_secs())))?;
        let reviewed = token_review::response(self.version, &response, requested, implicit);
        let mut token = reviewed.map_err(|error| error.to_string())?;
        let until = clock.now().after(self.cache_ttl);
        if let Some(token) = &mut token {
            token.limit(until);
        }
        if !self.cache_ttl.is_zero() {
            self.reviewed.lock().insert(digest, Reviewed { token: token.clone(), until });
        }
        Ok(token)
    }

    async fn call(&self, body: bytes::Bytes, client: &WebhookClient) -> Result<bytes::Bytes, CallError> {
        let (mut attempt, mut wait) = (1, BACKOFF);
        loop {
            let call = WebhookCall {
                endpoint: self.endpoint.clone(),
                body: body.clone(),
                timeout: TIMEOUT,
                response_bytes_max: RESPONSE_BYTES_MAX,
            };
            match client.call(call).await {
                Err(CallError::Closed | CallError::Status { code: 429 | 500 | 504, .. })
                    if attempt < ATTEMPTS_MAX =>
                {
                    pause(wait).await;
                    (attempt, wait) = (attempt + 1, wait + wait / 2);
                }
                answer => return answer,
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "calls are repeated in real time")]
async fn pause(wait: Duration) {
    tokio::time::sleep(wait).await;
}
