//! Audit of one request: its events from its head to the end of its response.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use setpoint_api::{Identity, RequestInfo, Time};
use setpoint_audit::objects::{self, ObjectNames};
use setpoint_audit::{AuditDecision, Event, Level, ObjectReference, Stage};

use super::Auditor;
use super::backend::Acknowledgements;
use super::response::{self, ResponseForm};
use super::streams::{AuditedChunks, AuditedFrames};
use crate::exchange::{Payload, Request, Response};
use crate::pipeline::admission::AuditAnnotations;

/// Message of a request that ended before it had a response, upstream's.
const CLOSED_EARLY: &str = "Connection closed early";
/// Message of a request that panicked. The message of the panic is in the log of the server, since it may contain data of
/// the request.
const PANICKED: &str = "APIServer panic'd: see the log of the server";

/// Head of a request, as events have it.
#[derive(Clone, Debug)]
pub(super) struct RequestHead {
    pub audit_id: String,
    pub request_uri: String,
    pub verb: String,
    pub user: Identity,
    pub impersonated_user: Option<Identity>,
    pub impersonation_constraint: &'static str,
    pub source_ips: Vec<std::net::IpAddr>,
    pub user_agent: String,
    /// `None` for requests of other paths.
    pub object: Option<ObjectAttributes>,
    pub received_at: Time,
    pub is_long_running: bool,
}

/// Object of a request, as the path has it.
#[derive(Clone, Debug)]
pub(super) struct ObjectAttributes {
    pub resource: Box<str>,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub group: Box<str>,
    pub version: Box<str>,
    pub subresource: Box<str>,
}

impl ObjectAttributes {
    pub(super) fn of(info: &RequestInfo<'_>) -> ObjectAttributes {
        ObjectAttributes {
            resource: info.resource.into(),
            namespace: info.namespace.into(),
            name: info.name.into(),
            group: info.group.into(),
            version: info.version.into(),
            subresource: info.subresource.into(),
        }
    }

    /// The object, with what the path lacks from the object in the body.
    fn reference<'a>(&'a self, names: Option<&'a ObjectNames>) -> ObjectReference<'a> {
        let mut reference = ObjectReference {
            resource: &self.resource,
            namespace: &self.namespace,
            name: &self.name,
            api_group: &self.group,
            api_version: &self.version,
            subresource: &self.subresource,
            ..ObjectReference::default()
        };
        if let Some(names) = names {
            if reference.namespace.is_empty() {
                reference.namespace = &names.namespace;
            }
            if reference.name.is_empty() {
                reference.name = &names.name;
            }
            (reference.uid, reference.resource_version) = (&names.uid, &names.resource_version);
        }
        reference
    }
}

/// Body of a request, for the request object.
#[derive(Clone, Debug)]
struct RequestBody {
    method: Method,
    content_type: Option<String>,
    bytes: Bytes,
}

/// Result of a request so far.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// Status of the response as JSON; empty if there is none yet.
    status: Vec<u8>,
    code: u16,
    /// Response object as JSON.
    object: Vec<u8>,
    /// `true` if the response object is too large for any event.
    is_truncated: bool,
}

/// An audited request. Its last event is made when it is dropped, at the latest.
pub struct AuditedRequest {
    auditor: Arc<Auditor>,
    decision: AuditDecision,
    head: Box<RequestHead>,
    annotations: AuditAnnotations,
    body: Option<RequestBody>,
    outcome: Outcome,
    is_panicked: bool,
    /// `true` once the last event was made.
    is_complete: bool,
}

impl AuditedRequest {
    pub(super) fn new(
        auditor: Arc<Auditor>,
        decision: AuditDecision,
        head: RequestHead,
        annotations: AuditAnnotations,
    ) -> AuditedRequest {
        AuditedRequest {
            auditor,
            decision,
            head: Box::new(head),
            annotations,
            body: None,
            outcome: Outcome::default(),
            is_panicked: false,
            is_complete: false,
        }
    }

