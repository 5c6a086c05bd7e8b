//! Simulated admission webhooks: they allow, deny, patch, fail, hang and lie, as random numbers of the seed decide.
//!
//! The path of a webhook's URL is its behavior: [`MIXED`] draws an outcome for every call, [`DENYING`] denies
//! everything. When [`SimulatedWebhooks::behaves`] is set, webhooks with mixed outcomes only allow, and set a label.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fastrand::Rng;
use setpoint_api::{Value, json, value};
use setpoint_server::webhooks::answers::{PendingCall, WebhookAnswer};
use setpoint_server::webhooks::client::CallError;
use setpoint_server::webhooks::config::{WebhookRegistry, WebhookType};

/// Path of a webhook with an outcome for every call.
pub const MIXED: &str = "/mixed";
/// Path of a webhook that denies everything.
pub const DENYING: &str = "/deny";
/// Label that mutating webhooks set.
pub const LABEL: &str = "seen-by-webhook";

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallOutcome {
    Allow,
    /// Allows the request, and adds a label.
    Label,
    /// Allows the request, and makes the object invalid.
    Spoil,
    Deny,
    /// The connection cannot be opened.
    Fail,
    /// No response within the timeout.
    Hang,
    /// The response is not JSON.
    Garbage,
    /// The response has another UID.
    WrongUid,
}

impl CallOutcome {
    fn draw(rng: &mut Rng) -> CallOutcome {
        match rng.u8(..20) {
            0..6 => CallOutcome::Allow,
            6..11 => CallOutcome::Label,
            11 => CallOutcome::Spoil,
            12 | 13 => CallOutcome::Deny,
            14 | 15 => CallOutcome::Fail,
            16 | 17 => CallOutcome::Hang,
            18 => CallOutcome::Garbage,
            _ => CallOutcome::WrongUid,
        }
    }

    fn mark(self, is_loop: bool) -> &'static str {
        match (self, is_loop) {
            (CallOutcome::Allow, true) => "webhook allowed a write of the loop",
            (CallOutcome::Allow, false) => "webhook allowed a write of a user",
            (CallOutcome::Label, true) => "webhook changed a write of the loop",
            (CallOutcome::Label, false) => "webhook changed a write of a user",
            (CallOutcome::Spoil, true) => "webhook spoiled a write of the loop",
            (CallOutcome::Spoil, false) => "webhook spoiled a write of a user",
            (CallOutcome::Deny, true) => "webhook denied a write of the loop",
            (CallOutcome::Deny, false) => "webhook denied a write of a user",
            (CallOutcome::Fail, true) => "webhook failed for a write of the loop",
            (CallOutcome::Fail, false) => "webhook failed for a write of a user",
            (CallOutcome::Hang, true) => "webhook hung for a write of the loop",
            (CallOutcome::Hang, false) => "webhook hung for a write of a user",
            (CallOutcome::Garbage | CallOutcome::WrongUid, true) => "webhook lied about a write of the loop",
            (CallOutcome::Garbage | CallOutcome::WrongUid, false) => "webhook lied about a write of a user",
        }
    }
}

/// Verdict of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It allowed the request.
    Allowed,
    /// It denied the request.
    Denied,
    /// It gave no proper answer.
    Failed,
}

/// A call of a webhook, and its verdict.
#[derive(Clone, Debug)]
pub struct Review {
    /// Name of the webhook.
    pub webhook: Box<str>,
    /// Verdict.
    pub verdict: Verdict,
    /// Object that the webhook saw; null for a delete.
    pub object: Value,
}

impl Review {
    pub(super) fn new(call: &PendingCall, answer: &WebhookAnswer) -> Review {
        let verdict = match answer {
            Ok(response) if response.allowed => Verdict::Allowed,
            Ok(_) => Verdict::Denied,
            Err(_) => Verdict::Failed,
        };
        let object = request(call).get("object").cloned().unwrap_or_default();
        Review { webhook: call.webhook.clone(), verdict, object }
    }
}

