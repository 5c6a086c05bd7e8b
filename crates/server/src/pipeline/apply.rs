//! Server-side apply: merges a configuration into the object, and records its manager as owner of the fields.

use setpoint_api::ResourceType;
use setpoint_api::Value;
use setpoint_api::status::Status;
use setpoint_store::Record;

use super::create::create;
use super::update::{Subresource, update_live};
use super::{Decision, DesiredObject, RequestContext, WriteOrigin, ownership, set_namespace_and_check_name};

/// An applied configuration.
#[derive(Clone, Copy)]
pub struct Configuration<'a> {
    /// The configuration, in the served version.
    pub object: &'a Value,
    /// `true` to take over fields of other managers.
    pub force: bool,
    /// Name of the object.
    pub name: &'a str,
    /// Namespace of the object; empty for cluster-scoped kinds.
    pub namespace: &'a str,
}

/// Applies a configuration to `record`, or creates the object.
///
/// # Errors
/// If there are conflicts, or the result is invalid.
pub fn apply(
    resource_type: &ResourceType,
    subresource: Subresource,
    Configuration { object: config, force, name, namespace }: Configuration<'_>,
    record: Option<&Record>,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<Decision, Status> {
    let live = record.map(|record| context.live(resource_type, record));
    let (object, owners) =
        ownership::merge(resource_type, subresource, writer, context, live.as_ref(), config, force)?;
    let decoded = resource_type
        .schema
        .view()
        .decode_request(object, &[])
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let mut object = resource_type.to_stored(decoded.value);
    set_namespace_and_check_name(&mut object, namespace, name)?;
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
