//! Who owns which field after a write.

use setpoint_api::Value;
use setpoint_api::apply::{self, Applied, Filter, OneVersion};
use setpoint_api::status::Status;

use super::update::Part;
use super::{World, Writer};
use crate::served::Served;

/// Notes in `new` who owns what, after any write but an apply. `reset` says that the client sent an empty list.
pub fn note(
    served: &Served,
    part: Part,
    writer: &Writer,
    world: &World<'_>,
    live: Option<&Value>,
    new: &mut Value,
) {
    let managed =
        with_writer(served, part, writer, world, |writer| apply::update(writer, live, new, false).managed);
    set(new, managed);
}

/// Merges an applied configuration into an object, and notes who owns what.
///
/// # Errors
/// If it does not fit the kind, or others own what it changes.
pub fn merge(
    served: &Served,
    part: Part,
    writer: &Writer,
    world: &World<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<(Value, Value), Status> {
    let applied =
        with_writer(served, part, writer, world, |writer| apply::apply(writer, live, config, force));
    let Applied { object, managed, .. } = applied.map_err(|error| error.to_status())?;
    Ok((object, managed))
}

/// Sets the owners of an object.
pub fn set(object: &mut Value, managed: Value) {
    let metadata = object.ensure_map("metadata");
    if managed.is_null() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields", managed);
    }
}

fn with_writer<T>(
    served: &Served,
    part: Part,
    writer: &Writer,
    world: &World<'_>,
    act: impl FnOnce(&apply::Writer<'_>) -> T,
) -> T {
    let filter = match part {
        Part::Whole if served.rules.has_status() => Some(Filter::exclude(&["status"])),
        Part::Whole => None,
        Part::Status => Some(Filter::exclude(&["spec", "metadata.labels", "metadata.annotations"])),
    };
    let api_version = served.api_version();
    let versions = OneVersion { api_version: &api_version, of: served.schema, filter: filter.as_ref() };
    act(&apply::Writer {
        versions: &versions,
        api_version: &api_version,
        of: served.schema,
        subresource: if part == Part::Status { "status" } else { "" },
        manager: &writer.manager,
        now: world.now,
    })
}
