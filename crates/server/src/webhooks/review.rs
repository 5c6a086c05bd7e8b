//! AdmissionReview: requests to webhooks and their responses, in the versions `v1` and `v1beta1`.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use setpoint_api::quote::Quoted;
use setpoint_api::status::{Details, Reason, Status, StatusCause};
use setpoint_api::{Map, Value, json, value};
use setpoint_authentication::user::user_info;

use super::answers::AnswerKey;
use super::config::{Webhook, WebhookType};
use super::matching::Invocation;
use super::{AdmissionRequest, Operation};
use crate::uuid;

/// Patch type of a v1 response.
const JSON_PATCH: &str = "JSONPatch";
/// Code of a rejection without one, or with the code of a success.
const REJECTED_CODE: u16 = 400;

/// Version of AdmissionReview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`: UID and type of the response are not checked.
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the first version that the webhook accepts and this server knows.
    #[must_use]
    pub fn of(hook: &Webhook) -> Option<ReviewVersion> {
        hook.review_versions.iter().find_map(|version| match &**version {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        }
    }
}

/// An encoded review.
pub struct ReviewRequest {
    /// UID that the response must have.
    pub uid: String,
    /// Key of the answer.
    pub key: AnswerKey,
    /// The encoded AdmissionReview.
    pub body: Bytes,
}

/// Encodes the review of a request. The UID is a digest of everything else and of the entropy of the request, so that
/// a decision on equal input makes an equal review.
#[must_use]
pub fn encode_request(
    hook: &Webhook,
    version: ReviewVersion,
    request: &AdmissionRequest<'_>,
    invocation: Invocation<'_>,
    (object, old): (Option<Value>, Option<Value>),
    entropy: [u64; 3],
) -> ReviewRequest {
    let fields = json::to_vec(&request_fields(request, invocation, object, old));
    let mut context = digest::Context::new(&digest::SHA256);
    let hook_type = if hook.webhook_type == WebhookType::Mutating { "mutating" } else { "validating" };
    for text in [hook_type, &hook.configuration, &hook.name, version.as_str()] {
        // Names contain no NUL, so the parts cannot be confused.
        context.update(text.as_bytes());
        context.update(&[0]);
    }
    for number in entropy {
        context.update(&number.to_be_bytes());
    }
    context.update(&fields);
    let digest = context.finish();
    let mut key = [0; 32];
    key.copy_from_slice(digest.as_ref());
    let half = |at: usize| key[at..at + 8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let uid = uuid::text(half(0), half(8));
    let head = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/{}","request":{{"uid":"{uid}","#,
        version.as_str()
    );
    let mut body = head.into_bytes();
    // The fields are an object that is never empty.
    body.extend_from_slice(&fields[1..]);
    body.push(b'}');
    ReviewRequest { uid, key: AnswerKey(key), body: body.into() }
}

/// Fields of the request but its UID.
pub(crate) fn request_fields(
    request: &AdmissionRequest<'_>,
    invocation: Invocation<'_>,
    object: Option<Value>,
    old: Option<Value>,
) -> Value {
    let kind = |of: Invocation<'_>| match request.foreign_kind {
        Some(foreign) => {
            value!({"group": (foreign.group), "version": (foreign.version), "kind": (foreign.kind)})
        }
        None => {
            let info = &of.resource_type.info;
            value!({"group": (&*info.group), "version": (&*info.version), "kind": (&*info.kind)})
        }
    };
    let resource = |of: Invocation<'_>| {
        let info = &of.resource_type.info;
        value!({"group": (&*info.group), "version": (&*info.version), "resource": (&*info.plural)})
    };
    let requested = Invocation { resource_type: request.resource_type };
    let mut fields = Map::new();
    let insert_text = |fields: &mut Map, key: &str, text: &str| {
        if !text.is_empty() {
            fields.insert(key, text);
        }
    };
    fields.insert("kind", kind(invocation));
    fields.insert("resource", resource(invocation));
    insert_text(&mut fields, "subResource", request.subresource);
    fields.insert("requestKind", kind(requested));
    fields.insert("requestResource", resource(requested));
    insert_text(&mut fields, "requestSubResource", request.subresource);
    insert_text(&mut fields, "name", request.name);
    insert_text(&mut fields, "namespace", request.namespace);
    fields.insert("operation", request.operation.as_str());
    let identity = &request.writer.identity;
    fields.insert("userInfo", user_info(identity));
    fields.insert("object", object.unwrap_or_default());
    fields.insert("oldObject", old.unwrap_or_default());
    fields.insert("dryRun", request.writer.dry_run);
    let options = if request.operation == Operation::Connect { Value::Null } else { options(request) };
    fields.insert("options", options);
    Value::Map(fields)
}

