//! Audit: a policy selects requests, and events about them are written to a log and sent to a webhook.
//!
//! The HTTP server asks the [`Auditor`] about each request once its user is known. An [`AuditedRequest`] then makes the
//! events of its stages: it is completed with the response, moves into the body of a stream, and makes its last event
//! when it is dropped, so that no request ends without one. Events are encoded at once and pushed into the bounded
//! [`EventQueue`] of each [`AuditBackend`], whose own thread writes them. A full queue never delays a request in the mode
//! `batch`: the event is dropped, counted in `apiserver_audit_error_total`, and the request goes on.
//!
//! Invariants: an event has nothing above its level
//! (`tests/api/audit.rs: secret_is_not_recorded_below_the_level_of_its_rule`), and a backend that hangs delays no request in the mode `batch`
//! (`tests/api/audit.rs: stuck_backend_drops_and_counts_events_while_requests_are_answered`).

mod backend;
mod log_backend;
mod loop_events;
mod metrics;
mod options;
mod queue;
mod request;
mod response;
mod rotation;
mod streams;
mod throttle;
mod webhook;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use setpoint_api::{Clock, Identity, Time};
use setpoint_audit::{AuditDecision, Event, ForwardingHeaders, Level, Policy, source_ips, user_agent};

pub use self::backend::AuditBackend;
pub use self::log_backend::open_log;
pub use self::loop_events::LoopAudit;
pub use self::metrics::AuditMetrics;
pub use self::options::{
    AuditLogOptions, BatchOptions, LogFormat, LogTarget, Mode, OptionsError, RotationOptions,
    ThrottleOptions, TruncationOptions, WebhookOptions,
};
pub use self::queue::{BatchBounds, EventQueue, QueueError, QueuedEvent};
pub use self::request::AuditedRequest;
pub use self::webhook::start_webhook;

use self::backend::Acknowledgements;
use self::request::RequestHead;
use crate::exchange::Request;
use crate::pipeline::admission::AuditAnnotations;
use crate::request_info::RequestAttributes;

/// Subresources whose requests last.
const LONG_RUNNING_SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
/// Verbs whose requests last.
const LONG_RUNNING_VERBS: [&str; 2] = ["watch", "proxy"];

/// Properties of a request that are not in its head.
#[derive(Clone, Copy, Debug)]
pub struct RequestOrigin<'a> {
    /// Audit id.
    pub audit_id: &'a str,
    /// Address of the client; `None` if the request came from no socket.
    pub peer: Option<IpAddr>,
    /// Time at which the request was received.
    pub received_at: Time,
}

/// Audits requests by a policy.
pub struct Auditor {
    policy: Policy,
    backends: Vec<AuditBackend>,
    clock: Arc<dyn Clock>,
    metrics: Arc<AuditMetrics>,
}

impl Auditor {
    /// An auditor that sends its events to `backends`.
    #[must_use]
    pub fn new(
        policy: Policy,
        backends: Vec<AuditBackend>,
        clock: Arc<dyn Clock>,
        metrics: Arc<AuditMetrics>,
    ) -> Auditor {
        Auditor { policy, backends, clock, metrics }
    }

