//! Answers of webhooks, by the digest of the request that they were given for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::quote::Quoted;

use super::Operation;
use super::client::{CallError, WebhookCall};
use super::config::WebhookType;
use super::review::{self, ReviewResponse, ReviewVersion};

/// Digest of a webhook and the exact request that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AnswerKey(pub [u8; 32]);

/// A call that was not answered properly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookFailure {
    /// Name of the webhook.
    pub webhook: Box<str>,
    /// Reason, in upstream's words.
    pub reason: String,
    /// Status code for metrics.
    pub code: u16,
}

impl std::fmt::Display for WebhookFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "failed calling webhook {}: {}", Quoted(&self.webhook), self.reason)
    }
}

/// Answer of a webhook, or the failure of its call.
pub type WebhookAnswer = Result<Arc<ReviewResponse>, WebhookFailure>;

/// Answers that a request received so far.
#[derive(Debug, Default)]
pub struct WebhookAnswers {
    answers: BTreeMap<AnswerKey, WebhookAnswer>,
    warnings: Vec<String>,
    /// Warnings of policies in the last decision.
    policy_warnings: Mutex<Vec<String>>,
    /// `true` if a validating webhook was called.
    has_validating: bool,
    /// Uptime at the first call.
    pub(super) started_at: Option<Duration>,
}

impl WebhookAnswers {
    /// Returns the answer to a request.
    #[must_use]
    pub fn get(&self, key: &AnswerKey) -> Option<&WebhookAnswer> {
        self.answers.get(key)
    }

    /// Number of answers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// `true` if there is no answer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// `true` if a validating webhook was called: the decision before it passed all validating plugins.
    #[must_use]
    pub fn has_validating(&self) -> bool {
        self.has_validating
    }

    /// Records that these webhooks are called.
    pub(super) fn record_calls(&mut self, calls: &[PendingCall]) {
        self.has_validating |= calls.iter().any(|call| call.webhook_type == WebhookType::Validating);
    }

    /// Adds answers, with their warnings.
    pub fn extend(&mut self, answers: impl IntoIterator<Item = (AnswerKey, WebhookAnswer)>) {
        for (key, answer) in answers {
            if let Ok(response) = &answer {
                self.warnings.extend(response.warnings.iter().cloned());
            }
            self.answers.insert(key, answer);
        }
    }

    /// Warnings of the policies in the last decision, then those of all answers, in the order of the calls.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.policy_warnings.lock().iter().chain(&self.warnings).cloned().collect()
    }

    /// Audit annotations of all answers; the keys have the name of their webhook.
    pub(crate) fn audit_annotations(&self) -> impl Iterator<Item = (String, String)> {
        let answers = self.answers.values().filter_map(|answer| answer.as_ref().ok());
        answers.flat_map(|answer| {
            answer.audit_annotations.iter().map(|(key, value)| (key.clone(), value.clone()))
        })
    }

    /// Replaces the warnings of policies: each decision evaluates them again.
    pub(crate) fn record_policy_warnings(&self, warnings: Vec<String>) {
        *self.policy_warnings.lock() = warnings;
    }
}

/// A call that a decision waits for.
#[derive(Clone, Debug)]
pub struct PendingCall {
    /// Key of the answer.
    pub key: AnswerKey,
    /// Name of the webhook.
    pub webhook: Box<str>,
    /// Type of the webhook.
    pub webhook_type: WebhookType,
    /// `true` if failures are ignored.
    pub ignores_failures: bool,
    /// Operation of the request.
    pub operation: Operation,
    /// UID of the review.
    pub uid: String,
    /// Version of the review.
    pub version: ReviewVersion,
    /// The HTTPS call.
    pub call: WebhookCall,
}

impl PendingCall {
    /// Reads the response to the call.
    ///
    /// # Errors
    /// If the call failed, or the response is not one to this review.
    pub fn answer(&self, response: Result<Bytes, CallError>) -> WebhookAnswer {
        let failure = |reason, code| WebhookFailure { webhook: self.webhook.clone(), reason, code };
        let bytes = response.map_err(|error| {
            let code = if let CallError::Status { code, .. } = &error { *code } else { 503 };
            let url = self.call.endpoint.url(self.call.timeout_seconds());
            failure(format!("failed to call webhook: {}", error.describe(&url)), code)
        })?;
        let is_mutating = self.webhook_type == WebhookType::Mutating;
        let mut response = review::parse_response(&bytes, self.version, &self.uid, is_mutating)
            .map_err(|error| failure(error.to_string(), 503))?;
        let annotations = std::mem::take(&mut response.audit_annotations).into_iter();
        let named = annotations.map(|(key, value)| (format!("{}/{key}", self.webhook), value));
        response.audit_annotations = named.collect();
        Ok(Arc::new(response))
    }

    /// Logs a failure.
    pub(super) fn log(&self, answer: &WebhookAnswer) {
        let webhook = &*self.webhook;
        match answer {
            Err(failure) if self.ignores_failures => {
                tracing::warn!(webhook, why = failure.reason, "failed calling webhook, failing open");
            }
            Err(failure) => {
                tracing::warn!(webhook, why = failure.reason, "failed calling webhook, failing closed");
            }
            Ok(_) => {}
        }
    }
}
