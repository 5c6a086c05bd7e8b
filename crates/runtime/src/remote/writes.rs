//! Writes of the loop as HTTP requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use setpoint_api::patch::PatchType;
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::resources::Verb;
use setpoint_api::{Key, Map, Revision, Value, json};
use setpoint_reconcile::plan::MergePatchType;
use setpoint_reconcile::{Write, WriteOutcome, WriteRejection, WriteRequest};
use tokio::sync::mpsc;

use super::{Report, meta};
use crate::client::{Client, ClientError};

/// Sends a write, and reports its outcome. A write that times out counts as lost, so that its key is planned again.
pub(super) async fn write(
    client: Arc<Client>,
    request: WriteRequest,
    timeout: Duration,
    reports: mpsc::Sender<Report>,
) {
    let outcome = match tokio::time::timeout(timeout, perform(&client, &request)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) | Err(_) => WriteOutcome::Lost { by: newest_revision(&client, timeout).await },
    };
    // The loop may have ended.
    let _ = reports.send(Report::Written { id: request.id, outcome, by: request.reconciler }).await;
}

async fn perform(client: &Client, request: &WriteRequest) -> Result<WriteOutcome, ClientError> {
    let encoded = match put_of_patch(client, &request.write).await {
        Some(encoded) => Some(encoded),
        None => http_request(request),
    };
    let Some((method, path, content_type, body)) = encoded else {
        return Ok(WriteOutcome::Rejected(WriteRejection {
            reason: "NotFound".to_owned(),
            message: format!("there is no resource {}", request.write.resource()),
        }));
    };
    let (status, body) =
        client.request(method, &path, Some(content_type), json::to_vec(&body).into()).await?;
    Ok(outcome(&request.write, status, &body))
}