    /// Makes the event of the stage RequestReceived. Returns `None` if a strict backend cannot record it: the request
    /// must be rejected, and has no further events.
    pub async fn receive(mut self) -> Option<AuditedRequest> {
        if self.emit(Stage::RequestReceived).wait().await {
            return Some(self);
        }
        self.auditor.metrics.count_rejected();
        self.is_complete = true;
        None
    }

    /// Records the user that the request acts as, if any.
    pub fn set_impersonation(&mut self, request: &Request) {
        if request.impersonator.is_some() {
            self.head.impersonated_user = Some(request.identity.clone());
            self.head.impersonation_constraint = request.impersonation_constraint;
        }
    }

    /// Records the body of the request, if its level asks for it.
    pub fn set_body(&mut self, request: &Request) {
        if self.decision.level >= Level::Request && !request.body.is_empty() && self.head.object.is_some() {
            let content_type = request.headers.get(CONTENT_TYPE);
            let content_type =
                content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            let (method, bytes) = (request.method.clone(), request.body.clone());
            self.body = Some(RequestBody { method, content_type, bytes });
        }
    }

    /// Records the body of a write of the loop, JSON.
    pub(super) fn set_json_body(&mut self, method: Method, body: Vec<u8>) {
        let content_type = Some("application/json".to_owned());
        self.body = Some(RequestBody { method, content_type, bytes: body.into() });
    }

    /// Records the response object of a write of the loop, JSON.
    pub(super) fn set_response_json(&mut self, body: &[u8]) {
        self.set_response_object(ResponseForm::JSON, body);
    }

    /// Records the status of a write of the loop.
    pub(super) fn set_status(&mut self, status: Vec<u8>, code: u16) {
        (self.outcome.status, self.outcome.code) = (status, code);
    }

    /// Records the decision of the authorizers, whose reason is unknown.
    pub(super) fn record_authorization(&self, is_allowed: bool) {
        self.annotations.record_authorization(is_allowed, "");
    }

    /// Makes the event of the stage RequestReceived, and waits for no backend.
    pub(super) fn receive_detached(&self) {
        if !self.decision.omit_stages.contains(Stage::RequestReceived) {
            self.with_event(Stage::RequestReceived, |event| self.auditor.send_detached(event));
        }
    }

    /// Records that the handler of the request panicked.
    pub fn set_panicked(&mut self) {
        self.is_panicked = true;
    }

    /// Audits a response. That of a stream is complete when its body ends; the others are complete now. Blocking backends
    /// delay the response.
    pub async fn respond(mut self, mut response: Response) -> Response {
        self.outcome.code = response.status.as_u16();
        if !self.is_panicked {
            self.read_response(&response);
            if self.head.is_long_running {
                self.emit(Stage::ResponseStarted).wait().await;
            }
        }
        let wants_object = self.decision.level >= Level::RequestResponse;
        match response.body {
            Payload::Stream(frames) if !self.is_panicked => {
                response.body = Payload::Stream(Box::new(AuditedFrames::new(frames, self)));
            }
            Payload::Chunked(chunks) if !self.is_panicked && wants_object => {
                let form = ResponseForm::of(&response.headers);
                response.body = Payload::Chunked(Box::new(AuditedChunks::new(chunks, form, self)));
            }
            body => {
                response.body = body;
                self.finish().wait().await;
            }
        }
        response
    }

    /// Records the start of a tunnel, which lasts until this is dropped.
    pub async fn open_tunnel(&mut self) {
        self.outcome.code = StatusCode::SWITCHING_PROTOCOLS.as_u16();
        self.outcome.status = objects::status_of_code(self.outcome.code);
        self.emit(Stage::ResponseStarted).wait().await;
    }

    pub(super) async fn record_failed_authentication(mut self, message: &str) {
        self.outcome.code = StatusCode::UNAUTHORIZED.as_u16();
        self.outcome.status = objects::status_with(None, message, "", self.outcome.code);
        // Upstream makes no further event of such a request.
        self.is_complete = true;
        self.emit(Stage::ResponseStarted).wait().await;
    }

