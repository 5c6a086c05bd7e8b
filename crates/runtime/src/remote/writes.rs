//! Writes of the loop as HTTP requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use setpoint_api::patch::PatchType;
use setpoint_api::status::CAUSE_FIELD_MANAGER_CONFLICT;
use setpoint_api::{Map, Revision, Value, json};
use setpoint_reconcile::plan::MergePatchType;
use setpoint_reconcile::{Write, WriteOutcome, WriteRejection, WriteRequest};
use tokio::sync::mpsc;

use super::endpoint::Endpoint;
use super::{Report, meta};
use crate::client::{Client, ClientError};

/// Sends a write to the endpoint of its resource, if that is served, and reports its outcome. A write that times out counts as lost, so that its key is planned again.
pub(super) async fn write(
    client: Arc<Client>,
    request: WriteRequest,
    endpoint: Option<Arc<Endpoint>>,
    timeout: Duration,
    reports: mpsc::Sender<Report>,
) {
    let outcome = match tokio::time::timeout(timeout, perform(&client, &request, endpoint.as_deref())).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) | Err(_) => WriteOutcome::Lost { by: newest_revision(&client, timeout).await },
    };
    // The loop may have ended.
    let _ = reports.send(Report::Written { id: request.id, outcome, by: request.reconciler }).await;
}

async fn perform(
    client: &Client,
    request: &WriteRequest,
    endpoint: Option<&Endpoint>,
) -> Result<WriteOutcome, ClientError> {
    let Some(endpoint) = endpoint else {
        return Ok(WriteOutcome::Rejected(WriteRejection {
            reason: "NotFound".to_owned(),
            message: format!("there is no resource {}", request.write.resource()),
        }));
    };
    let encoded = put_of_patch(client, &request.write, endpoint).await;
    let (method, path, content_type, body) = encoded.unwrap_or_else(|| http_request(request, endpoint));
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
async fn put_of_patch(client: &Client, write: &Write, endpoint: &Endpoint) -> Option<HttpRequest> {
    let Write::Patch { key, subresource: part, patch_type, patch, uid, .. } = write else { return None };
    let stored_schema = endpoint.schema_of_put(part)?;
    let path = endpoint.object_path(key, "");
    let (_, body) = client.request(Method::GET, &path, None, Bytes::new()).await.ok()?;
    let live = json::parse(&body).ok()?;
    if uid.as_deref().is_some_and(|uid| uid != meta(&live, "uid")) {
        return None;
    }
    let patch_type = PatchType::from(*patch_type);
    let patched = patch_type.apply(patch, live, Some(stored_schema)).ok()?;
    Some((Method::PUT, endpoint.object_path(key, part), "application/json", patched))
}

fn http_request(request: &WriteRequest, endpoint: &Endpoint) -> HttpRequest {
    let manager = format!("?fieldManager={}", request.manager);
    match &request.write {
        Write::Create { namespace, object, .. } => {
            let path = format!("{}{manager}", endpoint.collection_path(namespace));
            (Method::POST, path, "application/json", endpoint.with_type(object.clone()))
        }
        Write::CreateEvent(new_event) => {
            let path = format!("{}{manager}", endpoint.collection_path(new_event.namespace()));
            (Method::POST, path, "application/json", endpoint.with_type(new_event.to_value()))
        }
        Write::Patch { key, subresource, patch_type, patch, uid, revision } => {
            let path = endpoint.object_path(key, subresource);
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
            let path = endpoint.object_path(key, subresource);
            let mut config = endpoint.with_type(config.clone());
            config.ensure_map("metadata").insert("uid", &**uid);
            (Method::PATCH, format!("{path}{manager}&force=true"), "application/apply-patch+yaml", config)
        }
        Write::Delete { key, uid, revision, propagation, grace_period_seconds: grace } => {
            let path = endpoint.object_path(key, "");
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
            let path = endpoint.object_path(key, subresource);
            (Method::POST, format!("{path}{manager}"), "application/json", object.clone())
        }
    }
}

/// `true` for a conflict over the ownership of fields, which persists until its other manager gives the fields up.
fn is_ownership_conflict(status: &Value) -> bool {
    let causes = status.at(&["details", "causes"]).and_then(Value::as_list).unwrap_or_default();
    causes.iter().any(|cause| cause.str_at(&["reason"]) == CAUSE_FIELD_MANAGER_CONFLICT)
}

fn outcome(write: &Write, status: StatusCode, body: &[u8]) -> WriteOutcome {
    let body = json::parse(body).unwrap_or_default();
    if status.is_success() {
        let revision = meta(&body, "resourceVersion").parse().unwrap_or(0);
        return WriteOutcome::Done { revision: Revision(revision), name: meta(&body, "name").into() };
    }
    match status.as_u16() {
        404 if !matches!(write, Write::Create { .. } | Write::CreateEvent(_)) => WriteOutcome::Gone,
        409 if !is_ownership_conflict(&body) => WriteOutcome::Conflict,
        _ => WriteOutcome::Rejected(WriteRejection {
            reason: body.str_at(&["reason"]).to_owned(),
            message: body.str_at(&["message"]).to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Key, Resource, value};

    use super::*;

    #[test]
    fn conflict_over_a_field_is_a_rejection_and_any_other_is_a_conflict() {
        let maps = Resource::new("configmaps").unwrap();
        let write = Write::Delete {
            key: Key::namespaced(&maps, "default", "x").unwrap(),
            uid: None,
            revision: None,
            propagation: None,
            grace_period_seconds: None,
        };
        let outcome_of = |body: Value| outcome(&write, StatusCode::CONFLICT, &json::to_vec(&body));
        let cause = value!({"reason": "FieldManagerConflict", "field": ".data.a"});
        let owned = value!({"reason": "Conflict", "message": "owned", "details": {"causes": [(cause)]}});
        let rejection = WriteRejection { reason: "Conflict".to_owned(), message: "owned".to_owned() };
        assert_eq!(outcome_of(owned), WriteOutcome::Rejected(rejection));
        let other = value!({"reason": "Conflict", "message": "the object has been modified", "details": {}});
        assert_eq!(outcome_of(other), WriteOutcome::Conflict);
    }
}