/// Requests the server's newest revision until it answers.
#[expect(clippy::disallowed_methods, reason = "pauses between requests to a server that fails")]
async fn newest_revision(client: &Client, timeout: Duration) -> Revision {
    loop {
        let response = client.request(Method::GET, "/api/v1/namespaces?limit=1", None, Bytes::new());
        let response = tokio::time::timeout(timeout, response).await;
        let revision = response.ok().and_then(Result::ok).and_then(|(_, body)| {
            let list = json::parse(&body).ok()?;
            meta(&list, "resourceVersion").parse().ok()
        });
        match revision {
            Some(revision) => return Revision(revision),
            None => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

type HttpRequest = (Method, String, &'static str, Value);

/// Turns a patch of a subresource that only supports PUT into a PUT: reads the object, patches it, and sends it back
/// with its revision. `None` for every other write, and if the object is gone or was replaced; the server then
/// rejects the original patch.
async fn put_of_patch(client: &Client, write: &Write) -> Option<HttpRequest> {
    let Write::Patch { key, subresource: part, patch_type, patch, uid, .. } = write else { return None };
    let resource_type = resource_types::storage_type(key.resource())?;
    if part.is_empty() || resource_type.info.subresource(part)?.verbs.contains(Verb::Patch) {
        return None;
    }
    let namespace = key.namespace().unwrap_or_default();
    let path = object_path(resource_type, namespace, Some(key.name()), "");
    let (_, body) = client.request(Method::GET, &path, None, Bytes::new()).await.ok()?;
    let live = json::parse(&body).ok()?;
    if uid.as_deref().is_some_and(|uid| uid != meta(&live, "uid")) {
        return None;
    }
    let patch_type = PatchType::from(*patch_type);
    let patched = patch_type.apply(patch, live, resource_type.stored_schema).ok()?;
    Some((
        Method::PUT,
        object_path(resource_type, namespace, Some(key.name()), part),
        "application/json",
        patched,
    ))
}

fn http_request(request: &WriteRequest) -> Option<HttpRequest> {
    let resource_type = resource_types::storage_type(request.write.resource())?;
    let manager = format!("?fieldManager={}", request.manager);
    Some(match &request.write {
        Write::Create { namespace, object, .. } => {
            let path = format!("{}{manager}", object_path(resource_type, namespace, None, ""));
            (Method::POST, path, "application/json", with_type(resource_type, object.clone()))
        }
        Write::CreateEvent(new_event) => {
            let path = format!("{}{manager}", object_path(resource_type, new_event.namespace(), None, ""));
            (Method::POST, path, "application/json", with_type(resource_type, new_event.to_value()))
        }
        Write::Patch { key, subresource, patch_type, patch, uid, revision } => {
            let path = key_path(resource_type, key, subresource);
            let mut patch = patch.clone();
            let metadata = patch.ensure_map("metadata");
            if let Some(uid) = uid {
                metadata.insert("uid", &**uid);
            }
            if let Some(revision) = revision {
                metadata.insert("resourceVersion", revision.to_string());
            }
            let kind = match patch_type {
                MergePatchType::Merge => "application/merge-patch+json",
                MergePatchType::Strategic => "application/strategic-merge-patch+json",
            };
            (Method::PATCH, format!("{path}{manager}"), kind, patch)
        }
        Write::Apply { key, subresource, config, uid } => {
            let path = key_path(resource_type, key, subresource);
            let mut config = with_type(resource_type, config.clone());
            config.ensure_map("metadata").insert("uid", &**uid);
            (Method::PATCH, format!("{path}{manager}&force=true"), "application/apply-patch+yaml", config)
        }
        Write::Delete { key, uid, revision, propagation, grace_period_seconds: grace } => {
            let path = key_path(resource_type, key, "");
            let mut preconditions = Map::new();
            if let Some(uid) = uid {
                preconditions.insert("uid", &**uid);
            }
            if let Some(revision) = revision {
                preconditions.insert("resourceVersion", revision.to_string());
            }
            let mut options = Map::new();
            options.insert("kind", "DeleteOptions");
            options.insert("apiVersion", "v1");
            options.insert("preconditions", preconditions);
            if let Some(policy) = propagation {
                options.insert("propagationPolicy", *policy);
            }
            if let Some(grace) = grace {
                options.insert("gracePeriodSeconds", *grace);
            }
            (Method::DELETE, path, "application/json", Value::Map(options))
        }
        Write::Post { key, subresource, object } => {
            let path = key_path(resource_type, key, subresource);
            (Method::POST, format!("{path}{manager}"), "application/json", object.clone())
        }
    })
}

fn with_type(resource_type: &ResourceType, mut object: Value) -> Value {
    resource_type.set_type(&mut object);
    object
}

/// Path of the object `key`, or of its subresource.
fn key_path(resource_type: &ResourceType, key: &Key, subresource: &str) -> String {
    object_path(resource_type, key.namespace().unwrap_or_default(), Some(key.name()), subresource)
}

/// Path of an object, of its subresource, or of a collection.
fn object_path(resource_type: &ResourceType, namespace: &str, name: Option<&str>, part: &str) -> String {
    let info = resource_type.info;
    let mut path = if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    };
    if !namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(namespace);
    }
    for word in [Some(info.plural), name, (!part.is_empty()).then_some(part)].into_iter().flatten() {
        path.push('/');
        path.push_str(word);
    }
    path
}

fn outcome(write: &Write, status: StatusCode, body: &[u8]) -> WriteOutcome {
    let body = json::parse(body).unwrap_or_default();
    if status.is_success() {
        let revision = meta(&body, "resourceVersion").parse().unwrap_or(0);
        return WriteOutcome::Done { revision: Revision(revision), name: meta(&body, "name").into() };
    }
    match status.as_u16() {
        404 if !matches!(write, Write::Create { .. } | Write::CreateEvent(_)) => WriteOutcome::Gone,
        409 => WriteOutcome::Conflict,
        _ => WriteOutcome::Rejected(WriteRejection {
            reason: body.str_at(&["reason"]).to_owned(),
            message: body.str_at(&["message"]).to_owned(),
        }),
    }
}
