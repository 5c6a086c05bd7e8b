//! Making an object.

use setpoint_api::field_error::ErrorList;
use setpoint_api::metadata::{
    self,
    create::{Stamp, ensure_namespace, stamp, wipe},
};
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata::validate};
use setpoint_store::Expect;

use super::update::Part;
use super::{
    Step, World, Writer, admission, check, guard_namespace, metadata_rules, ownership, service_network,
    unstorable,
};
use crate::served::Served;
use crate::stored;

/// Makes `object` in `namespace`. Where it comes from an apply, its owners are known and given.
///
/// # Errors
/// If it may not be made.
pub fn create(
    served: &Served,
    namespace: &str,
    mut object: Value,
    applied: Option<Value>,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Step, Status> {
    ensure_namespace(&mut object, namespace).map_err(|error| Status::bad_request(error.to_string()))?;
    if !metadata::text(&object, "resourceVersion").is_empty() {
        return Err(Status::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let proposal = guard_namespace(writer.proposal(world), world, namespace, served)?;
    served.rules.default(&mut object);
    match applied {
        Some(managed) => ownership::set(&mut object, managed),
        None => ownership::note(served, Part::Whole, writer, world, None, &mut object),
    }
    admission::admit(served, &mut object, world.snapshot)?;
    wipe(&mut object);
    let uid = uid(world.entropy);
    stamp(
        &mut object,
        &Stamp { now: world.now, uid: &uid, entropy: world.entropy[2] },
        served.rules.has_generation(),
    );
    let claims = service_network::allocate(served, &mut object, None, world)?;
    served.rules.prepare_create(&mut object);
    let mut errors = ErrorList::new();
    validate::create(&mut errors, &object, &metadata_rules(served));
    served.rules.validate(&object, &mut errors);
    served.rules.validate_create(&object, &mut errors);
    check(served, &object, &errors)?;
    admission::validate(served, &object, None, world.snapshot)?;
    let name = metadata::name(&object).to_owned();
    let key = served.key(namespace, &name).map_err(|error| Status::bad_request(error.to_string()))?;
    if world.snapshot.get(&key).is_some() {
        return Err(Status::already_exists(served.qualified(), &name));
    }
    if writer.dry_run {
        return Ok(Step::Would(object));
    }
    let draft = stored::draft(served, object).ok_or_else(unstorable)?;
    let proposal = proposal.put(key, Expect::Absent, draft);
    Ok(Step::Commit(Box::new(claims.commit(proposal, world)?)))
}

/// A random uid (version 4).
pub(crate) fn uid(entropy: [u64; 3]) -> String {
    let high = (entropy[0] & !0xf000) | 0x4000;
    let low = (entropy[1] & !(0b11 << 62)) | (0b10 << 62);
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
    let (d, e) = (low >> 48, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uid_has_its_form_whatever_chance_says() {
        assert_eq!(super::uid([0, 0, 0]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(super::uid([u64::MAX; 3]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
