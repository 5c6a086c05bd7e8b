//! Create: decides the creation of an object.

use setpoint_api::ResourceType;
use setpoint_api::Value;
use setpoint_api::field_error::ErrorList;
use setpoint_api::metadata::validate;
use setpoint_api::metadata::{
    self,
    create::{Stamp, clear_system_fields, ensure_namespace, stamp},
};
use setpoint_api::status::Status;
use setpoint_store::{Precondition, Record};

use super::escalation::check_escalation;
use super::update::Subresource;
use super::{
    Decision, DesiredObject, PipelineResult, RequestContext, WriteOrigin, admission, check, check_definition,
    guard_definition, guard_namespace, metadata_rules, quota, service_network,
};
use crate::webhooks::dispatch;
use crate::webhooks::{AdmissionRequest, Interruption, Operation};
use crate::{codec, policies, uuid};

/// Creates an object in `namespace`.
///
/// # Errors
/// If it is invalid, forbidden, or its name is taken.
pub fn create(
    resource_type: &ResourceType,
    namespace: &str,
    desired: DesiredObject,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Decision, Status> {
    decide_create(resource_type, namespace, desired, writer, context).or_else(Interruption::into_decision)
}

fn decide_create(
    resource_type: &ResourceType,
    namespace: &str,
    mut desired: DesiredObject,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Decision, Interruption> {
    ensure_namespace(&mut desired.object, namespace)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    if !metadata::text(&desired.object, "resourceVersion").is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created").into());
    }
    let proposal = guard_namespace(
        writer.proposal(context),
        context,
        namespace,
        resource_type,
        metadata::name(&desired.object),
    )?;
    check_definition(resource_type)?;
    let proposal = guard_definition(proposal, resource_type);
    let NewObject { object, claims, mut warnings } = prepare_object(resource_type, desired, writer, context)?;
    let name = metadata::name(&object).to_owned();
    let request = AdmissionRequest::new(Operation::Create, resource_type, (namespace, &name), writer);
    dispatch::validate(&request, &object, None, context)?;
    let charges = quota::charge(resource_type, Subresource::None, &object, None, context)?;
    let key = resource_type.key(namespace, &name).map_err(|error| Status::bad_request(error.to_string()))?;
    if let Some(record) = context.snapshot.get(&key) {
        return Err(already_exists(resource_type, &name, record).into());
    }
    warnings.extend(resource_type.rules.warnings(&object, None));
    warnings.extend(admission::pod_security::warnings(resource_type, &object, None, context.snapshot));
    if writer.dry_run {
        return Ok(Decision { step: PipelineResult::DryRun(object), warnings });
    }
    let draft = context.draft(resource_type, object)?;
    let proposal = claims.commit(proposal.put(key, Precondition::Absent, draft), writer, context)?;
    let proposal = charges.commit(proposal, writer, context)?;
    Ok(Decision { step: PipelineResult::Commit(Box::new(proposal)), warnings })
}

/// A new object as it will be stored.
pub(crate) struct NewObject {
    /// The object.
    pub object: Value,
    /// Addresses and ports that it takes.
    claims: service_network::AddressClaims,
    /// Warnings for the client.
    warnings: Vec<String>,
}

/// Defaults, admits and validates a new object. Its namespace must exist.
///
/// # Errors
/// If it is invalid or forbidden, or mutating webhooks must be called first.
pub(crate) fn prepare_object(
    resource_type: &ResourceType,
    desired: DesiredObject,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<NewObject, Interruption> {
    let (mut object, _) = desired.finalize(resource_type, Subresource::None, writer, context, None);
    let (namespace, name) = (metadata::namespace(&object).to_owned(), metadata::name(&object).to_owned());
    let request = AdmissionRequest::new(Operation::Create, resource_type, (&namespace, &name), writer);
    let is_changed = dispatch::mutate(&request, &mut object, None, context, |object| {
        admission::admit(resource_type, object, context)
    })?;
    if is_changed {
        ensure_namespace(&mut object, &namespace).map_err(|error| Status::bad_request(error.to_string()))?;
    }
    check_escalation(resource_type, &object, None, writer, context)?;
    clear_system_fields(&mut object);
    let uid = uid(context.entropy);
    stamp(
        &mut object,
        &Stamp { now: context.now, uid: &uid, entropy: context.entropy[2] },
        resource_type.rules.has_generation(),
    );
    let claims = service_network::allocate(resource_type, &mut object, None, writer.dry_run, context)?;
    let warnings = resource_type.rules.early_warnings(&object);
    resource_type.rules.prepare_create(&mut object);
    resource_type.rules.sign(&mut object, None, &writer.author(context));
    let mut errors = ErrorList::new();
    validate::create(&mut errors, &object, &metadata_rules(resource_type));
    resource_type.rules.validate(&object, &mut errors);
    resource_type.rules.validate_create(&object, &mut errors);
    admission::validate_fields(resource_type, &object, None, &mut errors);
    policies::check_expressions(resource_type, &object, None, &mut errors);
    check(resource_type, &object, &errors)?;
    admission::validate(resource_type, &object, None, context.snapshot)?;
    Ok(NewObject { object, claims, warnings })
}

/// 409 for a name that is taken, perhaps by an object that is being deleted.
fn already_exists(resource_type: &ResourceType, name: &str, record: &Record) -> Status {
    let mut status = Status::already_exists(resource_type.qualified(), name);
    if metadata::deletion_timestamp(&codec::object(record)).is_some() {
        status.message = format!("object is being deleted: {}", status.message).into();
    }
    status
}

/// Returns a random UID (version 4).
pub(crate) fn uid(entropy: [u64; 3]) -> String {
    uuid::text(entropy[0], entropy[1])
}
