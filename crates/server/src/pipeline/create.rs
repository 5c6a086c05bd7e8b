//! Making an object.

use setpoint_api::ResourceType;
use setpoint_api::Value;
use setpoint_api::field_error::ErrorList;
use setpoint_api::metadata::validate;
use setpoint_api::metadata::{
    self,
    create::{Stamp, clear_system_fields, ensure_namespace, stamp},
};
use setpoint_api::status::Status;
use setpoint_store::{Expect, Record};

use super::update::Part;
use super::{
    Decided, Step, Wish, World, Writer, admission, check, guard_namespace, metadata_rules, quota,
    service_network, unstorable,
};
use crate::{stored, uuid};

/// Makes what is wished for in `namespace`.
///
/// # Errors
/// If it may not be made.
pub fn create(
    served: &ResourceType,
    namespace: &str,
    mut wish: Wish,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Decided, Status> {
    ensure_namespace(&mut wish.object, namespace).map_err(|error| Status::bad_request(error.to_string()))?;
    if !metadata::text(&wish.object, "resourceVersion").is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let proposal =
        guard_namespace(writer.proposal(world), world, namespace, served, metadata::name(&wish.object))?;
    let Made { object, claims, mut warnings } = make(served, wish, writer, world)?;
    let charges = quota::charge(served, Part::Whole, &object, None, world)?;
    let name = metadata::name(&object).to_owned();
    let key = served.key(namespace, &name).map_err(|error| Status::bad_request(error.to_string()))?;
    if let Some(record) = world.snapshot.get(&key) {
        return Err(taken(served, &name, record));
    }
    warnings.extend(served.rules.warnings(&object, None));
    warnings.extend(admission::pod_security::warnings(served, &object, None, world.snapshot));
    if writer.dry_run {
        return Ok(Decided { step: Step::Would(object), warnings });
    }
    let draft = stored::draft(served, object, world.now).ok_or_else(unstorable)?;
    let proposal = claims.commit(proposal.put(key, Expect::Absent, draft), writer, world)?;
    let proposal = charges.commit(proposal, writer, world)?;
    Ok(Decided { step: Step::Commit(Box::new(proposal)), warnings })
}

/// A new object as it will be stored.
pub(crate) struct Made {
    /// The object.
    pub object: Value,
    /// What it takes of the service network.
    claims: service_network::Claims,
    /// What to warn the writer of.
    warnings: Vec<String>,
}

/// Completes and judges a new object whose namespace is known to be there.
///
/// # Errors
/// If it may not be made.
pub(crate) fn make(
    served: &ResourceType,
    wish: Wish,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Made, Status> {
    let (mut object, _) = wish.settle(served, Part::Whole, writer, world, None);
    admission::admit(served, &mut object, world)?;
    clear_system_fields(&mut object);
    let uid = uid(world.entropy);
    stamp(
        &mut object,
        &Stamp { now: world.now, uid: &uid, entropy: world.entropy[2] },
        served.rules.has_generation(),
    );
    let claims = service_network::allocate(served, &mut object, None, writer.dry_run, world)?;
    let warnings = served.rules.early_warnings(&object);
    served.rules.prepare_create(&mut object);
    served.rules.sign(&mut object, None, &writer.author(world));
    let mut errors = ErrorList::new();
    validate::create(&mut errors, &object, &metadata_rules(served));
    served.rules.validate(&object, &mut errors);
    served.rules.validate_create(&object, &mut errors);
    admission::inspect(served, &object, None, &mut errors);
    check(served, &object, &errors)?;
    admission::validate(served, &object, None, world.snapshot)?;
    Ok(Made { object, claims, warnings })
}

/// The name is taken; by an object that is about to go, perhaps.
fn taken(served: &ResourceType, name: &str, record: &Record) -> Status {
    let mut status = Status::already_exists(served.qualified(), name);
    if metadata::deletion_timestamp(&stored::object(record)).is_some() {
        status.message = format!("object is being deleted: {}", status.message).into();
    }
    status
}

/// A random uid (version 4).
pub(crate) fn uid(entropy: [u64; 3]) -> String {
    uuid::text(entropy[0], entropy[1])
}
