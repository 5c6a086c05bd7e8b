//! Writes of the reconciliation loop: they go through the same pipeline as a client's, by function call.
//!
//! [`prepare`] and [`outcome`] are pure, so the simulator uses them too. [`InFlightWrites`] executes writes for a
//! loop that runs beside the store.

mod access;
mod event_logger;
mod event_templates;
mod in_flight;

use setpoint_api::metadata;
use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::patch::PatchType;
use setpoint_api::resource_types::ResourceType;
use setpoint_api::status::{CAUSE_FIELD_MANAGER_CONFLICT, Qualified, Reason, Status};
use setpoint_api::{Key, Map, Value};
use setpoint_reconcile::{Write, WriteOutcome, WriteRejection, WriteRequest};
use setpoint_store::{CommitError, CommitResponse, Proposal, Record, RejectReason};

use crate::codec;
use crate::conversion::{ConversionCall, ConversionContext, webhook_kind};
use crate::pipeline::apply::{Configuration, apply};
use crate::pipeline::scale::{ScaleChange, ScaleTarget, rescale, scale_type};
use crate::pipeline::update::Subresource;
use crate::pipeline::{
    DesiredObject, PipelineResult, RequestContext, WriteOrigin, binding, create, delete, eviction, update,
};
use crate::webhooks::answers::PendingCall;

pub use in_flight::InFlightWrites;

/// A decided write of the loop.
pub enum Prepared {
    /// There is nothing to commit.
    Settled(WriteOutcome),
    /// Proposal to commit, and the name of the object that it writes.
    Commit(Box<Proposal>, Box<str>),
    /// Webhooks to call before the write can be decided.
    Call(Vec<PendingCall>),
    /// Conversion webhooks to call before the write can be decided.
    Convert(Vec<ConversionCall>),
}

/// Decides a write of the loop.
#[must_use]
pub fn prepare(request: &WriteRequest, context: &RequestContext<'_>) -> Prepared {
    let decided = decide(request, context);
    let missing = context.conversions.map(|conversions| conversions.request.take_missing());
    if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
        return Prepared::Convert(missing);
    }
    match decided {
        Ok(PipelineResult::Commit(proposal) | PipelineResult::Remove(proposal, _)) => {
            let name = proposal.writes().next().map(|write| write.key.name().into()).unwrap_or_default();
            Prepared::Commit(proposal, name)
        }
        Ok(PipelineResult::Unchanged(record)) => {
            Prepared::Settled(WriteOutcome::Done { revision: record.revision(), name: record.name().into() })
        }
        Ok(PipelineResult::Call(calls)) => Prepared::Call(calls),
        // The loop never makes dry runs.
        Ok(PipelineResult::DryRun(_) | PipelineResult::DryRunRemove(_)) => {
            Prepared::Settled(WriteOutcome::Gone)
        }
        Err(status) => Prepared::Settled(rejected_outcome(&request.write, &status)),
    }
}

/// Returns the 403 of a write that the permissions of its user do not cover; `None` if they do, or the context has no
/// authorizers.
#[must_use]
pub fn denied(request: &WriteRequest, context: &RequestContext<'_>) -> Option<Status> {
    let resource_type = written_type(request, context).ok()?;
    access::denied(&request.write, resource_type, &access::identity(&request.user), context)
}

/// Returns the resource, with its subresource, of a patch for which the permissions of its user have only the verb
/// `update`.
#[must_use]
pub fn patched_by_update(request: &WriteRequest, context: &RequestContext<'_>) -> Option<String> {
    let resource_type = written_type(request, context).ok()?;
    let user = access::identity(&request.user);
    access::denied_with(&request.write, resource_type, &user, &["patch"], context)?;
    match &request.write {
        Write::Patch { subresource, .. } | Write::Apply { subresource, .. } => {
            let plural = &resource_type.info.plural;
            Some(if subresource.is_empty() { plural.to_string() } else { format!("{plural}/{subresource}") })
        }
        _ => None,
    }
}

/// Outcome of a commit.
#[must_use]
pub fn outcome(committed: Result<CommitResponse, CommitError>, name: Box<str>) -> WriteOutcome {
    match committed {
        Ok(committed) => WriteOutcome::Done { revision: committed.revision, name },
        Err(CommitError::Rejected(RejectReason::Conflict(_))) => WriteOutcome::Conflict,
        Err(error) => WriteOutcome::Rejected(WriteRejection {
            reason: Reason::InternalError.as_str().to_owned(),
            message: error.to_string(),
        }),
    }
}

/// Identity and field manager of a write of the loop.
fn origin(request: &WriteRequest) -> WriteOrigin {
    WriteOrigin {
        identity: access::identity(&request.user),
        manager: request.manager.to_owned(),
        dry_run: false,
        reconciler: request.reconciler.to_string(),
        takes_over: false,
    }
}

