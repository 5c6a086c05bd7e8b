//! Webhook authorizer: a remote service decides SubjectAccessReviews.
//!
//! A request that satisfies the match conditions is sent to the service of a kubeconfig, unless the answer to an equal
//! request is cached. Calls run on the thread of the webhook client, so that no reactor waits. Failed calls are repeated
//! as upstream repeats them; then the failure policy decides.

mod cache;
mod metrics;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::{Clock, Identity, Value, json};
use setpoint_authorization::config::{ReviewVersion, WebhookConfiguration};
use setpoint_authorization::review::{decision, is_cacheable, review, spec};
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::Snapshot;

use self::cache::{DecisionCache, RequestDigest};
pub use self::metrics::AuthorizationMetrics;
use super::{Answer, Authorizer, UserRules};
use crate::webhooks::client::{CallError, WebhookCall, WebhookClient};
use crate::webhooks::endpoint::WebhookEndpoint;

/// Bytes of a response.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Calls for one request, upstream's number of steps.
const ATTEMPTS_MAX: u32 = 5;
/// Wait before the second call, which grows by half for each further one.
const BACKOFF: Duration = Duration::from_millis(500);

/// Parts that the webhooks of a server share.
#[derive(Clone)]
pub struct WebhookParts {
    /// HTTPS client.
    pub client: Arc<WebhookClient>,
    /// Metrics.
    pub metrics: Arc<AuthorizationMetrics>,
    /// Clock of the cache.
    pub clock: Arc<dyn Clock>,
}

/// Authorizer of a webhook.
pub struct WebhookAuthorizer {
    config: WebhookConfiguration,
    shared: Arc<WebhookService>,
}

/// Inputs of a call.
struct WebhookService {
    name: Box<str>,
    endpoint: WebhookEndpoint,
    timeout: Duration,
    version: ReviewVersion,
    denies_on_error: bool,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
    cache: Mutex<DecisionCache>,
    parts: WebhookParts,
}

impl WebhookAuthorizer {
    /// Returns an authorizer that calls `endpoint`.
    #[must_use]
    pub fn new(
        name: &str,
        config: WebhookConfiguration,
        endpoint: WebhookEndpoint,
        parts: WebhookParts,
    ) -> WebhookAuthorizer {
        let shared = WebhookService {
            name: name.into(),
            endpoint,
            timeout: config.timeout,
            version: config.version,
            denies_on_error: config.denies_on_error,
            authorized_ttl: config.authorized_ttl,
            unauthorized_ttl: config.unauthorized_ttl,
            cache: Mutex::default(),
            parts,
        };
        WebhookAuthorizer { config, shared: Arc::new(shared) }
    }

    /// `true` if the webhook is called for the request.
    fn matches(&self, attributes: &Attributes<'_>) -> Result<bool, String> {
        let conditions = &self.config.match_conditions;
        if conditions.is_empty() {
            return Ok(true);
        }
        let WebhookParts { metrics, clock, .. } = &self.shared.parts;
        let started_at = clock.uptime();
        let matched = conditions.matches(attributes);
        let took = clock.uptime().saturating_sub(started_at);
        metrics.count_conditions(&self.shared.name, &matched, took);
        matched
    }
}

impl Authorizer for WebhookAuthorizer {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn authorize(&self, attributes: &Attributes<'_>, _: &Snapshot) -> Answer {
        match self.matches(attributes) {
            Ok(true) => {}
            Ok(false) => return Answer::Now(Decision::NoOpinion(String::new())),
            Err(error) => return Answer::Now(self.shared.failed(&error)),
        }
        let spec = spec(attributes);
        let key = request_digest(&spec);
        let now = self.shared.parts.clock.uptime();
        if let Some(decision) = self.shared.cache.lock().get(&key, now) {
            return Answer::Now(decision);
        }
        let body = Bytes::from(json::to_vec(&review(self.shared.version, spec)));
        let key = is_cacheable(attributes).then_some(key);
        Answer::Later(Box::pin(Arc::clone(&self.shared).decide(body, key)))
    }

