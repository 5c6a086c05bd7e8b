//! Changing an object.

use setpoint_api::Value;
use setpoint_api::apply::keep_times;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::core::namespace;
use setpoint_api::metadata::update::{RevisionError, check_revision, count_generation, is_released, keep};
use setpoint_api::metadata::{self, validate};
use setpoint_api::status::Status;
use setpoint_store::{Expect, Record};

use super::{Step, World, Writer, admission, check, metadata_rules, ownership, service_network, unstorable};
use crate::served::Served;
use crate::stored;

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status.
    Whole,
    /// The status alone.
    Status,
    /// The finalizers of a namespace.
    Finalize,
    /// Whether a certificate is granted.
    Approval,
    /// The containers that are added to a pod to look inside.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
}

/// Puts `new` in the place of what `record` holds. Where it comes from an apply, its owners are known and given.
///
/// # Errors
/// If it may not be.
pub fn update(
    served: &Served,
    part: Part,
    new: Value,
    applied: Option<Value>,
    record: &Record,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Step, Status> {
    update_live(served, part, new, applied, (record, stored::object(record)), writer, world)
}

/// As [`update`], for who has read the object of the record already.
///
/// # Errors
/// If it may not be.
pub fn update_live(
    served: &Served,
    part: Part,
    mut new: Value,
    applied: Option<Value>,
    (record, old): (&Record, Value),
    writer: &Writer,
    world: &World<'_>,
) -> Result<Step, Status> {
    let name = metadata::name(&old).to_owned();
    served.rules.default(&mut new);
    match applied {
        Some(managed) => ownership::set(&mut new, managed),
        None => ownership::note(served, part, writer, world, Some(&old), &mut new),
    }
    check_revision(&mut new, &old, served.rules.allows_unconditional_update())
        .map_err(|error| revision_status(served, &name, &error))?;
    keep(&mut new, &old);
    let mut claims = service_network::Claims::default();
    if part == Part::Whole {
        admission::admit_update(served, &mut new, &old);
        claims = service_network::allocate(served, &mut new, Some(&old), world)?;
    }
    match part {
        Part::Whole => served.rules.prepare_update(&mut new, &old),
        Part::Status => keep_all_but_status(served, &mut new, &old),
        part => part.prepare(&mut new, &old, world.now),
    }
    let mut errors = ErrorList::new();
    validate::update(&mut errors, &new, &old, &metadata_rules(served));
    match part {
        Part::Whole => {
            count_generation(&mut new, &old, served.rules);
            served.rules.check_update(&new, &old, &mut errors);
        }
        Part::Status => served.rules.validate_status(&new, &old, &mut errors),
        part => {
            if part.counts_generation() {
                count_generation(&mut new, &old, served.rules);
            }
            part.validate(&new, &old, &mut errors);
        }
    }
    check(served, &new, &errors)?;
    if part == Part::Whole {
        admission::validate(served, &new, Some(&old), world.snapshot)?;
    }
    let key = served
        .key(metadata::namespace(&old), &name)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let expect = Expect::Revision(record.revision());
    if writer.dry_run {
        return Ok(Step::Would(new));
    }
    if released(served, &new, &old) {
        let proposal = writer.proposal(world).delete(key, expect);
        let proposal = service_network::release(served, &old).commit(proposal, world)?;
        return Ok(Step::Remove(Box::new(proposal), new));
    }
    keep_times(&old, &mut new);
    if new == old {
        return Ok(Step::Unchanged(record.clone()));
    }
    let draft = stored::draft(served, new).ok_or_else(unstorable)?;
    let proposal = writer.proposal(world).put(key, expect, draft);
    Ok(Step::Commit(Box::new(claims.commit(proposal, world)?)))
}

/// A status update changes nothing of the metadata but what says who manages it.
fn keep_all_but_status(served: &Served, new: &mut Value, old: &Value) {
    served.rules.prepare_status(new, old);
    let managed = new.at(&["metadata", "managedFields"]).cloned();
    if let Some(metadata) = old.get("metadata") {
        new.make_map().insert("metadata", metadata.clone());
    }
    if let Some(managed) = managed {
        new.ensure_map("metadata").insert("managedFields", managed);
    }
}

/// Whether nothing holds back any longer an object that was deleted. A namespace is also held by its contents.
fn released(served: &Served, new: &Value, old: &Value) -> bool {
    match served.resource.as_str() {
        "namespaces" => namespace::is_released(new, old),
        _ => is_released(new, old),
    }
}

fn revision_status(served: &Served, name: &str, error: &RevisionError) -> Status {
    match error.field_errors() {
        Some(errors) => Status::invalid(served.qualified_kind(), name, &errors),
        None if matches!(error, RevisionError::Malformed { .. }) => Status::bad_request(error.to_string()),
        None => Status::conflict(served.qualified(), name, error),
    }
}