fn decide(request: &WriteRequest, context: &RequestContext<'_>) -> Result<PipelineResult, Status> {
    let writer = origin(request);
    let context = &written_context(request, context);
    let resource_type = written_type(request, context)?;
    if let Some(denied) = access::denied(&request.write, resource_type, &writer.identity, context) {
        return Err(denied);
    }
    match &request.write {
        Write::Create { namespace, object, .. } => {
            create_object(resource_type, namespace, object.clone(), &writer, context)
        }
        Write::CreateEvent(new_event) => event_templates::create(resource_type, new_event, &writer, context)
            .unwrap_or_else(|| {
                create_object(resource_type, new_event.namespace(), new_event.to_value(), &writer, context)
            }),
        Write::Patch { key, subresource: subresource_name, patch_type, patch, uid, revision } => {
            let record = find(resource_type, key, context)?;
            if *subresource_name == "scale" {
                return scale(resource_type, (key, patch, uid.as_deref()), &record, &writer, context);
            }
            let subresource = parse_subresource(subresource_name)?;
            let is_status = subresource == Subresource::Status && patch.get("spec").is_none();
            let live = if is_status {
                codec::partial(resource_type, &record)
            } else {
                context.live(resource_type, &record)
            };
            if uid.as_deref().is_some_and(|uid| uid != metadata::text(&live, "uid"))
                || revision.is_some_and(|revision| revision != record.revision())
            {
                return Err(modified_conflict(resource_type, key));
            }
            let patch_type = PatchType::from(*patch_type);
            let patched = patch_type
                .apply(patch, live.clone(), resource_type.stored_schema.built_in())
                .map_err(|error| error.to_status())?;
            let desired = DesiredObject::new(decode_patched(resource_type, patched, patch)?);
            Ok(update::update_live(resource_type, subresource, desired, (&record, live), &writer, context)?
                .step)
        }
        Write::Apply { key, subresource: subresource_name, config, uid } => {
            let record = find(resource_type, key, context)?;
            if **uid != *metadata::text(&codec::partial(resource_type, &record), "uid") {
                return Err(modified_conflict(resource_type, key));
            }
            let mut object = config.clone();
            resource_type.set_type(&mut object);
            object.ensure_map("metadata").insert("name", key.name());
            let namespace = key.namespace().unwrap_or_default();
            let config = Configuration { object: &object, force: true, name: key.name(), namespace };
            let subresource = parse_subresource(subresource_name)?;
            Ok(apply(resource_type, subresource, config, Some(&record), &writer, context)?.step)
        }
        Write::Delete { key, .. } => {
            let record = find(resource_type, key, context)?;
            let options = delete_options(&request.write);
            delete::delete(resource_type, &record, &DeleteOptions::from_value(&options), &writer, context)
        }
        Write::Post { key, subresource, object } => {
            post(resource_type, key, subresource, object, &writer, context)
        }
    }
}

/// Returns the DeleteOptions of a delete.
fn delete_options(write: &Write) -> Value {
    let mut options = Map::new();
    if let Write::Delete { uid, revision, propagation, grace_period_seconds, .. } = write {
        let mut preconditions = Map::new();
        if let Some(uid) = uid {
            preconditions.insert("uid", &**uid);
        }
        if let Some(revision) = revision {
            preconditions.insert("resourceVersion", revision.to_string());
        }
        options.insert("preconditions", preconditions);
        options.insert("propagationPolicy", *propagation);
        options.insert("gracePeriodSeconds", *grace_period_seconds);
    }
    Value::Map(options)
}

/// Merges a patch into the scale of an object.
fn scale(
    resource_type: &ResourceType,
    (key, patch, uid): (&Key, &Value, Option<&str>),
    record: &Record,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    if uid.is_some_and(|uid| *uid != *metadata::text(&codec::partial(resource_type, record), "uid")) {
        return Err(modified_conflict(resource_type, key));
    }
    let merge = |live: Value| {
        let schema = scale_type()?.schema.built_in();
        let merged = PatchType::Merge.apply(patch, live, schema).map_err(|error| error.to_status())?;
        Ok((merged, Vec::new()))
    };
    let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
    let target = ScaleTarget { resource_type, namespace, name };
    Ok(rescale(target, record, ScaleChange::Patch(&merge), writer, context)?.step)
}

