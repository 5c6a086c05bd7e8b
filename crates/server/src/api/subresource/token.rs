//! `serviceaccounts/token`: issues a token.

use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::kinds;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Key, Resource, Value, metadata, value};
use std::time::Duration;

use super::{expected, object};
use crate::api::write::writer;
use crate::api::{Api, accepted_form};
use crate::codec;
use crate::exchange::{Request, Response};
use crate::pipeline::admission::node_restriction;
use crate::pipeline::create::uid;
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;
use crate::tokens::{ISSUER, claims};
use crate::webhooks::{AdmissionRequest, Operation};

const KIND: Qualified<'static> = Qualified { group: "authentication.k8s.io", name: "TokenRequest" };

impl Api {
    pub(super) fn issue(
        &self,
        request: &Request,
        target: &Target,
        query: &QueryParams,
    ) -> Result<Response, Status> {
        let form = accepted_form(request)?;
        let definition = expected("authentication.k8s.io/v1", "TokenRequest")?;
        let (mut token_request, warnings) = object(request, target, query, definition)?;
        let snapshot = self.store.snapshot();
        let writer = writer(request, query, None)?;
        let at = (target.namespace.as_str(), target.name.as_str());
        let admission = AdmissionRequest::new(Operation::Create, &target.resource_type, at, &writer)
            .for_subresource("token");
        node_restriction::check(&admission, &token_request, None, &snapshot, &|attributes| {
            self.authorization.authorize_now(attributes, &snapshot, None)
        })?;
        let account = codec::object(&self.find(target, &snapshot)?);
        check_names(&token_request, target, &account)?;
        let rules = kinds::rules(KIND.group, KIND.name)
            .ok_or_else(|| Status::internal_error("there are no rules for TokenRequest"))?;
        rules.default(&mut token_request);
        let mut errors = ErrorList::new();
        rules.validate(&token_request, &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid(KIND, "", &errors));
        }
        let bound = bound(&token_request, target, &snapshot)?;
        let now = self.options.clock.now();
        let seconds =
            token_request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or_default();
        let end = now.after(Duration::from_secs(seconds.unsigned_abs()));
        let given = token_request.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
        let mut audiences: Vec<String> = given.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let id = uid([(); 3].map(|()| (self.options.entropy)()));
        let claims = claims(&account, &audiences, &bound, (now, end), &id);
        let token = self.tokens.sign(&claims).map_err(Status::internal_error)?;
        let spec = token_request.ensure_map("spec");
        spec.insert("audiences", audiences.into_iter().map(Value::from).collect::<Vec<_>>());
        let metadata = token_request.ensure_map("metadata");
        metadata.insert("name", target.name.as_str());
        metadata.insert("namespace", target.namespace.as_str());
        metadata.insert("creationTimestamp", Seconds(now).to_string());
        let status = token_request.ensure_map("status");
        status.insert("token", token);
        status.insert("expirationTimestamp", Seconds(end).to_string());
        let mut response =
            responses::value(201, definition, token_request, form, query.flag("pretty") == Some(true));
        responses::warn(&mut response, &warnings);
        Ok(response)
    }
}

/// 400 if the request contradicts its ServiceAccount.
fn check_names(token_request: &Value, target: &Target, account: &Value) -> Result<(), Status> {
    let given = metadata::name(token_request);
    if !given.is_empty() && given != target.name {
        let path = Path::root("metadata");
        let why = "must match the service account name if specified";
        let errors = ErrorList::from(FieldError::invalid(&path.child("name"), given, why));
        return Err(Status::invalid(KIND, &target.name, &errors));
    }
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
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
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
        let about = Qualified { group: "", name: plural };
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
