//! Virtual kinds: token, access and subject reviews, which are answered but not stored.
//!
//! Access reviews are decided by the chain of [`crate::authorization`], as requests are.

use http::Method;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::authentication::token_review_fault;
use setpoint_api::kinds::authorization::rules_review_fault;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::{Generic, Status};
use setpoint_api::{Time, Value, metadata, value};

use setpoint_authentication::authenticated_token::AuthenticatedToken;
use setpoint_authentication::user::{user_info, with_authenticated_group};

use super::write::writer;
use super::{Api, accepted_form};
use crate::authorization::ReviewedRequest;
use crate::body::{self, DecodedBody, Expected, Strictness};
use crate::catalog::Catalog;
use crate::exchange::{Identity, Request, Response};
use crate::pipeline::admission::AdmissionContext;
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
        request.annotations.record_object(&review);
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
            admission: AdmissionContext::standard(),
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
                self.review_token(&mut review).await;
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
    async fn review_token(&self, review: &mut Value) {
        let list = review.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
        let audiences: Vec<String> = list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let audiences = Some(&audiences[..]).filter(|audiences| !audiences.is_empty());
        let verification =
            self.authenticator.verify(review.str_at(&["spec", "token"]), audiences, &self.store);
        let status = match verification.wait().await {
            Ok(AuthenticatedToken { identity, audiences, .. }) => value!({
                "authenticated": true,
                "user": (user_info(&with_authenticated_group(identity))),
                "audiences": (audiences),
            }),
            Err(why) => value!({"user": {}, "error": (why)}),
        };
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
    map.ensure_map("status").insert("userInfo", user_info(identity));
    response
}