/// Admission webhooks of a simulated control plane.
#[derive(Default)]
pub struct SimulatedWebhooks {
    /// `true` if webhooks with mixed outcomes answer properly and at once.
    pub behaves: bool,
    /// Seeded bug: no webhook is called.
    pub is_bypassed: bool,
    /// Counts of outcomes, as coverage marks.
    pub marks: BTreeMap<&'static str, u64>,
    /// Violation: a webhook was called for a write of a configuration, which could prevent its own removal.
    pub violation: Option<String>,
    pub(super) registry: WebhookRegistry,
}

impl SimulatedWebhooks {
    /// Forgets the configurations of a store.
    pub(super) fn forget_store(&mut self) {
        self.registry = WebhookRegistry::default();
    }

    pub(super) fn check_exemption(&mut self, resource: &str) {
        if resource.ends_with("webhookconfigurations.admissionregistration.k8s.io") {
            self.violation = Some(format!("a webhook was called for a write of {resource}"));
        }
    }

    /// Response to a call, and the time until it arrives.
    pub(super) fn respond(
        &mut self,
        call: &PendingCall,
        is_loop: bool,
        rng: &mut Rng,
    ) -> (Result<Bytes, CallError>, Duration) {
        let can_patch = call.webhook_type == WebhookType::Mutating
            && request(call).get("object").is_some_and(|object| !object.is_null());
        let outcome = match call.call.endpoint.path.as_str() {
            DENYING => CallOutcome::Deny,
            _ if self.behaves => CallOutcome::Label,
            _ => CallOutcome::draw(rng),
        };
        let outcome = match outcome {
            CallOutcome::Label | CallOutcome::Spoil if !can_patch => CallOutcome::Allow,
            outcome => outcome,
        };
        let delay = match outcome {
            CallOutcome::Hang => call.call.timeout,
            _ if self.behaves => Duration::ZERO,
            _ => Duration::from_micros(1 << rng.u32(8..23)).min(call.call.timeout),
        };
        if !self.behaves {
            *self.marks.entry(outcome.mark(is_loop)).or_default() += 1;
        }
        (respond(call, outcome), delay)
    }
}

/// The request of a review.
fn request(call: &PendingCall) -> Value {
    let review = json::parse(&call.call.body).unwrap_or_default();
    review.get("request").cloned().unwrap_or_default()
}

fn respond(call: &PendingCall, outcome: CallOutcome) -> Result<Bytes, CallError> {
    let address = call.call.endpoint.authority.clone();
    let uid = if outcome == CallOutcome::WrongUid { "another" } else { call.uid.as_str() };
    let mut response = value!({"uid": (uid), "allowed": (outcome != CallOutcome::Deny)});
    match outcome {
        CallOutcome::Fail => {
            return Err(CallError::Connect { address, why: "connect: connection refused".to_owned() });
        }
        CallOutcome::Hang => return Err(CallError::Timeout),
        CallOutcome::Garbage => return Ok(Bytes::from_static(b"<html>it works</html>")),
        CallOutcome::Label | CallOutcome::Spoil => {
            let object = request(call).get("object").cloned().unwrap_or_default();
            let value = if outcome == CallOutcome::Label { "true" } else { "not a label value!" };
            if let Some(patch) = label_patch(&object, value) {
                response.make_map().insert("patchType", "JSONPatch");
                response.make_map().insert("patch", STANDARD.encode(json::to_vec(&patch)));
            }
        }
        CallOutcome::Allow | CallOutcome::Deny | CallOutcome::WrongUid => {}
    }
    let review = value!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": (response),
    });
    Ok(Bytes::from(json::to_vec(&review)))
}

/// JSON patch that sets the label; `None` if the object has it.
fn label_patch(object: &Value, value: &str) -> Option<Value> {
    let path = format!("/metadata/labels/{LABEL}");
    match object.at(&["metadata", "labels"]) {
        Some(labels) if labels.str_at(&[LABEL]) == value => None,
        Some(Value::Map(_)) => Some(value!([{"op": "add", "path": (path), "value": (value)}])),
        _ => {
            let mut labels = Value::map();
            labels.make_map().insert(LABEL, value);
            Some(value!([{"op": "add", "path": "/metadata/labels", "value": (labels)}]))
        }
    }
}
