//! Subresources with objects of their own: scale, binding, eviction, token, and connections to nodes.
//!
//! Subresources that are views of the object (status, finalize, approval, ephemeralcontainers, resize) are written
//! like the object.

mod binding;
mod connect;
mod connect_admission;
mod eviction;
mod scale;
mod token;

use http::Method;
use setpoint_api::Value;
use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::metadata;
use setpoint_api::resources::Verb;
use setpoint_api::schema::builtin;
use setpoint_api::status::{Reason, Status};

use super::write::header;
use super::{Api, not_allowed, unknown_path_error};
use crate::body::{self, DecodedBody, Expected, Strictness};
use crate::exchange::{Request, Response};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;

/// API verb of a method on a subresource.
fn verb(method: &Method) -> Option<Verb> {
    Some(match *method {
        Method::GET => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return None,
    })
}

/// API verb of a method on an object or a collection. Objects cannot be created or deleted in all namespaces at once.
fn verb_of_objects(method: &Method, target: &Target) -> Option<Verb> {
    let is_whole = target.resource_type.info.namespaced && target.namespace.is_empty();
    Some(match (method, target.name.is_empty()) {
        (&Method::GET, true) => Verb::List,
        (&Method::POST, true) if !is_whole => Verb::Create,
        (&Method::DELETE, true) if !is_whole => Verb::DeleteCollection,
        (&Method::POST, false) | (_, true) => return None,
        (method, false) => verb(method)?,
    })
}

/// 405 for a method that a route does not support.
pub(super) fn check_verb(request: &Request, target: &Target) -> Result<(), Status> {
    if target.resource_type.is_virtual {
        // Virtual kinds check their methods themselves.
        return Ok(());
    }
    // Requests below `/watch/` are authorized as watches, so they must not do anything else.
    if target.watch && (request.method != Method::GET || !target.subresource.is_empty()) {
        return Err(not_allowed(&request.method));
    }
    if target.subresource.is_empty() {
        let verb = verb_of_objects(&request.method, target);
        let is_known = verb.is_some_and(|verb| target.resource_type.info.verbs.contains(verb));
        return if is_known { Ok(()) } else { Err(not_allowed(&request.method)) };
    }
    let Some(info) = target.resource_type.info.subresource(&target.subresource) else {
        return Err(unknown_path_error(&request.method));
    };
    if verb(&request.method).is_some_and(|verb| info.verbs.contains(verb)) {
        return Ok(());
    }
    Err(not_allowed(&request.method))
}

/// Definition of a kind that always exists.
fn expected(api_version: &'static str, kind: &'static str) -> Result<Expected<'static>, Status> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema = builtin()
        .kind(group, version, kind)
        .ok_or_else(|| Status::internal_error(format!("there is no definition of {kind}")))?;
    Ok(Expected { api_version, kind, schema: SchemaRef::BuiltIn(schema) })
}

/// Decodes the object in a body, in the namespace of the path.
fn object(
    request: &Request,
    target: &Target,
    query: &QueryParams,
    expected: Expected<'_>,
) -> Result<(Value, Vec<String>), Status> {
    let strictness = Strictness::of(query.get("fieldValidation"));
    let DecodedBody { mut object, warnings, .. } =
        body::object(&request.body, header(request), expected, strictness)?;
    request.annotations.record_object(&object);
    metadata::create::ensure_namespace(&mut object, &target.namespace)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    Ok((object, warnings))
}

/// A `Success` status, for operations without an object to return.
fn done() -> Response {
    let status = Status { success: true, code: 201, ..Status::failure(Reason::Unknown, "") };
    responses::status(&status)
}

impl Api {
    pub(super) async fn subresource(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        match target.subresource.as_str() {
            "scale" => self.scale(request, target, query).await,
            "binding" => self.bind(request, target, query, &target.name).await,
            "eviction" => self.evict(request, target, query).await,
            "token" => self.issue(request, target, query).await,
            "log" => self.connect(target, query),
            _ => {
                let warnings = self.admit_connection(request, target, query).await?;
                self.authorize_connection(request, target).await?;
                responses::with_warnings(self.connect(target, query), &warnings)
            }
        }
    }
}