    /// The metrics.
    #[must_use]
    pub fn metrics(&self) -> &Arc<AuditMetrics> {
        &self.metrics
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Begins the audit of an authenticated request, and marks the request as audited. Returns `None` if the policy
    /// wants no record of it.
    pub fn begin(
        self: &Arc<Auditor>,
        request: &mut Request,
        origin: RequestOrigin<'_>,
    ) -> Option<AuditedRequest> {
        let attributes = RequestAttributes::of(request);
        let decision = self.decide(Some(&request.identity), &attributes)?;
        let target = (request.path.as_str(), request.query.as_str());
        let head = head(target, &request.headers, &attributes, request.identity.clone(), origin);
        request.annotations = AuditAnnotations::audited();
        let annotations = request.annotations.clone();
        Some(AuditedRequest::new(Arc::clone(self), decision, head, annotations))
    }

    /// Audits a request whose authentication failed: one event at the stage ResponseStarted, as upstream.
    pub async fn record_unauthenticated(
        self: &Arc<Auditor>,
        parts: &http::request::Parts,
        has_certificate: bool,
        origin: RequestOrigin<'_>,
    ) {
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let attributes = RequestAttributes::parse(&parts.method, path, query);
        let Some(decision) = self.decide(None, &attributes) else { return };
        let head = head((path, query), &parts.headers, &attributes, Identity::default(), origin);
        let audited = AuditedRequest::new(Arc::clone(self), decision, head, AuditAnnotations::default());
        audited.record_failed_authentication(&attempted(&parts.headers, query, has_certificate)).await;
    }

    /// Decides on a request, and counts its level; `None` if it is not recorded.
    fn decide(&self, user: Option<&Identity>, attributes: &RequestAttributes<'_>) -> Option<AuditDecision> {
        let decision = self.policy.decide(user, &attributes.info());
        self.metrics.count_level(decision.level);
        (decision.level != Level::None).then_some(decision)
    }

    /// Sends an event to all backends.
    fn send(&self, event: &Event<'_>) -> Acknowledgements {
        self.metrics.count_event();
        let mut acknowledgements = Acknowledgements::default();
        for backend in &self.backends {
            backend.send(event, &mut acknowledgements);
        }
        acknowledgements
    }

    /// Sends an event to all backends, and waits for none of them.
    fn send_detached(&self, event: &Event<'_>) {
        self.metrics.count_event();
        for backend in &self.backends {
            backend.send_detached(event);
        }
    }

    /// Flushes the queues and ends the threads of the backends. Blocks for at most `limit`; events that are left are
    /// counted as errors.
    pub fn shutdown(&self, limit: Duration) {
        for backend in &self.backends {
            backend.close();
        }
        let started = self.clock.uptime();
        for backend in &self.backends {
            let left = limit.saturating_sub(self.clock.uptime().saturating_sub(started));
            backend.join(left);
        }
    }
}

/// Text of a header; empty if it is absent or no text.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn head(
    (path, query): (&str, &str),
    headers: &HeaderMap,
    attributes: &RequestAttributes<'_>,
    user: Identity,
    origin: RequestOrigin<'_>,
) -> RequestHead {
    let info = attributes.info();
    let request_uri = if query.is_empty() { path.to_owned() } else { [path, query].join("?") };
    let agent = headers.get(http::header::USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    let forwarding = ForwardingHeaders {
        forwarded_for: Some(header(headers, "x-forwarded-for")),
        real_ip: Some(header(headers, "x-real-ip")),
    };
    RequestHead {
        audit_id: origin.audit_id.to_owned(),
        request_uri,
        verb: info.verb.to_owned(),
        user,
        impersonated_user: None,
        impersonation_constraint: "",
        source_ips: source_ips(forwarding, origin.peer),
        user_agent: agent.map(|agent| user_agent(&agent)).unwrap_or_default(),
        object: info.is_resource.then(|| request::ObjectAttributes::of(&info)),
        received_at: origin.received_at,
        is_long_running: LONG_RUNNING_VERBS.contains(&info.verb)
            || info.is_resource && LONG_RUNNING_SUBRESOURCES.contains(&info.subresource),
    }
}

/// Message about the credentials of a request whose authentication failed, upstream's.
fn attempted(headers: &HeaderMap, query: &str, has_certificate: bool) -> String {
    let authorization = header(headers, "authorization").trim();
    let scheme = authorization.split_once(' ').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let has_token = query
        .split('&')
        .any(|pair| pair.strip_prefix("access_token=").is_some_and(|token| !token.is_empty()));
    let attempts = [
        ("basic", scheme.as_deref() == Some("basic")),
        ("bearer", scheme.as_deref() == Some("bearer")),
        ("access_token", has_token),
        ("x509", has_certificate),
    ];
    let attempts: Vec<&str> =
        attempts.into_iter().filter(|(_, is_made)| *is_made).map(|(name, _)| name).collect();
    if attempts.is_empty() {
        return "Authentication failed, no credentials provided".to_owned();
    }
    format!("Authentication failed, attempted: {}", attempts.join(", "))
}

#[cfg(test)]
mod tests;