fn options(request: &AdmissionRequest<'_>) -> Value {
    let mut options = value!({"kind": (request.operation.options_kind()), "apiVersion": "meta.k8s.io/v1"});
    let map = options.make_map();
    if let Some(given) = request.options.and_then(Value::as_map) {
        for (key, value) in given.iter().filter(|(key, _)| !matches!(*key, "kind" | "apiVersion")) {
            map.insert(key, value.clone());
        }
        return options;
    }
    if request.writer.dry_run {
        map.insert("dryRun", vec![Value::from("All")]);
    }
    if !request.writer.manager.is_empty() {
        map.insert("fieldManager", request.writer.manager.as_str());
    }
    options
}

/// Response of a webhook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReviewResponse {
    /// `true` if the request is admitted.
    pub allowed: bool,
    /// JSON patch; empty if there is none.
    pub patch: Vec<u8>,
    /// Type of the patch.
    pub patch_type: String,
    /// `status` of the response, for a rejection.
    pub status: Option<Value>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations for an audit log.
    pub audit_annotations: BTreeMap<String, String>,
}

/// A response that is not a proper AdmissionReview, with upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The body is not JSON.
    #[error("failed to call webhook: couldn't get version/kind; json parse error: {0}")]
    Syntax(String),
    /// A field has another type.
    #[error(
        "failed to call webhook: json: cannot unmarshal {found} into Go struct field {field} of type {expected}"
    )]
    Type {
        /// Path of the field.
        field: &'static str,
        /// Type of its value.
        found: &'static str,
        /// Type that it should have.
        expected: &'static str,
    },
    /// The response contradicts the request, or itself.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
}

/// Reads the response to a review.
///
/// # Errors
/// If it is not a response to this review.
pub fn parse_response(
    body: &[u8],
    version: ReviewVersion,
    uid: &str,
    is_mutating: bool,
) -> Result<ReviewResponse, ReviewError> {
    let review = json::parse(body).map_err(|error| ReviewError::Syntax(error.to_string()))?;
    if review.as_map().is_none() {
        let found = review.type_name();
        return Err(ReviewError::Syntax(format!(
            "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string; Kind string }}"
        )));
    }
    let invalid = |text: String| Err(ReviewError::Invalid(text));
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
        return invalid("webhook response was absent".to_owned());
    };
    let patch_type = text(response, "patchType", "AdmissionReview.response.patchType")?;
    let mut parsed = read_response(response)?;
    if version == ReviewVersion::V1Beta1 {
        // Neither the patch type nor anything else was verified in v1beta1.
        if !is_mutating {
            parsed.patch.clear();
        }
        parsed.patch_type = if parsed.patch.is_empty() { String::new() } else { JSON_PATCH.to_owned() };
        return Ok(parsed);
    }
    let found = text(response, "uid", "AdmissionReview.response.uid")?.unwrap_or_default();
    if found != uid {
        return invalid(format!("expected response.uid={}, got {}", Quoted(uid), Quoted(found)));
    }
    let (api_version, kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
    if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return invalid(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
        ));
    }
    match (is_mutating, parsed.patch.is_empty(), patch_type) {
        (true, false, None) => {
            return invalid("webhook returned response.patch but not response.patchType".to_owned());
        }
        (true, true, Some(_)) => {
            return invalid("webhook returned response.patchType but not response.patch".to_owned());
        }
        (true, _, Some("")) => {
            return invalid("webhook returned invalid response.patchType of \"\"".to_owned());
        }
        (false, false, _) => return invalid("validating webhook may not return response.patch".to_owned()),
        (false, true, Some(_)) => {
            return invalid("validating webhook may not return response.patchType".to_owned());
        }
        (true, _, _) | (false, true, None) => {}
    }
    parsed.patch_type = patch_type.unwrap_or_default().to_owned();
    Ok(parsed)
}

