//! Binding: assigns a pod to a node.

mod in_place;

use setpoint_api::apply::{FieldPath, FieldSet};
use setpoint_api::field_error::ErrorList;
use setpoint_api::kind_schema::SchemaRef;
use setpoint_api::kinds::core::pod;
use setpoint_api::resource_types;
use setpoint_api::rfc3339::Seconds;
use setpoint_api::schema::builtin;
use setpoint_api::status::{Qualified, Status};
use setpoint_api::{Value, metadata};
use setpoint_store::Precondition;

use super::admission::{self, AdmissionInput};
use super::update::Subresource;
use super::{PipelineResult, RequestContext, WriteOrigin, encoding_error, precondition};
use crate::codec;
use crate::webhooks::dispatch::{self, is_intercepted};
use crate::webhooks::{AdmissionRequest, ForeignKind, Operation};

/// Resource name for error messages.
const PODS: Qualified<'static> = Qualified { group: "", name: "pods" };

/// Validates a binding.
///
/// # Errors
/// If it is invalid.
pub fn check(binding: &Value) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    pod::validate_binding(binding, &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(Qualified { group: "", name: "Binding" }, metadata::name(binding), &errors))
}

/// Binds the pod that the binding names, after its admission.
///
/// # Errors
/// If the pod does not exist, has another UID, or has a node already, or the binding is rejected.
pub fn bind(
    binding: &Value,
    namespace: &str,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    let pods = resource_types::find("", "v1", "pods")
        .ok_or_else(|| Status::not_found(PODS, metadata::name(binding)))?;
    let schema = builtin().kind("", "v1", "Binding").map(SchemaRef::BuiltIn);
    let request = AdmissionRequest {
        foreign_kind: schema.map(|schema| ForeignKind { group: "", version: "v1", kind: "Binding", schema }),
        ..AdmissionRequest::new(Operation::Create, pods, (namespace, metadata::name(binding)), writer)
    }
    .for_subresource("binding");
    if !is_intercepted(&request, context) {
        let input = AdmissionInput { request: &request, old: None, context };
        let mut admitted = binding.clone();
        admission::admit(&mut admitted, &input)?;
        admission::validate(&admitted, &input)?;
        return bind_admitted(&admitted, namespace, writer, context);
    }
    let mut admitted = binding.clone();
    match dispatch::admit_unstored(&request, &mut admitted, None, context) {
        Ok(()) => check(&admitted).and_then(|()| bind_admitted(&admitted, namespace, writer, context)),
        Err(interruption) => interruption.into_result(),
    }
}

fn bind_admitted(
    binding: &Value,
    namespace: &str,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    let name = metadata::name(binding);
    let missing = || Status::not_found(PODS, name);
    let pods = resource_types::find("", "v1", "pods").ok_or_else(missing)?;
    let key = pods.key(namespace, name).map_err(|_| missing())?;
    let record = context.snapshot.get(&key).ok_or_else(missing)?;
    let now = Seconds(context.now).to_string();
    let commit = |draft| {
        let node = FieldPath::from_fields(&["spec", "nodeName"]);
        let proposal = writer.proposal_of(context, Subresource::None, &FieldSet::from_paths([&node]));
        PipelineResult::Commit(Box::new(proposal.put(
            key.clone(),
            Precondition::Revision(record.revision()),
            draft,
        )))
    };
    if !writer.dry_run
        && let Some(draft) = in_place::bound(pods, record, binding, &now)
    {
        return Ok(commit(draft));
    }
    let mut pod = if writer.dry_run { codec::object(record) } else { codec::partial(pods, record) };
    for (field, title) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        precondition(pods, &pod, title, metadata::text(binding, field), metadata::text(&pod, field))?;
    }
    let resource = Qualified { group: "", name: "pods/binding" };
    pod::bind(&mut pod, binding, &now).map_err(|error| Status::conflict(resource, name, error))?;
    if writer.dry_run {
        return Ok(PipelineResult::DryRun(pod));
    }
    codec::draft(pods, pod, context.now).map(commit).ok_or_else(encoding_error)
}

#[cfg(test)]
mod tests;
