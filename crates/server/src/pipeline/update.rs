//! Update: decides a change of the object or of one of its subresources.

use setpoint_api::ResourceType;
use setpoint_api::apply::keep_times;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::core::namespace;
use setpoint_api::metadata::update::{RevisionError, check_revision, is_released, keep, update_generation};
use setpoint_api::metadata::{self, validate};
use setpoint_api::status::Status;
use setpoint_api::{Value, json};
use setpoint_store::{Precondition, Record};

use super::admission::AdmissionInput;
use super::escalation::check_escalation;
use super::guard_definition;
use super::strict_ownership::StrictOwnership;
use super::{
    Decision, DesiredObject, PipelineResult, RequestContext, WriteOrigin, admission, check, encoding_error,
    metadata_rules, ownership, quota, service_network,
};
use crate::policies;
use crate::webhooks::dispatch;
use crate::webhooks::{AdmissionRequest, Interruption, Operation};

/// Subresource of a write: the fields that it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The main resource: everything but the status.
    None,
    /// `status`.
    Status,
    /// `finalize` of a namespace.
    Finalize,
    /// `approval` of a CertificateSigningRequest.
    Approval,
    /// `ephemeralcontainers` of a pod.
    EphemeralContainers,
    /// `resize` of a pod: resources of its containers.
    Resize,
}

