//! NamespaceAutoProvision: creates the namespace of a new object, in the same commit.
//!
//! Upstream creates the namespace first, and keeps it if the object is rejected afterwards. Here both are created, or
//! neither.

use setpoint_api::status::Status;
use setpoint_api::{Key, Resource, ResourceType, resource_types, value};
use setpoint_store::Proposal;

use super::admission::plugins::Plugin;
use super::create::create;
use super::{DesiredObject, PipelineResult, RequestContext, WriteOrigin};
use crate::webhooks::Interruption;

/// Returns the commit that creates a missing namespace; `None` if there is nothing to create.
pub(super) fn provision(
    resource_type: &ResourceType,
    namespace: &str,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Option<Proposal>, Interruption> {
    let is_enabled = context.admission.config.is_enabled(Plugin::NamespaceAutoProvision);
    if !is_enabled || writer.dry_run || namespace.is_empty() || !resource_type.info.namespaced {
        return Ok(None);
    }
    let Some(namespaces) = resource_types::find("", "v1", "namespaces") else { return Ok(None) };
    let key = Resource::new("namespaces").ok().and_then(|resource| Key::cluster(&resource, namespace).ok());
    if key.is_none_or(|key| context.snapshot.get(&key).is_some()) {
        return Ok(None);
    }
    let object = value!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": (namespace)}});
    let server = WriteOrigin { manager: "kube-apiserver".to_owned(), ..writer.clone() };
    // The UIDs of the namespace and the object must differ.
    let context = RequestContext { entropy: context.entropy.map(|number| !number), ..*context };
    match create(namespaces, "", DesiredObject::new(object), &server, &context)?.step {
        PipelineResult::Commit(proposal) => Ok(Some(*proposal)),
        PipelineResult::Call(calls) => Err(Interruption::Calls(calls)),
        _ => Err(Status::internal_error("the namespace cannot be created").into()),
    }
}
