//! Virtual kinds: token, access and subject reviews, which are answered but not stored.
//!
//! Access reviews are decided by the chain of [`crate::authorization`], as requests are.

use http::Method;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::authentication::token_review_fault;
use setpoint_api::kinds::authorization::rules_review_fault;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::{Generic, Status};
use setpoint_api::{Map, Time, Value, metadata, value};

use super::write::writer;
use super::{Api, accepted_form};
use crate::authorization::ReviewedRequest;
use crate::body::{self, DecodedBody, Expected, Strictness};
use crate::catalog::Catalog;
use crate::exchange::{Identity, Request, Response};
use crate::pipeline::update::Subresource;
use crate::pipeline::{RequestContext, ownership};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;

impl Api {
    /// Creates a review and fills in its status.
    pub(super) async fn answer_virtual(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        if target.resource_type.info.kind == "ComponentStatus" {
            return self.components(request, target, query).await;
        }
        let has_scope = target.resource_type.info.namespaced != target.namespace.is_empty();
        if request.method != Method::POST || !target.name.is_empty() || !has_scope {
            return Err(Status::generic(
                405,
                &Generic { method: request.method.as_str(), ..Generic::default() },
            ));
        }
        if target.resource_type.info.kind == "Binding" {
            return self.bind(request, target, query, "").await;
        }
        self.review(request, target, query).await
    }

    async fn review(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let form = accepted_form(request)?;
        let resource_type = &target.resource_type;
        let api_version = resource_type.api_version();
        let expected = Expected {
            api_version: &api_version,
            kind: &resource_type.info.kind,
            schema: resource_type.schema.view(),
        };
        let strictness = Strictness::of(query.get("fieldValidation"));
        let DecodedBody { object: mut review, warnings, .. } =
            body::object(&request.body, super::write::header(request), expected, strictness)?;
        metadata::create::ensure_namespace(&mut review, &target.namespace)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let writer = writer(request, query, None)?;
        let mut errors = ErrorList::new();
        resource_type.rules.validate(&review, &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid(resource_type.qualified_kind(), metadata::name(&review), &errors));
        }
        let snapshot = self.store.snapshot();
        let now = self.options.clock.now();
        let context = RequestContext {
            snapshot: &snapshot,
            now,
            entropy: [0; 3],
            tolerations: self.options.tolerations,
            catalog: Catalog::built_in(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        ownership::record_owners(resource_type, Subresource::None, &writer, &context, None, &mut review);
        let identity = &request.identity;
        match &*resource_type.info.kind {
            "TokenReview" => {
                if let Some(fault) = token_review_fault(&review) {
                    return Err(Status::bad_request(fault));
                }
                self.review_token(&mut review);
            }
            "SelfSubjectReview" => review = self_review(identity, &review, now),
            "SelfSubjectRulesReview" => {
                if let Some(fault) = rules_review_fault(&review) {
                    return Err(Status::bad_request(fault));
                }
                let namespace = review.str_at(&["spec", "namespace"]);
                let status = self.authorization.rules(identity, namespace, &snapshot).to_status();
                review.make_map().insert("status", status);
            }
            kind => {
                let spec = review.get("spec").unwrap_or(&Value::Null);
                let reviewed = match kind {
                    "SelfSubjectAccessReview" => ReviewedRequest::of_user(identity.clone(), spec),
                    _ => ReviewedRequest::of_subject(spec),
                };
                let decision = self.authorization.authorize(&reviewed.attributes(), &snapshot).await;
                let status = reviewed.status(&decision);
                review.make_map().insert("status", status);
            }
        }
        let pretty = query.flag("pretty") == Some(true);
        let mut response = responses::value(201, expected, review, form, pretty);
        responses::warn(&mut response, &warnings);
        Ok(response)
    }
}

impl Api {
    /// Fills in the status of a TokenReview.
    fn review_token(&self, review: &mut Value) {
        let list = review.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
        let audiences: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        let verified = match self.verify(review.str_at(&["spec", "token"]), &audiences) {
            Ok(verified) => verified,
            Err(error) => return reject_token(review, &error.to_string()),
        };
        let texts = |list: &[String]| list.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>();
        let mut extra = Map::new();
        let id = format!("JTI={}", verified.id);
        extra.insert("authentication.kubernetes.io/credential-id", vec![Value::from(id)]);
        if let Some((name, uid)) = verified.pod {
            extra.insert("authentication.kubernetes.io/pod-name", vec![Value::from(name)]);
            extra.insert("authentication.kubernetes.io/pod-uid", vec![Value::from(uid)]);
        }
        if let Some((name, uid)) = verified.node {
            extra.insert("authentication.kubernetes.io/node-name", vec![Value::from(name)]);
            if !uid.is_empty() {
                extra.insert("authentication.kubernetes.io/node-uid", vec![Value::from(uid)]);
            }
        }
        let status = value!({
            "authenticated": true,
            "user": {
                "username": (verified.identity.user.as_str()),
                "uid": (verified.uid),
                "groups": (texts(&verified.identity.groups)),
                "extra": (extra),
            },
            "audiences": (texts(&verified.audiences)),
        });
        review.make_map().insert("status", status);
    }
}

/// Returns a SelfSubjectReview of the user.
fn self_review(identity: &Identity, review: &Value, now: Time) -> Value {
    let mut response = Value::map();
    let map = response.make_map();
    for field in ["kind", "apiVersion"] {
        map.insert(field, review.get(field).cloned().unwrap_or_default());
    }
    map.ensure_map("metadata").insert("creationTimestamp", Seconds(now).to_string());
    let info = map.ensure_map("status").ensure_map("userInfo");
    info.insert("username", identity.user.as_str());
    let groups: Vec<Value> = identity.groups.iter().map(|group| Value::from(group.as_str())).collect();
    if !groups.is_empty() {
        info.insert("groups", groups);
    }
    response
}

/// Fills in the status of a TokenReview whose token is invalid.
fn reject_token(review: &mut Value, why: &str) {
    let mut status = Map::with_capacity(2);
    status.insert("user", Value::map());
    status.insert("error", why);
    review.make_map().insert("status", status);
}
