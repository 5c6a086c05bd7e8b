//! Audit of the loop's writes. Upstream's controllers are clients, whose writes are audited as requests; here they are
//! function calls, so their events are composed: the user is that of the controller, the user agent names its component,
//! and the URI is that of the request that a client would send. There is no source address. The loop waits for no
//! backend, whatever its mode is.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::Reason;
use setpoint_api::{Entropy, Identity, RequestInfo, Value, json};
use setpoint_audit::objects;
use setpoint_audit::{AuditDecision, Level};
use setpoint_reconcile::{Write, WriteId, WriteOutcome, WriteRejection, WriteRequest};
use setpoint_store::{Record, Snapshot};

use super::Auditor;
use super::request::{AuditedRequest, ObjectAttributes, RequestHead};
use crate::codec;
use crate::discovery::VERSION;
use crate::pipeline::admission::AuditAnnotations;
use crate::uuid;

/// Audit of the writes of a loop.
pub struct LoopAudit {
    auditor: Arc<Auditor>,
    entropy: Arc<Entropy>,
    open: BTreeMap<WriteId, OpenWrite>,
}

/// An audited write in flight.
struct OpenWrite {
    audited: AuditedRequest,
    resource_type: Arc<ResourceType>,
    namespace: Box<str>,
    is_create: bool,
    wants_object: bool,
}

impl LoopAudit {
    /// Audits writes with `auditor`.
    #[must_use]
    pub fn new(auditor: Arc<Auditor>, entropy: Arc<Entropy>) -> LoopAudit {
        LoopAudit { auditor, entropy, open: BTreeMap::new() }
    }

    /// Begins the audit of a write. `identity` is its user with its groups.
    pub(crate) fn begin(
        &mut self,
        request: &WriteRequest,
        resource_type: &Arc<ResourceType>,
        identity: Identity,
    ) {
        let write = &request.write;
        let names = WriteNames::of(write);
        let path = names.path(resource_type);
        let info = &resource_type.info;
        let request_info = RequestInfo {
            is_resource: true,
            verb: write.verb(),
            path: &path,
            group: &info.group,
            version: &info.version,
            resource: &info.plural,
            subresource: names.subresource,
            // A namespace is also in itself.
            namespace: if &*info.plural == "namespaces" && info.group.is_empty() {
                names.name
            } else {
                names.namespace
            },
            name: names.name,
        };
        let decision = self.auditor.policy.decide(Some(&identity), &request_info);
        self.auditor.metrics.count_level(decision.level);
        if decision.level == Level::None {
            return;
        }
        let head = self.head(request, &path, &request_info, identity);
        let mut audited =
            AuditedRequest::new(Arc::clone(&self.auditor), decision, head, AuditAnnotations::audited());
        audited.receive_detached();
        if let Some((method, body)) = request_object(write, decision) {
            audited.set_json_body(method, body);
        }
        let open = OpenWrite {
            audited,
            resource_type: Arc::clone(resource_type),
            namespace: names.namespace.into(),
            is_create: matches!(write, Write::Create { .. } | Write::CreateEvent(_) | Write::Post { .. }),
            wants_object: decision.level >= Level::RequestResponse && names.subresource.is_empty(),
        };
        self.open.insert(request.id, open);
    }

    fn head(
        &self,
        request: &WriteRequest,
        path: &str,
        info: &RequestInfo<'_>,
        identity: Identity,
    ) -> RequestHead {
        let query = match &request.write {
            Write::Apply { .. } => format!("?fieldManager={}&force=true", request.manager),
            _ => String::new(),
        };
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        RequestHead {
            audit_id: uuid::text((self.entropy)(), (self.entropy)()),
            request_uri: format!("{path}{query}"),
            verb: info.verb.to_owned(),
            user_agent: format!("{}/{VERSION} ({os}/{arch}) setpoint/{}", request.manager, identity.user),
            user: identity,
            impersonated_user: None,
            impersonation_constraint: "",
            source_ips: Vec::new(),
            object: Some(ObjectAttributes::of(info)),
            received_at: self.auditor.now(),
            is_long_running: false,
        }
    }

