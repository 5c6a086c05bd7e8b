//! Inputs of expressions that a request determines.

use std::fmt;

use setpoint_api::fields::FieldSelector;
use setpoint_api::labels::Selector;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Key, Map, RequestInfo, Resource, Value, value};
use setpoint_authorization::{Attributes, Decision};
use setpoint_cel::{AuthorizationCheck, AuthorizationDecision, Authorizer, CheckTarget, ResourceCheck};
use setpoint_store::Snapshot;

use crate::codec;
use crate::exchange::Identity;
use crate::pipeline::RequestContext;
use crate::request_info::{field_requirements, label_requirements};
use crate::webhooks::AdmissionRequest;
use crate::webhooks::matching::Invocation;
use crate::webhooks::review::request_fields;

/// Fields of the namespace that expressions see.
const NAMESPACE_METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
];

/// Authorizer of the user of a request, by the chain of all requests.
#[derive(Clone, Copy)]
pub struct UserAuthorizer<'a> {
    /// User of the request.
    pub user: &'a Identity,
    /// Context of the request.
    pub context: &'a RequestContext<'a>,
}

impl fmt::Debug for UserAuthorizer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserAuthorizer").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Authorizer for UserAuthorizer<'_> {
    fn authorize(&self, check: &AuthorizationCheck<'_>) -> AuthorizationDecision {
        let account = check.service_account.map(|(namespace, name)| service_account(namespace, name));
        let (mut field_selector, mut label_selector) = (Vec::new(), Vec::new());
        let request = match &check.target {
            CheckTarget::Path(path) => RequestInfo { verb: check.verb, path, ..RequestInfo::default() },
            CheckTarget::Resource(resource) => {
                // As in a request, a malformed selector restricts nothing.
                let fields = resource.field_selector.as_deref().map(FieldSelector::parse);
                field_selector =
                    fields.and_then(Result::ok).as_ref().map(field_requirements).unwrap_or_default();
                let labels = resource.label_selector.as_deref().map(Selector::parse);
                label_selector =
                    labels.and_then(Result::ok).as_ref().map(label_requirements).unwrap_or_default();
                RequestInfo {
                    is_resource: true,
                    verb: check.verb,
                    path: "",
                    group: &resource.group,
                    version: "*",
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: &resource.namespace,
                    name: &resource.name,
                }
            }
        };
        let user = account.as_ref().unwrap_or(self.user);
        let attributes =
            Attributes { user, request, field_selector: &field_selector, label_selector: &label_selector };
        let (is_allowed, reason) = match self.context.authorize(&attributes) {
            Decision::Allowed(reason) => (true, reason),
            Decision::Denied(reason) | Decision::NoOpinion(reason) => (false, reason),
        };
        AuthorizationDecision { is_allowed, reason, error: None }
    }
}

/// User and groups of a service account.
fn service_account(namespace: &str, name: &str) -> Identity {
    let groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    Identity::new(format!("system:serviceaccount:{namespace}:{name}"), groups)
}

/// `request` of expressions.
#[must_use]
pub fn request_value(request: &AdmissionRequest<'_>, found: &ResourceType) -> Value {
    let mut fields = request_fields(request, Invocation { resource_type: found }, None, None);
    let map = fields.make_map();
    map.remove("object");
    map.remove("oldObject");
    fields
}

/// Resource of the request, for `authorizer.requestResource`.
#[must_use]
pub fn resource_check(request: &AdmissionRequest<'_>) -> ResourceCheck {
    let info = &request.resource_type.info;
    ResourceCheck {
        group: (&*info.group).into(),
        resource: (&*info.plural).into(),
        subresource: request.subresource.into(),
        namespace: request.namespace.into(),
        name: request.name.into(),
        ..ResourceCheck::default()
    }
}

/// `namespaceObject` of expressions; null for cluster-scoped objects, and for namespaces.
///
/// # Errors
/// If the namespace does not exist.
pub fn namespace_value(request: &AdmissionRequest<'_>, snapshot: &Snapshot) -> Result<Value, Status> {
    let is_namespace =
        request.foreign_kind.is_none() && request.resource_type.resource.as_str() == "namespaces";
    if request.namespace.is_empty() || is_namespace {
        return Ok(Value::Null);
    }
    let missing = || Status::not_found(Qualified { group: "", name: "namespaces" }, request.namespace);
    let resource = Resource::new("namespaces").map_err(|_| missing())?;
    let key = Key::cluster(&resource, request.namespace).map_err(|_| missing())?;
    let namespace = codec::object(snapshot.get(&key).ok_or_else(missing)?);
    let mut metadata = Map::new();
    for field in NAMESPACE_METADATA {
        if let Some(value) = namespace.at(&["metadata", field]) {
            metadata.insert(field, value.clone());
        }
    }
    let part = |field: &str| namespace.get(field).cloned().unwrap_or_else(Value::map);
    Ok(value!({"metadata": (Value::Map(metadata)), "spec": (part("spec")), "status": (part("status"))}))
}