/// Replaces the object of `record` with the desired one.
///
/// # Errors
/// If it is invalid, forbidden, or conflicts.
pub fn update(
    resource_type: &ResourceType,
    subresource: Subresource,
    desired: DesiredObject,
    record: &Record,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Decision, Status> {
    update_live(
        resource_type,
        subresource,
        desired,
        (record, context.live(resource_type, record)),
        writer,
        context,
    )
}

/// As [`update`], with the decoded object of the record; for a status it may be decoded by
/// [`codec::partial`](crate::codec::partial).
///
/// # Errors
/// If it is invalid, forbidden, or conflicts.
pub(crate) fn update_live(
    resource_type: &ResourceType,
    subresource: Subresource,
    desired: DesiredObject,
    live: (&Record, Value),
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Decision, Status> {
    decide_update(resource_type, subresource, desired, live, writer, context)
        .or_else(Interruption::into_decision)
}

fn decide_update(
    resource_type: &ResourceType,
    subresource: Subresource,
    desired: DesiredObject,
    (record, old): (&Record, Value),
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Decision, Interruption> {
    let (name, mut has_omitted_empty) = (metadata::name(&old).to_owned(), desired.has_omitted_empty);
    // An apply has checked conflicts with all managers already.
    let is_applied = desired.owners.is_some();
    let strict = StrictOwnership::of(resource_type, &old, writer, context)
        .map(|strict| strict.with_request(subresource, &desired.object));
    let (mut new, changed) = desired.finalize(resource_type, subresource, writer, context, Some(&old));
    check_revision(&mut new, &old, resource_type.rules.allows_unconditional_update())
        .map_err(|error| revision_status(resource_type, &name, &error))?;
    if let Some(strict) = strict.as_ref().filter(|_| !is_applied) {
        strict.check_update(&changed, &new)?;
    }
    keep(&mut new, &old);
    let requested = strict.as_ref().map(|_| new.clone());
    let at = (metadata::namespace(&old), name.as_str());
    let request = AdmissionRequest::new(Operation::Update, resource_type, at, writer)
        .for_subresource(subresource.name());
    let input = AdmissionInput { request: &request, old: Some(&old), context };
    let is_changed =
        dispatch::mutate(&request, &mut new, Some(&old), context, |new| admission::admit(new, &input))?;
    if is_changed {
        has_omitted_empty = true;
        keep(&mut new, &old);
    }
    if let (Some(strict), Some(requested)) = (&strict, requested) {
        strict.check_admission(subresource, &requested, &new)?;
    }
    check_escalation(resource_type, &new, Some(&old), writer, context)?;
    let mut claims = service_network::AddressClaims::default();
    if subresource == Subresource::None {
        claims = service_network::allocate(resource_type, &mut new, Some(&old), writer.dry_run, context)?;
    }
    let warnings = prepare_and_validate(resource_type, subresource, &mut new, &old, writer, &input)?;
    dispatch::validate(&request, &new, Some(&old), context)?;
    let charges = quota::charge(resource_type, subresource, &new, Some(&old), context)?;
    let key = resource_type
        .key(metadata::namespace(&old), &name)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let expect = Precondition::Revision(record.revision());
    let decided = |step| Ok(Decision { step, warnings });
    if writer.dry_run {
        return decided(PipelineResult::DryRun(open(new)));
    }
    if can_be_removed(resource_type, &new, &old) {
        let proposal = writer.proposal(context).delete(key, expect);
        let proposal = service_network::release(resource_type, &old).commit(proposal, writer, context)?;
        return decided(PipelineResult::Remove(Box::new(proposal), open(new)));
    }
    if has_omitted_empty {
        new = resource_type.stored_schema.decode(new, &[]).map_err(|_| encoding_error())?.value;
    }
    keep_times(&old, &mut new);
    if new == old && !context.is_stale(resource_type, record) {
        return decided(PipelineResult::Unchanged(record.clone()));
    }
    let draft = context.draft(resource_type, new)?;
    let proposal = writer.proposal_of(context, subresource, &changed).put(key, expect, draft);
    let proposal = guard_definition(proposal, resource_type);
    let proposal = charges.commit(claims.commit(proposal, writer, context)?, writer, context)?;
    decided(PipelineResult::Commit(Box::new(proposal)))
}

/// Resets fields that the write may not change, validates the rest, and returns warnings.
fn prepare_and_validate(
    resource_type: &ResourceType,
    subresource: Subresource,
    new: &mut Value,
    old: &Value,
    writer: &WriteOrigin,
    input: &AdmissionInput<'_>,
) -> Result<Vec<String>, Status> {
    let context = input.context;
    let (rules, author) = (&resource_type.rules, writer.author(context));
    match subresource {
        Subresource::None => {
            rules.prepare_update(new, old);
            rules.sign(new, Some(old), &author);
        }
        Subresource::Status => {
            rules.prepare_status(new, old);
            rules.sign_status(new, old, &author);
            keep_metadata(new, old, rules.status_reset_fields());
        }
        subresource => {
            subresource.prepare(new, old, context.now);
            if subresource.increments_generation() {
                keep_metadata(new, old, &["metadata"]);
            }
        }
    }
    let mut errors = ErrorList::new();
    validate::update(&mut errors, new, old, &metadata_rules(resource_type));
    if subresource == Subresource::None || subresource.increments_generation() {
        update_generation(new, old, &*resource_type.rules);
    }
    match subresource {
        Subresource::None => rules.validate_update(new, old, &mut errors),
        Subresource::Status => rules.validate_status(new, old, &mut errors),
        subresource => subresource.validate(new, old, &mut errors),
    }
    admission::validate_fields(resource_type, new, Some(old), &mut errors);
    if subresource == Subresource::None {
        policies::check_expressions(resource_type, new, Some(old), &mut errors);
    }
    check(resource_type, new, &errors)?;
    if subresource == Subresource::None {
        policies::check_param_access(resource_type, new, Some(old), writer, context)?;
    }
    let admission_warnings = admission::validate(new, input)?;
    let mut warnings = match subresource {
        Subresource::None => rules.warnings(new, Some(old)),
        Subresource::Status => rules.status_warnings(new),
        _ => Vec::new(),
    };
    warnings.extend(admission_warnings);
    Ok(warnings)
}

/// Resets metadata that a subresource may not change. Managed fields change in any case.
fn keep_metadata(new: &mut Value, old: &Value, reset: &[&str]) {
    for path in reset {
        if *path == "metadata" {
            let managed = new.at(&["metadata", "managedFields"]).cloned();
            new.make_map().insert("metadata", old.get("metadata").cloned().unwrap_or_default());
            ownership::set(new, managed.unwrap_or_default());
        } else if let Some(field) = path.strip_prefix("metadata.") {
            let metadata = new.ensure_map("metadata");
            match old.at(&["metadata", field]) {
                Some(value) => drop(metadata.insert(field, value.clone())),
                None => drop(metadata.remove(field)),
            }
        }
    }
}

/// Decodes fields that were left encoded, for a response; see [`codec::partial`](crate::codec::partial).
fn open(object: Value) -> Value {
    let spec = object.get("spec").and_then(Value::as_map);
    if spec.is_some_and(|spec| spec.iter().any(|(_, field)| matches!(field, Value::Raw(_)))) {
        return json::parse_stored(&json::to_vec(&object)).unwrap_or(object);
    }
    object
}

/// `true` if a deleted object has no finalizers left. A namespace is also held by its contents.
fn can_be_removed(resource_type: &ResourceType, new: &Value, old: &Value) -> bool {
    match resource_type.resource.as_str() {
        "namespaces" => namespace::is_released(new, old),
        _ => is_released(new, old),
    }
}

fn revision_status(resource_type: &ResourceType, name: &str, error: &RevisionError) -> Status {
    match error.field_errors() {
        Some(errors) => Status::invalid(resource_type.qualified(), name, &errors),
        None if matches!(error, RevisionError::Malformed { .. }) => Status::bad_request(error.to_string()),
        None => Status::conflict(resource_type.qualified(), name, error),
    }
}

#[cfg(test)]
mod tests;