/// Returns the context of a write. An empty patch moves the object to the storage version.
fn written_context<'a>(request: &WriteRequest, context: &RequestContext<'a>) -> RequestContext<'a> {
    let is_migration = match &request.write {
        Write::Patch { patch, .. } => patch.as_map().is_some_and(Map::is_empty),
        _ => false,
    };
    let conversions = context.conversions.map(|conversions| ConversionContext {
        keeps_version: conversions.keeps_version && !is_migration,
        ..conversions
    });
    RequestContext { conversions, ..*context }
}

/// Returns the resource type of a write. An object that only a webhook can convert stays in the version in which it is
/// stored.
fn written_type<'a>(
    request: &'a WriteRequest,
    context: &RequestContext<'a>,
) -> Result<&'a ResourceType, Status> {
    let resource = request.write.resource();
    let storage = context.catalog.storage_type(resource).map(|storage| &**storage);
    let record = request.write.key().and_then(|key| context.snapshot.get(key));
    let keeps_version = context.conversions.is_none_or(|conversions| conversions.keeps_version);
    let has_webhook = |storage: &&ResourceType| webhook_kind(storage).is_some() && keeps_version;
    let found = match record.zip(storage.filter(has_webhook)) {
        Some((record, _)) => context.catalog.type_of(resource, record),
        None => storage,
    };
    found.ok_or_else(|| Status::not_found(Qualified { group: "", name: "" }, resource.as_str()))
}

fn create_object(
    resource_type: &ResourceType,
    namespace: &str,
    object: Value,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    let object = decode_object(resource_type, object)?;
    Ok(create::create(resource_type, namespace, DesiredObject::new(object), writer, context)?.step)
}

fn post(
    resource_type: &ResourceType,
    key: &Key,
    subresource: &str,
    object: &Value,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<PipelineResult, Status> {
    match subresource {
        "binding" => {
            binding::check(object)?;
            binding::bind(object, key.namespace().unwrap_or_default(), writer, context)
        }
        "eviction" => {
            eviction::check_eviction(object, key.name())?;
            let record = find(resource_type, key, context)?;
            eviction::evict(resource_type, &record, object, writer, context)
        }
        other => Err(Status::bad_request(format!("unknown subresource {other}"))),
    }
}

fn parse_subresource(name: &str) -> Result<Subresource, Status> {
    Subresource::from_name(name).ok_or_else(|| Status::bad_request(format!("unknown subresource {name}")))
}

fn modified_conflict(resource_type: &ResourceType, key: &Key) -> Status {
    Status::conflict(resource_type.qualified(), key.name(), "the object has been modified")
}

/// Decodes an object of a planner by the rules for a client's object.
fn decode_object(resource_type: &ResourceType, mut object: Value) -> Result<Value, Status> {
    resource_type.set_type(&mut object);
    resource_type
        .stored_schema
        .decode(object, &[])
        .map(|decoded| decoded.value)
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// Decodes a patched object by the rules for a client's object. Fields that the patch does not name are as stored,
/// and are not decoded again.
fn decode_patched(resource_type: &ResourceType, mut object: Value, patch: &Value) -> Result<Value, Status> {
    let (Some(fields), Some(patch)) = (object.as_map_mut(), patch.as_map()) else {
        return decode_object(resource_type, object);
    };
    let patched = patch.keys().filter_map(|field| Some((field, fields.get_mut(field)?.take())));
    let mut decoded = decode_object(resource_type, Value::Map(patched.collect()))?;
    for field in patch.keys() {
        match decoded.as_map_mut().and_then(|decoded| decoded.remove(field)) {
            Some(value) => drop(fields.insert(field, value)),
            None => drop(fields.remove(field)),
        }
    }
    Ok(object)
}

fn find(resource_type: &ResourceType, key: &Key, context: &RequestContext<'_>) -> Result<Record, Status> {
    context.snapshot.get(key).cloned().ok_or_else(|| Status::not_found(resource_type.qualified(), key.name()))
}

fn rejected_outcome(write: &Write, status: &Status) -> WriteOutcome {
    let is_create = matches!(write, Write::Create { .. } | Write::CreateEvent(_));
    match status.reason {
        // Another manager applied the field: planning again at once would not help either.
        _ if is_ownership_conflict(status) => rejection(status),
        // A create fails with NotFound if its namespace is missing; planning again at once would not help.
        Reason::NotFound if !is_create => WriteOutcome::Gone,
        Reason::Conflict | Reason::AlreadyExists => WriteOutcome::Conflict,
        _ => rejection(status),
    }
}

fn rejection(status: &Status) -> WriteOutcome {
    WriteOutcome::Rejected(WriteRejection {
        reason: status.reason.as_str().to_owned(),
        message: status.message.to_string(),
    })
}

/// `true` for a conflict over the ownership of fields.
fn is_ownership_conflict(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == CAUSE_FIELD_MANAGER_CONFLICT)
}
