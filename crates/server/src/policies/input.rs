//! Inputs of expressions that a request determines.

use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Key, Map, Resource, Value, value};
use setpoint_cel::{AuthorizationCheck, AuthorizationDecision, Authorizer, ResourceCheck};
use setpoint_store::Snapshot;

use crate::api::has_full_access;
use crate::codec;
use crate::exchange::Identity;
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

/// Authorizer of the user of a request, by the rule of all requests.
#[derive(Debug)]
pub struct UserAuthorizer<'a>(pub &'a Identity);

impl Authorizer for UserAuthorizer<'_> {
    fn authorize(&self, check: &AuthorizationCheck<'_>) -> AuthorizationDecision {
        // Service accounts have no rights.
        let is_allowed =
            check.service_account.is_none() && has_full_access(self.0.groups.iter().map(String::as_str));
        AuthorizationDecision { is_allowed, ..AuthorizationDecision::default() }
    }
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
