//! `serviceaccounts/token`: issues a token.
//!
//! A request passes admission as an object that is not stored. A dry run issues a token too, as upstream.

use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::kinds;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Key, Resource, Time, Value, metadata, value};
use setpoint_authentication::service_account::{TokenGrant, WARN_ONLY_SECONDS, bound_claims};
use std::time::Duration;

use super::{expected, object};
use crate::api::write::{WriteResult, writer};
use crate::api::{Api, accepted_form};
use crate::authentication::DEFAULT_ISSUER;
use crate::codec;
use crate::exchange::{Request, Response};
use crate::pipeline::create::uid;
use crate::pipeline::{PipelineResult, RequestContext, WriteOrigin, usable_namespace};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;
use crate::webhooks::{AdmissionRequest, ForeignKind, Interruption, Operation, dispatch};

/// Validity of a token of a projected volume, which is extended for clients that do not read it again.
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;
const KIND: Qualified<'static> = Qualified { group: "authentication.k8s.io", name: "TokenRequest" };

impl Api {
    pub(super) async fn issue(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let form = accepted_form(request)?;
        let definition = expected("authentication.k8s.io/v1", "TokenRequest")?;
        let (token_request, mut warnings) = object(request, target, query, definition)?;
        let writer = writer(request, query, None)?;
        let (mut called, mut shortened) = (Vec::new(), None);
        let issued = self
            .perform(request, &mut called, |context| {
                let mut issued = token_request.clone();
                match self.issue_once(&mut issued, target, (&writer, definition.schema), context) {
                    Ok(warning) => {
                        shortened = warning;
                        Ok(PipelineResult::DryRun(issued))
                    }
                    Err(interruption) => interruption.into_result(),
                }
            })
            .await;
        warnings.extend(called);
        warnings.extend(shortened);
        let pretty = query.flag("pretty") == Some(true);
        let response = issued.and_then(|issued| match issued {
            WriteResult::DryRun(issued) => Ok(responses::value(201, definition, issued, form, pretty)),
            _ => Err(Status::internal_error("a token request is not stored")),
        });
        responses::with_warnings(response, &warnings)
    }

    /// Admits a token request and fills in the token. Returns a warning.
    fn issue_once(
        &self,
        token_request: &mut Value,
        target: &Target,
        (writer, schema): (&WriteOrigin, SchemaRef<'_>),
        context: &RequestContext<'_>,
    ) -> Result<Option<String>, Interruption> {
        let at = (target.namespace.as_str(), target.name.as_str());
        let admission = AdmissionRequest {
            foreign_kind: Some(ForeignKind { group: KIND.group, version: "v1", kind: KIND.name, schema }),
            ..AdmissionRequest::new(Operation::Create, &target.resource_type, at, writer)
        }
        .for_subresource("token");
        let rules = kinds::rules(KIND.group, KIND.name)
            .ok_or_else(|| Status::internal_error("there are no rules for TokenRequest"))?;
        usable_namespace(context, at.0, &target.resource_type, at.1)?;
        rules.default(token_request);
        dispatch::mutate_unstored(&admission, token_request, None, context)?;
        // A webhook may have removed fields.
        rules.default(token_request);
        check_name(token_request, target)?;
        let account = codec::object(&self.find(target, context.snapshot)?);
        check_uid(token_request, target, &account)?;
        self.complete(token_request, &account, context.now);
        let mut errors = ErrorList::new();
        rules.validate(token_request, &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid(KIND, "", &errors).into());
        }
        dispatch::validate_unstored(&admission, token_request, None, context)?;
        let bound = bound(token_request, target, context.snapshot)?;
        let grant = self.grant(token_request, &account, &bound, context.now);
        let token = self.sign(&account, &bound, &grant, &uid(context.entropy))?;
        token_request.ensure_map("spec").insert("expirationSeconds", grant.seconds);
        let status = token_request.ensure_map("status");
        status.insert("token", token);
        status.insert("expirationTimestamp", Seconds(grant.promised).to_string());
        Ok(grant.warning)
    }

    /// Fills in audiences, the names and the UID of the account, and the time; clears the status.
    fn complete(&self, token_request: &mut Value, account: &Value, now: Time) {
        let spec = token_request.ensure_map("spec");
        if spec.get("audiences").and_then(Value::as_list).unwrap_or_default().is_empty() {
            spec.insert("audiences", self.authenticator.options().audiences());
        }
        let metadata = token_request.ensure_map("metadata");
        metadata.insert("name", metadata::name(account));
        metadata.insert("namespace", metadata::namespace(account));
        metadata.insert("uid", metadata::text(account, "uid"));
        metadata.insert("creationTimestamp", Seconds(now).to_string());
        token_request.make_map().remove("status");
    }