    /// Ends the audit of a write.
    pub(crate) fn end(&mut self, id: WriteId, outcome: &WriteOutcome, snapshot: &Snapshot) {
        let Some(OpenWrite { mut audited, resource_type, namespace, is_create, wants_object }) =
            self.open.remove(&id)
        else {
            return;
        };
        let failure = |reason: &str, message: &str| {
            let code = Reason::from_name(reason).code();
            (objects::status_with(Some(false), message, reason, code), code)
        };
        let (status, code) = match outcome {
            WriteOutcome::Done { .. } => {
                let code = if is_create { 201 } else { 200 };
                (objects::status_of_code(code), code)
            }
            WriteOutcome::Gone => failure("NotFound", ""),
            WriteOutcome::Conflict => failure("Conflict", ""),
            WriteOutcome::Rejected(WriteRejection { reason, message }) => failure(reason, message),
            // Only remote loops lose writes.
            WriteOutcome::Lost { .. } => failure("InternalError", "the outcome is unknown"),
        };
        let is_forbidden =
            matches!(outcome, WriteOutcome::Rejected(rejection) if rejection.reason == "Forbidden");
        audited.record_authorization(!is_forbidden);
        if let (WriteOutcome::Done { name, revision }, true) = (outcome, wants_object) {
            let key = resource_type.key(&namespace, name).ok();
            let stored = key.and_then(|key| snapshot.get(&key).cloned());
            let stored = stored.filter(|record: &Record| record.revision() == *revision);
            if let Some(record) = stored {
                audited.set_response_json(&codec::served(&resource_type, &record));
            }
        }
        // The last event is made when the request is dropped.
        audited.set_status(status, code);
    }
}

/// Names of the object of a write.
struct WriteNames<'w> {
    namespace: &'w str,
    /// Name of the object; empty if the write creates one.
    name: &'w str,
    /// Name in the path: a new object has none there.
    in_path: &'w str,
    subresource: &'w str,
}

impl<'w> WriteNames<'w> {
    fn of(write: &'w Write) -> WriteNames<'w> {
        match write {
            Write::Create { namespace, object, .. } => {
                let name = object.str_at(&["metadata", "name"]);
                WriteNames { namespace, name, in_path: "", subresource: "" }
            }
            Write::CreateEvent(event) => {
                let name = event.key.name();
                WriteNames { namespace: event.namespace(), name, in_path: "", subresource: "" }
            }
            Write::Patch { key, subresource, .. }
            | Write::Apply { key, subresource, .. }
            | Write::Post { key, subresource, .. } => WriteNames {
                namespace: key.namespace().unwrap_or_default(),
                name: key.name(),
                in_path: key.name(),
                subresource,
            },
            Write::Delete { key, .. } => WriteNames {
                namespace: key.namespace().unwrap_or_default(),
                name: key.name(),
                in_path: key.name(),
                subresource: "",
            },
        }
    }

    /// Path of the request that a client would send.
    fn path(&self, resource_type: &ResourceType) -> String {
        let info = &resource_type.info;
        let root = if info.group.is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", resource_type.api_version());
        if !self.namespace.is_empty() {
            path = format!("{path}/namespaces/{}", self.namespace);
        }
        path = format!("{path}/{}", info.plural);
        for segment in [self.in_path, self.subresource].into_iter().filter(|segment| !segment.is_empty()) {
            path = format!("{path}/{segment}");
        }
        path
    }
}

/// Body of the request that a client would send, if the level asks for it.
fn request_object(write: &Write, decision: AuditDecision) -> Option<(Method, Vec<u8>)> {
    if decision.level < Level::Request {
        return None;
    }
    let body = |method: Method, value: &Value| Some((method, json::to_vec(value)));
    match write {
        Write::Create { object, .. } | Write::Post { object, .. } => body(Method::POST, object),
        Write::CreateEvent(event) => body(Method::POST, &event.to_value()),
        Write::Patch { patch, .. } => body(Method::PATCH, patch),
        Write::Apply { config, .. } => body(Method::PATCH, config),
        Write::Delete { .. } => None,
    }
}
