//! Applying a configuration: what it says is merged in, and its manager owns it from then on.

use setpoint_api::ResourceType;
use setpoint_api::Value;
use setpoint_api::decode::decode_request;
use setpoint_api::status::Status;
use setpoint_store::Record;

use super::create::create;
use super::update::{Part, update_live};
use super::{Decided, Wish, World, Writer, ownership, place};
use crate::stored;

/// What somebody applies.
#[derive(Clone, Copy)]
pub struct Configuration<'a> {
    /// All that it says, in the form in which the kind is served.
    pub says: &'a Value,
    /// Whether it takes what others own.
    pub force: bool,
    /// The name of the object that it is applied to.
    pub name: &'a str,
    /// The namespace of that object; empty for kinds of the cluster.
    pub namespace: &'a str,
}

/// Applies a configuration to what `record` holds; where there is nothing, the whole object is made.
///
/// # Errors
/// If it may not be.
pub fn apply(
    served: &ResourceType,
    part: Part,
    Configuration { says, force, name, namespace }: Configuration<'_>,
    record: Option<&Record>,
    writer: &Writer,
    world: &World<'_>,
) -> Result<Decided, Status> {
    let live = record.map(stored::object);
    let (object, owners) = ownership::merge(served, part, writer, world, live.as_ref(), says, force)?;
    let decoded =
        decode_request(object, served.schema, &[]).map_err(|error| Status::bad_request(error.to_string()))?;
    let mut object = served.to_stored(decoded.value);
    place(&mut object, namespace, name)?;
    let wish = Wish { object, hollow: decoded.has_omitted_empty, owners: Some(owners) };
    match record.zip(live) {
        Some(seen) => update_live(served, part, wish, seen, writer, world),
        None if part == Part::Whole => create(served, namespace, wish, writer, world),
        None => Err(Status::not_found(served.qualified(), name)),
    }
}