    /// Decides on the validity of a token.
    fn grant(
        &self,
        token_request: &Value,
        account: &Value,
        bound: &[(&'static str, Value)],
        now: Time,
    ) -> Grant {
        let options = self.authenticator.options();
        let own = options.audiences();
        let given = token_request.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
        let audiences: Vec<String> = given.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let requested = token_request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        let requested = requested.unwrap_or_default();
        let max = options.token_expiration_max.and_then(|max| i64::try_from(max.as_secs()).ok());
        let max = max.filter(|max| requested > *max);
        let seconds = max.unwrap_or(requested);
        let warning =
            max.map(|max| format!("requested expiration of {requested} seconds shortened to {max} seconds"));
        let after = |seconds: i64| now.after(Duration::from_secs(seconds.unsigned_abs()));
        let is_pod_bound = bound.iter().any(|(kind, _)| *kind == "pod");
        let is_extended = options.extends_token_expiration
            && is_pod_bound
            && seconds == WARN_ONLY_SECONDS
            && audiences.iter().all(|audience| own.contains(audience));
        tracing::debug!(account = metadata::name(account), seconds, is_extended, "token issued");
        Grant {
            audiences,
            now,
            seconds,
            promised: after(seconds),
            expires: if is_extended { after(EXTENDED_SECONDS) } else { after(seconds) },
            warn_after: is_extended.then(|| after(seconds)),
            warning,
        }
    }

    fn sign(
        &self,
        account: &Value,
        bound: &[(&'static str, Value)],
        grant: &Grant,
        id: &str,
    ) -> Result<String, Status> {
        let issuers = self.authenticator.options().issuers();
        let claims = TokenGrant {
            issuer: issuers.first().map_or(DEFAULT_ISSUER, String::as_str),
            audiences: &grant.audiences,
            now: grant.now,
            expires: grant.expires,
            warn_after: grant.warn_after,
            id,
        };
        let token = self.authenticator.state().signing_key.sign(&bound_claims(account, bound, &claims));
        token.map_err(|error| Status::internal_error(format!("failed to generate token: {error}")))
    }
}

/// Granted token.
struct Grant {
    audiences: Vec<String>,
    now: Time,
    /// Validity in seconds, as the client gets to know it.
    seconds: i64,
    promised: Time,
    expires: Time,
    warn_after: Option<Time>,
    warning: Option<String>,
}

/// 422 if the request names another ServiceAccount than its path.
fn check_name(token_request: &Value, target: &Target) -> Result<(), Status> {
    let given = metadata::name(token_request);
    if !given.is_empty() && given != target.name {
        let path = Path::root("metadata");
        let why = "must match the service account name if specified";
        let errors = ErrorList::from(FieldError::invalid(&path.child("name"), given, why));
        return Err(Status::invalid(KIND, &target.name, &errors));
    }
    Ok(())
}

/// 409 if the request is for another ServiceAccount of the name.
fn check_uid(token_request: &Value, target: &Target, account: &Value) -> Result<(), Status> {
    let (given, is) = (metadata::text(token_request, "uid"), metadata::text(account, "uid"));
    if !given.is_empty() && given != is {
        let why = format!(
            "the UID in the token request ({given}) does not match the UID of the service account ({is})"
        );
        return Err(Status::conflict(KIND, &target.name, why));
    }
    Ok(())
}

/// Returns the object that the token is bound to, with the name of its claim, and the node of a bound pod.
fn bound(
    token_request: &Value,
    target: &Target,
    snapshot: &setpoint_store::Snapshot,
) -> Result<Vec<(&'static str, Value)>, Status> {
    let Some(reference) = token_request.at(&["spec", "boundObjectRef"]).filter(|one| !one.is_null()) else {
        return Ok(Vec::new());
    };
    let text = |field: &str| reference.str_at(&[field]);
    let (word, plural, namespace) = match (text("apiVersion"), text("kind")) {
        ("v1" | "", "Pod") => ("pod", "pods", target.namespace.as_str()),
        ("v1" | "", "Secret") => ("secret", "secrets", target.namespace.as_str()),
        ("v1" | "", "Node") => ("node", "nodes", ""),
        (version, kind) => {
            let is_webhook = version == "admissionregistration.k8s.io/v1"
                && matches!(kind, "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration");
            let gate = " (feature gate APIServerWebhookAuthenticationToken is disabled)";
            let gate = if is_webhook { gate } else { "" };
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}{gate}");
            return Err(Status::bad_request(why));
        }
    };
    let name = text("name");
    let missing = || Status::not_found(Qualified { group: "", name: plural }, name);
    let resource = Resource::new(plural).map_err(|_| missing())?;
    let key = if namespace.is_empty() {
        Key::cluster(&resource, name)
    } else {
        Key::namespaced(&resource, namespace, name)
    };
    let object = codec::object(snapshot.get(&key.map_err(|_| missing())?).ok_or_else(missing)?);
    if word == "pod" && object.str_at(&["spec", "serviceAccountName"]) != target.name {
        let why = format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            target.name
        );
        return Err(Status::bad_request(why));
    }
    let (given, is) = (text("uid"), metadata::text(&object, "uid"));
    if !given.is_empty() && given != is {
        let about = Qualified { group: "", name: text("kind") };
        let why = format!(
            "the UID in the bound object reference ({given}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(about, name, why));
    }
    let node_name = if word == "pod" { object.str_at(&["spec", "nodeName"]) } else { "" };
    let node = (!node_name.is_empty()).then(|| ("node", node_of(node_name, snapshot)));
    Ok([Some((word, object.clone())), node].into_iter().flatten().collect())
}

/// Reference to a node; only its name if it does not exist.
fn node_of(name: &str, snapshot: &setpoint_store::Snapshot) -> Value {
    let key = Resource::new("nodes").ok().and_then(|nodes| Key::cluster(&nodes, name).ok());
    let record = key.and_then(|key| snapshot.get(&key));
    record.map_or_else(|| value!({"metadata": {"name": (name)}}), codec::object)
}