    fn add_rules(&self, _: &Identity, _: &str, _: &Snapshot, rules: &mut UserRules) {
        rules.is_incomplete = true;
        rules.errors.push("webhook authorizer does not support user rule resolution".to_owned());
    }
}

fn request_digest(spec: &Value) -> RequestDigest {
    let mut key = [0; 32];
    key.copy_from_slice(digest::digest(&digest::SHA256, &json::to_vec(spec)).as_ref());
    key
}

impl WebhookService {
    /// Decision of the failure policy.
    fn failed(&self, error: &str) -> Decision {
        tracing::warn!(webhook = &*self.name, error, "authorization webhook failed");
        let decision = if self.denies_on_error { Decision::Denied } else { Decision::NoOpinion };
        decision(error.to_owned())
    }

    /// Calls the service until it responds, and caches its decision.
    async fn decide(self: Arc<WebhookService>, body: Bytes, key: Option<RequestDigest>) -> Decision {
        let (mut attempt, mut wait) = (1, BACKOFF);
        let answer = loop {
            match self.call(body.clone()).await {
                Err(error) if attempt < ATTEMPTS_MAX && is_transient(&error) => {
                    pause(wait).await;
                    (attempt, wait) = (attempt + 1, wait + wait / 2);
                }
                answer => break answer,
            }
        };
        let decided = match answer {
            Ok(answer) => decision(self.version, &answer),
            Err(error) => {
                if !self.denies_on_error {
                    self.parts.metrics.count_fail_open(&self.name, result_label(&error));
                }
                let seconds = self.timeout.as_secs() + u64::from(self.timeout.subsec_nanos() > 0);
                return self.failed(&error.describe(&self.endpoint.url(seconds)));
            }
        };
        match decided {
            Ok(decision) => {
                self.store(key, &decision);
                decision
            }
            // An answer that contradicts itself denies, whatever the failure policy is.
            Err(error) => {
                tracing::warn!(webhook = &*self.name, error, "invalid answer of an authorization webhook");
                Decision::Denied(error)
            }
        }
    }

    fn store(&self, key: Option<RequestDigest>, decision: &Decision) {
        let ttl = match decision {
            Decision::Allowed(_) => self.authorized_ttl,
            Decision::Denied(_) | Decision::NoOpinion(_) => self.unauthorized_ttl,
        };
        if let Some(key) = key.filter(|_| !ttl.is_zero()) {
            let now = self.parts.clock.uptime();
            self.cache.lock().insert(key, decision.clone(), now + ttl);
        }
    }

    /// Calls the service once.
    async fn call(&self, body: Bytes) -> Result<Value, CallError> {
        let WebhookParts { client, metrics, clock } = &self.parts;
        let call = WebhookCall {
            endpoint: self.endpoint.clone(),
            body,
            timeout: self.timeout,
            response_bytes_max: RESPONSE_BYTES_MAX,
        };
        let started_at = clock.uptime();
        let response = client.start(call).await;
        let answer = response.and_then(|bytes| {
            json::parse(&bytes).map_err(|error| CallError::Http(format!("invalid response: {error}")))
        });
        let result = answer.as_ref().map_or_else(result_label, |_| "success");
        metrics.count_call(&self.name, result, clock.uptime().saturating_sub(started_at));
        answer
    }
}

/// Value of the label `result` for a failed call.
fn result_label(error: &CallError) -> &'static str {
    match error {
        CallError::Timeout | CallError::Status { code: 504, .. } => "timeout",
        _ => "error",
    }
}

/// `true` for errors after which upstream repeats a call.
fn is_transient(error: &CallError) -> bool {
    matches!(error, CallError::Closed | CallError::Status { code: 429 | 500 | 504, .. })
}

#[expect(clippy::disallowed_methods, reason = "calls are repeated in real time")]
async fn pause(wait: Duration) {
    tokio::time::sleep(wait).await;
}
