//! Applying a configuration: what it says is merged in, and its manager owns it from then on.

use setpoint_api::ResourceType;
use setpoint_api::Value;
use setpoint_api::decode::decode_request;
use setpoint_api::status::Status;
use setpoint_store::Record;

use super::create::create;
use super::update::{Subresource, update_live};
use super::{Decision, DesiredObject, RequestContext, Writer, ownership, place};
use crate::codec;

/// What somebody applies.
#[derive(Clone, Copy)]
pub struct Configuration<'a> {
    /// All that it says, in the form in which the kind is served.
    pub object: &'a Value,
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
    resource_type: &ResourceType,
    subresource: Subresource,
    Configuration { object: says, force, name, namespace }: Configuration<'_>,
    record: Option<&Record>,
    writer: &Writer,
    context: &RequestContext<'_>,
) -> Result<Decision, Status> {
    let live = record.map(codec::object);
    let (object, owners) =
        ownership::merge(resource_type, subresource, writer, context, live.as_ref(), says, force)?;
    let decoded = decode_request(object, resource_type.schema, &[])
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let mut object = resource_type.to_stored(decoded.value);
    place(&mut object, namespace, name)?;
    let desired =
        DesiredObject { object, has_omitted_empty: decoded.has_omitted_empty, owners: Some(owners) };
    match record.zip(live) {
        Some(seen) => update_live(resource_type, subresource, desired, seen, writer, context),
        None if subresource == Subresource::None => {
            create(resource_type, namespace, desired, writer, context)
        }
        None => Err(Status::not_found(resource_type.qualified(), name)),
    }
}
