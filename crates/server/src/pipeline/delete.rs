//! Delete: removes an object, or marks it as being deleted if finalizers or a grace period hold it.

use setpoint_api::ResourceType;
use setpoint_api::Value;
use setpoint_api::apply::{FieldPath, FieldSet};
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::apiextensions::definition;
use setpoint_api::kinds::core::namespace;
use setpoint_api::kinds::core::pod::deletion_grace_seconds;
use setpoint_api::metadata;
use setpoint_api::metadata::delete::{Deletion, GarbagePolicy, delete as decide};
use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::status::{Qualified, Status};
use setpoint_store::{Precondition, Record};

use super::admission::{self, AdmissionInput};
use super::update::Subresource;
use super::{PipelineResult, RequestContext, WriteOrigin, encoding_error, guard_definition, service_network};
use crate::catalog::DEFINITIONS;
use crate::codec;
use crate::conversion::webhook_kind;
use crate::webhooks::dispatch;
use crate::webhooks::{AdmissionRequest, Operation};

/// Deletes the object of `record`.
///
/// # Errors
/// If a precondition fails, or it is protected.
pub fn delete(
    resource_type: &ResourceType,
    record: &Record,
    options: &DeleteOptions<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    check_options(options)?;
    // Needs no conversion: a webhook that is down must not prevent deletes.
    let live = match webhook_kind(resource_type) {
        Some(_) => codec::object(record),
        None => codec::live(resource_type, record),
    };
    let at = (record.namespace().unwrap_or_default(), record.name());
    let request = AdmissionRequest::new(Operation::Delete, resource_type, at, writer);
    let input = AdmissionInput { request: &request, old: None, context };
    admission::admit(&mut Value::Null, &AdmissionInput { old: Some(&live), ..input })?;
    let step = delete_object(resource_type, record, live, options, writer, context)?;
    // An object that is being deleted already is not admitted again.
    if matches!(step, PipelineResult::Unchanged(_)) {
        return Ok(step);
    }
    admission::validate(&Value::Null, &input)?;
    if !dispatch::is_intercepted(&request, context) {
        return Ok(step);
    }
    let options = options.to_value();
    let request = AdmissionRequest { options: Some(&options), ..request };
    match dispatch::admit_delete(&request, &context.live(resource_type, record), context) {
        Ok(()) => Ok(step),
        Err(interruption) => interruption.into_result(),
    }
}

/// Validates delete options.
///
/// # Errors
/// If they are invalid.
pub fn check_options(options: &DeleteOptions<'_>) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    options.validate(&mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(Qualified { group: "meta.k8s.io", name: "DeleteOptions" }, "", &errors))
}

/// Deletes the object of `record`, whose last state is `object`.
///
/// # Errors
/// If a precondition fails, or it is protected.
pub(crate) fn delete_object(
    resource_type: &ResourceType,
    record: &Record,
    object: Value,
    options: &DeleteOptions<'_>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    let name = metadata::name(&object).to_owned();
    let is_pod = resource_type.resource.as_str() == "pods";
    let grace = is_pod.then(|| deletion_grace_seconds(&object, options.grace_period_seconds));
    let finalizers = object.at(&["metadata", "finalizers"]).cloned();
    let policy = GarbagePolicy::of(&resource_type.info.group, &resource_type.info.kind);
    let deletion = if resource_type.resource.as_str() == "namespaces" {
        namespace::delete(object, options, context.now)
            .map_err(|error| Status::conflict(resource_type.qualified(), &name, error.store_message()))?
    } else if resource_type.resource == *DEFINITIONS {
        definition::delete(object, options, context.now).map_err(|error| {
            let message = definition::precondition_message(&error);
            Status::conflict(resource_type.qualified(), &name, message)
        })?
    } else {
        decide(object, options, policy, grace, context.now)
            .map_err(|error| Status::conflict(resource_type.qualified_kind(), &name, error))?
    };
    if resource_type.info.kind == "PriorityClass" && name.starts_with("system-") {
        let why = "this is a system priority class and cannot be deleted";
        return Err(Status::forbidden(resource_type.qualified(), &name, why));
    }
    let key = resource_type
        .key(record.namespace().unwrap_or_default(), record.name())
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let expect = Precondition::Revision(record.revision());
    Ok(match deletion {
        Deletion::Pending => PipelineResult::Unchanged(record.clone()),
        Deletion::Mark(object) if writer.dry_run => PipelineResult::DryRun(object),
        Deletion::Remove(object) if writer.dry_run => PipelineResult::DryRunRemove(object),
        Deletion::Mark(object) => {
            let draft = codec::draft(resource_type, object, context.now).ok_or_else(encoding_error)?;
            let mark = FieldPath::from_fields(&["metadata", "deletionTimestamp"]);
            let proposal = writer.proposal_of(context, Subresource::None, &FieldSet::from_paths([&mark]));
            let proposal = guard_definition(proposal.put(key, expect, draft), resource_type);
            PipelineResult::Commit(Box::new(proposal))
        }
        Deletion::Remove(mut object) => {
            // The response shows the finalizers that the deletion removed.
            if let Some(finalizers) = finalizers {
                object.ensure_map("metadata").insert("finalizers", finalizers);
            }
            let proposal = writer.proposal(context).delete(key, expect);
            let proposal =
                service_network::release(resource_type, &object).commit(proposal, writer, context)?;
            PipelineResult::Remove(Box::new(proposal), object)
        }
    })
}

#[cfg(test)]
mod tests;
