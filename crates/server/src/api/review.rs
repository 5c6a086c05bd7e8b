//! Virtual kinds: token, access and subject reviews, which are answered but not stored.
//!
//! They pass admission as objects that are not stored. Access reviews are decided by the chain of
//! [`crate::authorization`], as requests are.

use http::Method;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::authentication::token_review_fault;
use setpoint_api::kinds::authorization::rules_review_fault;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::{Generic, Status};
use setpoint_api::{ResourceType, Time, Value, metadata, value};

use setpoint_authentication::authenticated_token::AuthenticatedToken;
use setpoint_authentication::user::{user_info, with_authenticated_group};

use super::write::{WriteResult, writer};
use super::{Api, accepted_form};
use crate::authorization::ReviewedRequest;
use crate::body::{self, DecodedBody, Expected, Strictness};
use crate::exchange::{Identity, Request, Response};
use crate::pipeline::update::Subresource;
use crate::pipeline::{PipelineResult, RequestContext, WriteOrigin, ownership};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;
use crate::webhooks::{AdmissionRequest, Interruption, Operation, dispatch};

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
        let DecodedBody { object: mut review, mut warnings, .. } =
            body::object(&request.body, super::write::header(request), expected, strictness)?;
        request.annotations.record_object(&review);
        metadata::create::ensure_namespace(&mut review, &target.namespace)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let writer = writer(request, query, None)?;
        let mut called = Vec::new();
        let admitted = self
            .perform(request, &mut called, |context| {
                let mut admitted = review.clone();
                match admit(&mut admitted, resource_type, &target.namespace, &writer, context) {
                    Ok(()) => Ok(PipelineResult::DryRun(admitted)),
                    Err(interruption) => interruption.into_result(),
                }
            })
            .await;
        warnings.extend(called);
        let answered = match admitted {
            Ok(WriteResult::DryRun(admitted)) => {
                Ok(self.complete_review(request, resource_type, admitted).await)
            }
            Ok(_) => Err(Status::internal_error("a review is not stored")),
            Err(status) => Err(status),
        };
        let pretty = query.flag("pretty") == Some(true);
        let response = answered.map(|review| responses::value(201, expected, review, form, pretty));
        responses::with_warnings(response, &warnings)
    }

    /// Fills in the status of an admitted review.
    async fn complete_review(
        &self,
        request: &Request,
        resource_type: &ResourceType,
        mut review: Value,
    ) -> Value {
        let (identity, snapshot) = (&request.identity, self.store.snapshot());
        match &*resource_type.info.kind {
            "TokenReview" => self.review_token(&mut review).await,
            "SelfSubjectReview" => review = self_review(identity, &review, self.options.clock.now()),
            "SelfSubjectRulesReview" => {
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
        review
    }

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

/// Runs admission and validation of a review.
fn admit(
    review: &mut Value,
    resource_type: &ResourceType,
    namespace: &str,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(), Interruption> {
    ownership::record_owners(resource_type, Subresource::None, writer, context, None, review);
    let admission = AdmissionRequest::new(Operation::Create, resource_type, (namespace, ""), writer);
    dispatch::mutate_unstored(&admission, review, None, context)?;
    let mut errors = ErrorList::new();
    resource_type.rules.validate(review, &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid(resource_type.qualified_kind(), metadata::name(review), &errors).into());
    }
    let fault = match &*resource_type.info.kind {
        "TokenReview" => token_review_fault(review),
        "SelfSubjectRulesReview" => rules_review_fault(review),
        _ => None,
    };
    if let Some(fault) = fault {
        return Err(Status::bad_request(fault).into());
    }
    dispatch::validate_unstored(&admission, review, None, context)
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