/// Reads the fields of a response that both versions have.
fn read_response(response: &Value) -> Result<ReviewResponse, ReviewError> {
    if response.as_map().is_none() {
        return Err(type_error(response, "AdmissionReview.response", "v1.AdmissionResponse"));
    }
    let mut parsed = ReviewResponse::default();
    if let Some(allowed) = response.get("allowed").filter(|allowed| !allowed.is_null()) {
        let error = || type_error(allowed, "AdmissionReview.response.allowed", "bool");
        parsed.allowed = allowed.as_bool().ok_or_else(error)?;
    }
    if let Some(patch) = text(response, "patch", "AdmissionReview.response.patch")? {
        parsed.patch = STANDARD
            .decode(patch)
            .map_err(|error| ReviewError::Syntax(format!("illegal base64 data: {error}")))?;
    }
    if let Some(status) = response.get("status").filter(|status| !status.is_null()) {
        if status.as_map().is_none() {
            return Err(type_error(status, "AdmissionReview.response.status", "v1.Status"));
        }
        parsed.status = Some(status.clone());
    }
    if let Some(warnings) = response.get("warnings").filter(|warnings| !warnings.is_null()) {
        let error = || type_error(warnings, "AdmissionReview.response.warnings", "[]string");
        for warning in warnings.as_list().ok_or_else(error)? {
            parsed.warnings.push(warning.as_str().ok_or_else(error)?.to_owned());
        }
    }
    if let Some(annotations) = response.get("auditAnnotations").filter(|annotations| !annotations.is_null()) {
        let error =
            || type_error(annotations, "AdmissionReview.response.auditAnnotations", "map[string]string");
        for (key, value) in annotations.as_map().ok_or_else(error)?.iter() {
            parsed.audit_annotations.insert(key.to_owned(), value.as_str().ok_or_else(error)?.to_owned());
        }
    }
    Ok(parsed)
}

fn text<'a>(map: &'a Value, key: &str, field: &'static str) -> Result<Option<&'a str>, ReviewError> {
    match map.get(key).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| type_error(value, field, "string")),
    }
}

fn type_error(value: &Value, field: &'static str, expected: &'static str) -> ReviewError {
    ReviewError::Type { field, found: value.type_name(), expected }
}

/// Status for a rejection by a webhook.
#[must_use]
pub fn rejection(webhook: &str, status: Option<&Value>) -> Status {
    let null = Value::Null;
    let status = status.unwrap_or(&null);
    let denied = format!("admission webhook {} denied the request", Quoted(webhook));
    let message = match (status.str_at(&["message"]), status.str_at(&["reason"])) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status.get("code").and_then(Value::as_i64).and_then(|code| u16::try_from(code).ok());
    let code = code.filter(|code| (REJECTED_CODE..=599).contains(code)).unwrap_or(REJECTED_CODE);
    let reason = Reason::from_name(status.str_at(&["reason"]));
    let details = status.get("details").filter(|details| !details.is_null());
    Status {
        code,
        details: details.map(|details| Box::new(read_details(details))),
        ..Status::failure(reason, message)
    }
}

fn read_details(details: &Value) -> Details {
    let text = |field: &str| details.str_at(&[field]).into();
    let causes = details.get("causes").and_then(Value::as_list).unwrap_or_default();
    let seconds = details.get("retryAfterSeconds").and_then(Value::as_i64);
    Details {
        name: text("name"),
        group: text("group"),
        kind: text("kind"),
        uid: text("uid"),
        causes: causes
            .iter()
            .map(|cause| StatusCause {
                reason: cause.str_at(&["reason"]).to_owned().into(),
                message: cause.str_at(&["message"]).into(),
                field: cause.str_at(&["field"]).into(),
            })
            .collect(),
        retry_after_seconds: seconds.and_then(|seconds| i32::try_from(seconds).ok()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
