//! Authentication and authorization of requests.
//!
//! Without RBAC there is one rule: members of `system:masters` may do everything. Other authenticated users may
//! review themselves, and read discovery documents.

use http::{HeaderMap, HeaderName, Method};
use setpoint_api::Value;
use setpoint_api::status::{Qualified, Status};
use setpoint_authorization::Decision;

use super::Api;
use crate::discovery::usage;
use crate::exchange::{Identity, Request};
use crate::query::QueryParams;
use crate::route::{MetricsTarget, Route, Target};
use crate::tokens::{ISSUER, TokenError, Verified};

/// Group with full access.
const ADMINISTRATORS: &str = "system:masters";

impl Api {
    /// Verifies a token for one of these audiences; for this server if there are none.
    pub(super) fn verify(&self, token: &str, audiences: &[&str]) -> Result<Verified, TokenError> {
        let own = [ISSUER];
        let audiences = if audiences.is_empty() { &own } else { audiences };
        self.tokens.verify(token, audiences, &self.store.snapshot(), self.options.clock.now())
    }
}

/// `true` if one of the groups has full access. Everything else is denied: requests, access reviews and the loop
/// share this rule.
pub(crate) fn has_full_access<'a>(mut groups: impl Iterator<Item = &'a str>) -> bool {
    groups.any(|group| group == ADMINISTRATORS)
}

/// Decides a SubjectAccessReview, given its `spec`.
#[must_use]
pub fn review_access(spec: &Value) -> bool {
    let groups = spec.get("groups").and_then(Value::as_list).unwrap_or_default();
    has_full_access(groups.iter().filter_map(Value::as_str))
}

/// `true` if the user has full access.
pub(super) fn is_administrator(identity: &Identity) -> bool {
    has_full_access(identity.groups.iter().map(String::as_str))
}

/// Decides further permissions that admission plugins check.
pub(super) fn decide(user: &Identity) -> Decision {
    match is_administrator(user) {
        true => Decision::Allowed(String::new()),
        false => Decision::NoOpinion(String::new()),
    }
}

/// Prefix of impersonation headers: user, group, UID and extra fields.
const IMPERSONATION: &str = "impersonate-";

/// Rejects impersonation. Without RBAC nothing can authorize it, and serving the request as its sender would ignore
/// what it requests.
fn reject_impersonation(headers: &HeaderMap, identity: &Identity) -> Result<(), Status> {
    let mut names = headers.keys().map(HeaderName::as_str);
    let Some(header) = names.find(|name| name.starts_with(IMPERSONATION)) else { return Ok(()) };
    let user = headers.get("impersonate-user").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let why = format!(
        "User {:?} cannot impersonate: this server does not support impersonation yet, send the request without the \
         header {header} (kubectl: without --as, --as-group and --as-uid)",
        identity.user
    );
    Err(Status::forbidden(Qualified { group: "", name: "users" }, user, why))
}

/// Authorizes a request.
pub(super) fn check(request: &Request, route: &Route) -> Result<(), Status> {
    reject_impersonation(&request.headers, &request.identity)?;
    if is_administrator(&request.identity) {
        return Ok(());
    }
    match route {
        Route::Objects(target) if is_self_review(target) => Ok(()),
        Route::Objects(target) => Err(forbidden(request, target)),
        Route::Usage(about) => Err(forbidden_usage(request, about)),
        Route::Document(parts) if is_open(parts) && request.method == Method::GET => Ok(()),
        Route::Document(_) | Route::NotFound => {
            let (user, verb) = (&request.identity.user, request.method.as_str().to_ascii_lowercase());
            let why = format!("User {user:?} cannot {verb} path {:?}", request.path);
            Err(Status::forbidden(Qualified { group: "", name: "" }, "", why))
        }
    }
}

/// `true` for reviews of the user itself, which every authenticated user may create.
fn is_self_review(target: &Target) -> bool {
    matches!(
        &*target.resource_type.info.kind,
        "SelfSubjectReview" | "SelfSubjectAccessReview" | "SelfSubjectRulesReview"
    )
}

/// `true` for discovery documents, which every authenticated user may read.
fn is_open(parts: &[String]) -> bool {
    let first = parts.first().map(String::as_str).unwrap_or_default();
    matches!(
        first,
        "" | "api" | "apis" | "openapi" | "version" | "healthz" | "livez" | "readyz" | ".well-known"
    ) || first == "openid"
}

fn forbidden(request: &Request, target: &Target) -> Status {
    let info = &target.resource_type.info;
    let resource = if target.subresource.is_empty() {
        info.plural.to_string()
    } else {
        format!("{}/{}", info.plural, target.subresource)
    };
    let why =
        forbidden_message(request, (&info.group, &resource), &target.namespace, &target.name, target.watch);
    Status::forbidden(target.resource_type.qualified(), &target.name, why)
}

fn forbidden_usage(request: &Request, about: &MetricsTarget) -> Status {
    let resource = Qualified { group: usage::GROUP, name: about.plural };
    let why =
        forbidden_message(request, (resource.group, resource.name), &about.namespace, &about.name, false);
    Status::forbidden(resource, &about.name, why)
}

/// Message of a 403.
fn forbidden_message(
    request: &Request,
    (group, resource): (&str, &str),
    namespace: &str,
    name: &str,
    watch: bool,
) -> String {
    let query = QueryParams::parse(&request.query);
    let watches = watch || query.flag("watch") == Some(true);
    let verb = match (request.method.as_str(), name.is_empty()) {
        ("GET" | "HEAD", _) if watches => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        _ => "delete",
    };
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {namespace:?}")
    };
    let user = &request.identity.user;
    format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
}
