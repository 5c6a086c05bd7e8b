//! Changing an object.

use setpoint_api::ResourceType;
use setpoint_api::apply::keep_times;
use setpoint_api::decode::decode;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::core::namespace;
use setpoint_api::metadata::update::{RevisionError, check_revision, is_released, keep, update_generation};
use setpoint_api::metadata::{self, validate};
use setpoint_api::status::Status;
use setpoint_api::{Value, json};
use setpoint_store::{Expect, Record};

use super::{
    Decided, Step, Wish, World, Writer, admission, check, metadata_rules, ownership, quota, service_network,
    unstorable,
};
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

/// Puts what is wished for in the place of what `record` holds.
///
/// # Errors
/// If it may not be.
pub fn update(
    served: &ResourceType,
    part: Part,
    wish: Wish,
    record: &Record,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Decided, Status> {
    update_live(served, part, wish, (record, stored::object(record)), writer, world)
}

/// As [`update`], for who has read the object of the record already; for a status also by [`stored::closed`].
///
/// # Errors
/// If it may not be.
pub fn update_live(
    served: &ResourceType,
    part: Part,
    wish: Wish,
    (record, old): (&Record, Value),
    writer: &Writer,
    world: &World<'_>,
) -> Result<Decided, Status> {
    let (name, hollow) = (metadata::name(&old).to_owned(), wish.hollow);
    let (mut new, changed) = wish.settle(served, part, writer, world, Some(&old));
    check_revision(&mut new, &old, served.rules.allows_unconditional_update())
        .map_err(|error| revision_status(served, &name, &error))?;
    keep(&mut new, &old);
    let mut claims = service_network::Claims::default();
    if part == Part::Whole {
        admission::admit_update(served, &mut new, &old, world);
        claims = service_network::allocate(served, &mut new, Some(&old), writer.dry_run, world)?;
    }
    let warnings = judge(served, part, &mut new, &old, writer, world)?;
    let charges = quota::charge(served, part, &new, Some(&old), world)?;
    let key = served
        .key(metadata::namespace(&old), &name)
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let expect = Expect::Revision(record.revision());
    let decided = |step| Ok(Decided { step, warnings });
    if writer.dry_run {
        return decided(Step::Would(open(new)));
    }
    if released(served, &new, &old) {
        let proposal = writer.proposal(world).delete(key, expect);
        let proposal = service_network::release(served, &old).commit(proposal, writer, world)?;
        return decided(Step::Remove(Box::new(proposal), open(new)));
    }
    if hollow {
        new = decode(new, served.stored_schema, &[]).map_err(|_| unstorable())?.value;
    }
    keep_times(&old, &mut new);
    if new == old {
        return decided(Step::Unchanged(record.clone()));
    }
    let draft = stored::draft(served, new, world.now).ok_or_else(unstorable)?;
    let proposal = writer.proposal_of(world, part, &changed).put(key, expect, draft);
    let proposal = charges.commit(claims.commit(proposal, writer, world)?, writer, world)?;
    decided(Step::Commit(Box::new(proposal)))
}

/// Sets back what a write of the part may not change, refuses what it may not say, and answers with warnings.
fn judge(
    served: &ResourceType,
    part: Part,
    new: &mut Value,
    old: &Value,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Vec<String>, Status> {
    let (rules, author) = (served.rules, writer.author(world));
    match part {
        Part::Whole => {
            rules.prepare_update(new, old);
            rules.sign(new, Some(old), &author);
        }
        Part::Status => {
            rules.prepare_status(new, old);
            rules.sign_status(new, old, &author);
            keep_metadata(new, old, rules.status_reset_fields());
        }
        part => {
            part.prepare(new, old, world.now);
            if part.counts_generation() {
                keep_metadata(new, old, &["metadata"]);
            }
        }
    }
    let mut errors = ErrorList::new();
    validate::update(&mut errors, new, old, &metadata_rules(served));
    if part == Part::Whole || part.counts_generation() {
        update_generation(new, old, rules);
    }
    match part {
        Part::Whole => rules.check_update(new, old, &mut errors),
        Part::Status => rules.validate_status(new, old, &mut errors),
        part => part.validate(new, old, &mut errors),
    }
    admission::inspect(served, new, Some(old), &mut errors);
    check(served, new, &errors)?;
    Ok(match part {
        Part::Whole => {
            admission::validate(served, new, Some(old), world.snapshot)?;
            let mut warnings = rules.warnings(new, Some(old));
            warnings.extend(admission::pod_security::warnings(served, new, Some(old), world.snapshot));
            warnings
        }
        Part::EphemeralContainers => {
            admission::validate(served, new, Some(old), world.snapshot)?;
            Vec::new()
        }
        Part::Status => rules.status_warnings(new),
        Part::Resize => {
            admission::validate_resize(served, new, world.snapshot)?;
            Vec::new()
        }
        _ => Vec::new(),
    })
}

/// Sets back what an update of a part does not change of the metadata. Who manages it changes in any case.
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

/// An object to answer with, of which parts may have been left as they are written, see [`stored::closed`].
fn open(object: Value) -> Value {
    let spec = object.get("spec").and_then(Value::as_map);
    if spec.is_some_and(|spec| spec.iter().any(|(_, part)| matches!(part, Value::Raw(_)))) {
        return json::parse_stored(&json::to_vec(&object)).unwrap_or(object);
    }
    object
}

/// Whether nothing holds back any longer an object that was deleted. A namespace is also held by its contents.
fn released(served: &ResourceType, new: &Value, old: &Value) -> bool {
    match served.resource.as_str() {
        "namespaces" => namespace::is_released(new, old),
        _ => is_released(new, old),
    }
}

fn revision_status(served: &ResourceType, name: &str, error: &RevisionError) -> Status {
    match error.field_errors() {
        Some(errors) => Status::invalid(served.qualified(), name, &errors),
        None if matches!(error, RevisionError::Malformed { .. }) => Status::bad_request(error.to_string()),
        None => Status::conflict(served.qualified(), name, error),
    }
}

#[cfg(test)]
mod tests;
