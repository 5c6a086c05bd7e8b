//! Authentication, impersonation and authorization of requests.
//!
//! The rules are those of [`crate::authentication`] and [`crate::authorization`].

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use setpoint_api::status::Status;
use setpoint_api::{json, value};
use setpoint_authentication::authenticated_token::TokenUse;
use setpoint_authentication::impersonation::{self, ImpersonatedUser};
use setpoint_authorization::{Attributes, Decision};

use super::Api;
use crate::authentication::{Authenticated, Authentication, Pending};
use crate::authorization::{RequestAuthorizations, forbidden, is_privileged};
use crate::exchange::{Credentials, Identity, Request, Service as _};
use crate::pipeline::RequestContext;
use crate::request_info::RequestAttributes;
use crate::route::Target;

/// Verb of requests that create objects or open connections.
const CREATE: &str = "create";
/// User of requests that the server sends to itself.
const SERVER_USER: &str = "system:apiserver";
/// Rounds of questions to other processes about one impersonation: a bound, since each question is asked once.
const ROUNDS_MAX: usize = 64;

impl Api {
    /// Authenticates a request, and records the use of a legacy token.
    pub(super) fn authenticate_request<'a>(&'a self, credentials: &Credentials<'_>) -> Authentication<'a> {
        match self.authenticator.authenticate(credentials, &self.store) {
            Pending::Ready(Ok(Authenticated { unrecorded_use: Some(used), identity, warning })) => {
                Pending::Later(Box::pin(async move {
                    self.record_use(&used).await;
                    Ok(Authenticated { identity, warning, unrecorded_use: None })
                }))
            }
            authentication => authentication,
        }
    }

    /// Labels the Secret of a legacy token with the date of its use, so that the cleaner keeps it.
    async fn record_use(&self, used: &TokenUse) {
        let patch = value!({"metadata": {
            "uid": (used.uid.as_str()),
            "labels": {"kubernetes.io/legacy-token-last-used": (used.date.as_str())},
        }});
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/merge-patch+json"));
        let request = Request {
            method: Method::PATCH,
            path: format!("/api/v1/namespaces/{}/secrets/{}", used.namespace, used.name),
            query: String::new(),
            headers,
            body: Bytes::from(json::to_vec(&patch)),
            identity: Identity::new(SERVER_USER, vec!["system:masters".to_owned()]),
            impersonator: None,
            impersonation_constraint: "",
            annotations: Default::default(),
        };
        let status = self.answer(request).await.status;
        if !status.is_success() {
            let (namespace, name) = (&used.namespace, &used.name);
            tracing::warn!(namespace, name, code = status.as_u16(), "use of a token was not recorded");
        }
    }

    /// Replaces the user of a request with headers of impersonation, and removes the headers.
    ///
    /// # Errors
    /// 400 or 403 if the headers are malformed, or the impersonation is forbidden.
    pub(super) async fn impersonate_user(&self, request: &mut Request) -> Result<(), Status> {
        if !impersonation::has_headers(&request.headers) {
            return Ok(());
        }
        let wanted = impersonation::wanted_user(&request.headers).map_err(|status| *status)?;
        if let Some(wanted) = wanted {
            let ImpersonatedUser { identity, constraint } = self.permitted(&wanted, request).await?;
            tracing::debug!(user = request.identity.user, impersonated = identity.user, "impersonation");
            request.impersonator = Some(std::mem::replace(&mut request.identity, identity));
            request.impersonation_constraint = constraint;
        }
        impersonation::strip(&mut request.headers);
        Ok(())
    }

    /// Checks an impersonation with the authorizers, of which some may be other processes.
    async fn permitted(&self, wanted: &Identity, request: &Request) -> Result<ImpersonatedUser, Status> {
        let parsed = RequestAttributes::of(request);
        let attributes = parsed.for_user(&request.identity);
        let mut answers = RequestAuthorizations::default();
        let mut permitted = Err(Box::new(Status::internal_error("all impersonation modes failed")));
        for _ in 0..ROUNDS_MAX {
            let snapshot = self.store.snapshot();
            let permissions = |attributes: &Attributes<'_>| {
                self.authorization.authorize_now(attributes, &snapshot, Some(&answers))
            };
            permitted = impersonation::impersonate(wanted, &attributes, &permissions);
            // A missing answer counts as a refusal, so the result stands only if none was missing.
            if !answers.receive().await {
                break;
            }
            permitted = Err(Box::new(Status::internal_error("too many questions about an impersonation")));
        }
        permitted.map_err(|status| *status)
    }

    /// Authorizes a request.
    ///
    /// # Errors
    /// 403 if it is not allowed.
    pub(super) async fn check(&self, request: &Request) -> Result<(), Status> {
        if is_privileged(&request.identity) {
            request.annotations.record_authorization(true, "");
            return Ok(());
        }
        let parsed = RequestAttributes::of(request);
        let attributes = parsed.for_user(&request.identity);
        match self.authorization.authorize(&attributes, &self.store.snapshot()).await {
            Decision::Allowed(reason) => {
                request.annotations.record_authorization(true, &reason);
                Ok(())
            }
            Decision::Denied(reason) | Decision::NoOpinion(reason) => {
                request.annotations.record_authorization(false, &reason);
                Err(forbidden(&attributes, &reason))
            }
        }
    }

    /// Authorizes a connection to a pod. A WebSocket is opened by GET, which is the verb `get`, but needs `create` as
    /// other connections do.
    ///
    /// # Errors
    /// 403 if it is not allowed.
    pub(super) async fn authorize_connection(
        &self,
        request: &Request,
        target: &Target,
    ) -> Result<(), Status> {
        let parsed = RequestAttributes::of(request);
        let mut attributes = parsed.for_user(&request.identity);
        let is_connection = matches!(target.subresource.as_str(), "exec" | "attach" | "portforward");
        if !is_connection || attributes.request.verb == CREATE {
            return Ok(());
        }
        attributes.request.verb = CREATE;
        match self.authorization.authorize(&attributes, &self.store.snapshot()).await {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) | Decision::NoOpinion(reason) => {
                Err(Status::forbidden(target.resource_type.qualified(), &target.name, reason))
            }
        }
    }
}

/// Authorizes an update or apply that creates its object: it needs the verb `create` too.
///
/// # Errors
/// 403 if it is not allowed.
pub(super) fn authorize_create(request: &Request, context: &RequestContext<'_>) -> Result<(), Status> {
    let parsed = RequestAttributes::of(request);
    let mut attributes = parsed.for_user(&request.identity);
    attributes.request.verb = CREATE;
    match context.authorize(&attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => Err(forbidden(&attributes, &reason)),
    }
}