    fn read_response(&mut self, response: &Response) {
        let Payload::Whole(parts) = &response.body else {
            self.outcome.status = objects::status_of_code(self.outcome.code);
            return;
        };
        let (form, code) = (ResponseForm::of(&response.headers), self.outcome.code);
        self.outcome.status = response::status(form, parts, (&self.head.verb, code));
        if self.decision.level >= Level::RequestResponse {
            self.set_response_object(form, &parts.concat());
        }
    }

    /// Records the response object, if the bytes are an API object.
    pub(super) fn set_response_object(&mut self, form: ResponseForm, body: &[u8]) {
        let omits = self.decision.omit_managed_fields;
        let object = response::object(form, body, self.head.object.is_some(), omits);
        self.outcome.object = object.unwrap_or_default();
    }

    /// Records that the response object is too large for any event.
    pub(super) fn truncate(&mut self) {
        self.outcome.is_truncated = true;
    }

    /// Makes the last event.
    fn finish(&mut self) -> Acknowledgements {
        self.is_complete = true;
        self.complete_outcome();
        self.emit(if self.is_panicked { Stage::Panic } else { Stage::ResponseComplete })
    }

    fn complete_outcome(&mut self) {
        if self.is_panicked {
            let code = StatusCode::INTERNAL_SERVER_ERROR.as_u16();
            let status = objects::status_with(Some(false), PANICKED, "InternalError", code);
            self.outcome = Outcome { status, code, ..Outcome::default() };
        } else if self.outcome.status.is_empty() {
            let code = StatusCode::OK.as_u16();
            self.outcome.status = objects::status_with(Some(true), CLOSED_EARLY, "", code);
            self.outcome.code = code;
        }
    }

    /// Makes the event of a stage, unless the policy omits it.
    fn emit(&self, stage: Stage) -> Acknowledgements {
        if self.decision.omit_stages.contains(stage) {
            return Acknowledgements::default();
        }
        self.with_event(stage, |event| self.auditor.send(event))
    }

    fn with_event<T>(&self, stage: Stage, take: impl FnOnce(&Event<'_>) -> T) -> T {
        let is_received = stage == Stage::RequestReceived;
        let names = if is_received { None } else { self.annotations.object() };
        let annotations = if is_received { Default::default() } else { self.annotations.get() };
        let request_object = self.body.as_ref().filter(|_| !is_received).and_then(|body| {
            let omits = self.decision.omit_managed_fields;
            response::request_object(&body.method, body.content_type.as_deref(), &body.bytes, omits)
        });
        let RequestHead { received_at, .. } = *self.head;
        take(&Event {
            level: self.decision.level,
            audit_id: &self.head.audit_id,
            stage,
            request_uri: &self.head.request_uri,
            verb: &self.head.verb,
            user: &self.head.user,
            impersonated_user: self.head.impersonated_user.as_ref(),
            impersonation_constraint: self.head.impersonation_constraint,
            source_ips: &self.head.source_ips,
            user_agent: &self.head.user_agent,
            object: self.head.object.as_ref().map(|object| object.reference(names.as_ref())),
            response_status: &self.outcome.status,
            code: self.outcome.code,
            request_object: request_object.as_deref().unwrap_or_default(),
            response_object: &self.outcome.object,
            received_at,
            stage_at: if is_received { received_at } else { self.auditor.now() },
            annotations: &annotations,
            is_truncated: self.outcome.is_truncated,
        })
    }
}

impl Drop for AuditedRequest {
    /// Makes the last event of a stream that has ended, or of a request that was given up. Nothing waits for it.
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        self.complete_outcome();
        let stage = if self.is_panicked { Stage::Panic } else { Stage::ResponseComplete };
        if !self.decision.omit_stages.contains(stage) {
            self.with_event(stage, |event| self.auditor.send_detached(event));
        }
    }
}
